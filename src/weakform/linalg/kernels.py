"""The compiled kernels, which process the intervals of a mesh one after another in C (`kernels.c`).

Each kernel has a NumPy equivalent, which is used if no C compiler was available when the package was installed, or if
the environment has `WEAKFORM_KERNELS=0`. A kernel releases Python's global lock, so that other threads can run.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..support.array_types import FloatArray, IntArray

LIBRARY_SUFFIXES = (".so", ".dll")
"""File name endings of a shared library, on Unix and on Windows."""
KERNELS_THAT_CAN_FAIL = ("chain_factor", "chain_march", "saddle_factor")
"""Kernels that return a number: 0, or one plus the position at which they failed. The others return nothing."""


@cache
def load_library() -> Any:
    """Load the shared library; return None if it is missing, cannot be loaded, or is turned off by the environment."""
    if os.environ.get("WEAKFORM_KERNELS") == "0":
        return None
    for suffix in LIBRARY_SUFFIXES:
        path = Path(__file__).with_name(f"libkernels{suffix}")
        if path.exists():
            try:
                loaded = ctypes.CDLL(str(path))
            except OSError:  # built for another platform
                return None
            return loaded
    return None


@cache
def _get_kernel(name: str, sizes: int, arrays: int) -> Any:
    """Return a function of the library, which takes `sizes` 64-bit integers and then `arrays` pointers."""
    returned = ctypes.c_int64 if name in KERNELS_THAT_CAN_FAIL else None
    return ctypes.CFUNCTYPE(returned, *[ctypes.c_int64] * sizes, *[ctypes.c_void_p] * arrays)((name, load_library()))


def call_kernel(name: str, sizes: tuple[int, ...], arrays: Sequence[FloatArray | IntArray]) -> int:
    """Run a kernel.

    Parameters
    ----------
    name : str
        The function in `kernels.c`.
    sizes : tuple of int
        Its first arguments, passed as 64-bit integers.
    arrays : sequence of ndarray
        The rest of its arguments, passed as pointers: C-ordered, with elements of 8 bytes. Results are written into
        them.

    Returns
    -------
    int
        0, or one plus the position at which the kernel failed.
    """
    pointers = []
    for array in arrays:
        assert array.flags.c_contiguous
        pointers.append(array.ctypes.data)
    return int(_get_kernel(name, len(sizes), len(arrays))(*sizes, *pointers) or 0)
