"""Specification of the parameters of a fit: bounds, starts, fixed and tied values, scales and priors."""

from .parameter import Parameter
from .resolution import Parameters, resolve

__all__ = ["Parameter", "Parameters", "resolve"]
