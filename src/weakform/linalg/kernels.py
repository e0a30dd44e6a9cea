"""The compiled kernels, if they are there: passes over intervals one behind the other, in C (`kernels.c`).

Every kernel stands beside a few lines of NumPy that do the same, where no compiler was at hand when the package was
installed, or with `WEAKFORM_KERNELS=0` in the environment. While a kernel runs, other threads of Python may.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..support.array_types import FloatArray, IntArray

SUFFIXES = (".so", ".dll")
RETURN = ("chain_factor", "chain_march", "saddle_factor")
"""Kernels that return a number: where they failed."""


@cache
def library() -> Any:
    """The shared library, or None."""
    if os.environ.get("WEAKFORM_KERNELS") == "0":
        return None
    for suffix in SUFFIXES:
        path = Path(__file__).with_name(f"libkernels{suffix}")
        if path.exists():
            try:
                loaded = ctypes.CDLL(str(path))
            except OSError:  # of another platform
                return None
            return loaded
    return None


@cache
def _kernel(name: str, sizes: int, arrays: int) -> Any:
    """A function of the library that takes so many 64-bit integers and pointers."""
    returned = ctypes.c_int64 if name in RETURN else None
    return ctypes.CFUNCTYPE(returned, *[ctypes.c_int64] * sizes, *[ctypes.c_void_p] * arrays)((name, library()))


def call(name: str, sizes: tuple[int, ...], arrays: Sequence[FloatArray | IntArray]) -> int:
    """Run a kernel: sizes go as 64-bit integers, arrays as pointers: C-ordered, of 8 bytes, and written in place."""
    pointers = []
    for array in arrays:
        assert array.flags.c_contiguous
        pointers.append(array.ctypes.data)
    return int(_kernel(name, len(sizes), len(arrays))(*sizes, *pointers) or 0)
