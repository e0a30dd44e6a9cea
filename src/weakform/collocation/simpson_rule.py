"""Simpson's rule with the cubic Hermite midpoint on many intervals: the rule, its derivatives, and finer meshes.

    c = x₁ - x₀ - h/6 (f₀ + 4 f_½ + f₁),        x_½ = (x₀ + x₁)/2 + h/8 (f₀ - f₁)

Both collocation problems use these functions: `mesh` with all states measured, `soft_constraint` with hidden ones.
For the derivatives, right-hand sides are passed as rows of the structural nonzeros of `f`, `∂f/∂x` and `∂f/∂p`
(`model.system`, `model.expression_map`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..linalg.kernels import call_kernel, load_library
from ..model.system import System
from ..support.array_types import FloatArray, IntArray

ROW_TENSORS = ("f", "fu", "fp")
"""Tensors whose nonzeros make up a row, in this order: the right-hand side, ∂f/∂x and ∂f/∂p."""
MIDPOINT_PASSES = 2
"""Number of corrections of new midpoints by the rule on both halves of an interval.

The Hermite midpoint has the order of the rule; after two corrections it is more accurate. By judgement.
"""


def compute_hermite_midpoints(
    x0: FloatArray, x1: FloatArray, h: FloatArray, f0: FloatArray, f1: FloatArray
) -> FloatArray:
    """Compute `(x₀ + x₁)/2 + h/8 (f₀ - f₁)`, `(M, D)`, from states and f `(M, D)` at both ends and lengths `(M,)`."""
    return 0.5 * (x0 + x1) + h[:, None] / 8 * (f0 - f1)


def compute_simpson_defects(
    ends: tuple[FloatArray, FloatArray], h: FloatArray, f0: FloatArray, middle: FloatArray, f1: FloatArray
) -> FloatArray:
    """Compute `c = x₁ - x₀ - h/6 (f₀ + 4 f_½ + f₁)` on M intervals.

    Parameters
    ----------
    ends : pair of ndarray, (M, D)
        x₀ and x₁.
    h : ndarray, (M,)
    f0, middle, f1 : ndarray, (M, D)
        The right-hand side at the beginning, in the middle and at the end of each interval.

    Returns
    -------
    ndarray, (M, D)
    """
    return ends[1] - ends[0] - h[:, None] / 6 * (f0 + 4 * middle + f1)


def insert_midpoints(values: FloatArray, begin: IntArray, middles: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Insert a row after the first node of some intervals.

    Parameters
    ----------
    values : ndarray, (N, ...)
        Values at the nodes: times or states.
    begin : ndarray of int, (M,)
        Nodes at which the halved intervals begin, ascending.
    middles : ndarray, (M, ...)
        Values in the middle of these intervals.

    Returns
    -------
    values : ndarray, (N + M, ...)
    old, new : ndarray of int, (N,), (M,)
        Rows of the old nodes and of the midpoints.
    """
    nodes = np.arange(len(values))
    old = nodes + np.searchsorted(begin, nodes)
    new = old[begin] + 1
    finer = np.empty((len(values) + len(begin), *values.shape[1:]))
    finer[old], finer[new] = values, middles
    return finer, old, new


def improve_midpoints(
    defects: Callable[[FloatArray], FloatArray],
    states: FloatArray,
    midpoints: IntArray,
    halves: tuple[IntArray | slice, IntArray | slice],
) -> FloatArray:
    """Correct new midpoints by the rule on both halves of their intervals.

    The rule on the first half carries the first end to the midpoint, where it arrives at `x_½ - c₁`; the rule on the
    second half carries the second end back to about `x_½ + c₂`. The mean of the two is the better midpoint.

    Parameters
    ----------
    defects : callable
        Computes c `(rows, D)` on the finer mesh from states `(N, D)`.
    states : ndarray, (N, D)
        States on the finer mesh; the midpoints are changed in place.
    midpoints : ndarray of int, (M,)
        Their nodes.
    halves : pair of index arrays or slices, (M,)
        Rows of c of the first and the second halves.

    Returns
    -------
    ndarray, (N, D)
        The states.
    """
    first, second = halves
    for _ in range(MIDPOINT_PASSES):
        c = defects(states)
        states[midpoints] += 0.5 * (c[second] - c[first])
    return states


