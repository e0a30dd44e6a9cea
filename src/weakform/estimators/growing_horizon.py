"""Output error with a horizon that grows: for spikes that a small error of the period puts between other samples.

Where a solution has jumps of a sample or two, the sum of squares knows nothing of parameters that put the next jump
elsewhere. Over the first part of the series there is at most one of them: initial states are drawn there, as noise may
hide them altogether, and parameters about the start, as what led to it has not seen the jumps. The best are fitted, by
relative steps, and the horizon grows as far as the fit stays good, by fewer samples where it does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..results.status import Status
from ..support.array_types import FloatArray
from .estimation_problem import Outcome, Task
from .noise_level import noise_of
from .output_error import cost, residuals_at, search

FIRST, LARGEST = 0.2, 0.2
"""Of the series: the first horizon, and the largest step by which it grows."""
DRAWS, TRIED, DECADES = 150, 6, 3.0
"""Draws, how many of them are fitted, and over how many decades towards zero those of the initial states reach."""
ABOUT = (0.1, 3.0)
"""Standard deviation of the logarithm of parameters that are drawn: from hardly to not at all known."""
GOOD = 3.0
"""Sum of squares, over the number of values, up to which a fit is good."""
STEPS = 40
"""Evaluations for each horizon."""


def grown(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start, all states measured."""
    assert start is not None
    samples = max(len(form.times) for form in task.weak.forms)
    first = max(int(FIRST * samples), len(start) + len(task.weak.forms) + 2)
    best = Outcome(start, np.inf, Status.START, 0, 0)
    for p, begin in _beginnings(task, start, first)[:TRIED]:
        found = _followed(task, p, begin, first)
        if found is not None and found.objective < best.objective:
            best = found
        if task.stop() or _good(task, best):
            break
    return best


def _followed(task: Task, p: FloatArray, begin: tuple[FloatArray, ...], horizon: int) -> Outcome | None:
    """From one beginning as far as the fit stays good; None unless that is to the end."""
    samples = max(len(form.times) for form in task.weak.forms)
    step = most = max(int(LARGEST * samples), 1)
    part = _cut(task, horizon, STEPS)
    found = search(part, p, begin, logs=True)
    if not _good(part, found):
        return None
    found = _shown(_with_noise(part, found), found)
    while horizon < samples and not task.stop():
        assert found.initial is not None
        further = min(horizon + step, samples)
        part = _cut(task, further, STEPS)
        tried = search(part, found.estimate, found.initial, logs=True)
        if _good(part, tried):
            found, horizon, step = tried, further, min(2 * step, most)
        elif step > 1:
            step = max(step // 3, 1)
        else:
            return None
    assert found.initial is not None
    whole = replace(task, options=replace(task.options, max_iterations=None))
    return search(whole, found.estimate, found.initial)


def _with_noise(part: Task, found: Outcome) -> Task:
    """The task with the noise that a good fit has left, unless it was given: to a filter, jumps are noise.

    That keeps the sum of squares smooth where the next jump comes into sight, and is kept for it.
    """
    if part.problem.data.sigma is not None or found.initial is None:
        return part
    residuals = np.concatenate(residuals_at(part, found.estimate, found.initial))
    sigma = np.minimum(part.problem.sigma, noise_of(part)(residuals))
    return replace(part, problem=replace(part.weak, sigma=sigma))


def _shown(part: Task, found: Outcome) -> Outcome:
    """The best, also from initial states that the data show, of some of the states.

    Where noise hides them the likelihood has a flat valley, and its floor may be on the other side of zero.
    """
    assert found.initial is not None
    rows = [form.x[:, 0] for form in part.weak.forms]
    one = np.eye(len(rows[0]), dtype=bool)
    best = found
    for shown in np.unique(np.concatenate([one, ~one, one | ~one]), axis=0):
        begin = tuple(np.where(shown, x, x0) for x, x0 in zip(rows, found.initial, strict=True))
        best = min(best, search(part, found.estimate, begin), key=lambda outcome: outcome.objective)
    return best


def _good(task: Task, outcome: Outcome) -> bool:
    values = sum(int(q.measured.sum()) for q in task.problem.data.trajectories)
    return bool(2 * outcome.objective < GOOD * values)


def _cut(task: Task, samples: int, steps: int) -> Task:
    """The task on the first samples of each trajectory."""
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
    cut = replace(problem, data=problem.data.replaced(trajectories=tuple(parts)), forms=tuple(forms))
    return replace(task, problem=cut, options=replace(task.options, max_iterations=steps))


def _beginnings(task: Task, p: FloatArray, horizon: int) -> list[tuple[FloatArray, tuple[FloatArray, ...]]]:
    """Parameters and initial states in working coordinates, those with the least sum of squares first."""
    rng, part = np.random.default_rng(3), _cut(task, horizon, 1)
    rows = [form.x[:, 0] for form in task.weak.forms]
    side = np.sum([form.x.sum(axis=1) for form in task.weak.forms], axis=0)
    drawn = [(p, tuple(rows))]
    lower, upper = np.log(ABOUT)
    for _ in range(DRAWS):
        shrunk = [10 ** (-DECADES * rng.random(len(x))) for x in rows]
        noisy = [np.abs(x + task.problem.sigma * rng.standard_normal(len(x))) for x in rows]
        begin = tuple(np.copysign(x * s, side) for x, s in zip(noisy, shrunk, strict=True))
        moved = np.exp(rng.uniform(lower, upper, len(p))) * rng.standard_normal(len(p))
        there = np.clip(np.where(task.scale.log, p + moved, p * np.exp(moved)), task.lower, task.upper)
        drawn.append((np.where(task.free, there, p), begin))
    costs = [cost(part, *one) for one in drawn]
    return [drawn[k] for k in np.argsort(costs, kind="stable") if np.isfinite(costs[k])]
