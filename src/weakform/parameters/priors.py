"""What is known of parameters beforehand, as a sum of squares that is added to the misfit.

    normal      ρ = (P - m)/s            lognormal    ρ = (log P - log m)/s

with P the parameter itself; on a log scale the estimators work with q = log P. The estimate is the maximum of the
posterior, and its covariance follows, as each ρ is one more measurement of the parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..support.array_types import BoolArray, FloatArray, IntArray
from .working_scale import Scale


@dataclass(frozen=True)
class Priors:
    """Independent priors of some parameters.

    Attributes
    ----------
    index : ndarray of int, (n,)
        Which parameters.
    centre, spread : ndarray, (n,)
        m and s above, m of the logarithm where log-normal.
    lognormal, log_scale : ndarray of bool, (n,)
        The kind of prior, and whether the estimators see the logarithm of the parameter.
    """

    index: IntArray
    centre: FloatArray
    spread: FloatArray
    lognormal: BoolArray
    log_scale: BoolArray

    @classmethod
    def of(cls, priors: Sequence[tuple[str, float, float] | None]) -> Priors | None:
        """From `(kind, centre, spread)` or None for each parameter; None if there is none."""
        given = [(j, prior) for j, prior in enumerate(priors) if prior is not None]
        if not given:
            return None
        lognormal = np.array([kind == "lognormal" for _, (kind, _, _) in given])
        centre = np.array([centre for _, (_, centre, _) in given])
        centre[lognormal] = np.log(centre[lognormal])
        spread = np.array([spread for _, (_, _, spread) in given])
        return cls(np.array([j for j, _ in given]), centre, spread, lognormal, np.zeros(len(given), dtype=bool))

    def on(self, scale: Scale) -> Priors:
        """The same priors for what the estimators work with."""
        return replace(self, log_scale=scale.log[self.index])

    def rows(self, p: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`ρ` and its first and second derivative by the parameter, `(n,)` each, at parameters `(J,)`."""
        q = p[self.index]
        with np.errstate(all="ignore"):
            natural = np.where(self.log_scale, np.exp(q), q)
            log = np.where(self.log_scale, q, np.log(natural))
            value = np.where(self.lognormal, log, natural)
            # d value/dq, where the kind of the prior and the scale of the parameter differ.
            first = np.where(self.lognormal == self.log_scale, 1.0, np.where(self.lognormal, 1 / natural, natural))
            second = np.where(self.lognormal == self.log_scale, 0.0, np.where(self.lognormal, -1 / natural**2, natural))
        return (value - self.centre) / self.spread, first / self.spread, second / self.spread

    def allowed(self, p: FloatArray) -> FloatArray:
        """The parameters with what a log-normal prior does not allow put to its median."""
        p = p.copy()
        for j, centre, positive, logged in zip(self.index, self.centre, self.lognormal, self.log_scale, strict=True):
            if positive and not logged and p[j] <= 0:
                p[j] = np.exp(centre)
        return p

    def value(self, p: FloatArray) -> float:
        """`½ Σ ρ²`."""
        rho, _, _ = self.rows(p)
        return 0.5 * float(rho @ rho) if np.isfinite(rho).all() else np.inf

    def gradient(self, p: FloatArray) -> FloatArray:
        """Its gradient, `(J,)`."""
        rho, first, _ = self.rows(p)
        g = np.zeros(len(p))
        np.add.at(g, self.index, rho * first)
        return g

    def log_density(self, p: FloatArray) -> float:
        """The logarithm of the density of what the estimators work with, up to a constant.

        A log-normal prior is a density of P, and normal in log P only: where its kind and the scale of the parameter
        differ, a factor of P or 1/P comes to `exp(-value)`.
        """
        q = p[self.index]
        with np.errstate(all="ignore"):
            more = np.where(self.log_scale, q, -np.log(q))
        return float(more[self.lognormal != self.log_scale].sum()) - self.value(p)

    def hessian(self, p: FloatArray, exact: bool = True) -> FloatArray:
        """Its Hessian `(J, J)`, or only `Σ (∂ρ)²`, the information."""
        rho, first, second = self.rows(p)
        h = np.zeros(len(p))
        np.add.at(h, self.index, first**2 + (rho * second if exact else 0.0))
        return np.diag(h)

    def jacobian(self, p: FloatArray) -> FloatArray:
        """`∂ρ/∂p`, `(n, J)`."""
        _, first, _ = self.rows(p)
        rows = np.zeros((len(self.index), len(p)))
        rows[np.arange(len(self.index)), self.index] = first
        return rows
