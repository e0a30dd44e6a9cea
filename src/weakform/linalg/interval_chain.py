"""Equations that couple each node of a mesh with the next, and their covariance.

    (A d)_m = left_m d_{k(m)} + right_m d_{k(m)+1},        S = A diag(v) Aᵀ = L Lᵀ

with blocks `left`, `right` `(intervals, D, D)` and k(m) the node at which interval m begins. Two intervals in a row
are linked where they share a node; at the end of a trajectory they do not, so that many trajectories are one chain. S
is block tridiagonal and its factor has D + 1 to 2D numbers in a row: O(D³) operations an interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpbtrf, dtbtrs

from ..support.array_types import FloatArray, IntArray
from .kernels import call, library
from .symmetric_matrix import NotPositiveDefinite


@dataclass(frozen=True)
class Chain:
    """The equations.

    Attributes
    ----------
    begin : ndarray of int, (intervals,)
        k(m).
    left, right : ndarray, (intervals, D, D)
    """

    begin: IntArray
    left: FloatArray
    right: FloatArray

    def apply(self, d: FloatArray) -> FloatArray:
        """`A d`: `(nodes, D)` or `(nodes, D, n)` to `(intervals, D)` or `(intervals, D, n)`."""
        M, D, _ = self.left.shape
        columns = np.ascontiguousarray(d).reshape(len(d), D, -1)
        if library() is None:
            result = self.left @ columns[self.begin] + self.right @ columns[self.begin + 1]
        else:
            result = np.empty((M, D, columns.shape[2]))
            call("chain_apply", (M, D, columns.shape[2]), (self.begin, self.left, self.right, columns, result))
        return result.reshape(M, *d.shape[1:])

    def transposed(self, z: FloatArray, nodes: int) -> FloatArray:
        """`Aᵀ z`: `(intervals, D)` or `(intervals, D, n)` to as many nodes."""
        M, D, _ = self.left.shape
        columns = np.ascontiguousarray(z).reshape(M, D, -1)
        result = np.zeros((nodes, D, columns.shape[2]))
        if library() is None:
            result[self.begin] += self.left.transpose(0, 2, 1) @ columns
            result[self.begin + 1] += self.right.transpose(0, 2, 1) @ columns
        else:
            call("chain_transposed", (M, D, columns.shape[2]), (self.begin, self.left, self.right, columns, result))
        return result.reshape(nodes, *z.shape[1:])

    def covariance(self, v: FloatArray) -> ChainFactor | BandFactor:
        """S, factorised; `v` is `(nodes, D)`. Raises `NotPositiveDefinite`."""
        if library() is None:
            return self._banded(v)
        M, D, _ = self.left.shape
        T, X = np.empty((M, D, D)), np.empty((M, D, D))
        failed = call("chain_factor", (M, D), (self.begin, self.left, self.right, np.ascontiguousarray(v), T, X))
        if failed:
            raise NotPositiveDefinite(f"interval {failed} of {M}")
        return ChainFactor(self.begin, T, X)

    def _banded(self, v: FloatArray) -> BandFactor:
        """The same in LAPACK's lower band storage."""
        M, D, _ = self.left.shape
        before, after = v[self.begin][:, None, :], v[self.begin + 1][:, None, :]
        diagonal = (self.left * before) @ self.left.transpose(0, 2, 1)
        diagonal += (self.right * after) @ self.right.transpose(0, 2, 1)
        lower = (self.left * before)[1:] @ self.right[:-1].transpose(0, 2, 1)
        lower[np.diff(self.begin) != 1] = 0.0
        band = np.zeros((2 * D, M * D))
        for i in range(D):
            for j in range(D):
                if i >= j:
                    band[i - j, j::D] = diagonal[:, i, j]
                band[D + i - j, j : (M - 1) * D : D] = lower[:, i, j]
        factor, info = dpbtrf(band, lower=1, overwrite_ab=1)
        if info or not np.isfinite(factor[0]).all():
            raise NotPositiveDefinite("a banded matrix")
        return BandFactor(factor)


@dataclass(frozen=True)
class ChainFactor:
    """L, by the kernels: blocks T on its diagonal, X to the left of them."""

    begin: IntArray
    T: FloatArray
    X: FloatArray

    def whiten(self, b: FloatArray) -> FloatArray:
        """`L⁻¹ b`, for `b` `(rows,)` or `(rows, n)`."""
        return self._solved("chain_whiten", b)

    def back(self, b: FloatArray) -> FloatArray:
        """`L⁻ᵀ b`."""
        return self._solved("chain_back", b)

    def _solved(self, kernel: str, b: FloatArray) -> FloatArray:
        M, D, _ = self.T.shape
        solved = np.array(b, dtype=float, order="C")
        call(kernel, (M, D, solved.size // max(len(b), 1)), (self.begin, self.T, self.X, solved))
        return solved


@dataclass(frozen=True)
class BandFactor:
    """L, by LAPACK, in its lower band storage."""

    factor: FloatArray

    def whiten(self, b: FloatArray) -> FloatArray:
        """`L⁻¹ b`, for `b` `(rows,)` or `(rows, n)`."""
        return self._solved(b, "N")

    def back(self, b: FloatArray) -> FloatArray:
        """`L⁻ᵀ b`."""
        return self._solved(b, "T")

    def _solved(self, b: FloatArray, how: str) -> FloatArray:
        if not b.size:  # LAPACK would write beyond nothing
            return b
        solved, _ = dtbtrs(self.factor, b.reshape(len(b), -1), uplo="L", trans=how)
        return np.asarray(solved).reshape(b.shape)


def march(left: FloatArray, right: FloatArray, q: FloatArray) -> FloatArray | None:
    """Y `(N, D, n)` with `Y_0 = 0` and `right_m Y_{m+1} = -(left_m Y_m + q_m)`; None where some `right` is singular.

    Parameters
    ----------
    left, right : ndarray, (N, D, D)
    q : ndarray, (N, D, n)
        The last of each is not used.
    """
    N, D, n = q.shape
    Y = np.zeros((N, D, n))
    if library() is not None:
        given = [np.ascontiguousarray(array) for array in (left, right, q)]
        return None if call("chain_march", (N, D, n), (*given, np.empty(D * D), Y)) else Y
    try:
        solved = np.linalg.solve(right[:-1], np.concatenate([left[:-1], q[:-1]], axis=2))
    except np.linalg.LinAlgError:
        return None
    for m in range(N - 1):
        Y[m + 1] = -(solved[m, :, :D] @ Y[m] + solved[m, :, D:])
    return Y
