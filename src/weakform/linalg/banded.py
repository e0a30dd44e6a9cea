"""Banded symmetric positive definite matrices, by LAPACK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpbtrf, dtbtrs

from ..support.typing import FloatArray
from .symmetric import NotPositiveDefinite


@dataclass(frozen=True)
class Banded:
    """The Cholesky factor L of a banded matrix S = L Lᵀ, in LAPACK's lower band storage."""

    factor: Any

    @classmethod
    def factorised(cls, band: FloatArray) -> Banded:
        """Factorise S, given by its lower band `(sub-diagonals + 1, rows)`, which is overwritten.

        Raises
        ------
        NotPositiveDefinite
        """
        factor, info = dpbtrf(band, lower=1, overwrite_ab=1)
        if info or not np.isfinite(factor[0]).all():
            raise NotPositiveDefinite("a banded matrix")
        return cls(factor)

    def whiten(self, b: FloatArray) -> FloatArray:
        """`L⁻¹ b`, for `b` `(rows,)` or `(rows, m)`."""
        if not b.size:  # LAPACK would write beyond nothing
            return b
        solved, _ = dtbtrs(self.factor, b.reshape(len(b), -1), uplo="L")
        return np.asarray(solved).reshape(b.shape)

    def back(self, b: FloatArray) -> FloatArray:
        """`L⁻ᵀ b`."""
        if not b.size:
            return b
        solved, _ = dtbtrs(self.factor, b.reshape(len(b), -1), uplo="L", trans="T")
        return np.asarray(solved).reshape(b.shape)
