"""Simpson's rule with the cubic Hermite midpoint on many intervals, and its derivatives.

    c = x₁ - x₀ - h/6 (f₀ + 4 f_½ + f₁),        x_½ = (x₀ + x₁)/2 + h/8 (f₀ - f₁)

Right-hand sides come as rows of what is not zero of `f`, `∂f/∂x` and `∂f/∂p` (`model.system`).
"""

from __future__ import annotations

import numpy as np

from ..linalg.kernels import call, library
from ..model.system import System
from ..support.typing import FloatArray, IntArray

NAMES = ("f", "fu", "fp")


def dense_f(system: System, rows: FloatArray) -> FloatArray:
    """The right-hand side `(time, D)` from rows that begin with it: where none of it is zero, a part of them."""
    index = [a for (a,) in system.structure("f")]
    if len(index) == system.D:
        return rows[:, : system.D]
    f = np.zeros((len(rows), system.D))
    f[:, index] = rows[:, : len(index)]
    return f


def linearised(
    system: System,
    h: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    rows: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """c, its derivatives by x₀ and x₁, and by p: `(M, D)`, `(M, D, D)` twice, `(M, D, J)`.

    Parameters
    ----------
    system : System
    h : ndarray, (M,)
    ends : pair of ndarray, (M, D)
        x₀ and x₁.
    rows : three ndarrays, (M, columns)
        `NAMES` at the beginning, at the end and in the middle of each interval.
    """
    M, D, J = len(h), system.D, system.J
    counts = [len(system.structure(name)) for name in NAMES]
    at = system.places(NAMES)
    if library() is None:
        return _by_numpy(h, ends, [_dense(row, counts, at, D, J) for row in rows])
    c, left, right, G = np.empty((M, D)), np.empty((M, D, D)), np.empty((M, D, D)), np.empty((M, D, J))
    given = [np.ascontiguousarray(array) for array in (h, *ends, *rows)]
    sizes = (M, D, J, counts[0], counts[1], len(at))
    call("simpson", sizes, (at, *given, np.empty(3 * D * D), c, left, right, G))
    return c, left, right, G


def _dense(rows: FloatArray, counts: list[int], at: IntArray, D: int, J: int) -> list[FloatArray]:
    """f, ∂f/∂x and ∂f/∂p as full arrays, time first."""
    f, F, fp = np.zeros((len(rows), D)), np.zeros((len(rows), D, D)), np.zeros((len(rows), D, J))
    first, second = counts[0], counts[0] + counts[1]
    f[:, at[:first, 0]] = rows[:, :first]
    F[:, at[first:second, 0], at[first:second, 1]] = rows[:, first:second]
    fp[:, at[second:, 0], at[second:, 1]] = rows[:, second:]
    return [f, F, fp]


def _by_numpy(
    h: FloatArray, ends: tuple[FloatArray, FloatArray], tensors: list[list[FloatArray]]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    (f0, F0, fp0), (f1, F1, fp1), (fm, Fm, fpm) = tensors
    H, I = h[:, None, None], np.eye(f0.shape[1])
    c = ends[1] - ends[0] - h[:, None] / 6 * (f0 + 4 * fm + f1)
    left = -I - H / 6 * (F0 + 4 * Fm @ (I / 2 + H / 8 * F0))
    right = I - H / 6 * (F1 + 4 * Fm @ (I / 2 - H / 8 * F1))
    G = -H / 6 * (fp0 + 4 * (fpm + Fm @ (H / 8 * (fp0 - fp1))) + fp1)
    return c, left, right, G
