"""Symmetric positive definite block-tridiagonal matrices.

Forward, with Schur complements T_k and their Cholesky factors T_k = R_k R_kᵀ:

    C_k = S_{k,k-1} T_{k-1}⁻¹,    T_k = S_kk - C_k S_{k,k-1}ᵀ,    log det S = Σ log det T_k.

Solving S z = r: `y_k = r_k - C_k y_{k-1}`, then backward `z_k = T_k⁻¹ y_k - C_{k+1}ᵀ z_{k+1}`; and
rᵀS⁻¹r = Σ ‖R_k⁻¹ y_k‖². The tridiagonal part of the inverse, backward:

    (S⁻¹)_{k+1,k} = -(S⁻¹)_{k+1,k+1} C_{k+1},    (S⁻¹)_kk = T_k⁻¹ - C_{k+1}ᵀ (S⁻¹)_{k+1,k}.

Traces of products with block-tridiagonal symmetric D_i, exactly: with

    E_{k,i} = (D_i)_{k,k-1} - C_k T_{k-1,i},
    T_{k,i} = (D_i)_kk - (D_i)_{k,k-1} C_kᵀ - C_k E_{k,i}ᵀ,

    tr(S⁻¹ D_i S⁻¹ D_j) = Σ_k [ tr(T_k⁻¹ T_{k,i} T_k⁻¹ T_{k,j}) + 2 tr((S⁻¹)_kk E_{k,i} T_{k-1}⁻¹ E_{k,j}ᵀ) ].

(Proof: S = (I + C) diag(T) (I + C)ᵀ; the congruence by (I + C)⁻¹ turns D_i into a block-tridiagonal-plus-fill matrix
whose contribution at each elimination step is the bracket.) A dense matrix is one block.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from ..support.array_types import FloatArray
from .symmetric_matrix import NotPositiveDefinite


@dataclass(frozen=True)
class Factor:
    """The factorisation of a block-tridiagonal matrix of B blocks of size b.

    Attributes
    ----------
    Rinv : ndarray, (B, b, b)
        R_k⁻¹, lower triangular.
    C : ndarray, (B - 1, b, b)
        C_k for k >= 1.
    logdet : float
        log det S.
    """

    Rinv: FloatArray
    C: FloatArray
    logdet: float

    def substitute_forward(self, r: FloatArray) -> FloatArray:
        """Compute y of the forward substitution, `(B, b, ...)`, from r of the same shape."""
        y = np.array(r)
        C = self.C
        for k in range(1, len(y)):
            y[k] -= C[k - 1] @ y[k - 1]
        return y

    def whiten(self, r: FloatArray) -> FloatArray:
        """Compute `R⁻¹ y`, `(B, b, m)`, whose Gram matrix is `rᵀ S⁻¹ r`, from r `(B, b, m)`."""
        return np.asarray(self.Rinv @ self.substitute_forward(r))

    def solve(self, r: FloatArray) -> FloatArray:
        """Compute `S⁻¹ r`, `(B, b, m)`, from r `(B, b, m)`."""
        return self.unwhiten(self.whiten(r))

    def unwhiten(self, e: FloatArray) -> FloatArray:
        """Compute z with `whiten(S z) = e`, both `(B, b, m)`; white e gives z of covariance S⁻¹."""
        z: FloatArray = self.Rinv.transpose(0, 2, 1) @ e
        C = self.C
        for k in range(len(z) - 2, -1, -1):
            z[k] -= C[k].T @ z[k + 1]
        return z

    def compute_inverse_blocks(self) -> tuple[FloatArray, FloatArray]:
        """Compute the tridiagonal part of S⁻¹: diagonal blocks `(B, b, b)` and lower blocks `(B - 1, b, b)`."""
        diagonal: FloatArray = self.Rinv.transpose(0, 2, 1) @ self.Rinv
        lower = np.empty_like(self.C)
        C = self.C
        for k in range(len(diagonal) - 2, -1, -1):
            np.matmul(diagonal[k + 1], C[k], out=lower[k])
            diagonal[k] += C[k].T @ lower[k]
        np.negative(lower, out=lower)
        return diagonal, lower

    def compute_traces(
        self, J: int, inverse_diagonal: FloatArray, chunks: Iterable[tuple[FloatArray, FloatArray]]
    ) -> FloatArray:
        """Compute `tr(S⁻¹ D_i S⁻¹ D_j)`.

        Parameters
        ----------
        J : int
            Number of matrices D_i.
        inverse_diagonal : ndarray, (B, b, b)
            Diagonal blocks of S⁻¹, as `compute_inverse_blocks` returns them.
        chunks : iterable
            The D_i for consecutive ranges of n blocks: diagonal `(J, n, b, b)` and lower `(J, n, b, b)`, which has one
            block fewer in the first chunk. The arrays are overwritten. Chunks bound the memory: all D_i together take J
            times as much as S.

        Returns
        -------
        ndarray, (J, J)
        """
        total = np.zeros((J, J))
        k, before = 0, np.zeros((J, *self.Rinv.shape[1:]))
        for T, E in chunks:  # which begin as the blocks of the D_i, and become T_{k,i} and E_{k,i}
            # The first block of the first chunk has no block to its left: there `skipped` is 1, later 0.
            first, skipped = k, T.shape[1] - E.shape[1]
            C = self.C[first + skipped - 1 : first + T.shape[1] - 1]
            T[:, skipped:] -= E @ C.transpose(0, 2, 1)
            for m in range(T.shape[1]):
                if m >= skipped:
                    E[:, m - skipped] -= C[m - skipped] @ before
                    T[:, m] -= C[m - skipped] @ E[:, m - skipped].transpose(0, 2, 1)
                before = T[:, m]
            k += T.shape[1]
            Tinv = self.Rinv[first:k].transpose(0, 2, 1) @ self.Rinv[first:k]
            U = Tinv @ T
            total += _compute_inner_products(U, U.transpose(0, 1, 3, 2))
            if E.size:
                previous = self.Rinv[first + skipped - 1 : k - 1]
                Tprevious = previous.transpose(0, 2, 1) @ previous
                total += 2 * _compute_inner_products(inverse_diagonal[first + skipped : k] @ E, E @ Tprevious)
            before = before.copy()  # the next chunk may overwrite the array of which this is a part
        return total


def _compute_inner_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Compute the inner products `⟨left_i, right_j⟩`, `(J, J)`, of arrays `(J, ...)`."""
    J = len(left)
    return np.asarray(left.reshape(J, -1) @ right.reshape(J, -1).T)


