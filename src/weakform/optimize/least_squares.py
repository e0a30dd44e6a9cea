"""Least squares: linear in closed form, nonlinear by SciPy's trust-region reflective method inside a box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.array_types import FloatArray

Residual = Callable[[FloatArray], FloatArray | None]
Jacobian = Callable[[FloatArray], FloatArray]


def solve_linear(G: FloatArray, r: FloatArray) -> FloatArray:
    """`argmin ‖r + G s‖` of least norm, with the columns of G scaled to one."""
    scale = np.linalg.norm(G, axis=0)
    scale[~(scale > 0)] = 1.0
    return np.asarray(-np.linalg.lstsq(G / scale, r, rcond=None)[0] / scale)


def solve_linear_bounded(G: FloatArray, r: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """`argmin ‖r + G x‖` with `lower <= x <= upper`."""
    from scipy.optimize import lsq_linear

    scale = np.linalg.norm(G, axis=0)
    scale[~(scale > 0)] = 1.0
    solved = lsq_linear(G / scale, -r, (lower * scale, upper * scale), method="bvls", tol=1e-14)
    return np.asarray(np.clip(solved.x / scale, lower, upper))


@dataclass(frozen=True)
class LeastSquares:
    """Where the minimisation ended.

    Attributes
    ----------
    x : ndarray
    defined : bool
        Whether the residual is defined at the start; if not, nothing was done.
    converged : bool
    evaluations : int
    active : ndarray of int
        -1 or 1 for variables at their lower or upper bound.
    """

    x: FloatArray
    defined: bool
    converged: bool = False
    evaluations: int = 1
    active: Any = 0


@dataclass(frozen=True)
class Tolerances:
    """Of SciPy's `least_squares`: on the cost, the step and the gradient."""

    cost: float
    step: float
    gradient: float


def least_squares(
    residual: Residual,
    jacobian: Jacobian,
    start: FloatArray,
    box: tuple[FloatArray, FloatArray],
    tolerances: Tolerances,
    max_evaluations: int,
    *,
    scale: FloatArray | None = None,
) -> LeastSquares:
    """Minimise `½‖residual(x)‖²` inside the box.

    Parameters
    ----------
    residual : callable
        None where it is not defined: the step is refused.
    jacobian : callable
    start : ndarray, (n,)
        Strictly inside the box.
    box : pair of ndarray, (n,)
    tolerances : Tolerances
    max_evaluations : int
    scale : ndarray, (n,), optional
        How far the variables move together; by default as the Jacobian has it.
    """
    from scipy.optimize import least_squares as scipy_least_squares

    first = residual(start)
    if first is None:
        return LeastSquares(start, defined=False)
    # Far larger than any residual that is acceptable, so that the step is rejected.
    refused = np.full_like(first, 1e6 * (1.0 + np.abs(first).max()))

    def guarded(x: FloatArray) -> FloatArray:
        found = residual(x)
        return refused if found is None else found

    with np.errstate(all="ignore"):
        solved = scipy_least_squares(
            guarded,
            start,
            jacobian,
            bounds=box,
            x_scale="jac" if scale is None else scale,
            ftol=tolerances.cost,
            xtol=tolerances.step,
            gtol=tolerances.gradient,
            max_nfev=max_evaluations,
        )
    return LeastSquares(solved.x, True, bool(solved.status > 0), int(solved.nfev), solved.active_mask)
