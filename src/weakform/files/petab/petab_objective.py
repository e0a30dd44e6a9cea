"""Minus the log-likelihood as a function of what has to be searched for.

Quantities on a logarithmic scale are searched for as logarithms. Scales and offsets of observables that stand nowhere
else, and enter a formula linearly, are solved for inside, and so is a noise that is one quantity: for each setting of
the others there is one best value. By the envelope theorem the gradient is that with these held, and with the Hessian
divided into outer and inner parts that of the outer ones is `H_oo - H_oi H_ii⁻¹ H_io`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import symengine as se

from ...optimize.box_quadratic import minimise_in_box
from ...support.array_types import BoolArray, FloatArray
from .petab_likelihood import Likelihood, Now, Predicted
from .petab_priors import on_scale
from .semantics import Meaning

ROUNDS = 4
"""How often scales and noise are solved for in turn."""
SMALL, HUGE = 1e-12, 1e100
"""What a logarithm begins at, to the 20th power; and the derivative of a solution that no longer means anything."""


@dataclass(frozen=True)
class Evaluated:
    """The objective at a point, as the minimiser takes it."""

    value: float
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None
    theta: FloatArray | None = None


class Objective:
    """Minus the log-likelihood, less the log-priors.

    Attributes
    ----------
    outer : list of int
        Places of the quantities that are searched for.
    lower, upper : ndarray, (outer,)
        Their bounds, in working coordinates.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood, found = likelihood, likelihood.found
        self.quantities = found.quantities
        self.linear, self.noise = _inner(found)
        inner = {*self.linear, *self.noise}
        self.outer = [k for k, q in enumerate(self.quantities) if q.estimate and q.name not in inner]
        self.logs = np.array([q.scale != "lin" for q in self.quantities])
        self.low = np.array([max(q.lower, SMALL**20 if q.scale != "lin" else -math.inf) for q in self.quantities])
        self.high = np.array([q.upper for q in self.quantities])
        self.lower, self.upper = (self._working(b)[self.outer] for b in (self.low, self.high))
        names = likelihood.names
        self._of_linear = [names.index(name) for name in self.linear]
        self._of_noise = [names.index(name) for name in self.noise]
        symbols = {se.Symbol(name): k for k, name in enumerate(self.noise)}
        group = [symbols.get(m.sigma, -1) for m in found.measurements]
        self._groups = [np.flatnonzero(np.array(group) == k) for k in range(len(self.noise))]
        # Where each stands among the parameters of formulas.
        self._places = {k: likelihood.own.index(names[k]) for k in (*self._of_linear, *self._of_noise)}

    def _working(self, theta: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.where(self.logs, np.log(np.where(self.logs, theta, 1.0)), theta)

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """What is searched for, from all quantities."""
        return np.clip(self._working(theta)[self.outer], self.lower, self.upper)

    def natural(self, x: FloatArray, inner: FloatArray) -> FloatArray:
        """All quantities; those inside as given."""
        theta = inner.copy()
        with np.errstate(over="ignore"):
            theta[self.outer] = np.where(self.logs[self.outer], np.exp(x), x)
        return theta

    @cached_property
    def begin(self) -> FloatArray:
        """All quantities to begin with: what is not estimated as it is, the others somewhere inside."""
        with np.errstate(all="ignore"):
            middle = 0.5 * (self._working(self.low) + self._working(self.high))
        middle = np.where(np.isfinite(middle), middle, 0.0)
        natural = np.where(self.logs, np.exp(middle), middle)
        return np.where([q.estimate for q in self.quantities], natural, self.likelihood.nominal)

    def __call__(self, x: FloatArray, order: int) -> Evaluated:
        """At a point in working coordinates."""
        theta = self.natural(x, self.begin)
        with np.errstate(all="ignore"):
            course = self.likelihood.course(theta, order > 0)
            if course is None:
                return Evaluated(math.inf)
            solved = self._solved(course, theta)
            if solved is None:
                return Evaluated(math.inf)
            found, theta, stuck = solved
            value = self.likelihood.value(found) - self._priors(theta)
            if order == 0 or not math.isfinite(value):
                return Evaluated(value if math.isfinite(value) else math.inf, theta=theta)
            g, H = self.likelihood.derivatives(found)
            g, H = self._outer(g, H, theta, stuck)
        if not (np.abs(g) < HUGE).all() or not (np.abs(H) < HUGE).all():
            return Evaluated(math.inf)
        return Evaluated(value, g, H, theta)

    def _priors(self, theta: FloatArray) -> float:
        """The sum of log-priors of what is estimated."""
        return sum(q.log_prior(float(x)) for q, x in zip(self.quantities, theta, strict=True))

    def _outer(
        self, g: FloatArray, H: FloatArray, theta: FloatArray, stuck: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian by what is searched for, in its coordinates."""
        inner = [k for k in (*self._of_linear, *self._of_noise) if not stuck[k]]
        if inner:
            hii = H[np.ix_(inner, inner)]
            hio = H[np.ix_(inner, self.outer)]
            H = H[np.ix_(self.outer, self.outer)] - hio.T @ np.linalg.lstsq(hii, hio, rcond=None)[0]
        else:
            H = H[np.ix_(self.outer, self.outer)]
        g = g[self.outer].copy()
        H = 0.5 * (H + H.T)
        for row, k in enumerate(self.outer):
            q = self.quantities[k]
            if q.prior is not None:
                x = on_scale(q.scale, float(theta[k])) if q.prior.scaled else float(theta[k])
                pace = 1.0
                if q.prior.scaled and q.scale != "lin":
                    pace = 1.0 / (theta[k] * (math.log(10) if q.scale == "log10" else 1.0))
                h = 1e-4 * max(abs(x), 1e-3)
                g[row] -= q.prior.slope(x) * pace
                H[row, row] += max(0.0, -(q.prior.slope(x + h) - q.prior.slope(x - h)) / (2 * h)) * pace**2
        by_x = np.where(self.logs[self.outer], theta[self.outer], 1.0)
        return g * by_x, H * np.outer(by_x, by_x)

    def _solved(self, course: list[Now], theta: FloatArray) -> tuple[Predicted, FloatArray, BoolArray] | None:
        """Scales, offsets and noise in turn; which of them are at a bound."""
        likelihood = self.likelihood
        theta, stuck = theta.copy(), np.zeros(len(theta), dtype=bool)
        inner = [*self._of_linear, *self._of_noise]
        for _ in range(ROUNDS if inner else 0):
            found = likelihood.seen(self._placed(course, theta, inner), True)
            if found is None:
                return None
            assert found.by_y is not None
            before = theta[inner]
            if self._of_linear:
                C = found.by_y[:, self._of_linear] / found.sigma[:, None]
                r = likelihood.residuals(found)
                H = C.T @ C
                H += np.diag(1e-12 * np.maximum(H.diagonal(), 1e-300))
                now = theta[self._of_linear]
                low, high = self.low[self._of_linear] - now, self.high[self._of_linear] - now
                step = minimise_in_box(-C.T @ r, H, low, high)
                theta[self._of_linear] = now + step
                stuck[self._of_linear] = (step <= low) | (step >= high)
                found = likelihood.seen(self._placed(course, theta, inner), True)
                if found is None:
                    return None
            r = likelihood.residuals(found) * found.sigma
            for k, rows in zip(self._of_noise, self._groups, strict=True):
                best = float(np.sqrt(np.mean(r[rows] ** 2)))
                theta[k] = min(max(best, self.low[k], 1e-300), self.high[k])
                stuck[k] = theta[k] != best
            if np.abs(theta[inner] - before).max() <= 1e-10 * np.abs(theta[inner]).max():
                break
        final = likelihood.seen(self._placed(course, theta, inner), True)
        return None if final is None else (final, theta, stuck)

    def _placed(self, course: list[Now], theta: FloatArray, inner: list[int]) -> list[Now]:
        """The same states with other scales, offsets and noise."""
        if not inner:
            return course
        made: dict[int, FloatArray] = {}
        out = []
        for now in course:
            key = id(now.q)
            if key not in made:
                made[key] = now.q.copy()
                for k in inner:
                    made[key][self._places[k]] = theta[k]
            out.append(replace(now, q=made[key]))
        return out


def _inner(found: Meaning) -> tuple[list[str], list[str]]:
    """Quantities that can be solved for inside: those that are linear in formulas, and those that are a noise."""
    elsewhere = {str(s) for e in found.begins.values() for s in e.free_symbols} | set(found.model.parameters)
    for _, periods in found.experiments:
        for period in periods:
            elsewhere |= set(period.values)
            elsewhere |= {str(s) for e in period.values.values() for s in e.free_symbols}
    elsewhere |= {str(s) for name, e in found.own.items() for s in e.free_symbols if e != se.Symbol(name)}
    names = [q.name for q in found.quantities if q.estimate and q.prior is None and q.name not in elsewhere]
    in_formula = {n: [m for m in found.measurements if se.Symbol(n) in m.formula.free_symbols] for n in names}
    in_sigma = {n: [m for m in found.measurements if se.Symbol(n) in m.sigma.free_symbols] for n in names}
    noise = [
        n
        for n in names
        if in_sigma[n]
        and not in_formula[n]
        and all(m.sigma == se.Symbol(n) and m.distribution == "normal" for m in in_sigma[n])
    ]
    linear: list[str] = []
    for n in names:
        rows = in_formula[n]
        if not rows or in_sigma[n] or any(m.scale != "lin" or m.distribution != "normal" for m in rows):
            continue
        together = {se.Symbol(other) for other in (*linear, n)}
        if all(not m.formula.diff(se.Symbol(n)).free_symbols & together for m in rows):
            linear.append(n)
    return linear, noise
