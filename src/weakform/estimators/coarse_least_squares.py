"""The first search of the default method: weak least squares on few test functions, which costs next to nothing.

Bumps one radius apart carry most of the information that a series has about the parameters, and least squares on them
needs no covariance to be factorised. The estimate is biased by the noise and not efficient. From it two sweeps of
generalised least squares on all test functions mostly lead near enough for the refinement. If the refined fit does not
reach the noise of the data, WENDy-MLE searches instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..optimize import Minimum, TrustRegion, minimise
from ..parameters.working_scale import WorkingScale
from ..results.status import Status
from ..support.array_types import FloatArray
from ..weak.likelihood_evaluation import Evaluation
from .estimation_problem import StartPoint, Task
from .outcome import Outcome

MAX_ITERATIONS = 50
"""Iterations of the search from one start. By judgement."""
GENERALISED_SWEEPS = 2
"""Sweeps of generalised least squares, each with the covariance at the last estimate. By judgement."""
STEPS_PER_SWEEP = 3
"""Gauss–Newton steps in a sweep: the covariance changes with the estimate, so that more of them are wasted. By
judgement."""
SEARCH_TOLERANCE = 3e-4
"""Tolerance of the search, on the relative change of the sum of squares and on the scaled gradient and step (see
`minimise`): the refinement supplies the rest of the accuracy. By judgement."""
MIN_LOG_SCALE_RATIO = 100.0
"""Ratio of an upper to a lower bound from which a parameter moves on a log scale; below it the scale stays linear. By
judgement."""
FIRST_STEP_SHARE = 0.5
"""Length of the first step, as a share of the box. It may be longer than for the likelihood (`TrustRegion.share`), as a
sum of squares is closer to its quadratic model. By judgement."""
TRUST_GROWTH = 2.0
"""Factor by which the trust region grows after a good step. By judgement."""

VectorFunction = Callable[[FloatArray], FloatArray]
"""A function of the parameters `(J,)`, such as a residual `(rows,)` or its Jacobian `(rows, J)`."""


def search(task: Task, start: StartPoint | None) -> Outcome:
    """Fit weak least squares on few test functions from one start.

    The outcome is marked as rough: `run_generalised_sweeps` has to improve it before it is refined.
    """
    assert isinstance(start, np.ndarray)
    problem = task.weak.coarse_problem
    if task.is_linear:  # the start is already the least-squares estimate
        r = problem.residual(start)
        return Outcome(start, 0.5 * float(r @ r), Status.CONVERGED, 0, 1, rough=True)
    best = _minimise_squares(task, problem.residual, problem.jacobian, start, MAX_ITERATIONS)
    return Outcome(
        task.expand(best.x),
        best.value if np.isfinite(best.value) else np.inf,
        Status.from_stop(best.stop),
        best.iterations,
        best.evaluations,
        curvature=best.hessian,
        rough=True,
    )


def run_generalised_sweeps(task: Task, p: FloatArray) -> FloatArray:
    """Improve an estimate by a few steps of generalised least squares on all test functions.

    Each sweep minimises `r(p)ᵀ S⁻¹ r(p)` with the covariance S at the estimate where the sweep begins.

    Parameters
    ----------
    p : ndarray, (J,)

    Returns
    -------
    ndarray, (J,)
        The last estimate at which the covariance could be factorised and the objective is finite.
    """
    for _ in range(GENERALISED_SWEEPS):
        try:
            residual, jacobian = task.weak.build_whitened_functions(task.weak.factorise_covariances(p))
        except NotPositiveDefinite:
            return p
        best = _minimise_squares(task, residual, jacobian, p, STEPS_PER_SWEEP)
        if not np.isfinite(best.value):
            return p
        p = task.expand(best.x)
    return p


def _minimise_squares(
    task: Task, residual: VectorFunction, jacobian: VectorFunction, start: FloatArray, steps: int
) -> Minimum:
    """Minimise `½‖residual(p)‖²`, plus the prior, inside the box by Gauss–Newton steps in a trust region.

    A parameter whose box spans decades moves on a log scale: on a linear scale, steps from the wrong end of the box
    would be far too short.

    Parameters
    ----------
    start : ndarray, (J,)
    steps : int
        Largest number of iterations.

    Returns
    -------
    Minimum
        With x `(F,)` and the Hessian `(F, F)` of the free parameters, on the scale of the task.
    """
    free = task.free
    lower, upper = task.box
    scale = WorkingScale(
        (lower > 0) & (upper > MIN_LOG_SCALE_RATIO * lower) & np.isfinite(upper) & ~task.scale.log[free]
    )
    last: tuple[FloatArray, FloatArray] | None = None

    def objective(theta: FloatArray, order: int) -> Evaluation:
        nonlocal last
        x = scale.to_natural(theta)
        p = task.expand(x)
        # Derivatives are requested at the point whose value was just computed: its residual is kept.
        r = last[1] if last is not None and (last[0] == p).all() else residual(p)
        last = p, r
        value = 0.5 * float(r @ r)
        if not np.isfinite(value):
            return Evaluation(np.inf)
        penalty = 0.0 if task.prior is None else task.prior.compute_penalty(p)
        if order == 0:
            return Evaluation(value + penalty)
        G = jacobian(p)[:, free]
        gradient, hessian = G.T @ r, G.T @ G
        if not np.isfinite(hessian).all():
            return Evaluation(np.inf)
        if task.prior is not None:
            gradient = gradient + task.prior.gradient(p)[free]
            hessian = hessian + task.prior.hessian(p, exact=False)[np.ix_(free, free)]
        # Chain rule for the log scale; the second derivative of the map is left out, as in any Gauss–Newton matrix.
        slope = scale.compute_slope(x)
        return Evaluation(value + penalty, slope * gradient, hessian * np.outer(slope, slope))

    begin, low, high = (scale.to_working(x) for x in (start[free], lower, upper))
    rule = TrustRegion(share=FIRST_STEP_SHARE, growth=TRUST_GROWTH)
    best = minimise(objective, begin, low, high, rule, tolerance=SEARCH_TOLERANCE, max_iterations=steps, stop=task.stop)
    x = np.clip(scale.to_natural(best.x), lower, upper)
    slope = scale.compute_slope(x)
    return replace(best, x=x, hessian=None if best.hessian is None else best.hessian / np.outer(slope, slope))
