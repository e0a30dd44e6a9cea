"""The points from which the weak methods start.

Starts decide whether a search succeeds. They are drawn with a seed, and the result lists all of them.

- Linear models: the weak least-squares estimate, in closed form.
- Other models: only the nonlinear parameters are drawn, uniformly inside their bounds, or if they have no bounds, on
  a log scale over 10⁻³..10³ times a natural unit (one, the size of a state, the time span, or a quotient of these). For
  each draw the linear parameters are solved for (variable projection on the weak residual). Many draws are screened by
  their weak residual on a few windows (`screening`), and the search runs from the best few.
- A start given by the user competes with these, or is the only one with `starts=1`.
"""

from __future__ import annotations

import numpy as np

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import FitError, UndefinedError
from .estimation_problem import Task
from .screening import screen_draws
from .weak_least_squares import project_linear

UNBOUNDED_REACH = (1e-3, 1e3)
"""Range of the draws of a parameter without bounds, in natural units. By judgement."""
MIN_DECADES_RATIO = 100.0
"""Ratio of positive bounds from which every second draw is log-uniform between them: a uniform draw would hardly ever
be near the lower bound. By judgement."""
SCREENED_DRAWS = 150
"""Draws of the nonlinear parameters that are screened. By judgement."""
DEFAULT_STARTS = 4
"""Starts of a model that is not linear in its parameters, unless the user sets their number. By judgement."""


def make_starts(task: Task, user_starts: tuple[FloatArray, ...], count: int | None, seed: int) -> list[FloatArray]:
    """Make the starts of a weak method.

    Parameters
    ----------
    task : Task
    user_starts : tuple of ndarray, (J,)
        Starts of the user on the scale of the task; NaN where no value is given.
    count : int, optional
        Number of starts; by default as many as the model needs.
    seed : int

    Returns
    -------
    list of ndarray, (J,)
        The starts of the user first, then the most promising of the draws.
    """
    starts = _collect_starts(task, [_complete_start(task, p) for p in user_starts], count, seed)
    if task.prior is None:
        return starts
    return [task.prior.replace_impossible(p) for p in starts]


def _collect_starts(task: Task, user_starts: list[FloatArray], count: int | None, seed: int) -> list[FloatArray]:
    """Return complete starts `(J,)` inside the box: those of the user, closed form if linear, then screened draws."""
    starts = [np.clip(p, task.lower, task.upper) for p in user_starts]
    if count is not None and len(starts) >= count:
        return starts[:count]
    if task.is_linear:
        starts.append(project_linear(task, task.base.copy()))
    wanted = (1 if task.is_linear else DEFAULT_STARTS) if count is None else count
    if len(starts) >= wanted:
        return starts
    # The second number separates these draws from all others with the same seed.
    draws = _draw_starts(task, np.random.default_rng([seed, 2]))
    if not draws and not starts:
        raise UndefinedError(
            "No start could be made: the right-hand side is not finite at the data for any of "
            f"{SCREENED_DRAWS} draws of the nonlinear parameters. Give start={{...}} or bounds={{...}} for "
            f"{', '.join(np.array(task.weak.model.parameters)[task.free])}."
        )
    return starts + draws[: wanted - len(starts)]


def _draw_starts(task: Task, rng: np.random.Generator) -> list[FloatArray]:
    """Draw the nonlinear parameters and return the draws `(J,)` with finite residuals, the most promising first."""
    drawn = task.free & ~task.linear if not task.is_linear else task.free
    lower, upper, units = (
        task.scale.to_natural(task.lower)[drawn],
        task.scale.to_natural(task.upper)[drawn],
        _collect_units(task),
    )
    draws = SCREENED_DRAWS
    cells = draw_stratified_shares(draws, int(drawn.sum()), rng)
    P = np.tile(task.base, (draws, 1))
    # On a linear scale a parameter whose bounds span decades would hardly ever be small, on a log scale rarely large.
    every_other = np.arange(draws)[:, None] % 2 == 1
    P[:, drawn] = map_to_bounds(lower, upper, cells, rng.choice(units, size=cells.shape), decades=every_other)
    P[:, drawn] = task.scale.to_working(P)[:, drawn]
    return screen_draws(task, P)


def draw_stratified_shares(count: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Draw shares of the unit interval, `(count, width)`, stratified in each column so that few cover the range."""
    return np.asarray(
        (np.array([rng.permutation(count) for _ in range(width)]).T + rng.uniform(size=(count, width))) / count
    )


def _collect_units(task: Task) -> FloatArray:
    """Return natural units for a parameter without bounds: one, sizes of states, the time span, and quotients."""
    forms = task.weak.forms
    sizes = {float(size) for form in forms for size in np.abs(form.u).max(axis=0) if size > 0}
    span = max(float(q.times[-1] - q.times[0]) for q in task.weak.data.trajectories)
    return np.array([1.0, span, 1 / span, *sizes, *(1 / s for s in sizes), *(s / span for s in sizes)])


def map_to_bounds(
    lower: FloatArray,
    upper: FloatArray,
    share: FloatArray,
    unit: FloatArray,
    reach: tuple[float, float] = UNBOUNDED_REACH,
    *,
    decades: bool | BoolArray = False,
) -> FloatArray:
    """Map shares of the unit interval to parameter values inside their bounds.

    The map is linear between two bounds. If one or both are missing, it is log-linear over `reach`, upwards from a
    lower bound or from zero, downwards from an upper bound.

    Parameters
    ----------
    lower, upper : ndarray, (J,)
        Bounds; infinite where there are none.
    share : ndarray, (J,) or (draws, J)
        Between 0 and 1.
    unit : ndarray
        Natural unit of each value, in the shape of `share` or one that broadcasts to it.
    reach : (float, float)
        Least and largest distance in natural units.
    decades : bool or ndarray of bool
        Where True the map is log-linear also between positive bounds that are two orders of magnitude apart or more.

    Returns
    -------
    ndarray, in the shape of `share`
    """
    span = unit * reach[0] * (reach[1] / reach[0]) ** share
    with np.errstate(invalid="ignore"):
        inside = lower + (upper - lower) * share
        far = decades & (lower > 0) & (upper >= MIN_DECADES_RATIO * lower)
        inside = np.where(far, lower * (upper / np.where(far, lower, 1.0)) ** share, inside)
    above = np.where(np.isfinite(lower), lower, 0.0) + span
    one_sided = np.where(np.isfinite(upper), upper - span, above)
    return np.asarray(np.where(np.isfinite(lower) & np.isfinite(upper), inside, one_sided))


def _complete_start(task: Task, user_start: FloatArray) -> FloatArray:
    """Fill in the values that a start `(J,)` of the user omits.

    A parameter with two bounds gets the middle between them, one in which the model is linear its weak least-squares
    value. Raises `FitError` for any other.
    """
    names = np.array(task.weak.model.parameters)
    p = user_start.copy()
    missing = np.isnan(p) & ~task.linear
    bounded = missing & np.isfinite(task.lower) & np.isfinite(task.upper)
    p[bounded] = 0.5 * (task.lower[bounded] + task.upper[bounded])
    missing &= ~bounded
    if missing.any():
        raise FitError(
            f"The start lacks {', '.join(names[missing])}: only parameters with two finite bounds, or in which the "
            "model is linear, may be omitted. Give a value or bounds for each."
        )
    return np.where(np.isnan(p), project_linear(task, p), p) if np.isnan(p).any() else p
