"""Kinds of noise, and the coordinates in which each is additive.

Noise that is additive in `x = g(u)` makes x the working coordinate of a state:

    gaussian             x = u         du/dx = 1
    lognormal            x = log u     du/dx = u

Other kinds are additive in u itself, and the weight of a value depends on the fitted curve: at the mean μ the standard
deviation of a value is σ times

    poisson              √μ                        counts; σ is 1, or more if they are overdispersed
    negative-binomial    √(μ + μ²/k)               overdispersed counts; k is estimated from their scatter
    student              √((ν + e²)/(ν + 1))       heavy tails, ν = 4; e is the residual over σ

A fit begins with weights from a running mean of the data (`Kind.estimate_initial_scale`), and refits until weights and
fitted curve agree. This solves the likelihood equations of these kinds, without a transform that would bias a small
mean.

Everything that depends on the kind of noise is an entry of `KINDS`: to add a kind of noise, add an entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import symengine as se

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import DataError

MIN_COUNT_MEAN = 0.1
"""Smallest mean that is used for the standard deviation of counts, in counts. A fitted mean near zero, or below it,
would otherwise give a count an unlimited weight. By judgement; tests/noise/test_kinds.py tests the intervals of counts
with means down to 0.5."""
STUDENT_DEGREES = 4.0
"""Degrees of freedom ν of Student's distribution for noise with heavy tails. With fewer, outliers get less weight; with
many, the noise is nearly normal. By judgement."""
MEAN_WINDOW = 5
"""Number of neighbouring samples of which the mean gives the first weights. By judgement."""
DEVIATION_TO_SIGMA = 1.5
"""Standard deviation over median absolute deviation: 1/0.6745 for normal noise, rounded, because it sets only the first
weights."""
CONTINUATION_SHARE = 1e-3
"""Share of the distance between a measured value and the lowest possible one. Below it the working coordinate, such as
a logarithm, is continued linearly, so that it is defined for a trial state that is zero or negative. By judgement."""
MAX_DISPERSION = 1e6
"""Largest dispersion 1/k of negative binomial counts that is searched for. By judgement."""
DISPERSION_BISECTIONS = 60
"""Number of bisections for the dispersion 1/k: enough for the precision of a float."""
MIN_INFLUENCE_SLOPE = 0.1
"""Smallest mean slope E[ψ'] of Student's influence function that is used; dimensionless, 5/7 if the residuals follow
the distribution. It limits the variance of a fit in which most values are outliers. By judgement."""


@dataclass(frozen=True)
class Kind:
    """A kind of noise.

    Attributes
    ----------
    to_working, from_working : callable
        The working coordinate `x = g(u)` of an array of states, and its inverse.
    slope : callable
        `du/dx` as an expression of the symbol u.
    numeric_slope : callable
        `du/dx` for an array u.
    draw : callable
        `draw(rng, u, sigma)` returns noisy values `(time, D)` of the states u `(time, D)`, for σ `(D,)` in working
        coordinates.
    ratio : float
        The default noise ratio of simulated data.
    relative : bool
        True if σ is the noise ratio times the size of the states, False if it is the ratio itself.
    needs : str
        The values that are possible, in words, for messages.
    lowest : float
        The lowest possible value.
    includes_lowest : bool
        True if a value may be equal to `lowest`, False if it must be larger.
    weigh : callable, optional
        `weigh(y, mu, sigma)` returns the standard deviation of each value y relative to σ, `(n,)`, at the fitted means
        mu. By default all are 1.
    widen : callable, optional
        `widen(e, scale)` returns the factor by which the variance of a fit with the standard deviations `scale`
        exceeds the one that these weights imply; e are residuals in units of σ. By default 1.
    error : callable, optional
        `error(u, sigma)` returns one over the root of the information of a value about its mean u; `sigma · du/dx` by
        default.
    density : callable, optional
        `density(e)` returns the sum of the log-densities of residuals e in units of σ; normal by default.
    min_sigma : float
        Lower limit of σ. It is 1 for counts, which never scatter less than Poisson counts.
    robust : bool
        True if the first weights must resist outliers: they use a running median in place of the mean.
    """

    to_working: Callable[[FloatArray], FloatArray]
    from_working: Callable[[FloatArray], FloatArray]
    slope: Callable[[Any], Any]
    numeric_slope: Callable[[FloatArray], FloatArray]
    draw: Callable[[np.random.Generator, FloatArray, FloatArray], FloatArray]
    ratio: float = 0.05
    relative: bool = False
    needs: str = "finite values"
    lowest: float = -np.inf
    includes_lowest: bool = False
    weigh: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] | None = None
    widen: Callable[[FloatArray, FloatArray], float] | None = None
    error: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    density: Callable[[FloatArray], float] | None = None
    min_sigma: float = 0.0
    robust: bool = False

    def estimate_initial_scale(self, y: FloatArray) -> FloatArray:
        """Return the first standard deviations of values y relative to σ, `(n,)`, from a running mean of y (no NaN)."""
        if self.weigh is None or not len(y):
            return np.ones(len(y))
        # The first and the last value are repeated, so that every sample is in the middle of a window.
        near = np.lib.stride_tricks.sliding_window_view(np.pad(y, MEAN_WINDOW // 2, mode="edge"), MEAN_WINDOW)
        mean = np.median(near, axis=1) if self.robust else near.mean(axis=1)
        sigma = DEVIATION_TO_SIGMA * float(np.median(np.abs(y - mean)))
        return self.weigh(y, mean, np.full(len(y), sigma if sigma > 0 else 1.0))

    def compute_uncertainty(self, u: FloatArray, sigma: FloatArray) -> FloatArray:
        """Return one over the root of the information of a value about its mean u, for arrays u and sigma."""
        return np.asarray(sigma * self.numeric_slope(u) if self.error is None else self.error(u, sigma))

    def compute_linear_floor(self, values: FloatArray) -> FloatArray:
        """Return the state below which the working coordinate of each measured value is continued linearly, `(n,)`."""
        if not np.isfinite(self.lowest):
            return np.full(len(values), -np.inf)
        return self.lowest + CONTINUATION_SHARE * (values - self.lowest)

    def is_possible(self, u: FloatArray) -> BoolArray:
        """Return True for each value of u that is possible with this noise; NaN, a missing value, is."""
        return ~(u < self.lowest) if self.includes_lowest else ~(u <= self.lowest)

    def compute_sigma(self, u: FloatArray, ratio: float, by_state: bool = False) -> FloatArray:
        """Return σ in working coordinates for a noise ratio.

        Parameters
        ----------
        u : ndarray, (time, D)
            Noise-free states.
        ratio : float
            The noise ratio.
        by_state : bool
            For relative noise: False if σ is the ratio times the root mean square of all states together, which is
            the same for all of them; True if it is the ratio times the root mean square of each state.

        Returns
        -------
        ndarray, (D,)
        """
        if not self.relative:
            return np.full(u.shape[1], float(ratio))
        size = np.sqrt(np.mean(u**2, axis=0 if by_state else None))
        return np.broadcast_to(ratio * size, u.shape[1:]).copy()


def _return_unchanged(x: FloatArray) -> FloatArray:
    """Return the argument: the working coordinate is the state itself."""
    return x


def _draw_gaussian(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    """Draw values with normal noise."""
    return np.asarray(u + sigma * rng.standard_normal(u.shape))


def _draw_lognormal(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    """Draw values whose logarithm has normal noise."""
    return np.asarray(u * np.exp(sigma * rng.standard_normal(u.shape)))


def _draw_poisson(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    """Draw Poisson counts with means u; σ must be 1."""
    if (sigma != 1.0).any():
        raise DataError(
            f"Poisson counts have the noise ratio 1, because their scatter follows from their mean; received "
            f"{float(sigma[0]):g}. Leave the noise ratio out."
        )
    if (u < 0).any():
        raise DataError(
            f"Counts need states that are not negative; the smallest is {u.min():g}. Use another kind of noise."
        )
    return rng.poisson(u).astype(float)


def _draw_negative_binomial(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    """Draw negative binomial counts with means u and `1/k = σ²`, as Poisson counts with gamma-distributed means."""
    if (u < 0).any() or (sigma <= 0).any():
        raise DataError(
            "Negative binomial counts need states that are not negative and a positive noise ratio; received states "
            f"down to {u.min():g} and σ down to {sigma.min():g}. Use another kind of noise, or a positive ratio."
        )
    return rng.poisson(u * rng.gamma(1 / sigma**2, sigma**2, size=u.shape)).astype(float)


def _draw_student(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    """Draw values with noise of Student's distribution."""
    return np.asarray(u + sigma * rng.standard_t(STUDENT_DEGREES, size=u.shape))


def _weigh_poisson(_y: FloatArray, mu: FloatArray, _sigma: FloatArray) -> FloatArray:
    """Return the standard deviation √μ of Poisson counts."""
    return np.sqrt(np.maximum(mu, MIN_COUNT_MEAN))


def _weigh_negative_binomial(y: FloatArray, mu: FloatArray, _sigma: FloatArray) -> FloatArray:
    """Return the standard deviation √(μ + μ²/k) of negative binomial counts.

    1/k solves `mean((y - μ)²/(μ + μ²/k)) = 1`, and is zero if the values scatter less than Poisson counts.
    """
    mean = np.maximum(mu, MIN_COUNT_MEAN)
    low, high = 0.0, 1.0

    def excess(a: float) -> float:
        """Return by how much the scaled mean square exceeds one at the dispersion a = 1/k."""
        return float(np.mean((y - mean) ** 2 / (mean + a * mean**2))) - 1.0

    # The mean square falls as 1/k grows: raise the upper end until it is below one, then bisect.
    while excess(high) > 0 and high < MAX_DISPERSION:
        high *= 10
    for _ in range(DISPERSION_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return np.asarray(np.sqrt(mean + high * mean**2))


def _weigh_student(y: FloatArray, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return the standard deviation √((ν + e²)/(ν + 1)) that makes weighted least squares Student's likelihood."""
    return np.asarray(np.sqrt((STUDENT_DEGREES + ((y - mu) / sigma) ** 2) / (STUDENT_DEGREES + 1)))


def _widen_student(e: FloatArray, scale: FloatArray) -> float:
    """Compute `E[ψ²] E[w]/E[ψ']²` with `ψ = w e`: the variance of an M-estimate over the one that its weights imply."""
    w = 1 / scale**2
    slope = float(np.mean((STUDENT_DEGREES + 1) * (STUDENT_DEGREES - e**2) / (STUDENT_DEGREES + e**2) ** 2))
    return float(np.mean((w * e) ** 2)) * float(np.mean(w)) / max(slope, MIN_INFLUENCE_SLOPE) ** 2


def _sum_student_density(e: FloatArray) -> float:
    """Sum the log-density of Student's distribution over residuals e in units of σ."""
    # log Γ((ν + 1)/2) - log Γ(ν/2) - ½ log(νπ), the log-density at e = 0.
    constant = (
        math.lgamma((STUDENT_DEGREES + 1) / 2)
        - math.lgamma(STUDENT_DEGREES / 2)
        - 0.5 * math.log(STUDENT_DEGREES * math.pi)
    )
    return len(e) * constant - (STUDENT_DEGREES + 1) / 2 * float(np.sum(np.log1p(e**2 / STUDENT_DEGREES)))


def _return_one(_: Any) -> Any:
    """Return the symbolic slope `du/dx = 1`."""
    return se.Integer(1)


_GAUSSIAN = Kind(_return_unchanged, _return_unchanged, _return_one, np.ones_like, _draw_gaussian, relative=True)
_POISSON = Kind(
    _return_unchanged,
    _return_unchanged,
    _return_one,
    np.ones_like,
    _draw_poisson,
    ratio=1.0,
    needs="values that are not negative",
    lowest=0.0,
    includes_lowest=True,
    weigh=_weigh_poisson,
    min_sigma=1.0,
    error=lambda u, sigma: sigma * np.sqrt(np.maximum(u, MIN_COUNT_MEAN)),
)
KINDS: dict[str, Kind] = {
    "gaussian": _GAUSSIAN,
    "lognormal": Kind(
        np.log, np.exp, lambda u: u, _return_unchanged, _draw_lognormal, needs="positive values", lowest=0.0
    ),
    "poisson": _POISSON,
    "negative-binomial": replace(
        _POISSON,
        draw=_draw_negative_binomial,
        ratio=0.3,
        weigh=_weigh_negative_binomial,
        error=lambda u, sigma: np.sqrt(np.maximum(u, MIN_COUNT_MEAN) + (sigma * u) ** 2),
    ),
    "student": replace(
        _GAUSSIAN,
        draw=_draw_student,
        weigh=_weigh_student,
        widen=_widen_student,
        # The information of a value about the centre of Student's distribution is (ν + 1)/((ν + 3) σ²).
        error=lambda u, sigma: sigma * np.sqrt((STUDENT_DEGREES + 3) / (STUDENT_DEGREES + 1)) * np.ones_like(u),
        density=_sum_student_density,
        robust=True,
    ),
}
"""All kinds of noise, by the words that users write."""
