"""Second-order minimisation with Hessians, in a box.

One loop is composed with a rule for the step (see `step_rules`). It stops when the gradient, the step or the change of
the value is below the tolerance, absolutely or relatively. Gradient and step are measured in variables scaled by
`√|H_jj|`, in which an absolute tolerance is meaningful whatever the units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from ..support.array_types import FloatArray
from .step_rules import STEP_FAILURES, evaluate_quadratic

MAX_REFUSED_STEPS = 60
"""Largest number of trial steps in one iteration.

A trust region shrinks by a factor of at least 4 with each refused step, in total to less than 1e-36 of its size. By
judgement.
"""
MIN_RATIO_OF_ACCEPTED_STEP = 1e-3
"""Ratio of actual to predicted decrease above which a step is accepted. By judgement."""
RELATIVE_ROUNDING = 1e-14
"""Rounding error of the objective, relative to its absolute value but at least to one. By judgement."""
MIN_PROMISE_OF_STUCK = 1e-6
"""Predicted decrease, relative to the objective but at least to one, above which an end without a step is `STUCK`.

Below it the end counts as converged. By judgement.
"""
REFUSED_STEP_SHARE = 1e-3
"""Length of a refused step, in units of the tolerance, below which no shorter step is tried. By judgement."""
MIN_RATIO_OF_TRUSTED_CHANGE = 0.5
"""Ratio of actual to predicted decrease above which one small change of the value ends the search. By judgement."""
MAX_SMALL_CHANGES = 2
"""Successive small changes of the value that do not end the search if the quadratic model predicts them poorly; one
more does.

By judgement."""
MIN_SCALE_SHARE = 1e-3
"""Smallest scale of a variable, as a share of its largest one so far.

