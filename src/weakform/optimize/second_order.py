"""Second-order minimisation with exact Hessians, inside a box.

One loop, composed with a rule for the step (see `rules`). It stops as the paper does: when the gradient, the step or
the change of the value is below the tolerance, absolutely or relatively. Gradient and step are measured in the scaled
variables `d_j = √|H_jj|`, in which an absolute tolerance has a meaning whatever the units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from ..support.array_types import FloatArray
from .step_rules import quadratic


class Stop(Enum):
    """Why the minimisation ended."""

    GRADIENT = "the gradient vanished"
    STEP = "the steps vanished"
    VALUE = "the value no longer changes"
    ITERATIONS = "the iteration limit was reached"
    TIME = "the time limit was reached"
    START = "the objective is not finite at the start"
    STUCK = "no step decreased the objective"

    @property
    def converged(self) -> bool:
        """Whether this is a success."""
        return self in (Stop.GRADIENT, Stop.STEP, Stop.VALUE)


class Evaluated(Protocol):
    """What an objective returns."""

    @property
    def value(self) -> float:
        """Infinite where the objective is not defined."""

    @property
    def gradient(self) -> FloatArray | None:
        """For orders 1 and 2."""

    @property
    def hessian(self) -> FloatArray | None:
        """For order 2."""


class Rule(Protocol):
    """How a step is chosen."""

    bounded: bool

    def begin(self, g: FloatArray, d: FloatArray, extent: FloatArray) -> None:
        """Prepare for the first step from the gradient, the scales and the extent of the region of interest."""

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """A step between `low` and `high`."""

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Learn from the ratio of actual to predicted decrease."""


@dataclass(frozen=True)
class Minimum:
    """Where the minimisation ended; `gradient` and `hessian` are of the last point."""

    x: FloatArray
    value: float
    stop: Stop
    iterations: int
    evaluations: int
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None


def never(objective: float) -> bool:
    """Do not stop."""
    del objective
    return False


def minimise(
    objective: Callable[[FloatArray, int], Evaluated],
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rule: Rule,
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
    enough: float = 0.0,
    stop: Callable[[float], bool] = never,
) -> Minimum:
    """Minimise `objective(x, order)` over the box.

    Parameters
    ----------
    objective : callable
        Returns value, and gradient and Hessian for order 2; an infinite value where it is not defined.
    start, lower, upper : ndarray, (J,)
    rule : Rule
    tolerance : float
    max_iterations : int
    enough : float
        A decrease that is not worth a step, as the quadratic model foretells it.
    stop : callable
        Whether to stop now, asked with the value before each evaluation.
    """
    if not rule.bounded:
        lower, upper = np.full_like(start, -np.inf), np.full_like(start, np.inf)
    x = np.clip(start, lower, upper)
    here = objective(x, 2)
    evaluations = 1
    if not np.isfinite(here.value) or here.gradient is None or here.hessian is None:
        return Minimum(x, np.inf, Stop.START, 0, evaluations)
    value, g, H = here.value, here.gradient, here.hessian
    largest = np.zeros_like(x)
    begun = False
    small_steps = 0

    def finish(why: Stop, iterations: int) -> Minimum:
        return Minimum(x, value, why, iterations, evaluations, gradient=g, hessian=H)

    for iteration in range(max_iterations):
        d, largest = _scales(g, H, largest)
        free = ~(((x <= lower) & (g > 0)) | ((x >= upper) & (g < 0)))
        if np.linalg.norm((g / d)[free]) <= tolerance:
            return finish(Stop.GRADIENT, iteration)
        if stop(value):
            return finish(Stop.TIME, iteration)
        if not begun:
            width = upper - lower
            rule.begin(g, d, np.where(np.isfinite(width), 0.5 * width, np.abs(x)))
            begun = True
        low, high = lower - x, upper - x
        accepted: tuple[FloatArray, FloatArray] | None = None
        for _ in range(60):
            s = rule.step(g, H, d, low, high)
            predicted = -quadratic(g, H, s)
            if not predicted > 0:
                break
            if predicted < enough:
                return finish(Stop.VALUE, iteration)
            moved = np.clip(x + s, lower, upper)
            trial = objective(moved, 0).value
            evaluations += 1
            decrease = value - trial
            # Near the minimum the decrease drowns in rounding: the model is then the better judge.
            noise = 1e-14 * max(abs(value), 1.0)
            ratio = 1.0 if abs(decrease) < noise and predicted < noise else decrease / predicted
            rule.update(ratio if np.isfinite(ratio) else -1.0, s, d)
            if ratio > 1e-3:
                there = objective(moved, 2)
                evaluations += 1
                if np.isfinite(there.value) and there.gradient is not None and there.hessian is not None:
                    accepted = there.gradient, there.hessian
                    break
            if np.linalg.norm(d * s) <= tolerance * 1e-3:
                break
            if stop(value):
                return finish(Stop.TIME, iteration)
        if accepted is None:
            return finish(Stop.STUCK if predicted > 1e-6 * max(1.0, abs(value)) else Stop.STEP, iteration)
        change, before = abs(decrease), x
        x, value, (g, H) = moved, there.value, accepted
        step = x - before
        if np.linalg.norm(d * step) <= tolerance or (np.abs(step) <= tolerance * np.abs(x)).all():
            return finish(Stop.STEP, iteration + 1)
        # A tiny change counts only for a step that the model trusted; twice in a row for any.
        small_steps = small_steps + 1 if change <= tolerance * max(1.0, abs(value)) else 0
        if small_steps and (ratio > 0.5 or small_steps > 2):
            return finish(Stop.VALUE, iteration + 1)
    return finish(Stop.ITERATIONS, max_iterations)


def _scales(g: FloatArray, H: FloatArray, largest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`d_j = √|H_jj|`, not below 1e-3 of the largest seen; and that largest."""
    d = np.sqrt(np.abs(H.diagonal()))
    largest = np.maximum(largest, d)
    flat = largest == 0
    if flat.any():
        largest = np.where(flat, np.where(g != 0, np.abs(g), 1.0), largest)
    return np.maximum(d, 1e-3 * largest), largest
