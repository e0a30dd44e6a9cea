"""Small symmetric matrices: the inverse of an information matrix."""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

MIN_SCALED_EIGENVALUE = 1e-12
"""Smallest eigenvalue that an information matrix scaled to a unit diagonal is assumed to have; dimensionless. A smaller
one, or a negative one from rounding, is raised to it, so that the variance of a direction without information is very
large, but neither infinite nor negative. By judgement: well above the rounding error of 2e-16."""


class NotPositiveDefinite(ArithmeticError):
    """A matrix that should be positive definite has no Cholesky factor, or is singular."""


def decompose_scaled_matrix(matrix: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def invert_symmetric(matrix: FloatArray, max_eigenvalue: float = np.inf) -> FloatArray:
    """Compute the inverse of a symmetric positive semi-definite matrix, such as the covariance from the information.

    The matrix is scaled to a unit diagonal first, so that the units of the parameters do not matter. Eigenvalues below
    `MIN_SCALED_EIGENVALUE` are raised to it, so that a direction without information gets a very large variance. A
    parameter without any information (a zero row) gets an infinite variance and does not affect the others. All
    variances are infinite if the matrix is not finite.

    Parameters
    ----------
    matrix : ndarray, (J, J)
    max_eigenvalue : float
        Only the part of the inverse from eigenvalues of the scaled matrix below this limit is returned; all by
        default.

    Returns
    -------
    ndarray, (J, J)
    """
    if not np.isfinite(matrix).all():
        return np.diag(np.full(len(matrix), np.inf))
    diagonal = np.abs(matrix.diagonal())
    informed = diagonal > np.finfo(float).tiny
    inverse = np.diag(np.where(informed, 0.0, np.inf))
    if informed.any():
        scale = np.sqrt(diagonal[informed])
        w, V = decompose_scaled_matrix(matrix[np.ix_(informed, informed)], scale)
        weights = np.where(w < max_eigenvalue, 1 / np.maximum(w, MIN_SCALED_EIGENVALUE), 0.0)
        inverse[np.ix_(informed, informed)] = (V * weights) @ V.T / np.outer(scale, scale)
    return inverse
