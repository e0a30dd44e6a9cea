"""Specification of the parameters of a fit: bounds, starts, fixed and tied values, scales and priors."""

from .parameter import Parameter
from .resolution import ResolvedParameters, resolve_parameters

__all__ = ["Parameter", "ResolvedParameters", "resolve_parameters"]
