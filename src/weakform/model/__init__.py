"""Models: symbolic equations and their compiled derivatives."""

from .model import Model

__all__ = ["Model"]
