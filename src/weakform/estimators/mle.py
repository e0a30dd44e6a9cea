"""WENDy-MLE: the minimum of the weak negative log-likelihood inside the box, by a second-order method.

The default is a trust region with the exact Hessian; adaptive cubic regularisation is the second solver, without
bounds.
"""

from __future__ import annotations

import numpy as np

from ..optimize import Cubic, TrustRegion, minimise
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import FitError
from . import wls
from .estimation_problem import Outcome, Task
from .estimator import Estimator

MAX_ITERATIONS = 200


def check(task: Task) -> None:
    """Cubic regularisation has no bounds."""
    if task.options.solver == "cubic" and task.is_bounded:
        raise FitError(
            "solver='cubic' knows no bounds, and some are given; use solver='trust-region', or leave the bounds out."
        )


def search(task: Task, start: FloatArray | None, enough: float = 0.0) -> Outcome:
    """One estimate from one start; `enough` as `minimise` has it."""
    assert start is not None
    lower, upper = task.box
    likelihood, first = task.objective(), start[task.free]
    if any(form.large for form in task.weak.forms):
        # Least squares goes most of the way for the price of a few values of the likelihood.
        near = wls.search(task, start).estimate[task.free]
        first = min(first, near, key=lambda theta: likelihood(theta, 0).value)
    best = minimise(
        likelihood,
        first,
        lower,
        upper,
        Cubic() if task.options.solver == "cubic" else TrustRegion(),
        tolerance=task.options.tolerance,
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        enough=enough,
        stop=task.stop,
    )
    objective = best.value if np.isfinite(best.value) else np.inf
    return Outcome(task.expand(best.x), objective, Status.of(best.stop), best.iterations, best.evaluations)


ESTIMATOR = Estimator("mle", "WENDy-MLE", search, check=check, options=("solver",))
