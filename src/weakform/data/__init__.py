"""Measurements, validated once, where they enter the package."""

from .dataset import Dataset

__all__ = ["Dataset"]
