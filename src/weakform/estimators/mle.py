"""WENDy-MLE: the minimum of the weak negative log-likelihood inside the box, by a second-order method.

The default is a trust region with the exact Hessian; adaptive cubic regularisation is the second solver, without
bounds.
"""

from __future__ import annotations

import numpy as np

from ..optimize import Cubic, TrustRegion, minimise
from ..typing import FloatArray
from .base import Outcome, Status, Task

MAX_ITERATIONS = 200


def estimate(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start."""
    assert start is not None
    lower, upper = task.box
    best = minimise(
        task.objective(),
        start[task.free],
        lower,
        upper,
        Cubic() if task.options.solver == "cubic" else TrustRegion(),
        tolerance=task.options.tolerance,
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        deadline=task.deadline,
    )
    objective = best.value if np.isfinite(best.value) else np.inf
    return Outcome(task.expand(best.x), objective, Status.of(best.stop), best.iterations, best.evaluations)
