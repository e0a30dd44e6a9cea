"""Expressions of parameters with their intervals, by the delta method: `Var g(p) = ∇gᵀ C ∇g`.

If an expression is a monotonic function of one parameter whose interval comes from its profile, the ends of that
interval are transformed instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import symengine as se

from ..model.expressions import parse_expression
from ..model.naming import format_initial_name
from ..results.records import Quantity
from ..support.errors import FitError
from .fitted_states import compute_joint_covariance, get_system, make_covariance_finite
from .intervals import BY_PROFILE, compute_mean_reach, get_default_intervals

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


MONOTONICITY_POINTS = 9
"""Points of an interval at which an expression is evaluated to see whether it is monotonic. Fewer may miss a turn. By
judgement."""
MAX_CHANGE_ALONG_WEAKEST = 1e-4
"""Relative change of an expression along the weakest direction of the covariance up to which it counts as identifiable.
The direction comes from a covariance that is itself nearly singular, hence the wide margin. By judgement."""
MAX_CHANGE_ALONG_SCALING = 1e-6
"""Relative change of an expression along an exact scaling up to which it counts as unchanged: above rounding error, far
below any change that matters. By judgement."""


@np.errstate(all="ignore")
def derive_quantity(fit: FitResult, expression: str, level: float = 0.95) -> Quantity:
    """Evaluate an expression of the parameters, with its interval; see `FitResult.derived`."""
    single = len(fit.data.trajectories) == 1
    beginnings = [format_initial_name(state) for state in fit.model.states] if single else []
    expr = parse_expression(expression, dict.fromkeys([*fit.model.parameters, *fit.tied, *beginnings]))
    tied = {se.Symbol(n): parse_expression(text, fit.model.parameters) for n, text in fit.tied.items()}
    expr = expr.subs(tied)
    names, estimate, covariance = list(fit.model.parameters), fit.estimate, fit.covariance
    used = [name for name in beginnings if name not in names and se.Symbol(name) in expr.free_symbols]
    if used:
        mean, joint = compute_joint_covariance(fit, 0, make_covariance_finite(fit))
        # The covariance is in working coordinates of the initial state; the expression uses its natural coordinates.
        slope = get_system(fit, 0).compute_slopes(mean[None, len(names) :])[0]
        to_natural = np.eye(len(mean))
        to_natural[len(names) :, len(names) :] = slope
        names, estimate, covariance = [*names, *beginnings], mean, to_natural @ joint @ to_natural.T
    if (transformed := _transform_profile_interval(fit, expr, level)) is not None:
        return Quantity(expression, *transformed)
    symbols = [se.Symbol(name) for name in names]
    values = dict(zip(symbols, map(float, estimate), strict=True))
    value = _evaluate_real(expr, values, expression)
    gradient = np.array([_evaluate_real(expr.diff(symbol), values, expression) for symbol in symbols])
    relative_gradient = dict(zip(names, gradient * estimate, strict=True))
    if not _is_identifiable(fit, relative_gradient):
        return Quantity(expression, value, math.inf, (-math.inf, math.inf), "cannot be determined")
    # An identifiable expression does not change along the free direction, so its variance is the same if one of the
    # parameters of that direction is held fixed, as a bound does: that one is left out.
    is_undetermined = np.array([name in fit.undetermined and name in fit.model.parameters for name in names])
    held = is_undetermined & np.isnan(covariance.diagonal())
    # Entries of the covariance may be NaN or infinite; only those that the expression depends on may enter.
    entering = (gradient != 0) & ~held
    variance = float(gradient[entering] @ covariance[np.ix_(entering, entering)] @ gradient[entering])
    error = math.sqrt(variance) if variance >= 0 else math.nan
    half = fit.quantile(level) * error
    note = "a parameter in it is at its bound: no Wald interval" if math.isnan(error) else ""
    return Quantity(expression, value, error, (value - half, value + half), note)


def _transform_profile_interval(
    fit: FitResult, expr: Any, level: float
) -> tuple[float, float, tuple[float, float], str] | None:
    """Transform the profile interval of the only parameter of a monotonic expression.

    The delta method would lose the asymmetry of such an interval.

    Returns
    -------
    tuple or None
        Value, error, interval and note; None if the expression has several parameters, is not monotonic, or if the
        interval of its parameter is infinite or does not come from its profile.
    """
    inside = [name for name in fit.model.parameters if se.Symbol(name) in expr.free_symbols]
    if len(inside) != 1 or len(expr.free_symbols) != 1 or inside[0] in fit.undetermined:
        return None
    j, symbol = fit.model.parameters.index(inside[0]), se.Symbol(inside[0])
    ends, kinds = get_default_intervals(fit, level)
    low, high = map(float, ends[j])
    if kinds[j] != BY_PROFILE or not (math.isfinite(low) and math.isfinite(high)):
        return None
    points = (*np.linspace(low, high, MONOTONICITY_POINTS), fit.estimate[j])
    values = [_evaluate_real(expr, {symbol: float(value)}, str(expr)) for value in points]
    steps = np.diff(values[:-1])
    if not ((steps >= 0).all() or (steps <= 0).all()):
        return None
    # The last value is that at the estimate; the one before it is that at the upper end.
    first, last = sorted((values[0], values[-2]))
    reach = compute_mean_reach(np.array([[first, last]]), np.array(values[-1:]))
    return values[-1], float(reach[0]) / fit.quantile(level), (first, last), kinds[j]


def _is_identifiable(fit: FitResult, relative_gradient: dict[str, float]) -> bool:
    """Return True if an expression does not change along any direction that the data cannot identify.

    Parameters
    ----------
    fit : FitResult
    relative_gradient : dict of str to float
        `θ ∂g/∂θ` by name: the change of the expression for a relative change of each parameter.
    """
    for freedom in fit.freedoms:
        parts = [relative_gradient.get(name, 0.0) for name in freedom.names]
        size = sum(map(abs, parts))
        if size == 0:
            continue
        # A direction without an exact scaling is known only as the weakest direction of the covariance.
        if not freedom.scalings:
            if _measure_weakest_change(fit, freedom.names, parts) > MAX_CHANGE_ALONG_WEAKEST * size:
                return False
            continue
        along = [sum(n * part for n, part in zip(scaling, parts, strict=True)) for scaling in freedom.scalings]
        if max(map(abs, along)) > MAX_CHANGE_ALONG_SCALING * size:
            return False
    return True


def _measure_weakest_change(fit: FitResult, names: tuple[str, ...], parts: list[float]) -> float:
    """Compute the change of an expression along the direction of largest relative variance of some parameters.

    Parameters
    ----------
    fit : FitResult
    names : tuple of str
        The parameters that move together.
    parts : list of float
        `θ ∂g/∂θ` of each.

    Returns
    -------
    float
        The change per unit of relative change; infinite if these have no finite covariance.
    """
    if any(name not in fit.model.parameters for name in names):
        return math.inf
    index = [fit.model.parameters.index(name) for name in names]
    relative = fit.covariance[np.ix_(index, index)] / np.outer(fit.estimate[index], fit.estimate[index])
    if not np.isfinite(relative).all():
        return math.inf
    return abs(float(np.linalg.eigh(relative)[1][:, -1] @ np.array(parts)))


def _evaluate_real(expr: Any, values: dict[Any, float], text: str) -> float:
    """Evaluate an expression, which `text` names in errors, at values by symbol."""
    try:
        value = float(expr.subs(values))
    except (RuntimeError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise FitError(f"{text!r} is not a finite real number at the estimate.")
    return value
