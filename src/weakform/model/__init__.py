"""Models: equations as expressions, and their derivatives, compiled."""

from .model import Model

__all__ = ["Model"]
