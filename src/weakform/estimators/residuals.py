"""What is left of the data once a model has been fitted: its freedom, its noise, and where it strains."""

from __future__ import annotations

import numpy as np

from ..goodness import Strain, threshold
from ..typing import FloatArray
from .base import Task

ROUNDING = 1e-7


def degrees_of_freedom(task: Task) -> int:
    """Measured values less fitted parameters and initial states."""
    values = task.problem.data.samples * len(task.problem.sigma)
    return values - int(task.free.sum()) - len(task.problem.sigma) * len(task.problem.forms)


def noise_of(task: Task, residuals: tuple[FloatArray, ...]) -> FloatArray:
    """`σ_d² = Σ residuals²/(n - share of what was fitted)`, `(D,)`; residuals `(time, D)` in working coordinates."""
    D = len(task.problem.sigma)
    left = max(degrees_of_freedom(task) / D, 1.0)
    squares = np.sum([np.sum(part**2, axis=0) for part in residuals], axis=0)
    spread = np.max([form.x.std(axis=1) for form in task.problem.forms], axis=0)
    # A state that the model follows exactly has no noise to tell; keep σ off the rounding of the data.
    return np.asarray(np.maximum(np.sqrt(squares / left), ROUNDING * spread))


def strains(task: Task, p: FloatArray) -> tuple[Strain, ...]:
    """Stretches of time in which an equation does not hold: the weak residuals that are too large, joined.

    A weak residual sees only its own window of the data, so that it tells where; it is measured by the noise that the
    filter finds, which no model has a part in.
    """
    found: list[Strain] = []
    for form in task.problem.forms:
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
                    here[-1] = Strain(equation, last.start, stop, worse)
                else:
                    here.append(Strain(equation, start, stop, float(row[k])))
        found += here
    return tuple(sorted(found, key=lambda strain: -abs(strain.score)))
