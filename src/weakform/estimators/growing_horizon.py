"""Output error over a growing horizon, for solutions with jumps as fast as the samples.

Where a solution has jumps that last a sample or two, a small error of the period puts the next jump between other
samples, and the sum of squares has no slope that leads back. Over the first part of the series there is at most one
jump. So initial states are drawn there, since noise may hide them altogether, and parameters are drawn around the
start, since the method that computed it has not resolved the jumps. The best draws are fitted by relative steps, and
the horizon grows as long as the fit stays good, by fewer samples where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..results.status import Status
from ..support.array_types import FloatArray
from .estimation_problem import StartPoint, Task
from .noise_level import build_noise_estimator
from .outcome import Outcome
from .output_error import compute_cost, compute_residuals_at, search


@dataclass(frozen=True)
class _HorizonPolicy:
    """Thresholds for the first horizon and its growth; all by judgement.

    tests/estimators/test_growing_horizon.py follows six periods of a solution whose start has a period that is 8% off.
    """

    first_share: float = 0.2
    """First horizon, as a share of the samples; a longer one may hold several jumps."""
    max_step_share: float = 0.2
    """Largest step by which the horizon grows, as a share of the samples."""
    max_mean_square: float = 3.0
    """Sum of squares over the number of values up to which a fit is good; above it the step of the horizon shrinks."""
    step_divisor: int = 3
    """Divisor of the step of the horizon after a fit that is not good; a good fit doubles the step."""
    max_evaluations: int = 40
    """Evaluations of the model for each horizon; the fit of the whole series has no such limit."""


@dataclass(frozen=True)
class _DrawPolicy:
    """Numbers and ranges of the draws from which the first horizon is fitted; all by judgement."""

    draws: int = 150
    """Draws whose sum of squares is compared."""
    max_fitted: int = 6
    """Draws that are fitted, the best first, until one leads to a good fit of the whole series."""
    initial_decades: float = 3.0
    """Decades towards zero over which initial states are drawn: noise may hide values far below the first sample."""
    log_deviation: tuple[float, float] = (0.1, 3.0)
    """Range of the standard deviation of the logarithm of a drawn parameter: from nearly known to hardly known."""


_HORIZON = _HorizonPolicy()
_DRAW = _DrawPolicy()
DRAW_SEED = 3
"""Seed of the draws. A search is not given a seed, so that it is fixed."""


def fit_growing_horizon(task: Task, start: StartPoint | None) -> Outcome:
    """Fit output error over a growing horizon from one start.

    Parameters
    ----------
    task : Task
        With every state measured.
    start : ndarray, (J,)

    Returns
    -------
    Outcome
        With an infinite objective if no draw could be followed to the end of the series.
    """
    assert isinstance(start, np.ndarray)
    samples = max(len(form.times) for form in task.weak.forms)
    first = max(int(_HORIZON.first_share * samples), len(start) + len(task.weak.forms) + 2)
    best = Outcome(start, np.inf, Status.START, 0, 0)
    for p, begin in _draw_candidates(task, start, first)[: _DRAW.max_fitted]:
        outcome = _follow_draw(task, p, begin, first)
        if outcome is not None and outcome.objective < best.objective:
            best = outcome
        if task.stop() or _is_good(task, best):
            break
    return best


def _follow_draw(task: Task, p: FloatArray, begin: tuple[FloatArray, ...], horizon: int) -> Outcome | None:
    """Fit one draw over a growing horizon; None unless the fit stays good to the end of the series.

    Parameters
    ----------
    p : ndarray, (J,)
    begin : tuple of ndarray, (D,)
        Initial state of each trajectory in working coordinates.
    horizon : int
        Samples of the first horizon.
    """
    samples = max(len(form.times) for form in task.weak.forms)
    step = max_step = max(int(_HORIZON.max_step_share * samples), 1)
    part = _truncate_task(task, horizon, _HORIZON.max_evaluations)
    outcome = search(part, p, begin, log_steps=True)
    if not _is_good(part, outcome):
        return None
    outcome = _try_measured_initial_states(_lower_sigma(part, outcome), outcome)
    while horizon < samples and not task.stop():
        assert outcome.initial is not None
        further = min(horizon + step, samples)
        part = _truncate_task(task, further, _HORIZON.max_evaluations)
        trial = search(part, outcome.estimate, outcome.initial, log_steps=True)
        if _is_good(part, trial):
            outcome, horizon, step = trial, further, min(2 * step, max_step)
        elif step > 1:
            step = max(step // _HORIZON.step_divisor, 1)
        else:
            return None
    assert outcome.initial is not None
    # The fit of the whole series is a plain one: without the limit of a horizon and on a linear scale.
    whole = replace(task, options=replace(task.options, max_iterations=None))
    return search(whole, outcome.estimate, outcome.initial)


def _lower_sigma(part: Task, outcome: Outcome) -> Task:
    """Return the task with σ from the residuals of a good fit, unless σ is given or the filter's is smaller.

    To the filter, jumps are noise, so that its σ is too large. The caller uses the smaller σ only to compare initial
    states: the larger one keeps the sum of squares smooth where the next jump enters the horizon.
    """
    if part.problem.data.sigma is not None or outcome.initial is None:
        return part
    residuals = np.concatenate(compute_residuals_at(part, outcome.estimate, outcome.initial))
    sigma = np.minimum(part.problem.sigma, build_noise_estimator(part)(residuals))
    return replace(part, problem=replace(part.weak, sigma=sigma))


def _try_measured_initial_states(part: Task, outcome: Outcome) -> Outcome:
    """Fit again with some of the initial states set to their first sample, and return the best of all.

    Where noise hides an initial state the likelihood has a flat valley, and its floor may be on the other side of zero.
    The choices are: one state, all states but one, and all states.
    """
    assert outcome.initial is not None
    rows = [form.x[:, 0] for form in part.weak.forms]
    single = np.eye(len(rows[0]), dtype=bool)
    best = outcome
    for replaced in np.unique(np.concatenate([single, ~single, single | ~single]), axis=0):
        begin = tuple(np.where(replaced, x, x0) for x, x0 in zip(rows, outcome.initial, strict=True))
        best = min(best, search(part, outcome.estimate, begin), key=lambda candidate: candidate.objective)
    return best


def _is_good(task: Task, outcome: Outcome) -> bool:
    """Return True if the mean square of the residuals, in units of σ², is acceptable."""
    values = sum(int(q.measured.sum()) for q in task.problem.data.trajectories)
    return bool(2 * outcome.objective < _HORIZON.max_mean_square * values)


def _truncate_task(task: Task, samples: int, steps: int) -> Task:
    """Return the task on the first samples of each trajectory, with at most `steps` evaluations."""
    problem = task.weak
    parts = [
        replace(
            q,
            times=q.times[:samples],
            values=q.values[:samples],
            scale=None if q.scale is None else q.scale[:samples],
            weights=None if q.weights is None else q.weights[:samples],
        )
        for q in problem.data.trajectories
    ]
    forms = [replace(form, times=form.times[:samples], u=form.u[:samples]) for form in problem.forms]
    cut = replace(problem, data=problem.data.replace_attributes(trajectories=tuple(parts)), forms=tuple(forms))
    return replace(task, problem=cut, options=replace(task.options, max_iterations=steps))


def _draw_candidates(task: Task, p: FloatArray, horizon: int) -> list[tuple[FloatArray, tuple[FloatArray, ...]]]:
    """Draw parameters `(J,)` and initial states `(D,)`, and return them with the least sum of squares first.

    The start itself, with the first samples as initial states, is one of the candidates. Initial states are in working
    coordinates. Each has the sign of the mean of its state, as noise may have changed that of the first sample.
    """
    rng, part = np.random.default_rng(DRAW_SEED), _truncate_task(task, horizon, 1)
    rows = [form.x[:, 0] for form in task.weak.forms]
    side = np.sum([form.x.sum(axis=1) for form in task.weak.forms], axis=0)
    candidates = [(p, tuple(rows))]
    lower, upper = np.log(_DRAW.log_deviation)
    for _ in range(_DRAW.draws):
        shrunk = [10 ** (-_DRAW.initial_decades * rng.random(len(x))) for x in rows]
        noisy = [np.abs(x + task.problem.sigma * rng.standard_normal(len(x))) for x in rows]
        begin = tuple(np.copysign(x * s, side) for x, s in zip(noisy, shrunk, strict=True))
        change = np.exp(rng.uniform(lower, upper, len(p))) * rng.standard_normal(len(p))
        drawn = np.clip(np.where(task.scale.log, p + change, p * np.exp(change)), task.lower, task.upper)
        candidates.append((np.where(task.free, drawn, p), begin))
    costs = [compute_cost(part, *candidate) for candidate in candidates]
    return [candidates[k] for k in np.argsort(costs, kind="stable") if np.isfinite(costs[k])]
