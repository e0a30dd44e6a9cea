"""WENDy-MLE: the minimum of the weak negative log-likelihood inside the box, by a second-order method.

The default is a trust region with the exact Hessian. Adaptive cubic regularisation is the second solver; it does not
support bounds.
"""

from __future__ import annotations

import numpy as np

from ..optimize import CubicRegularisation, TrustRegion, minimise
from ..results.status import Status
from ..support.errors import FitError
from . import wls
from .estimation_problem import StartPoint, Task
from .estimator import Estimator
from .outcome import Outcome

MAX_ITERATIONS = 200
"""Iterations, unless the option `max_iterations` is set. The default that `Options` documents."""


def check(task: Task) -> None:
    """Raise `FitError` if cubic regularisation is requested together with bounds."""
    if task.options.solver == "cubic" and task.is_bounded:
        raise FitError(
            "solver='cubic' does not support bounds, but at least one free parameter has one. "
            "Use solver='trust-region', or remove the bounds."
        )


def search(task: Task, start: StartPoint | None, min_decrease: float = 0.0) -> Outcome:
    """Minimise the weak negative log-likelihood from one start.

    Parameters
    ----------
    task : Task
    start : ndarray, (J,)
    min_decrease : float
        Decrease of the objective, as the quadratic model predicts it, below which no further step is taken.
    """
    assert isinstance(start, np.ndarray)
    lower, upper = task.box
    likelihood, first = task.build_objective(), start[task.free]
    if any(form.is_large for form in task.weak.forms):
        # A large model: least squares covers most of the distance at the cost of a few evaluations of the likelihood.
        near = wls.search(task, start).estimate[task.free]
        first = min(first, near, key=lambda theta: likelihood(theta, 0).value)
    best = minimise(
        likelihood,
        first,
        lower,
        upper,
        CubicRegularisation() if task.options.solver == "cubic" else TrustRegion(),
        tolerance=task.options.tolerance,
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        min_predicted_decrease=min_decrease,
        stop=task.stop,
    )
    objective = best.value if np.isfinite(best.value) else np.inf
    return Outcome(task.expand(best.x), objective, Status.from_stop(best.stop), best.iterations, best.evaluations)


ESTIMATOR = Estimator("mle", "WENDy-MLE", search, check=check, options=("solver",))
