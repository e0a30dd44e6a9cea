"""Test functions: bumps, how they are placed, and how they are arranged for the algebra."""

from .functions import TestFunctions
from .local import Local
from .orthonormal import Orthonormal

__all__ = ["Local", "Orthonormal", "TestFunctions"]
