"""Kinds of noise, and the coordinates in which each is additive.

Noise that is additive in `x = g(u)` makes x the working coordinate of a state:

    gaussian             x = u         du/dx = 1
    lognormal            x = log u     du/dx = u

Other kinds are additive in u itself, and what a value weighs follows from what is fitted there: with the mean μ the
standard deviation of a value is σ times

    poisson              √μ                        counts; σ is 1, or more if they are dispersed
    negative-binomial    √(μ + μ²/k)               counts that scatter more; k is found by their scatter
    student              √((ν + e²)/(ν + 1))       heavy tails, ν = 4; e is the residual over σ: far out means little

A fit begins with what the data alone tell of μ (`rough`) and goes on until weights and fit agree: this solves the
likelihood equations of these kinds, with no transform that would bias a small mean.

Everything that depends on the kind of noise is an entry of `KINDS`: to add a kind is to add an entry.
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

SMALLEST = 0.1
"""Mean of counts below which they weigh no more."""
TAIL = 4.0
"""Degrees of freedom of Student's distribution."""
WINDOW = 5
"""Neighbours that tell a rough mean."""
FLOOR = 1e-3
"""Share of a measured value below which its working coordinates go on linearly."""


@dataclass(frozen=True)
class Kind:
    """A kind of noise.

    Attributes
    ----------
    to_working, from_working : callable
        `x = g(u)` and back, for arrays.
    slope : callable
        `du/dx` as an expression of the symbol u.
    numeric_slope : callable
        The same for arrays.
    draw : callable
        `draw(rng, u, sigma)`: noisy values of u `(time, D)`, σ `(D,)` in working coordinates.
    ratio : float
        The noise ratio of simulated data, unless another is given.
    relative : bool
        Whether σ is the noise ratio times the size of a state, or the ratio itself.
    needs : str
        What values must be, in words.
    lowest : float
        Values must be larger, or not smaller if `closed`.
    weigh : callable, optional
        `weigh(y, mu, sigma)`: standard deviation of each value relative to σ, from the fitted ones.
    widen : callable, optional
        `widen(e, scale)`: the variance of a fit by these weights over what they promise; e are residuals over σ.
    error : callable, optional
        `error(u, sigma)`: one over the root of the information of a value about its mean; `sigma · du/dx` by default.
    density : callable, optional
        `density(e)`: log-density of residuals in units of σ, summed; normal by default.
    least : float
        What σ is at least: counts scatter as counts do, or more.
    robust : bool
        Whether far values are to mean little from the beginning.
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
    closed: bool = False
    weigh: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] | None = None
    widen: Callable[[FloatArray, FloatArray], float] | None = None
    error: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    density: Callable[[FloatArray], float] | None = None
    least: float = 0.0
    robust: bool = False

    def rough(self, y: FloatArray) -> FloatArray:
        """Standard deviations relative to σ, by what the data alone tell, `(n,)`; NaN is left out."""
        if self.weigh is None or not len(y):
            return np.ones(len(y))
        near = np.lib.stride_tricks.sliding_window_view(np.pad(y, WINDOW // 2, mode="edge"), WINDOW)
        mean = np.median(near, axis=1) if self.robust else near.mean(axis=1)
        sigma = 1.5 * float(np.median(np.abs(y - mean)))
        return self.weigh(y, mean, np.full(len(y), sigma if sigma > 0 else 1.0))

    def uncertainty(self, u: FloatArray, sigma: FloatArray) -> FloatArray:
        """One over the root of the information of a value about its mean."""
        return np.asarray(sigma * self.numeric_slope(u) if self.error is None else self.error(u, sigma))

    def floor(self, values: FloatArray) -> FloatArray:
        """Below what the working coordinates of measured values go on linearly."""
        if not np.isfinite(self.lowest):
            return np.full(len(values), -np.inf)
        return self.lowest + FLOOR * (values - self.lowest)

    def allows(self, u: FloatArray) -> BoolArray:
        """Which values such noise may have, NaN among them."""
        return ~(u < self.lowest) if self.closed else ~(u <= self.lowest)

    def sigma(self, u: FloatArray, ratio: float, by_state: bool = False) -> FloatArray:
        """σ `(D,)` in working coordinates of a noise ratio, for noise-free states `(time, D)`.

        Relative noise has the same σ for all states, a share of the root mean square of all of them; or, `by_state`, of
        each state's own.
        """
        if not self.relative:
            return np.full(u.shape[1], float(ratio))
        size = np.sqrt(np.mean(u**2, axis=0 if by_state else None))
        return np.broadcast_to(ratio * size, u.shape[1:]).copy()


def _same(x: FloatArray) -> FloatArray:
    return x


def _gaussian(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    return np.asarray(u + sigma * rng.standard_normal(u.shape))


def _lognormal(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    return np.asarray(u * np.exp(sigma * rng.standard_normal(u.shape)))


def _counts(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    if (sigma != 1.0).any():
        raise DataError(
            f"Counts have the noise ratio 1: their scatter follows from their mean; received {float(sigma[0]):g}. "
            "Leave it out."
        )
    if (u < 0).any():
        raise DataError(f"Counts need states that are not negative; the smallest is {u.min():g}.")
    return rng.poisson(u).astype(float)


def _overdispersed(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    if (u < 0).any() or (sigma <= 0).any():
        raise DataError("Negative binomial counts need states that are not negative, and a positive noise ratio.")
    return rng.poisson(u * rng.gamma(1 / sigma**2, sigma**2, size=u.shape)).astype(float)


def _student(rng: np.random.Generator, u: FloatArray, sigma: FloatArray) -> FloatArray:
    return np.asarray(u + sigma * rng.standard_t(TAIL, size=u.shape))


def _count_scale(_y: FloatArray, mu: FloatArray, _sigma: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(mu, SMALLEST))


def _scatter_scale(y: FloatArray, mu: FloatArray, _sigma: FloatArray) -> FloatArray:
    """With 1/k such that the scatter of the values is what it should be; zero where they scatter less."""
    mean = np.maximum(mu, SMALLEST)
    low, high = 0.0, 1.0

    def excess(a: float) -> float:
        return float(np.mean((y - mean) ** 2 / (mean + a * mean**2))) - 1.0

    while excess(high) > 0 and high < 1e6:
        high *= 10
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return np.asarray(np.sqrt(mean + high * mean**2))


def _tail_scale(y: FloatArray, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((TAIL + ((y - mu) / sigma) ** 2) / (TAIL + 1)))


def _tail_excess(e: FloatArray, scale: FloatArray) -> float:
    """`E[ψ²] E[w]/E[ψ']²` with `ψ = w e`: the variance of an M-estimate over that of its weights."""
    w = 1 / scale**2
    slope = float(np.mean((TAIL + 1) * (TAIL - e**2) / (TAIL + e**2) ** 2))
    return float(np.mean((w * e) ** 2)) * float(np.mean(w)) / max(slope, 0.1) ** 2


def _tail_density(e: FloatArray) -> float:
    constant = math.lgamma((TAIL + 1) / 2) - math.lgamma(TAIL / 2) - 0.5 * math.log(TAIL * math.pi)
    return len(e) * constant - (TAIL + 1) / 2 * float(np.sum(np.log1p(e**2 / TAIL)))


def _one(_: Any) -> Any:
    return se.Integer(1)


_GAUSSIAN = Kind(_same, _same, _one, np.ones_like, _gaussian, relative=True)
_POISSON = Kind(
    _same,
    _same,
    _one,
    np.ones_like,
    _counts,
    ratio=1.0,
    needs="values that are not negative",
    lowest=0.0,
    closed=True,
    weigh=_count_scale,
    least=1.0,
    error=lambda u, sigma: sigma * np.sqrt(np.maximum(u, SMALLEST)),
)
KINDS: dict[str, Kind] = {
    "gaussian": _GAUSSIAN,
    "lognormal": Kind(np.log, np.exp, lambda u: u, _same, _lognormal, needs="positive values", lowest=0.0),
    "poisson": _POISSON,
    "negative-binomial": replace(
        _POISSON,
        draw=_overdispersed,
        ratio=0.3,
        weigh=_scatter_scale,
        error=lambda u, sigma: np.sqrt(np.maximum(u, SMALLEST) + (sigma * u) ** 2),
    ),
    "student": replace(
        _GAUSSIAN,
        draw=_student,
        weigh=_tail_scale,
        widen=_tail_excess,
        error=lambda u, sigma: sigma * np.sqrt((TAIL + 3) / (TAIL + 1)) * np.ones_like(u),
        density=_tail_density,
        robust=True,
    ),
}