Near an inflection `√|H_jj|` vanishes, and without a floor the variable could move without limit. By judgement.
"""


class Stop(Enum):
    """Reasons for the end of a minimisation."""

    GRADIENT = "the gradient vanished"
    STEP = "the steps vanished"
    VALUE = "the value no longer changes"
    ITERATIONS = "the iteration limit was reached"
    TIME = "the time limit was reached"
    START = "the objective or one of its derivatives is not finite at the start"
    STUCK = "no step decreased the objective"

    @property
    def converged(self) -> bool:
        """Whether the minimisation has converged."""
        return self in (Stop.GRADIENT, Stop.STEP, Stop.VALUE)


class Evaluated(Protocol):
    """Result of an objective function."""

    @property
    def value(self) -> float:
        """Value of the objective; infinite where it is undefined."""

    @property
    def gradient(self) -> FloatArray | None:
        """Gradient `(J,)`, for orders 1 and 2."""

    @property
    def hessian(self) -> FloatArray | None:
        """Hessian `(J, J)`, for order 2."""


class Rule(Protocol):
    """A rule that chooses steps.

    Attributes
    ----------
    bounded : bool
        Whether steps respect bounds.
    """

    bounded: bool

    def begin(self, g: FloatArray, d: FloatArray, extent: FloatArray) -> None:
        """Prepare for the first step from the gradient, the scales and the extent of the region, all `(J,)`.

        Raises one of `STEP_FAILURES` if that is not possible.
        """

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return a step `(J,)` between `low` and `high`, from gradient, Hessian and scales.

        Raises one of `STEP_FAILURES` if there is none.
        """

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Adapt to the ratio of actual to predicted decrease of a step s."""


@dataclass(frozen=True)
class Minimum:
    """Result of a minimisation.

    Attributes
    ----------
    x : ndarray, (J,)
    value : float
        The objective at x; infinite if it is undefined at the start.
    stop : Stop
    iterations : int
        Number of accepted steps.
    evaluations : int
        Number of evaluations of the objective.
    gradient : ndarray, (J,), or None
    hessian : ndarray, (J, J), or None
        Derivatives at x; None if the objective is undefined at the start.
    """

    x: FloatArray
    value: float
    stop: Stop
    iterations: int
    evaluations: int
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None


def never_stop(objective: float) -> bool:
    """Return False: a stop function that never stops."""
    del objective
    return False


@dataclass(frozen=True)
class _AcceptedStep:
    """A step that decreased the objective.

    Attributes
    ----------
    x : ndarray, (J,)
        Where it led.
    value : float
    gradient : ndarray, (J,)
    hessian : ndarray, (J, J)
    decrease : float
    ratio : float
        Decrease over the decrease that the quadratic model promised.
    """

    x: FloatArray
    value: float
    gradient: FloatArray
    hessian: FloatArray
    decrease: float
    ratio: float


def minimise(
    objective: Callable[[FloatArray, int], Evaluated],
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rule: Rule,
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
    min_predicted_decrease: float = 0.0,
    stop: Callable[[float], bool] = never_stop,
) -> Minimum:
    """Minimise `objective(x, order)` over the box.

    An evaluation fails if its value, gradient or Hessian is not finite. At the start this ends the minimisation with
    `Stop.START`; later the point is refused. If the rule cannot compute a step, the search ends with `Stop.STUCK`.

    Parameters
    ----------
    objective : callable
        Returns the value, and for order 2 also gradient and Hessian; an infinite value where it is undefined.
    start, lower, upper : ndarray, (J,)
    rule : Rule
        A rule that is not bounded ignores the box.
    tolerance : float
    max_iterations : int
    min_predicted_decrease : float
        Decrease predicted by the quadratic model below which a step is not worth its cost.
    stop : callable
        Called with the value before each step and after each refused one; True ends the minimisation.

    Returns
    -------
    Minimum
    """
    if not rule.bounded:
        lower, upper = np.full_like(start, -np.inf), np.full_like(start, np.inf)
    x = np.clip(start, lower, upper)
    first = objective(x, 2)
    evaluations = 1
    derivatives = _extract_finite_derivatives(first)
    if derivatives is None:
        return Minimum(x, np.inf, Stop.START, 0, evaluations)
    value, (g, H) = first.value, derivatives
    largest = np.zeros_like(x)
    begun = False
    small_steps = 0

    def finish(reason: Stop, iterations: int) -> Minimum:
        """Return the current point as the result of the minimisation."""
        return Minimum(x, value, reason, iterations, evaluations, gradient=g, hessian=H)

    for iteration in range(max_iterations):
        d, largest = _compute_scales(g, H, largest)
        # At a bound, a gradient that points out of the box is no reason to go on.
        free = ~(((x <= lower) & (g > 0)) | ((x >= upper) & (g < 0)))
        if np.linalg.norm((g / d)[free]) <= tolerance:
            return finish(Stop.GRADIENT, iteration)
        if stop(value):
            return finish(Stop.TIME, iteration)
        if not begun:
            width = upper - lower
            try:
                rule.begin(g, d, np.where(np.isfinite(width), 0.5 * width, np.abs(x)))
            except STEP_FAILURES:
                return finish(Stop.STUCK, iteration)
            begun = True
        low, high = lower - x, upper - x
        accepted: _AcceptedStep | None = None
        predicted = np.nan
        for _ in range(MAX_REFUSED_STEPS):
            try:
                s = rule.step(g, H, d, low, high)
            except STEP_FAILURES:
                return finish(Stop.STUCK, iteration)
            predicted = -evaluate_quadratic(g, H, s)
            if not predicted > 0:
                break
            if predicted < min_predicted_decrease:
                return finish(Stop.VALUE, iteration)
            moved = np.clip(x + s, lower, upper)
            trial = objective(moved, 0).value
            evaluations += 1
            decrease = value - trial
            # Near the minimum the decrease is lost in rounding, and the quadratic model is more reliable.
            noise = RELATIVE_ROUNDING * max(abs(value), 1.0)
            ratio = 1.0 if abs(decrease) < noise and predicted < noise else decrease / predicted
            rule.update(ratio if np.isfinite(ratio) else -1.0, s, d)
            if ratio > MIN_RATIO_OF_ACCEPTED_STEP:
                after = objective(moved, 2)
                evaluations += 1
                derivatives = _extract_finite_derivatives(after)
                if derivatives is not None:
                    accepted = _AcceptedStep(moved, after.value, *derivatives, decrease=decrease, ratio=ratio)
                    break
            if np.linalg.norm(d * s) <= tolerance * REFUSED_STEP_SHARE:
                break
            if stop(value):
                return finish(Stop.TIME, iteration)
        if accepted is None:
            # If the model promises no decrease beyond rounding, this is a minimum; a promise of NaN is none.
            is_minimum = predicted <= MIN_PROMISE_OF_STUCK * max(1.0, abs(value))
            return finish(Stop.STEP if is_minimum else Stop.STUCK, iteration)
        change, before, ratio = abs(accepted.decrease), x, accepted.ratio
        x, value, g, H = accepted.x, accepted.value, accepted.gradient, accepted.hessian
        step = x - before
        if np.linalg.norm(d * step) <= tolerance or (np.abs(step) <= tolerance * np.abs(x)).all():
            return finish(Stop.STEP, iteration + 1)
        # One small change ends the search only after a step that the model predicted well, since a poor step may change
        # little anywhere.
        small_steps = small_steps + 1 if change <= tolerance * max(1.0, abs(value)) else 0
        if small_steps and (ratio > MIN_RATIO_OF_TRUSTED_CHANGE or small_steps > MAX_SMALL_CHANGES):
            return finish(Stop.VALUE, iteration + 1)
    return finish(Stop.ITERATIONS, max_iterations)


def _extract_finite_derivatives(evaluated: Evaluated) -> tuple[FloatArray, FloatArray] | None:
    """Return gradient `(J,)` and Hessian `(J, J)` of an evaluation; None if it failed."""
    g, H = evaluated.gradient, evaluated.hessian
    if not np.isfinite(evaluated.value) or g is None or H is None:
        return None
    return (g, H) if np.isfinite(g).all() and np.isfinite(H).all() else None


def _compute_scales(g: FloatArray, H: FloatArray, largest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the scales `d_j = √|H_jj|`, not below a share of the largest so far.

    Parameters
    ----------
    g : ndarray, (J,)
    H : ndarray, (J, J)
    largest : ndarray, (J,)
        Largest `√|H_jj|` before; zero at the start.

    Returns
    -------
    d, largest : ndarray, (J,)
    """
    d = np.sqrt(np.abs(H.diagonal()))
    largest = np.maximum(largest, d)
    flat = largest == 0
    # A variable without curvature takes its scale from the gradient, so that it still has one.
    if flat.any():
        largest = np.where(flat, np.where(g != 0, np.abs(g), 1.0), largest)
    return np.maximum(d, MIN_SCALE_SHARE * largest), largest