@dataclass(frozen=True)
class RowPattern:
    """Position of each column of a row in the tensors of `ROW_TENSORS`.

    Attributes
    ----------
    at : ndarray of int, (columns, 2)
        Equation of each column, then its state or parameter (unused for the columns of f).
    counts : tuple of int
        Number of columns of f, of ∂f/∂x and of ∂f/∂p.
    D, J : int
        Numbers of states and of parameters.
    """

    at: IntArray
    counts: tuple[int, ...]
    D: int
    J: int

    @classmethod
    def from_system(cls, system: System) -> RowPattern:
        """Build the pattern of the rows of a system."""
        counts = tuple(len(system.differentiate_tensor(name)) for name in ROW_TENSORS)
        return cls(system.index_columns(ROW_TENSORS), counts, system.D, system.J)

    def extract_f(self, rows: FloatArray) -> FloatArray:
        """Return the right-hand side `(time, D)` from rows whose first columns are f.

        If no equation is identically zero, the result is a view of the rows.
        """
        if self.counts[0] == self.D:
            return rows[:, : self.D]
        f = np.zeros((len(rows), self.D))
        f[:, self.at[: self.counts[0], 0]] = rows[:, : self.counts[0]]
        return f


def extract_dense_f(system: System, rows: FloatArray) -> FloatArray:
    """Return the right-hand side `(time, D)` from rows `(time, columns)` whose first columns are f."""
    return RowPattern.from_system(system).extract_f(rows)


def linearise_rule(
    pattern: RowPattern,
    h: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    rows: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compute c and its derivatives with respect to x₀, x₁ and p on M intervals.

    Parameters
    ----------
    pattern : RowPattern
    h : ndarray, (M,)
        Lengths of the intervals.
    ends : pair of ndarray, (M, D)
        x₀ and x₁.
    rows : three ndarrays, (M, columns)
        `ROW_TENSORS` at the beginning, at the end and in the middle of each interval.

    Returns
    -------
    c : ndarray, (M, D)
    left, right : ndarray, (M, D, D)
        ∂c/∂x₀ and ∂c/∂x₁.
    G : ndarray, (M, D, J)
        ∂c/∂p.
    """
    M, D, J, at, counts = len(h), pattern.D, pattern.J, pattern.at, pattern.counts
    if load_library() is None:
        return _linearise_by_numpy(h, ends, [_expand_rows(row, pattern) for row in rows])
    c, left, right, G = np.empty((M, D)), np.empty((M, D, D)), np.empty((M, D, D)), np.empty((M, D, J))
    # The kernel reads plain C arrays; columns sliced from wider ones are not.
    arrays = [np.ascontiguousarray(array) for array in (h, *ends, *rows)]
    sizes = (M, D, J, counts[0], counts[1], len(at))
    call_kernel("simpson", sizes, (at, *arrays, np.empty(3 * D * D), c, left, right, G))
    return c, left, right, G


def _expand_rows(rows: FloatArray, pattern: RowPattern) -> list[FloatArray]:
    """Expand rows `(time, columns)` into f `(time, D)`, ∂f/∂x `(time, D, D)` and ∂f/∂p `(time, D, J)`."""
    D, J, at = pattern.D, pattern.J, pattern.at
    F, fp = np.zeros((len(rows), D, D)), np.zeros((len(rows), D, J))
    first, second = pattern.counts[0], pattern.counts[0] + pattern.counts[1]
    F[:, at[first:second, 0], at[first:second, 1]] = rows[:, first:second]
    fp[:, at[second:, 0], at[second:, 1]] = rows[:, second:]
    return [pattern.extract_f(rows), F, fp]


def _linearise_by_numpy(
    h: FloatArray, ends: tuple[FloatArray, FloatArray], tensors: list[list[FloatArray]]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compute what `linearise_rule` returns, without the compiled kernel.

    Parameters
    ----------
    h : ndarray, (M,)
    ends : pair of ndarray, (M, D)
        x₀ and x₁.
    tensors : three lists
        The results of `_expand_rows` at the beginning, at the end and in the middle of each interval.
    """
    (f0, F0, fp0), (f1, F1, fp1), (fm, Fm, fpm) = tensors
    H, I = h[:, None, None], np.eye(f0.shape[1])
    c = compute_simpson_defects(ends, h, f0, fm, f1)
    # The midpoint depends on both ends and on p: ∂x_½/∂x₀ = I/2 + h/8 F₀, ∂x_½/∂x₁ = I/2 - h/8 F₁,
    # ∂x_½/∂p = h/8 (∂f₀/∂p - ∂f₁/∂p).
    left = -I - H / 6 * (F0 + 4 * Fm @ (I / 2 + H / 8 * F0))
    right = I - H / 6 * (F1 + 4 * Fm @ (I / 2 - H / 8 * F1))
    G = -H / 6 * (fp0 + 4 * (fpm + Fm @ (H / 8 * (fp0 - fp1))) + fp1)
    return c, left, right, G