def factorise(diagonal: FloatArray, lower: FloatArray) -> Factor:
    """Factorise a symmetric positive definite block-tridiagonal matrix; the arguments are overwritten.

    Parameters
    ----------
    diagonal : ndarray, (B, b, b)
        The blocks S_kk.
    lower : ndarray, (B - 1, b, b)
        The blocks S_{k,k-1}.

    Returns
    -------
    Factor

    Raises
    ------
    NotPositiveDefinite
        If a Schur complement has no Cholesky factor, or is not finite.
    """
    B = len(diagonal)
    Rinv = np.empty_like(diagonal)
    logs = np.empty(diagonal.shape[:2])
    for k in range(B):
        T = diagonal[k]
        if k:
            X = lower[k - 1] @ Rinv[k - 1].T  # so that C_k S_{k,k-1}ᵀ = X Xᵀ
            T -= X @ X.T
            np.matmul(X, Rinv[k - 1], out=lower[k - 1])  # C_k
        # T is symmetric: LAPACK reads the C-ordered lower triangle as an upper one, T = UᵀU, R = Uᵀ.
        U, info = dpotrf(T.T, lower=0, overwrite_a=1)
        if info:
            raise NotPositiveDefinite(f"block {k + 1} of {B}")
        logs[k] = U.diagonal()
        inverse, _ = dtrtri(U, lower=0)
        Rinv[k] = inverse.T
    if not np.isfinite(logs).all():
        raise NotPositiveDefinite("a block is not finite")
    return Factor(Rinv, lower, 2.0 * float(np.log(logs).sum()))
