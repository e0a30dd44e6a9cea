"""Where to begin. Starts decide success, so they are made with care, seeded, and all kept in the result.

- Linear models: the weak least-squares estimate, in closed form.
- Partly linear models: only the nonlinear parameters are drawn: inside the bounds; where there are none, on a log scale
  over 10⁻³..10³ times a natural unit (one, the size of a state, the time span, or a quotient of these). For each draw
  the linear ones are solved for (variable projection on the weak residual). Many draws are screened by their weak
  residual on a few windows (`sieve`) and the best few are optimised.
- A start that is given competes with these, or stands alone with `starts=1`.
"""

from __future__ import annotations

import numpy as np

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import FitError, UndefinedError
from .estimation_problem import Task
from .screening import sieved
from .weak_least_squares import project_linear

SEARCH = (1e-3, 1e3)
FAR = 100.0
DRAWS = 150
DEFAULT_STARTS = 4


def make_starts(task: Task, given: tuple[FloatArray, ...], count: int | None, seed: int) -> list[FloatArray]:
    """Starts `(J,)` to optimise from, the most promising first.

    Parameters
    ----------
    task : Task
    given : tuple of ndarray, (J,)
        In what the estimators work with; NaN where nothing is given.
    count : int, optional
        How many in all; by default as many as the model needs.
    seed : int
    """
    starts = _candidates(task, [_completed(task, p) for p in given], count, seed)
    if task.prior is None:
        return starts
    return [task.prior.allowed(p) for p in starts]


def _candidates(task: Task, given: list[FloatArray], count: int | None, seed: int) -> list[FloatArray]:
    starts = [np.clip(p, task.lower, task.upper) for p in given]
    if count is not None and len(starts) >= count:
        return starts[:count]
    if task.is_linear:
        starts.append(project_linear(task, task.base.copy()))
    wanted = (1 if task.is_linear else DEFAULT_STARTS) if count is None else count
    if len(starts) >= wanted:
        return starts
    draws = _screened(task, np.random.default_rng([seed, 2]))
    if not draws and not starts:
        raise UndefinedError(
            "No start could be made: the right-hand side is not finite at the data for any of "
            f"{DRAWS} draws of the nonlinear parameters. Give start={{...}} or bounds={{...}} for "
            f"{', '.join(np.array(task.weak.model.parameters)[task.free])}."
        )
    return starts + draws[: wanted - len(starts)]


def _screened(task: Task, rng: np.random.Generator) -> list[FloatArray]:
    """Draws with finite residuals, in the order of their weak residual on a few windows."""
    drawn = task.free & ~task.linear if not task.is_linear else task.free
    lower, upper, units = task.scale.natural(task.lower)[drawn], task.scale.natural(task.upper)[drawn], _units(task)
    # Stratified in each parameter, so that few draws cover the range.
    n = int(drawn.sum())
    cells = (np.array([rng.permutation(DRAWS) for _ in range(n)]).T + rng.uniform(size=(DRAWS, n))) / DRAWS
    P = np.tile(task.base, (DRAWS, 1))
    every_other = np.arange(DRAWS)[:, None] % 2 == 1
    P[:, drawn] = between(lower, upper, cells, rng.choice(units, size=cells.shape), decades=every_other)
    P[:, drawn] = task.scale.working(P)[:, drawn]
    return sieved(task, P)


def _units(task: Task) -> FloatArray:
    """Natural units of a parameter of which nothing is known."""
    forms = task.weak.forms
    sizes = {float(size) for form in forms for size in np.abs(form.u).max(axis=0) if size > 0}
    span = max(float(q.times[-1] - q.times[0]) for q in task.weak.data.trajectories)
    return np.array([1.0, span, 1 / span, *sizes, *(1 / s for s in sizes), *(s / span for s in sizes)])


def between(
    lower: FloatArray,
    upper: FloatArray,
    share: FloatArray,
    unit: FloatArray,
    reach: tuple[float, float] = SEARCH,
    *,
    decades: bool | BoolArray = False,
) -> FloatArray:
    """Uniform between two bounds; where one or both are missing, log-uniform over `reach` from the bound or zero.

    With `decades` log-uniform also between positive bounds that are two orders of magnitude apart or more.
    """
    span = unit * reach[0] * (reach[1] / reach[0]) ** share
    with np.errstate(invalid="ignore"):
        between = lower + (upper - lower) * share
        far = decades & (lower > 0) & (upper >= FAR * lower)
        between = np.where(far, lower * (upper / np.where(far, lower, 1.0)) ** share, between)
    above = np.where(np.isfinite(lower), lower, 0.0) + span
    one_sided = np.where(np.isfinite(upper), upper - span, above)
    return np.asarray(np.where(np.isfinite(lower) & np.isfinite(upper), between, one_sided))


def _completed(task: Task, given: FloatArray) -> FloatArray:
    """A start that is given, with what it lacks."""
    names = np.array(task.weak.model.parameters)
    p = given.copy()
    missing = np.isnan(p) & ~task.linear
    bounded = missing & np.isfinite(task.lower) & np.isfinite(task.upper)
    p[bounded] = 0.5 * (task.lower[bounded] + task.upper[bounded])
    missing &= ~bounded
    if missing.any():
        raise FitError(
            f"The start lacks {', '.join(names[missing])}: only parameters with bounds, or in which the model is "
            "linear, may be left out."
        )
    return np.where(np.isnan(p), project_linear(task, p), p) if np.isnan(p).any() else p
