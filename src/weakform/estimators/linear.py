"""Least squares in the parameters: closed form where the model is linear in them, iterated where it is not.

A model affine in the free parameters has `r(p) = r(p₀) + G (p - p₀)` with G constant, so that least squares is one
solve. Otherwise SciPy's trust-region reflective least squares with the analytic Jacobian does it. Either may be given
whitened residuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..typing import FloatArray
from .base import Status, Task

Function = Callable[[FloatArray], FloatArray]


def solve_linear(G: FloatArray, r: FloatArray) -> FloatArray:
    """`argmin ‖r + G s‖` of least norm, with the columns of G scaled to one."""
    scale = np.linalg.norm(G, axis=0)
    scale[~(scale > 0)] = 1.0
    return np.asarray(-np.linalg.lstsq(G / scale, r, rcond=None)[0] / scale)


def least_squares(
    task: Task, residual: Function, jacobian: Function, start: FloatArray | None, max_iterations: int
) -> tuple[FloatArray, Status, int]:
    """Minimise `½‖residual(p)‖²` over the free parameters inside the box.

    Returns
    -------
    estimate : ndarray, (J,)
    status : Status
    evaluations : int
    """
    lower, upper = task.box
    tolerance = task.options.tolerance
    if task.is_linear:
        # Anywhere will do, but a quotient of parameters may not exist at zero.
        for base in (np.clip(np.zeros(len(lower)), lower, upper), np.clip(np.ones(len(lower)), lower, upper)):
            p = task.expand(base)
            r, G = residual(p), jacobian(p)[:, task.free]
            if np.isfinite(r).all() and np.isfinite(G).all():
                break
        else:
            return p, Status.START, 1
        theta = base + solve_linear(G, r)
        if ((theta < lower) | (theta > upper)).any():
            from scipy.optimize import lsq_linear

            scale = np.linalg.norm(G, axis=0)
            scale[~(scale > 0)] = 1.0
            bounds = (lower * scale, upper * scale)
            solved = lsq_linear(G / scale, G @ base - r, bounds, method="bvls", tol=1e-14)
            theta = np.clip(solved.x / scale, lower, upper)
        return task.expand(theta), Status.CONVERGED, 1

    from scipy.optimize import least_squares as scipy_least_squares

    assert start is not None
    theta = _inside(start[task.free], lower, upper)
    first = residual(task.expand(theta))
    if not np.isfinite(first).all():
        return task.expand(theta), Status.START, 1

    def guarded(theta: FloatArray) -> FloatArray:
        r = residual(task.expand(theta))
        # Far larger than any residual that is acceptable, so that the step is rejected.
        return r if np.isfinite(r).all() else np.full_like(first, 1e6 * (1.0 + np.abs(first).max()))

    def derivative(theta: FloatArray) -> FloatArray:
        return np.nan_to_num(jacobian(task.expand(theta))[:, task.free], posinf=0.0, neginf=0.0)

    with np.errstate(all="ignore"):
        solved = scipy_least_squares(
            guarded,
            theta,
            derivative,
            bounds=(lower, upper),
            x_scale="jac",
            # The cost is flat to second order: a relative tolerance on the step is its square on the cost.
            ftol=max(tolerance**2, np.finfo(float).eps),
            xtol=tolerance,
            gtol=1e-15,
            max_nfev=max_iterations,
        )
    status = Status.CONVERGED if solved.status > 0 else Status.ITERATIONS
    return task.expand(_polished(guarded, derivative, solved.x, lower, upper)), status, int(solved.nfev)


def _polished(
    residual: Function, jacobian: Function, theta: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """One full Gauss–Newton step more: rounding of the cost stops the solver short of what the step can reach."""
    r = residual(theta)
    moved = theta + solve_linear(jacobian(theta), r)
    better = residual(moved)
    inside = ((moved >= lower) & (moved <= upper)).all()
    return moved if inside and better @ better <= (r @ r) * (1 + 1e-12) else theta


def _inside(theta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Clipped into the box and just off its faces, as an interior method needs it."""
    width = np.where(np.isfinite(upper - lower), upper - lower, np.maximum(np.abs(theta), 1.0))
    return np.asarray(np.clip(theta, lower + 1e-6 * width, upper - 1e-6 * width))


def project_linear(task: Task, p: FloatArray) -> FloatArray:
    """Replace the linear parameters of p by their weak least-squares values, clipped into the box."""
    if not task.linear.any():
        return p
    p = p.copy()
    for value in (0.0, 1.0):
        p[task.linear] = np.clip(value, task.lower[task.linear], task.upper[task.linear])
        r, G = task.problem.residual(p), task.problem.jacobian(p)[:, task.linear]
        if np.isfinite(r).all() and np.isfinite(G).all():
            p[task.linear] += solve_linear(G, r)
            return np.asarray(np.clip(p, task.lower, task.upper))
    return p
