"""The objective of a PEtab fit: minus the log-likelihood, less the log-priors, of the quantities that are searched.

Quantities on a logarithmic scale are varied as logarithms. Scales and offsets of observables that occur nowhere else
and enter a formula linearly are solved for inside, and so is a noise that is one quantity: for given values of the
others each has one best value. By the envelope theorem the gradient is the one with these values held fixed, and with
the Hessian divided into outer (o) and inner (i) parts, that of the outer ones is `H_oo - H_oi H_ii⁻¹ H_io`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import symengine as se

from ...optimize.box_quadratic import minimise_in_box
from ...support.array_types import BoolArray, FloatArray
from .petab_likelihood import PetabLikelihood, PredictedMeasurements, SolutionState
from .petab_priors import convert_to_scale
from .semantics import ProblemContents

MAX_INNER_ROUNDS = 4
"""Most rounds in which scales and offsets, then the noise, are solved for. By judgement."""
INNER_TOLERANCE = 1e-10
"""Change of the inner quantities, relative to the largest, below which the rounds end. By judgement."""
INNER_RIDGE = 1e-12
"""Share of each diagonal entry that is added to the matrix of the inner least squares, which may be singular. By
judgement."""
MIN_LOG_VALUE = 1e-12**20
"""Smallest lower bound of a quantity on a logarithmic scale, about 1e-240: the logarithm of a bound that is zero or
missing does not exist. By judgement."""
MAX_DERIVATIVE = 1e100
"""Size of an entry of gradient or Hessian beyond which a point counts as not solvable: its products overflow. By
judgement."""
PRIOR_STEP = 1e-4
"""Relative step of the central difference of the slope of a log-prior, which gives its curvature. By judgement."""
MIN_PRIOR_SIZE = 1e-3
"""Smallest size of a parameter that this step is relative to, so that it does not vanish at zero. By judgement."""


@dataclass(frozen=True)
class EvaluatedObjective:
    """The objective at a point, in the form that `optimize.minimise` needs.

    Attributes
    ----------
    value : float
        Infinite if the model cannot be solved.
    gradient : ndarray, (outer,), or None
    hessian : ndarray, (outer, outer), or None
        Expected Hessian.
    theta : ndarray, (P,), or None
        All quantities, with those that were solved for inside.
    """

    value: float
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None
    theta: FloatArray | None = None


class PetabObjective:
    """Minus the log-likelihood, less the log-priors.

    Parameters
    ----------
    likelihood : PetabLikelihood

    Attributes
    ----------
    linear, noise : list of str
        Quantities that are solved for inside: scales and offsets, and standard deviations of the noise.
    outer : list of int
        Positions of the quantities that the search varies.
    logs : ndarray of bool, (P,)
        Which quantities are on a logarithmic scale.
    low, high : ndarray, (P,)
        Bounds of all quantities.
    lower, upper : ndarray, (outer,)
        Bounds of the outer quantities, in working coordinates: logarithms where `logs` is True.
    """

    def __init__(self, likelihood: PetabLikelihood) -> None:
        self.likelihood, meaning = likelihood, likelihood.contents
        self.quantities = meaning.quantities
        self.linear, self.noise = _find_inner_quantities(meaning)
        inner = {*self.linear, *self.noise}
        self.outer = [k for k, q in enumerate(self.quantities) if q.estimate and q.name not in inner]
        self.logs = np.array([q.scale != "lin" for q in self.quantities])
        self.low = np.array([max(q.lower, MIN_LOG_VALUE if q.scale != "lin" else -math.inf) for q in self.quantities])
        self.high = np.array([q.upper for q in self.quantities])
        self.lower, self.upper = (self._convert_to_working(b)[self.outer] for b in (self.low, self.high))
        names = likelihood.quantity_names
        self._linear_positions = [names.index(name) for name in self.linear]
        self._noise_positions = [names.index(name) for name in self.noise]
        symbols = {se.Symbol(name): k for k, name in enumerate(self.noise)}
        # Measurements whose whole noise is one of the quantities that are solved for inside.
        group = [symbols.get(m.sigma, -1) for m in meaning.measurements]
        self._groups = [np.flatnonzero(np.array(group) == k) for k in range(len(self.noise))]
        # Position of each inner quantity among the parameters of formulas.
        self._inner_positions = {
            k: likelihood.parameter_names.index(names[k]) for k in (*self._linear_positions, *self._noise_positions)
        }

    def _convert_to_working(self, theta: FloatArray) -> FloatArray:
        """Return quantities `(P,)` in working coordinates: the logarithm of those on a logarithmic scale."""
        with np.errstate(all="ignore"):
            return np.where(self.logs, np.log(np.where(self.logs, theta, 1.0)), theta)

    def extract_coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the outer quantities `(outer,)` of all quantities `(P,)` in working coordinates, inside the bounds."""
        return np.clip(self._convert_to_working(theta)[self.outer], self.lower, self.upper)

    def complete_quantities(self, x: FloatArray, inner: FloatArray) -> FloatArray:
        """Return all quantities on the linear scale.

        Parameters
        ----------
        x : ndarray, (outer,)
            Outer quantities in working coordinates.
        inner : ndarray, (P,)
            Values of all others.

        Returns
        -------
        ndarray, (P,)
        """
        theta = inner.copy()
        with np.errstate(over="ignore"):
            theta[self.outer] = np.where(self.logs[self.outer], np.exp(x), x)
        return theta

    @cached_property
    def initial_quantities(self) -> FloatArray:
        """Initial values of all quantities, `(P,)`: nominal if fixed, else the middle of the bounds in working
        coordinates.
        """
        with np.errstate(all="ignore"):
            middle = 0.5 * (self._convert_to_working(self.low) + self._convert_to_working(self.high))
        middle = np.where(np.isfinite(middle), middle, 0.0)
        natural = np.where(self.logs, np.exp(middle), middle)
        return np.where([q.estimate for q in self.quantities], natural, self.likelihood.nominal)

    def __call__(self, x: FloatArray, order: int) -> EvaluatedObjective:
        """Evaluate the objective.

        Parameters
        ----------
        x : ndarray, (outer,)
            In working coordinates.
        order : int
            0 for the value alone; otherwise gradient and Hessian are computed as well.

        Returns
        -------
        EvaluatedObjective
        """
        theta = self.complete_quantities(x, self.initial_quantities)
        with np.errstate(all="ignore"):
            course = self.likelihood.solve(theta, order > 0)
            if course is None:
                return EvaluatedObjective(math.inf)
            solved = self._solve_inner(course, theta)
            if solved is None:
                return EvaluatedObjective(math.inf)
            predicted, theta, stuck = solved
            value = self.likelihood.compute_value(predicted) - self._sum_log_priors(theta)
            if order == 0 or not math.isfinite(value):
                return EvaluatedObjective(value if math.isfinite(value) else math.inf, theta=theta)
            g, H = self.likelihood.compute_derivatives(predicted)
            g, H = self._reduce_to_outer(g, H, theta, stuck)
        if not (np.abs(g) < MAX_DERIVATIVE).all() or not (np.abs(H) < MAX_DERIVATIVE).all():
            return EvaluatedObjective(math.inf)
        return EvaluatedObjective(value, g, H, theta)

    def _sum_log_priors(self, theta: FloatArray) -> float:
        """Return the sum of the log-priors at all quantities `(P,)`, on the linear scale."""
        return sum(q.compute_log_prior(float(x)) for q, x in zip(self.quantities, theta, strict=True))

    def _reduce_to_outer(
        self, g: FloatArray, H: FloatArray, theta: FloatArray, stuck: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Reduce gradient and Hessian to the outer quantities, in working coordinates, and add the priors.

        Parameters
        ----------
        g, H : ndarray, (P,) and (P, P)
            Derivatives of minus the log-likelihood by the quantities on the linear scale.
        theta : ndarray, (P,)
        stuck : ndarray of bool, (P,)
            Inner quantities at a bound, which do not follow the outer ones.

        Returns
        -------
        gradient : ndarray, (outer,)
        hessian : ndarray, (outer, outer)
        """
        inner = [k for k in (*self._linear_positions, *self._noise_positions) if not stuck[k]]
        if inner:
            # Least squares instead of a solution: inner quantities that the data do not determine make H_ii singular.
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
                x = convert_to_scale(q.scale, float(theta[k])) if q.prior.scaled else float(theta[k])
                pace = 1.0  # derivative of the argument of the prior with respect to θ
                if q.prior.scaled and q.scale != "lin":
                    pace = 1.0 / (theta[k] * (math.log(10) if q.scale == "log10" else 1.0))
                h = PRIOR_STEP * max(abs(x), MIN_PRIOR_SIZE)
                g[row] -= q.prior.compute_slope(x) * pace
                H[row, row] += (
                    max(0.0, -(q.prior.compute_slope(x + h) - q.prior.compute_slope(x - h)) / (2 * h)) * pace**2
                )
        # The derivative of θ = exp(x) is θ.
        by_x = np.where(self.logs[self.outer], theta[self.outer], 1.0)
        return g * by_x, H * np.outer(by_x, by_x)

    def _solve_inner(
        self, course: list[SolutionState], theta: FloatArray
    ) -> tuple[PredictedMeasurements, FloatArray, BoolArray] | None:
        """Solve for scales, offsets and noise in turn.

        Parameters
        ----------
        course : list of SolutionState
            The solution at each measurement; it does not depend on these quantities.
        theta : ndarray, (P,)

        Returns
        -------
        tuple, or None
            Predictions with derivatives, all quantities `(P,)`, and which of them are at a bound `(P,)`; None if a
            prediction is not finite.
        """
        likelihood = self.likelihood
        theta, stuck = theta.copy(), np.zeros(len(theta), dtype=bool)
        inner = [*self._linear_positions, *self._noise_positions]
        for _ in range(MAX_INNER_ROUNDS if inner else 0):
            predicted = likelihood.evaluate(self._insert_inner(course, theta, inner), True)
            if predicted is None:
                return None
            assert predicted.y_by_theta is not None
            previous = theta[inner]
            if self._linear_positions:
                # Predictions are linear in scales and offsets, so their best values are one least-squares problem.
                C = predicted.y_by_theta[:, self._linear_positions] / predicted.sigma[:, None]
                r = likelihood.compute_residuals(predicted)
                H = C.T @ C
                H += np.diag(INNER_RIDGE * np.maximum(H.diagonal(), 1e-300))
                current = theta[self._linear_positions]
                low, high = self.low[self._linear_positions] - current, self.high[self._linear_positions] - current
                step = minimise_in_box(-C.T @ r, H, low, high)
                theta[self._linear_positions] = current + step
                stuck[self._linear_positions] = (step <= low) | (step >= high)
                predicted = likelihood.evaluate(self._insert_inner(course, theta, inner), True)
                if predicted is None:
                    return None
            r = likelihood.compute_residuals(predicted) * predicted.sigma
            for k, rows in zip(self._noise_positions, self._groups, strict=True):
                # For normal noise with one σ the likelihood is largest at the root mean square of the residuals.
                best = float(np.sqrt(np.mean(r[rows] ** 2)))
                theta[k] = min(max(best, self.low[k], 1e-300), self.high[k])
                stuck[k] = theta[k] != best
            if np.abs(theta[inner] - previous).max() <= INNER_TOLERANCE * np.abs(theta[inner]).max():
                break
        final = likelihood.evaluate(self._insert_inner(course, theta, inner), True)
        return None if final is None else (final, theta, stuck)

    def _insert_inner(self, course: list[SolutionState], theta: FloatArray, inner: list[int]) -> list[SolutionState]:
        """Return the solution at each measurement with the inner quantities of `theta`; states are not copied."""
        if not inner:
            return course
        parameters: dict[int, FloatArray] = {}
        replaced = []
        for now in course:
            key = id(now.q)
            if key not in parameters:
                parameters[key] = now.q.copy()
                for k in inner:
                    parameters[key][self._inner_positions[k]] = theta[k]
            replaced.append(replace(now, q=parameters[key]))
        return replaced


def _find_inner_quantities(contents: ProblemContents) -> tuple[list[str], list[str]]:
    """Find the quantities that can be solved for inside.

    Parameters
    ----------
    contents : ProblemContents

    Returns
    -------
    linear : list of str
        Quantities without a prior that occur only in formulas of observables. Each formula is linear in all of them
        jointly.
    noise : list of str
        Quantities without a prior that are the whole noise of some measurements, with a normal distribution, and occur
        nowhere else.
    """
    elsewhere = {str(s) for e in contents.initial_values.values() for s in e.free_symbols} | set(
        contents.model.parameters
    )
    for _, periods in contents.experiments:
        for period in periods:
            elsewhere |= set(period.values)
            elsewhere |= {str(s) for e in period.values.values() for s in e.free_symbols}
    elsewhere |= {
        str(s) for name, e in contents.parameter_values.items() for s in e.free_symbols if e != se.Symbol(name)
    }
    names = [q.name for q in contents.quantities if q.estimate and q.prior is None and q.name not in elsewhere]
    in_formula = {n: [m for m in contents.measurements if se.Symbol(n) in m.formula.free_symbols] for n in names}
    in_sigma = {n: [m for m in contents.measurements if se.Symbol(n) in m.sigma.free_symbols] for n in names}
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
        # Linear in all jointly: the slope by one contains none of them, so products of two are excluded.
        together = {se.Symbol(earlier) for earlier in (*linear, n)}
        if all(not m.formula.diff(se.Symbol(n)).free_symbols & together for m in rows):
            linear.append(n)
    return linear, noise
