"""Small symmetric matrices: information, and its inverse."""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

SINGULAR = 1e-12
"""Smallest eigenvalue, relative to a unit diagonal, that a matrix of information is taken to have."""


class NotPositiveDefinite(ArithmeticError):
    """A matrix that should have a Cholesky factor has none."""


def scaled_eigendecomposition(matrix: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the eigenvalues and eigenvectors of a symmetric matrix in units of `scale`.

    With `d = scale` and `D = diag(d)`, the result is `w`, `V` of `D⁻¹ H D⁻¹ = V diag(w) Vᵀ`. For an information matrix
    and `d = sqrt(diag(H))` the scaled matrix has a unit diagonal: its eigenvalues do not depend on the units of the
    parameters, and a small one is a combination of parameters that the data hardly determine.

    Parameters
    ----------
    matrix : ndarray, (n, n)
        Finite and symmetric; only the lower triangle is read.
    scale : ndarray, (n,)
        Positive. The caller chooses it, because callers treat a zero on the diagonal differently.

    Returns
    -------
    values : ndarray, (n,)
        In ascending order.
    vectors : ndarray, (n, n)
        Column k belongs to `values[k]`. `vectors / scale[:, None]` are directions in the units of the parameters.
    """
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    return values, vectors


def symmetric_inverse(matrix: FloatArray, below: float = np.inf) -> FloatArray:
    """The inverse of a symmetric positive semi-definite matrix, computed with unit diagonal: units do not matter.

    A direction without information gets a very large variance, not none: eigenvalues are kept above `SINGULAR`; a row
    without any is left out, and its variance is infinite, as all are where the matrix is not finite. Only the part with
    eigenvalues `below` something is returned.
    """
    if not np.isfinite(matrix).all():
        return np.diag(np.full(len(matrix), np.inf))
    diagonal = np.abs(matrix.diagonal())
    some = diagonal > np.finfo(float).tiny
    inverse = np.diag(np.where(some, 0.0, np.inf))
    if some.any():
        scale = np.sqrt(diagonal[some])
        w, V = scaled_eigendecomposition(matrix[np.ix_(some, some)], scale)
        weights = np.where(w < below, 1 / np.maximum(w, SINGULAR), 0.0)
        inverse[np.ix_(some, some)] = (V * weights) @ V.T / np.outer(scale, scale)
    return inverse
