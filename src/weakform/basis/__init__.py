"""Test functions: bumps, how they are placed, and how they are arranged for the algebra."""

from .local import Local
from .orthonormal import Orthonormal
from .test_functions import TestFunctions

__all__ = ["Local", "Orthonormal", "TestFunctions"]
