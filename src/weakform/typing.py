"""Types used throughout."""

import numbers
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, NumPy's or Python's, and not below `least`."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least
