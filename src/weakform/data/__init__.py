"""Measurements, validated once, where they enter."""

from .dataset import Dataset

__all__ = ["Dataset"]
