"""Priors that PEtab names: logarithms of their densities, with derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...support.errors import ModelError

NUMBERS = {
    "uniform": 2,
    "normal": 2,
    "laplace": 2,
    "log-normal": 2,
    "log-laplace": 2,
    "log-uniform": 2,
    "cauchy": 2,
    "chisquare": 1,
    "exponential": 1,
    "gamma": 2,
    "rayleigh": 1,
}
"""How many numbers each has."""
VERSION_1 = {"logNormal": "log-normal", "logLaplace": "log-laplace"}


def on_scale(scale: str, x: float) -> float:
    """A value on the scale of its parameter."""
    return x if scale == "lin" else math.log(x) if scale == "log" else math.log10(x)


@dataclass(frozen=True)
class Prior:
    """A prior of one parameter.

    Attributes
    ----------
    kind : str
    numbers : tuple of float
    low, high : float
        Where it is cut off, and normalised again; infinite where it is not.
    scaled : bool
        Whether it is a density of the parameter on its scale.
    """

    kind: str
    numbers: tuple[float, ...]
    low: float = -math.inf
    high: float = math.inf
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.kind not in NUMBERS:
            raise ModelError(f"the prior {self.kind!r} is not known; there are: {', '.join(NUMBERS)}.")
        if len(self.numbers) != NUMBERS[self.kind] or not all(map(math.isfinite, self.numbers)):
            raise ModelError(f"the prior {self.kind!r} has {NUMBERS[self.kind]} numbers; received {self.numbers}.")

    def log(self, x: float) -> float:
        """The logarithm of its density."""
        if not self.low <= x <= self.high:
            return -math.inf
        return self._plain(x) - self._lost

    def slope(self, x: float) -> float:
        """The derivative of `log`, by differences: the densities are smooth where parameters lie."""
        h = 1e-6 * max(abs(x), 1e-3)
        left, right = self._plain(x - h), self._plain(x + h)
        if math.isfinite(left) and math.isfinite(right):
            return (right - left) / (2 * h)
        here = self._plain(x)
        one = right if math.isfinite(right) else left
        return 0.0 if not math.isfinite(one) else (one - here) / (h if one is right else -h)

    @cached_property
    def _lost(self) -> float:
        """The logarithm of the mass that lies inside the cut."""
        if not (math.isfinite(self.low) or math.isfinite(self.high)):
            return 0.0
        cdf = self._distribution
        mass = cdf(self.high) - cdf(self.low)
        return math.log(mass) if mass > 0 else 0.0

    def _plain(self, x: float) -> float:
        a, b = (*self.numbers, 0.0)[:2]
        if self.kind.startswith("log-") and x <= 0:
            return -math.inf
        if self.kind == "uniform":
            return -math.log(b - a) if a <= x <= b else -math.inf
        if self.kind == "log-uniform":
            return -math.log(x * (math.log(b) - math.log(a))) if a <= x <= b else -math.inf
        if self.kind == "normal":
            return -0.5 * ((x - a) / b) ** 2 - math.log(b) - 0.5 * math.log(2 * math.pi)
        if self.kind == "log-normal":
            return -0.5 * ((math.log(x) - a) / b) ** 2 - math.log(x * b) - 0.5 * math.log(2 * math.pi)
        if self.kind == "laplace":
            return -abs(x - a) / b - math.log(2 * b)
        if self.kind == "log-laplace":
            return -abs(math.log(x) - a) / b - math.log(2 * b * x)
        if self.kind == "cauchy":
            return -math.log(math.pi * b * (1 + ((x - a) / b) ** 2))
        if x < 0:
            return -math.inf
        if self.kind == "exponential":
            return -x / a - math.log(a)
        if self.kind == "rayleigh":
            return math.log(x / a**2) - 0.5 * (x / a) ** 2 if x > 0 else -math.inf
        shape, scale = (a / 2, 2.0) if self.kind == "chisquare" else (a, b)
        if x == 0:
            return -math.inf
        return (shape - 1) * math.log(x) - x / scale - shape * math.log(scale) - math.lgamma(shape)

    @property
    def _distribution(self) -> Callable[[float], float]:
        """Its cumulative distribution."""
        from scipy import stats

        a, b = (*self.numbers, 0.0)[:2]
        made = {
            "uniform": lambda: stats.uniform(a, b - a),
            "log-uniform": lambda: stats.loguniform(a, b),
            "normal": lambda: stats.norm(a, b),
            "log-normal": lambda: stats.lognorm(b, scale=math.exp(a)),
            "laplace": lambda: stats.laplace(a, b),
            "log-laplace": lambda: stats.loglaplace(1 / b, scale=math.exp(a)),
            "cauchy": lambda: stats.cauchy(a, b),
            "chisquare": lambda: stats.chi2(a),
            "exponential": lambda: stats.expon(scale=a),
            "gamma": lambda: stats.gamma(a, scale=b),
            "rayleigh": lambda: stats.rayleigh(scale=a),
        }[self.kind]()
        return lambda x: float(made.cdf(np.clip(x, -1e100, 1e100)))
