"""Least squares: linear in closed form, nonlinear by SciPy's trust-region reflective method in a box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.array_types import FloatArray

Residual = Callable[[FloatArray], FloatArray | None]
"""Residuals `(m,)` at x `(n,)`; None if they are undefined there."""
Jacobian = Callable[[FloatArray], FloatArray]
"""Derivatives `(m, n)` of the residuals at x `(n,)`."""
REFUSAL_FACTOR = 1e6
"""Residual that stands for an undefined one, relative to one plus the largest residual at the start.

It has to be so large that SciPy refuses the step. By judgement.
"""
BVLS_TOLERANCE = 1e-14
"""Tolerance of SciPy's bounded-variable least squares: as exact as rounding allows. By judgement."""


def solve_linear(G: FloatArray, r: FloatArray) -> FloatArray:
    """Compute the solution of least norm of `argmin ‖r + G s‖`, with the columns of G scaled to unit length.

    Parameters
    ----------
    G : ndarray, (m, n)
    r : ndarray, (m,)

    Returns
    -------
    ndarray, (n,)
        s.
    """
    scale = np.linalg.norm(G, axis=0)
    scale[~(scale > 0)] = 1.0
    return np.asarray(-np.linalg.lstsq(G / scale, r, rcond=None)[0] / scale)


def solve_linear_bounded(G: FloatArray, r: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Compute `argmin ‖r + G x‖` subject to `lower <= x <= upper`.

    Parameters
    ----------
    G : ndarray, (m, n)
    r : ndarray, (m,)
    lower, upper : ndarray, (n,)

    Returns
    -------
    ndarray, (n,)
        x.
    """
    from scipy.optimize import lsq_linear

    scale = np.linalg.norm(G, axis=0)
    scale[~(scale > 0)] = 1.0
    solved = lsq_linear(G / scale, -r, (lower * scale, upper * scale), method="bvls", tol=BVLS_TOLERANCE)
    return np.asarray(np.clip(solved.x / scale, lower, upper))


@dataclass(frozen=True)
class LeastSquaresResult:
    """Result of a minimisation.

    Attributes
    ----------
    x : ndarray, (n,)
    defined : bool
        Whether the residuals are defined at the start; if not, x is the start.
    converged : bool
    evaluations : int
        Number of evaluations of the residuals.
    active : ndarray of int, (n,)
        -1 or 1 for variables at their lower or upper bound, 0 for others.
    """

    x: FloatArray
    defined: bool
    converged: bool = False
    evaluations: int = 1
    active: Any = 0


@dataclass(frozen=True)
class Tolerances:
    """Tolerances `ftol`, `xtol` and `gtol` of SciPy's `least_squares`: on the cost, the step and the gradient."""

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
) -> LeastSquaresResult:
    """Minimise `½‖residual(x)‖²` inside the box.

    Parameters
    ----------
    residual : callable
        Returns the residuals `(m,)`; None if they are undefined, and the step is then refused.
    jacobian : callable
        Returns their derivatives `(m, n)`.
    start : ndarray, (n,)
        Strictly inside the box.
    box : pair of ndarray, (n,)
        Lower and upper bounds.
    tolerances : Tolerances
    max_evaluations : int
    scale : ndarray, (n,), optional
        Characteristic sizes of the variables; by default the inverse norms of the columns of the Jacobian.

    Returns
    -------
    LeastSquaresResult
    """
    from scipy.optimize import least_squares as scipy_least_squares

    first = residual(start)
    if first is None:
        return LeastSquaresResult(start, defined=False)
    # SciPy has no way to refuse a step other than residuals that are far too large.
    refused = np.full_like(first, REFUSAL_FACTOR * (1.0 + np.abs(first).max()))

    def guarded(x: FloatArray) -> FloatArray:
        """Return the residuals, or too large ones if they are undefined."""
        values = residual(x)
        return refused if values is None else values

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
    return LeastSquaresResult(solved.x, True, bool(solved.status > 0), int(solved.nfev), solved.active_mask)
