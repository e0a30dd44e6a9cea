"""Equations that couple each node of a mesh with the next, and their covariance.

    (A d)_m = left_m d_{k(m)} + right_m d_{k(m)+1},        S = A diag(v) Aᵀ = L Lᵀ

with blocks `left`, `right` `(intervals, D, D)` and k(m) the node at which interval m begins. Consecutive intervals are
linked if they share a node; at the end of a trajectory they do not, so that several trajectories form one chain. S is
block tridiagonal and its factor has D + 1 to 2D numbers in each row: O(D³) operations for each interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpbtrf, dtbtrs

from ..support.array_types import FloatArray, IntArray
from .kernels import call_kernel, load_library
from .symmetric_matrix import NotPositiveDefinite


@dataclass(frozen=True)
class Chain:
    """The matrix A of the equations.

    Attributes
    ----------
    begin : ndarray of int, (intervals,)
        k(m), the node at which each interval begins; it ends at the next node.
    left, right : ndarray, (intervals, D, D)
        The blocks of A at the beginning and at the end of each interval.
    """

    begin: IntArray
    left: FloatArray
    right: FloatArray

    def apply(self, d: FloatArray) -> FloatArray:
        """Compute `A d`, `(intervals, D)` or `(intervals, D, n)`, from d `(nodes, D)` or `(nodes, D, n)`."""
        M, D, _ = self.left.shape
        columns = np.ascontiguousarray(d).reshape(len(d), D, -1)
        if load_library() is None:
            result = self.left @ columns[self.begin] + self.right @ columns[self.begin + 1]
        else:
            result = np.empty((M, D, columns.shape[2]))
            call_kernel("chain_apply", (M, D, columns.shape[2]), (self.begin, self.left, self.right, columns, result))
        return result.reshape(M, *d.shape[1:])

    def apply_transposed(self, z: FloatArray, nodes: int) -> FloatArray:
        """Compute `Aᵀ z`, `(nodes, D)` or `(nodes, D, n)`, from z `(intervals, D)` or `(intervals, D, n)`."""
        M, D, _ = self.left.shape
        columns = np.ascontiguousarray(z).reshape(M, D, -1)
        result = np.zeros((nodes, D, columns.shape[2]))
        if load_library() is None:
            result[self.begin] += self.left.transpose(0, 2, 1) @ columns
            result[self.begin + 1] += self.right.transpose(0, 2, 1) @ columns
        else:
            call_kernel(
                "chain_transposed", (M, D, columns.shape[2]), (self.begin, self.left, self.right, columns, result)
            )
        return result.reshape(nodes, *z.shape[1:])

    def factorise_covariance(self, v: FloatArray) -> ChainFactor | BandFactor:
        """Factorise S.

        Parameters
        ----------
        v : ndarray, (nodes, D)
            Variances of the states at the nodes.

        Returns
        -------
        ChainFactor or BandFactor
            The factor L, from the compiled kernels or from LAPACK.

        Raises
        ------
        NotPositiveDefinite
            If S is not positive definite, or not finite.
        """
        if load_library() is None:
            return self._factorise_banded(v)
        M, D, _ = self.left.shape
        T, X = np.empty((M, D, D)), np.empty((M, D, D))
        failure = call_kernel(
            "chain_factor", (M, D), (self.begin, self.left, self.right, np.ascontiguousarray(v), T, X)
        )
        if failure:
            raise NotPositiveDefinite(f"interval {failure} of {M}")
        return ChainFactor(self.begin, T, X)

    def _factorise_banded(self, v: FloatArray) -> BandFactor:
        """Factorise S in LAPACK's lower band storage; v is `(nodes, D)`."""
        M, D, _ = self.left.shape
        before, after = v[self.begin][:, None, :], v[self.begin + 1][:, None, :]
        diagonal = (self.left * before) @ self.left.transpose(0, 2, 1)
        diagonal += (self.right * after) @ self.right.transpose(0, 2, 1)
        lower = (self.left * before)[1:] @ self.right[:-1].transpose(0, 2, 1)
        lower[np.diff(self.begin) != 1] = 0.0  # intervals of different trajectories are not linked
        # LAPACK keeps entry (r, c) of the lower triangle in row r - c and column c of the band.
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
    """The factor L from the compiled kernels.

    Attributes
    ----------
    begin : ndarray of int, (intervals,)
        The node at which each interval begins.
    T : ndarray, (intervals, D, D)
        Diagonal blocks of L, lower triangular.
    X : ndarray, (intervals, D, D)
        Blocks of L to the left of the diagonal ones; zero where an interval is not linked to the one before.
    """

    begin: IntArray
    T: FloatArray
    X: FloatArray

    def whiten(self, b: FloatArray) -> FloatArray:
        """Compute `L⁻¹ b`, of the shape of b: `(rows,)` or `(rows, n)`."""
        return self._run_kernel("chain_whiten", b)

    def solve_transposed(self, b: FloatArray) -> FloatArray:
        """Compute `L⁻ᵀ b`, of the shape of b: `(rows,)` or `(rows, n)`."""
        return self._run_kernel("chain_back", b)

    def _run_kernel(self, kernel: str, b: FloatArray) -> FloatArray:
        """Apply one of the kernels that solve with L to a copy of b, `(rows,)` or `(rows, n)`."""
        M, D, _ = self.T.shape
        solved = np.array(b, dtype=float, order="C")
        call_kernel(kernel, (M, D, solved.size // max(len(b), 1)), (self.begin, self.T, self.X, solved))
        return solved


@dataclass(frozen=True)
class BandFactor:
    """The factor L from LAPACK.

    Attributes
    ----------
    factor : ndarray, (2 D, intervals · D)
        L in LAPACK's lower band storage.
    """

    factor: FloatArray

    def whiten(self, b: FloatArray) -> FloatArray:
        """Compute `L⁻¹ b`, of the shape of b: `(rows,)` or `(rows, n)`."""
        return self._solve_triangular(b, "N")

    def solve_transposed(self, b: FloatArray) -> FloatArray:
        """Compute `L⁻ᵀ b`, of the shape of b: `(rows,)` or `(rows, n)`."""
        return self._solve_triangular(b, "T")

    def _solve_triangular(self, b: FloatArray, how: str) -> FloatArray:
        """Solve with L (`how` is "N") or Lᵀ ("T") for b, `(rows,)` or `(rows, n)`."""
        if not b.size:  # LAPACK would write beyond the end of an empty array
            return b
        solved, _ = dtbtrs(self.factor, b.reshape(len(b), -1), uplo="L", trans=how)
        return np.asarray(solved).reshape(b.shape)


def solve_recursion(left: FloatArray, right: FloatArray, q: FloatArray) -> FloatArray | None:
    """Solve the recursion `Y_0 = 0`, `right_m Y_{m+1} = -(left_m Y_m + q_m)` from node to node.

    Parameters
    ----------
    left, right : ndarray, (N, D, D)
        The last block of each is not used.
    q : ndarray, (N, D, n)
        The last block is not used.

    Returns
    -------
    ndarray, (N, D, n), or None
        Y; None if some `right_m` is singular.
    """
    N, D, n = q.shape
    Y = np.zeros((N, D, n))
    if load_library() is not None:
        inputs = [np.ascontiguousarray(array) for array in (left, right, q)]
        return None if call_kernel("chain_march", (N, D, n), (*inputs, np.empty(D * D), Y)) else Y
    try:
        solved = np.linalg.solve(right[:-1], np.concatenate([left[:-1], q[:-1]], axis=2))
    except np.linalg.LinAlgError:
        return None
    for m in range(N - 1):
        Y[m + 1] = -(solved[m, :, :D] @ Y[m] + solved[m, :, D:])
    return Y
