"""WENDy-MLE: the minimum of the weak negative log-likelihood inside the box, by a second-order method.

The default is a trust region with the exact Hessian; adaptive cubic regularisation is the second solver, without
bounds.
"""

from __future__ import annotations

import numpy as np

from ..optimize import Cubic, TrustRegion, minimise
from ..typing import FloatArray
from . import wls
from .base import Outcome, Status, Task

MAX_ITERATIONS = 200


def estimate(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start."""
    assert start is not None
    lower, upper = task.box
    likelihood, first = task.objective(), start[task.free]
    if any(form.large for form in task.problem.forms):
        # Least squares goes most of the way for the price of a few values of the likelihood.
        near = wls.estimate(task, start).estimate[task.free]
        first = min(first, near, key=lambda theta: likelihood(theta, 0).value)
    best = minimise(
        likelihood,
        first,
        lower,
        upper,
        Cubic() if task.options.solver == "cubic" else TrustRegion(),
        tolerance=task.options.tolerance,
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        deadline=task.deadline,
    )
    objective = best.value if np.isfinite(best.value) else np.inf
    return Outcome(task.expand(best.x), objective, Status.of(best.stop), best.iterations, best.evaluations)
