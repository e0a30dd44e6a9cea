"""The first rung of the default: weak least squares on few test functions, which costs next to nothing.

Bumps one radius apart carry most of what a series says about the parameters; least squares on them has no covariance to
factorise. It is biased by the noise, and not efficient; from there two sweeps of generalised least squares on all test
functions mostly lead near enough for the refinement. Where that does not reach the noise of the data, WENDy-MLE
searches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..optimize import Minimum, TrustRegion, minimise
from ..parameters.working_scale import Scale
from ..results.status import Status
from ..support.array_types import FloatArray
from ..weak.likelihood_evaluation import Evaluation
from .estimation_problem import Outcome, Task

MAX_ITERATIONS = 50
SWEEPS, STEPS = 2, 3
NEAR = 3e-4
"""Decrease of the sum of squares, relative to it, that is not worth a step."""
WIDE = 100.0
"""Ratio of bounds above which a parameter moves on a log scale."""
FIRST = 0.5
"""Of the box, for the first step: sums of squares are less treacherous than the likelihood."""


def search(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start."""
    assert start is not None
    problem = task.weak.coarse
    if task.is_linear:  # the start is the estimate
        r = problem.residual(start)
        return Outcome(start, 0.5 * float(r @ r), Status.CONVERGED, 0, 1, rough=True)
    best = _minimum(task, problem.residual, problem.jacobian, start, MAX_ITERATIONS)
    return Outcome(
        task.expand(best.x),
        best.value if np.isfinite(best.value) else np.inf,
        Status.of(best.stop),
        best.iterations,
        best.evaluations,
        curvature=best.hessian,
        rough=True,
    )


def weighed(task: Task, p: FloatArray) -> FloatArray:
    """A few steps of generalised least squares on all test functions, weighed by their covariance at p."""
    for _ in range(SWEEPS):
        try:
            residual, jacobian = task.weak.whitened(task.weak.factors(p))
        except NotPositiveDefinite:
            return p
        best = _minimum(task, residual, jacobian, p, STEPS)
        if not np.isfinite(best.value):
            return p
        p = task.expand(best.x)
    return p


Function = Callable[[FloatArray], FloatArray]


def _minimum(task: Task, residual: Function, jacobian: Function, start: FloatArray, steps: int) -> Minimum:
    """Of `½‖residual(p)‖²` inside the box, by Gauss–Newton steps in a trust region.

    A parameter whose box spans decades moves on a log scale: from the wrong end of it steps would creep.
    """
    free = task.free
    lower, upper = task.box
    scale = Scale((lower > 0) & (upper > WIDE * lower) & np.isfinite(upper) & ~task.scale.log[free])
    last: tuple[FloatArray, FloatArray] | None = None

    def objective(theta: FloatArray, order: int) -> Evaluation:
        nonlocal last
        x = scale.natural(theta)
        p = task.expand(x)
        r = last[1] if last is not None and (last[0] == p).all() else residual(p)
        last = p, r
        value = 0.5 * float(r @ r)
        if not np.isfinite(value):
            return Evaluation(np.inf)
        known = 0.0 if task.prior is None else task.prior.value(p)
        if order == 0:
            return Evaluation(value + known)
        G = jacobian(p)[:, free]
        gradient, hessian = G.T @ r, G.T @ G
        if not np.isfinite(hessian).all():
            return Evaluation(np.inf)
        if task.prior is not None:
            gradient = gradient + task.prior.gradient(p)[free]
            hessian = hessian + task.prior.hessian(p, exact=False)[np.ix_(free, free)]
        slope = scale.slope(x)
        return Evaluation(value + known, slope * gradient, hessian * np.outer(slope, slope))

    begin, low, high = (scale.working(x) for x in (start[free], lower, upper))
    rule = TrustRegion(share=FIRST, growth=2.0)
    best = minimise(objective, begin, low, high, rule, tolerance=NEAR, max_iterations=steps, stop=task.stop)
    x = np.clip(scale.natural(best.x), lower, upper)
    slope = scale.slope(x)
    return replace(best, x=x, hessian=None if best.hessian is None else best.hessian / np.outer(slope, slope))
