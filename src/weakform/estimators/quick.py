"""The first rung of the default: weak least squares on few test functions, which costs next to nothing.

Bumps one radius apart carry most of what a series says about the parameters; least squares on them has no covariance to
factorise. It is biased by the noise, and not efficient, but it mostly leads near enough for the refinement. Where that
does not reach the noise of the data, WENDy-MLE searches with all test functions.
"""

from __future__ import annotations

import numpy as np

from ..optimize import TrustRegion, minimise
from ..support.typing import FloatArray
from ..weak.evaluation import Evaluation
from .status import Status
from .task import Outcome, Task

MAX_ITERATIONS = 50
NEAR = 1e-5
"""Decrease of the sum of squares, relative to it, that is not worth a step."""


def search(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start."""
    assert start is not None
    problem, free = task.weak.coarse, task.free
    if task.is_linear:  # the start is the estimate
        r = problem.residual(start)
        return Outcome(start, 0.5 * float(r @ r), Status.CONVERGED, 0, 1)

    def objective(theta: FloatArray, order: int) -> Evaluation:
        p = task.expand(theta)
        r = problem.residual(p)
        value = 0.5 * float(r @ r)
        if not np.isfinite(value):
            return Evaluation(np.inf)
        known = 0.0 if task.prior is None else task.prior.value(p)
        if order == 0:
            return Evaluation(value + known)
        G = problem.jacobian(p)[:, free]
        gradient, hessian = G.T @ r, G.T @ G
        if not np.isfinite(hessian).all():
            return Evaluation(np.inf)
        if task.prior is not None:
            gradient = gradient + task.prior.gradient(p)[free]
            hessian = hessian + task.prior.hessian(p, exact=False)[np.ix_(free, free)]
        return Evaluation(value + known, gradient, hessian)

    lower, upper = task.box
    best = minimise(
        objective,
        start[free],
        lower,
        upper,
        TrustRegion(),
        tolerance=NEAR,
        max_iterations=MAX_ITERATIONS,
        stop=task.stop,
    )
    return Outcome(
        task.expand(best.x),
        best.value if np.isfinite(best.value) else np.inf,
        Status.of(best.stop),
        best.iterations,
        best.evaluations,
        curvature=best.hessian,
    )
