"""Least squares in the parameters of a task: closed form where the model is linear in them, iterated where it is not.

A model affine in the free parameters has `r(p) = r(p₀) + G (p - p₀)` with G constant, so that least squares is one
linear solve. Both cases take plain or whitened residuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..optimize.least_squares import LeastSquaresResult, Tolerances, solve_linear, solve_linear_bounded
from ..optimize.least_squares import least_squares as bounded_least_squares
from ..results.status import Status
from ..support.array_types import FloatArray
from .estimation_problem import StartPoint, Task

GRADIENT_TOLERANCE = 1e-15
"""Gradient tolerance of SciPy's solver. Its gradient test is absolute, and so depends on the units of the parameters:
this value leaves the decision to cost and step. By judgement."""
POLISH_COST_SLACK = 1e-12
"""Relative increase of the cost that counts as rounding when the last Gauss–Newton step is taken. By judgement."""
FACE_DISTANCE = 1e-6
"""Distance from the faces of the box at which an interior method starts, as a share of its width, or of
the parameter (at least of one) where a bound is missing. By judgement."""

VectorFunction = Callable[[FloatArray], FloatArray]
"""A function of the parameters `(J,)`: a residual `(rows,)` or its Jacobian `(rows, J)`."""


def least_squares(
    task: Task, residual: VectorFunction, jacobian: VectorFunction, start: StartPoint | None, max_iterations: int
) -> tuple[FloatArray, Status, int]:
    """Minimise `½‖residual(p)‖²` over the free parameters inside the box.

    Parameters
    ----------
    task : Task
    residual : callable
        `residual(p)`, `(rows,)`.
    jacobian : callable
        Its derivative by all parameters, `(rows, J)`.
    start : ndarray, (J,), or None
        Not used if the model is linear in the free parameters.
    max_iterations : int

    Returns
    -------
    estimate : ndarray, (J,)
    status : Status
    evaluations : int
    """
    if task.is_linear:
        return _solve_linear_model(task, residual, jacobian)
    assert isinstance(start, np.ndarray)
    lower, upper = task.box

    def finite_residual(theta: FloatArray) -> FloatArray | None:
        r = residual(task.expand(theta))
        return r if np.isfinite(r).all() else None

    def derivative(theta: FloatArray) -> FloatArray:
        return np.nan_to_num(jacobian(task.expand(theta))[:, task.free], posinf=0.0, neginf=0.0)

    # The cost is flat to second order: a relative tolerance on the step is its square on the cost.
    tolerance = task.options.tolerance
    tolerances = Tolerances(max(tolerance**2, np.finfo(float).eps), tolerance, GRADIENT_TOLERANCE)
    theta = _clip_into_interior(start[task.free], lower, upper)
    solved = bounded_least_squares(finite_residual, derivative, theta, (lower, upper), tolerances, max_iterations)
    if not solved.defined:
        return task.expand(theta), Status.START, 1
    status = Status.CONVERGED if solved.converged else Status.ITERATIONS
    return task.expand(_polish_solution(finite_residual, derivative, solved, task)), status, solved.evaluations


def _solve_linear_model(
    task: Task, residual: VectorFunction, jacobian: VectorFunction
) -> tuple[FloatArray, Status, int]:
    """Solve the least-squares problem of a model that is affine in the free parameters.

    Returns
    -------
    estimate : ndarray, (J,)
    status : Status
        `START` if the residual is not finite at either point of expansion.
    evaluations : int
    """
    lower, upper = task.box
    # Any point of expansion will do, but a quotient of parameters may not exist at zero: then it is one.
    bases = (np.clip(np.zeros(len(lower)), lower, upper), np.clip(np.ones(len(lower)), lower, upper))
    for base in bases:
        p = task.expand(base)
        r, G = residual(p), jacobian(p)[:, task.free]
        if np.isfinite(r).all() and np.isfinite(G).all():
            break
    else:
        return task.expand(bases[-1]), Status.START, 1
    theta = base + solve_linear(G, r)
    if ((theta < lower) | (theta > upper)).any():
        theta = solve_linear_bounded(G, r - G @ base, lower, upper)
    return task.expand(theta), Status.CONVERGED, 1


def _polish_solution(
    residual: Callable[[FloatArray], FloatArray | None],
    jacobian: VectorFunction,
    solved: LeastSquaresResult,
    task: Task,
) -> FloatArray:
    """Take one more full Gauss–Newton step, and return the free parameters `(F,)`.

    Rounding of the cost stops the solver short of what a step can reach. The step is dropped if it leaves the box or
    increases the cost by more than rounding.
    """
    lower, upper = task.box
    r = residual(solved.x)
    if r is None:
        return solved.x
    moved = solved.x + solve_linear(jacobian(solved.x), r)
    better = residual(moved)
    inside = ((moved >= lower) & (moved <= upper)).all()
    return moved if inside and better is not None and better @ better <= (r @ r) * (1 + POLISH_COST_SLACK) else solved.x


def _clip_into_interior(theta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Clip theta `(F,)` into the box and just off its faces, as an interior method needs it."""
    width = np.where(np.isfinite(upper - lower), upper - lower, np.maximum(np.abs(theta), 1.0))
    return np.asarray(np.clip(theta, lower + FACE_DISTANCE * width, upper - FACE_DISTANCE * width))


def project_linear(task: Task, p: FloatArray) -> FloatArray:
    """Replace the linear parameters of p `(J,)` by their weak least-squares values, clipped into the box."""
    if not task.linear.any():
        return p
    p = p.copy()
    for value in (0.0, 1.0):  # a quotient of parameters may not exist at zero
        p[task.linear] = np.clip(value, task.lower[task.linear], task.upper[task.linear])
        r, G = task.weak.residual(p), task.weak.jacobian(p)[:, task.linear]
        if np.isfinite(r).all() and np.isfinite(G).all():
            p[task.linear] += solve_linear(G, r)
            return np.asarray(np.clip(p, task.lower, task.upper))
    return p
