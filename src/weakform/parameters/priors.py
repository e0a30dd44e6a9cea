"""Prior distributions of parameters, as a sum of squares that is added to the misfit.

    normal      ρ = (P - m)/s            lognormal    ρ = (log P - log m)/s

with P the parameter itself; on a log scale the estimators work with q = log P. Each ρ acts as one more measurement of
the parameter, so that the estimate is the maximum of the posterior, and its covariance includes the prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..support.array_types import BoolArray, FloatArray, IntArray
from .working_scale import WorkingScale


@dataclass(frozen=True)
class Priors:
    """Independent priors of some parameters.

    Attributes
    ----------
    index : ndarray of int, (n,)
        The parameters with a prior.
    centre, spread : ndarray, (n,)
        m and s above; log m and s for a log-normal prior.
    lognormal : ndarray of bool, (n,)
        True for log-normal priors, False for normal ones.
    log_scale : ndarray of bool, (n,)
        True if the estimators work with the logarithm of the parameter.
    """

    index: IntArray
    centre: FloatArray
    spread: FloatArray
    lognormal: BoolArray
    log_scale: BoolArray

    @classmethod
    def from_tuples(cls, priors: Sequence[tuple[str, float, float] | None]) -> Priors | None:
        """Build the priors of all parameters.

        Parameters
        ----------
        priors : sequence, (J,)
            `(kind, centre, spread)` or None for each parameter.

        Returns
        -------
        Priors or None
            For parameters that are not on a log scale; None if no parameter has a prior.
        """
        entries = [(j, prior) for j, prior in enumerate(priors) if prior is not None]
        if not entries:
            return None
        lognormal = np.array([kind == "lognormal" for _, (kind, _, _) in entries])
        centre = np.array([centre for _, (_, centre, _) in entries])
        centre[lognormal] = np.log(centre[lognormal])
        spread = np.array([spread for _, (_, _, spread) in entries])
        return cls(np.array([j for j, _ in entries]), centre, spread, lognormal, np.zeros(len(entries), dtype=bool))

    def convert_to_scale(self, scale: WorkingScale) -> Priors:
        """Return the same priors as functions of q, the parameters on the scale of the estimators."""
        return replace(self, log_scale=scale.log[self.index])

    def compute_residuals(self, p: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute `ρ` and its first and second derivative by q, `(..., n)`, at working parameters `(..., J)`."""
        q = p[..., self.index]
        with np.errstate(all="ignore"):
            natural = np.where(self.log_scale, np.exp(q), q)
            log = np.where(self.log_scale, q, np.log(natural))
            value = np.where(self.lognormal, log, natural)
            # d value/dq is 1 unless the kind of the prior and the scale of the parameter differ.
            first = np.where(self.lognormal == self.log_scale, 1.0, np.where(self.lognormal, 1 / natural, natural))
            second = np.where(self.lognormal == self.log_scale, 0.0, np.where(self.lognormal, -1 / natural**2, natural))
        return (value - self.centre) / self.spread, first / self.spread, second / self.spread

    def replace_impossible(self, p: FloatArray) -> FloatArray:
        """Replace values `(J,)` that are impossible under a log-normal prior (zero or negative) by its median."""
        p = p.copy()
        for j, centre, positive, logged in zip(self.index, self.centre, self.lognormal, self.log_scale, strict=True):
            if positive and not logged and p[j] <= 0:
                p[j] = np.exp(centre)
        return p

    def compute_penalty(self, p: FloatArray) -> float:
        """Compute `½ Σ ρ²` at working parameters `(J,)`; infinite where a ρ is undefined."""
        rho, _, _ = self.compute_residuals(p)
        return 0.5 * float(rho @ rho) if np.isfinite(rho).all() else np.inf

    def gradient(self, p: FloatArray) -> FloatArray:
        """Compute the gradient of `½ Σ ρ²`, `(J,)`, at working parameters `(J,)`."""
        rho, first, _ = self.compute_residuals(p)
        g = np.zeros(len(p))
        np.add.at(g, self.index, rho * first)
        return g

    def log_density(self, p: FloatArray) -> float:
        """Compute the log-density of the working parameters `(J,)`, up to a constant.

        If the kind of the prior and the scale of the parameter differ, the change of variables between P and log P
        multiplies the density `exp(-½ Σ ρ²)` by P or 1/P for each of these priors.
        """
        q = p[self.index]
        with np.errstate(all="ignore"):
            log_jacobian = np.where(self.log_scale, q, -np.log(q))
        return float(log_jacobian[self.lognormal != self.log_scale].sum()) - self.compute_penalty(p)

    def hessian(self, p: FloatArray, exact: bool = True) -> FloatArray:
        """Compute the Hessian of `½ Σ ρ²`, `(J, J)`; if not `exact`, the Gauss–Newton part `Σ (∂ρ/∂q)²`."""
        rho, first, second = self.compute_residuals(p)
        h = np.zeros(len(p))
        np.add.at(h, self.index, first**2 + (rho * second if exact else 0.0))
        return np.diag(h)

    def jacobian(self, p: FloatArray) -> FloatArray:
        """Compute `∂ρ/∂q`, `(n, J)`, at working parameters `(J,)`."""
        _, first, _ = self.compute_residuals(p)
        rows = np.zeros((len(self.index), len(p)))
        rows[np.arange(len(self.index)), self.index] = first
        return rows
