"""Kinds of noise, and the coordinates in which each is additive.

Noise that is additive in `x = g(u)` makes x the working coordinate of a state:

    gaussian    x = u                        du/dx = 1
    lognormal   x = log u                    du/dx = u
    poisson     x = 2 √(u + 3/8)             du/dx = √(u + 3/8)     Anscombe: counts have σ = 1, or more if dispersed

Everything that depends on the kind of noise is an entry of `KINDS`: to add a kind is to add an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..support.errors import DataError
from ..support.typing import BoolArray, FloatArray

_SHIFT = 0.375


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


KINDS: dict[str, Kind] = {
    "gaussian": Kind(_same, _same, lambda _: se.Integer(1), np.ones_like, _gaussian, relative=True),
    "lognormal": Kind(np.log, np.exp, lambda u: u, _same, _lognormal, needs="positive values", lowest=0.0),
    "poisson": Kind(
        lambda u: 2 * np.sqrt(u + _SHIFT),
        lambda x: (x / 2) ** 2 - _SHIFT,
        lambda u: se.sqrt(u + se.Rational(3, 8)),
        lambda u: np.sqrt(u + _SHIFT),
        _counts,
        ratio=1.0,
        needs="values that are not negative",
        lowest=0.0,
        closed=True,
    ),
}
