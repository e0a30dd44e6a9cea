"""Whether a fitted solution swings faster than it was sampled.

Samples a step h apart show a frequency above π/h as a lower one, and a fit that may choose finds either. Of a sine the
mean slope times h is `ωh/2 / |sin(ωh/2)|` times the mean difference of neighbours: π/2 at that frequency, and more
above. Solutions with jumps come near to twice that, which is why it takes more.
"""

from __future__ import annotations

import numpy as np

from ..estimators.estimation_problem import Task
from ..model.compilation import compiled
from ..support.array_types import FloatArray
from .poles import along

SWINGS, MOVES = 3.0, 2.0
"""The ratio above which a state swings between its samples, and how much of its spread it would move in a step."""


def swinging(task: Task, p: FloatArray, states: tuple[FloatArray, ...]) -> tuple[str, ...]:
    """A sentence, if some states swing between their samples, at states `(time, D)` of each trajectory.

    Inputs and switches may move at once: models that have some are not looked at.
    """
    model = task.problem.model
    known = {"t", *model.states, *model.parameters}
    if any(str(symbol) not in known for expression in model.expressions for symbol in expression.free_symbols):
        return ()
    found, longest = set(), 0.0
    for (own, names, rows), u in zip(along(task, p, states), states, strict=True):
        f = compiled(names, own.expressions)
        with np.errstate(all="ignore"):
            slopes = np.abs(np.asarray(f(rows))).reshape(len(rows), -1)
            h = np.diff(rows[:, 0])
            moves = np.median(h[:, None] * (slopes[1:] + slopes[:-1]) / 2, axis=0)
            swings = moves > np.maximum(SWINGS * np.median(np.abs(np.diff(u, axis=0)), axis=0), MOVES * u.std(axis=0))
        found |= {name for name, one in zip(own.states, swings, strict=True) if one}
        longest = max(longest, float(np.median(h))) if swings.any() else longest
    if not found:
        return ()
    return (
        f"Between its samples {', '.join(sorted(found))} swings to and fro: of frequencies above {np.pi / longest:.3g} "
        "these samples cannot tell which it is, nor whether it is a lower one. Give bounds, or sample more often.",
    )
