"""Small symmetric matrices: information, and its inverse."""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

SINGULAR = 1e-12
"""Smallest eigenvalue, relative to a unit diagonal, that a matrix of information is taken to have."""


class NotPositiveDefinite(ArithmeticError):
    """A matrix that should have a Cholesky factor has none."""


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
        w, V = np.linalg.eigh(matrix[np.ix_(some, some)] / np.outer(scale, scale))
        weights = np.where(w < below, 1 / np.maximum(w, SINGULAR), 0.0)
        inverse[np.ix_(some, some)] = (V * weights) @ V.T / np.outer(scale, scale)
    return inverse
