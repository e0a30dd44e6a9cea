"""Simpson's rule with the cubic Hermite midpoint on many intervals, and its derivatives.

    c = x₁ - x₀ - h/6 (f₀ + 4 f_½ + f₁),        x_½ = (x₀ + x₁)/2 + h/8 (f₀ - f₁)

Right-hand sides come as rows of what is not zero of `f`, `∂f/∂x` and `∂f/∂p` (`model.system`, `model.maps`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.kernels import call, library
from ..model.system import System
from ..support.array_types import FloatArray, IntArray

NAMES = ("f", "fu", "fp")


@dataclass(frozen=True)
class Pattern:
    """What the columns of rows are.

    Attributes
    ----------
    at : ndarray of int, (columns, 2)
        Equation, then state or parameter, if any.
    counts : tuple of int
        Columns of f, of ∂f/∂x and of ∂f/∂p.
    D, J : int
    """

    at: IntArray
    counts: tuple[int, ...]
    D: int
    J: int

    @classmethod
    def of(cls, system: System) -> Pattern:
        """That of a system's rows."""
        return cls(system.places(NAMES), tuple(len(system.structure(name)) for name in NAMES), system.D, system.J)

    def f(self, rows: FloatArray) -> FloatArray:
        """The right-hand side `(time, D)` from rows that begin with it: where none of it is zero, a part of them."""
        if self.counts[0] == self.D:
            return rows[:, : self.D]
        f = np.zeros((len(rows), self.D))
        f[:, self.at[: self.counts[0], 0]] = rows[:, : self.counts[0]]
        return f


def dense_f(system: System, rows: FloatArray) -> FloatArray:
    """The right-hand side `(time, D)` from rows that begin with it."""
    return Pattern.of(system).f(rows)


def linearised(
    pattern: Pattern,
    h: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    rows: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """c, its derivatives by x₀ and x₁, and by p: `(M, D)`, `(M, D, D)` twice, `(M, D, J)`.

    Parameters
    ----------
    pattern : Pattern
    h : ndarray, (M,)
    ends : pair of ndarray, (M, D)
        x₀ and x₁.
    rows : three ndarrays, (M, columns)
        `NAMES` at the beginning, at the end and in the middle of each interval.
    """
    M, D, J, at, counts = len(h), pattern.D, pattern.J, pattern.at, pattern.counts
    if library() is None:
        return _by_numpy(h, ends, [_dense(row, pattern) for row in rows])
    c, left, right, G = np.empty((M, D)), np.empty((M, D, D)), np.empty((M, D, D)), np.empty((M, D, J))
    given = [np.ascontiguousarray(array) for array in (h, *ends, *rows)]
    sizes = (M, D, J, counts[0], counts[1], len(at))
    call("simpson", sizes, (at, *given, np.empty(3 * D * D), c, left, right, G))
    return c, left, right, G


def _dense(rows: FloatArray, pattern: Pattern) -> list[FloatArray]:
    """f, ∂f/∂x and ∂f/∂p as full arrays, time first."""
    D, J, at = pattern.D, pattern.J, pattern.at
    F, fp = np.zeros((len(rows), D, D)), np.zeros((len(rows), D, J))
    first, second = pattern.counts[0], pattern.counts[0] + pattern.counts[1]
    F[:, at[first:second, 0], at[first:second, 1]] = rows[:, first:second]
    fp[:, at[second:, 0], at[second:, 1]] = rows[:, second:]
    return [pattern.f(rows), F, fp]


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
