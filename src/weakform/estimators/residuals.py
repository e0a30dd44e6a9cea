"""What is left of the data once a model has been fitted: its freedom, its noise, and where it strains."""

from __future__ import annotations

import numpy as np

from ..goodness import Strain, threshold
from ..typing import FloatArray
from .base import Task

ROUNDING = 1e-7


def within_misfit(task: Task, sigma: FloatArray) -> float:
    """What repeated measurements add to the misfit: their scatter about their means."""
    parts = [float(np.sum(q.within / sigma**2)) for q in task.problem.data.trajectories if q.within is not None]
    return sum(parts)


def counts(task: Task) -> FloatArray:
    """Measured values of each state, `(D,)`, repeated measurements among them."""
    data = task.problem.data
    repeats = [q.repeats for q in data.trajectories if q.repeats is not None]
    return np.asarray(data.measurements + np.sum(repeats, axis=0) if repeats else data.measurements)


def degrees_of_freedom(task: Task) -> int:
    """Measured values less fitted parameters and initial states."""
    fitted = int(task.free.sum()) + len(task.problem.sigma) * len(task.problem.forms)
    return int(counts(task).sum()) - fitted


def noise_of(task: Task, residuals: tuple[FloatArray, ...]) -> FloatArray:
    """`σ_d² = Σ residuals²/(n_d - share of what was fitted)`, `(D,)`.

    Residuals `(time, D)` in working coordinates, over their scale, zero where nothing was measured. The σ of states
    that never are stays what it was.
    """
    problem, values = task.problem, counts(task)
    left = np.maximum(values * degrees_of_freedom(task) / values.sum(), 1.0)
    squares = np.sum([np.sum(part**2, axis=0) for part in residuals], axis=0)
    for q in problem.data.trajectories:
        squares = squares if q.within is None else squares + q.within
    spread = np.max([form.x.std(axis=1) for form in problem.forms], axis=0)
    # A state that the model follows exactly has no noise to tell; keep σ off the rounding of the data.
    return np.asarray(np.where(problem.seen, np.maximum(np.sqrt(squares / left), ROUNDING * spread), problem.sigma))


def strains(task: Task, p: FloatArray) -> tuple[Strain, ...]:
    """Stretches of time in which an equation does not hold: the weak residuals that are too large, joined.

    A weak residual sees only its own window of the data, so that it tells where; it is measured by the noise that the
    filter finds, which no model has a part in.
    """
    found: list[Strain] = []
    for number, form in enumerate(task.problem.forms):
        if form.functions.blocks == 1:  # not local
            continue
        here: list[Strain] = []
        centres, scores = form.standardised(p)
        limit = threshold(scores.size, level=1e-3)
        for equation, row in enumerate(scores):
            for k in np.flatnonzero(np.abs(row) > limit):
                start, stop = (float(centres[k] + sign * form.functions.radius / 2) for sign in (-1, 1))
                last = here[-1] if here else None
                if last is not None and last.equation == equation and last.start <= start <= last.stop:
                    worse = max(last.score, float(row[k]), key=abs)
                    here[-1] = Strain(equation, last.start, stop, worse, number)
                else:
                    here.append(Strain(equation, start, stop, float(row[k]), number))
        found += here
    return tuple(sorted(found, key=lambda strain: -abs(strain.score)))
