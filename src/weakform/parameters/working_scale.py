"""Parameters on a log scale: all that is known of it.

Estimators work with q, where `q = log p` for the parameters on a log scale and `q = p` for the others. Bounds, starts
and priors go in by `working`, estimates and covariances come back by `natural` and `natural_covariance`; the model is
written in q by `substituted`. By the delta method `Cov p = diag(∂p/∂q) Cov q diag(∂p/∂q)` with `∂p/∂q = p` or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import symengine as se

from ..model import Model
from ..support.array_types import BoolArray, FloatArray


@dataclass(frozen=True)
class Scale:
    """Which parameters are on a log scale.

    Attributes
    ----------
    log : ndarray of bool, (J,)
    """

    log: BoolArray

    def working(self, p: FloatArray) -> FloatArray:
        """q, `(J,)`, from the parameters themselves; minus infinity for what is not positive."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(self.log, np.log(np.maximum(p, 0.0)), p))

    def natural(self, q: FloatArray) -> FloatArray:
        """The parameters themselves, `(J,)`."""
        with np.errstate(over="ignore"):
            return np.asarray(np.where(self.log, np.exp(q), q))

    def slope(self, p: FloatArray) -> FloatArray:
        """`dp/dq`, `(J,)`."""
        return np.where(self.log, p, 1.0)

    def natural_covariance(self, p: FloatArray, covariance: FloatArray) -> FloatArray:
        """The covariance `(J, J)` of the parameters from that of q; infinite variances stay infinite."""
        slope = self.slope(p)
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(covariance), covariance, covariance * np.outer(slope, slope))

    def intervals(self, p: FloatArray, half: FloatArray) -> FloatArray:
        """`p ± half`, `(J, 2)`; on a log scale `p exp(± half/p)`, which is positive."""
        ends = np.column_stack([p - half, p + half])
        log = self.log & (p > 0)
        ends[log] = p[log, None] * np.exp(np.outer(half[log] / p[log], [-1.0, 1.0]))
        return ends

    def substituted(self, model: Model) -> Model:
        """The model in terms of q."""
        names = [name for name, log in zip(model.parameters, self.log, strict=True) if log]
        if not names:
            return model
        return model.substituted({name: se.exp(se.Symbol(name)) for name in names}, drop=False)
