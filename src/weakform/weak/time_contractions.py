"""Sums over time of products of two test functions, and their adjoint.

    contract:  G_k = left_k diag(w_k) right_kᵀ            weights (P, B, n) to blocks (P, B, L, L)
    adjoint:   w̄_k = diag(left_kᵀ Q_k right_k)             blocks (P, B, L, L) to weights (P, B, n)

If all blocks are copies of one small block, as on a uniform grid, the products `left_lm right_l'm` are tabulated once
as a matrix (n, L²), and both maps are one matrix product. Otherwise (a dense basis, an uneven grid) the weights
multiply one factor. Both ways compute the same sums.
"""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

MAX_TABLE_ELEMENTS = 1 << 20
"""Largest number of elements of the table of products, eight megabytes; beyond it no table is built. By judgement."""


class FunctionProduct:
    """Products of the functions `left` and `right`, both `(B, L, n)`.

    Attributes
    ----------
    table : ndarray, (n, L²), or None
        The products of all pairs of functions at each sample, if all blocks are copies of one small block.
    """

    def __init__(self, left: FloatArray, right: FloatArray) -> None:
        self.left, self.right = left, right
        B, L, n = left.shape
        # Blocks that are broadcast copies of one block have a stride of zero.
        copies = B > 0 and left.strides[0] == 0 and right.strides[0] == 0
        self.table: FloatArray | None = None
        if copies and n * L * L <= MAX_TABLE_ELEMENTS:
            self.table = (left[0].T[:, :, None] * right[0].T[:, None, :]).reshape(n, L * L)

    def contract(self, weights: FloatArray, blocks: slice) -> FloatArray:
        """Return the blocks `left_k diag(w_k) right_kᵀ` for a range of blocks.

        Parameters
        ----------
        weights : ndarray, (P, B, n)
            Weights of P pairs of states on the windows of the range.
        blocks : slice
            The range of blocks, of length B.

        Returns
        -------
        ndarray, (P, B, L, L)
        """
        P, B, n = weights.shape
        L = self.left.shape[1]
        if self.table is not None:
            return np.asarray(weights.reshape(P * B, n) @ self.table).reshape(P, B, L, L)
        left, right = self.left[blocks], self.right[blocks].transpose(0, 2, 1)
        result = np.empty((P, B, L, L))
        for row, weight in enumerate(weights):
            np.matmul(left * weight[:, None, :], right, out=result[row])
        return result

    def apply_adjoint(self, Q: FloatArray, blocks: slice) -> FloatArray:
        """Return the weights `diag(left_kᵀ Q_k right_k)` for a range of blocks.

        Parameters
        ----------
        Q : ndarray, (P, B, L, L)
        blocks : slice
            The range of blocks, of length B.

        Returns
        -------
        ndarray, (P, B, n)
        """
        P, B, L, _ = Q.shape
        n = self.left.shape[2]
        if self.table is not None:
            return np.asarray(Q.reshape(P * B, L * L) @ self.table.T).reshape(P, B, n)
        left, right = self.left[blocks], self.right[blocks]
        return np.stack([np.einsum("kln,kln->kn", left, block @ right) for block in Q])
