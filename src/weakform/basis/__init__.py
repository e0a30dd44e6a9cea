"""Test functions: the bump, its placement in time, and its arrangement in blocks."""

from .local import Local
from .orthonormal import Orthonormal
from .test_functions import TestFunctions

__all__ = ["Local", "Orthonormal", "TestFunctions"]
