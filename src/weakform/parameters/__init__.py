"""What is known of parameters before a fit."""

from .parameter import Parameter
from .resolution import Parameters, resolve

__all__ = ["Parameter", "Parameters", "resolve"]
