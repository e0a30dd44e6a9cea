"""The saddle-point system of the states on a chain of nodes and the multipliers of the equations that couple them.

    [ H    Aᵀ ] [ x ]   [ b₀ ]
    [ A   -V  ] [ z ] = [ b₁ ],        (A x)_m = left_m x_m + right_m x_{m+1}

with H block diagonal `(N, D, D)` and V diagonal `(N, D)`; V may be zero. With x and z interleaved node by node the
matrix has 2D - 1 diagonals on each side of the main one: O(N D³) operations, by elimination with row pivoting. The
matrix is indefinite, so that a Cholesky factorisation is impossible.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dgbtrf, dgbtrs

from ..support.array_types import FloatArray
from .kernels import call_kernel, load_library
from .symmetric_matrix import NotPositiveDefinite


class SaddlePointSystem:
    """The factorised saddle-point system.

    Parameters
    ----------
    H, left, right : ndarray, (N, D, D)
        The last block of `right` is not used.
    V : ndarray, (N, D)

    Raises
    ------
    NotPositiveDefinite
        If the matrix is singular or not finite.
    """

    def __init__(self, H: FloatArray, left: FloatArray, right: FloatArray, V: FloatArray) -> None:
        N, D = V.shape
        self.D = D
        if load_library() is None:
            self.upper, self.lower, self.pivots, failure = _factorise_by_lapack(H, left, right, V)
        else:
            rows, k = 2 * D * N, 2 * D - 1
            self.upper, self.lower = np.zeros((rows, 2 * k + 1)), np.empty((rows, k))
            self.pivots = np.empty(rows, dtype=np.int64)
            inputs = [np.ascontiguousarray(array) for array in (H, left, right, V)]
            failure = call_kernel("saddle_factor", (N, D), (*inputs, self.upper, self.lower, self.pivots))
        if failure:
            raise NotPositiveDefinite("the step")

    def solve(self, b: FloatArray, nodes: slice = slice(None)) -> FloatArray:
        """Solve the system, or the part of it that belongs to some nodes.

        Parameters
        ----------
        b : ndarray, (nodes, 2, D, m)
            b₀ and b₁ at each node, for m right-hand sides.
        nodes : slice
            Consecutive nodes that no equation couples to the rest, such as those of one trajectory; all by default.

        Returns
        -------
        ndarray, (nodes, 2, D, m)
            x and z at each node.
        """
        first, last, _ = nodes.indices(len(self.pivots) // (2 * self.D))
        part = slice(2 * self.D * first, 2 * self.D * last)
        rows, columns, k = part.stop - part.start, b.shape[-1], 2 * self.D - 1
        solved = np.array(b, order="C").reshape(rows, columns)
        if not solved.size:
            return np.array(b)
        pivots = self.pivots[part] - part.start
        if len(self.lower):  # factorised by the compiled kernel, which keeps both factors apart
            call_kernel("saddle_solve", (rows, k, columns), (self.upper[part], self.lower[part], pivots, solved))
        else:
            solved, _ = dgbtrs(self.upper[:, part], k, k, solved, pivots.astype(np.int32))
        return np.asarray(solved).reshape(b.shape)


def _factorise_by_lapack(
    H: FloatArray, left: FloatArray, right: FloatArray, V: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Factorise the system without the compiled kernel, by LAPACK.

    Returns
    -------
    tuple
        Both factors in one band, `(3 k + 1, 2 D N)` with k = 2 D - 1; an empty array in place of the lower factor; the
        row interchanges; and a number that is not 0 if the matrix is singular or not finite.
    """
    N, D = V.shape
    k, step = 2 * D - 1, 2 * D
    band, centre = np.zeros((step * N, 3 * k + 1)).T, 2 * k
    for i in range(D):
        for j in range(D):
            band[centre + i - j, j::step] = H[:, i, j]
            # Row z_i, column x_j of the same node, and its mirror.
            band[centre + D + i - j, j::step] = left[:, i, j]
            band[centre + j - D - i, D + i :: step] = left[:, i, j]
            # Row z_i, column x_j of the next node, and its mirror.
            band[centre + i - D - j, step + j :: step] = right[:-1, i, j]
            band[centre + D + j - i, D + i : step * (N - 1) : step] = right[:-1, i, j]
        band[centre, D + i :: step] = -V[:, i]
    factors, pivots, info = dgbtrf(band, k, k, overwrite_ab=1)
    return factors, np.zeros((0, k)), pivots, int(info or not np.isfinite(factors[centre]).all())
