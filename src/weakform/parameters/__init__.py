"""What is known of parameters before a fit."""

from .parameter import Parameter
from .resolve import Parameters, resolve

__all__ = ["Parameter", "Parameters", "resolve"]
