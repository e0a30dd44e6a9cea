"""The priors that PEtab defines: logarithms of their densities, with derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...support.errors import ModelError

PRIOR_ARGUMENTS = {
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
"""Number of arguments of each kind of prior."""
VERSION_1_KINDS = {"logNormal": "log-normal", "logLaplace": "log-laplace"}
"""Kinds that version 1 of PEtab spells differently from version 2."""
SLOPE_STEP = 1e-6
"""Relative step of the difference that gives the slope of a log-density: near the cube root of rounding errors, where
those and the truncation error of a central difference are in balance."""
MIN_STEP_SIZE = 1e-3
"""Smallest size of a parameter that the step is relative to, so that the step does not vanish at zero. By judgement."""
LARGE_VALUE = 1e100
"""Finite value that replaces infinite arguments of cumulative distributions."""


def convert_to_scale(scale: str, x: float) -> float:
    """Return a value on the scale of its parameter, `lin`, `log` or `log10`."""
    return x if scale == "lin" else math.log(x) if scale == "log" else math.log10(x)


@dataclass(frozen=True)
class PetabPrior:
    """The prior of one parameter.

    Attributes
    ----------
    kind : str
        A key of `PRIOR_ARGUMENTS`.
    numbers : tuple of float
        Arguments of the distribution, as PEtab orders them.
    low, high : float
        Bounds at which the density is truncated and normalised again; infinite if it is not truncated.
    scaled : bool
        True if it is a density of the parameter on its scale, as in version 1 of PEtab.
    """

    kind: str
    numbers: tuple[float, ...]
    low: float = -math.inf
    high: float = math.inf
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.kind not in PRIOR_ARGUMENTS:
            raise ModelError(f"the prior {self.kind!r} is not known; expected one of {', '.join(PRIOR_ARGUMENTS)}.")
        if len(self.numbers) != PRIOR_ARGUMENTS[self.kind] or not all(map(math.isfinite, self.numbers)):
            raise ModelError(
                f"the prior {self.kind!r} needs {PRIOR_ARGUMENTS[self.kind]} finite numbers; received {self.numbers}."
            )

    def compute_log_density(self, x: float) -> float:
        """Return the logarithm of the density; minus infinity outside the bounds."""
        if not self.low <= x <= self.high:
            return -math.inf
        return self._compute_untruncated(x) - self._log_mass

    def compute_slope(self, x: float) -> float:
        """Return the derivative of the log-density by a central difference, or a one-sided one where a side is
        infinite.

        The derivative is zero where both sides are infinite.
        """
        h = SLOPE_STEP * max(abs(x), MIN_STEP_SIZE)
        below, above = self._compute_untruncated(x - h), self._compute_untruncated(x + h)
        if math.isfinite(below) and math.isfinite(above):
            return (above - below) / (2 * h)
        centre = self._compute_untruncated(x)
        finite_side = above if math.isfinite(above) else below
        return 0.0 if not math.isfinite(finite_side) else (finite_side - centre) / (h if finite_side is above else -h)

    @cached_property
    def _log_mass(self) -> float:
        """Logarithm of the probability between the bounds; zero without bounds, or if that probability is zero."""
        if not (math.isfinite(self.low) or math.isfinite(self.high)):
            return 0.0
        cdf = self._cumulative_distribution
        mass = cdf(self.high) - cdf(self.low)
        return math.log(mass) if mass > 0 else 0.0

    def _compute_untruncated(self, x: float) -> float:
        """Return the log-density without truncation."""
        a, b = (*self.numbers, 0.0)[:2]  # kinds with one argument do not use b
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
        # χ² with a degrees of freedom is the gamma distribution with shape a/2 and scale 2.
        shape, scale = (a / 2, 2.0) if self.kind == "chisquare" else (a, b)
        if x == 0:
            return -math.inf
        return (shape - 1) * math.log(x) - x / scale - shape * math.log(scale) - math.lgamma(shape)

    @property
    def _cumulative_distribution(self) -> Callable[[float], float]:
        """The cumulative distribution without truncation."""
        from scipy import stats  # imported late: only truncated priors need it

        a, b = (*self.numbers, 0.0)[:2]
        frozen = {
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
        return lambda x: float(frozen.cdf(np.clip(x, -LARGE_VALUE, LARGE_VALUE)))
