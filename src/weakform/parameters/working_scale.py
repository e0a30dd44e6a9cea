"""The scale on which estimators work with each parameter: the parameter itself or its logarithm.

Estimators work with q, where `q = log p` for parameters on a log scale and `q = p` for the others. `to_working`
converts bounds and starts to q, `to_natural` and `to_natural_covariance` convert estimates and covariances back, and
`rewrite_model` writes the model in terms of q. By the delta method `Cov p = diag(∂p/∂q) Cov q diag(∂p/∂q)` with
`∂p/∂q = p` or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import symengine as se

from ..model import Model
from ..support.array_types import BoolArray, FloatArray


@dataclass(frozen=True)
class WorkingScale:
    """The scale of each parameter.

    Attributes
    ----------
    log : ndarray of bool, (J,)
        True for parameters on a log scale.
    """

    log: BoolArray

    def to_working(self, p: FloatArray) -> FloatArray:
        """Convert parameters `(J,)` to q `(J,)`; the logarithm of a value that is not positive is minus infinity."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(self.log, np.log(np.maximum(p, 0.0)), p))

    def to_natural(self, q: FloatArray) -> FloatArray:
        """Convert q `(J,)` to parameters `(J,)`."""
        with np.errstate(over="ignore"):
            return np.asarray(np.where(self.log, np.exp(q), q))

    def compute_slope(self, p: FloatArray) -> FloatArray:
        """Compute `dp/dq`, `(J,)`, at parameters `(J,)`."""
        return np.where(self.log, p, 1.0)

    def to_natural_covariance(self, p: FloatArray, covariance: FloatArray) -> FloatArray:
        """Convert the covariance `(J, J)` of q to that of the parameters p `(J,)`; infinite variances stay infinite."""
        slope = self.compute_slope(p)
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(covariance), covariance, covariance * np.outer(slope, slope))

    def compute_intervals(self, p: FloatArray, half: FloatArray) -> FloatArray:
        """Compute intervals `p ± half`, or `p exp(± half/p)` on a log scale, which are positive.

        Parameters
        ----------
        p, half : ndarray, (J,)
            Estimates and half-widths.

        Returns
        -------
        ndarray, (J, 2)
        """
        ends = np.column_stack([p - half, p + half])
        log = self.log & (p > 0)
        ends[log] = p[log, None] * np.exp(np.outer(half[log] / p[log], [-1.0, 1.0]))
        return ends

    def rewrite_model(self, model: Model) -> Model:
        """Return the model written in terms of q."""
        names = [name for name, log in zip(model.parameters, self.log, strict=True) if log]
        if not names:
            return model
        return model.substitute_parameters({name: se.exp(se.Symbol(name)) for name in names}, drop=False)
