"""Weak least squares: `argmin ½‖r(p)‖²`, each equation weighted by one over its σ.

The solution is direct where the model is linear in the free parameters, and iterated from a start where it is not.
Noise in the data biases the estimate, as the data are on both sides of the regression. For noise-free data the estimate
has no such bias, and for the other methods it is a start.
"""

from __future__ import annotations

import numpy as np

from .estimation_problem import StartPoint, Task
from .estimator import Estimator
from .outcome import Outcome
from .weak_least_squares import least_squares

MAX_ITERATIONS = 200
"""Evaluations of the residual, unless the option `max_iterations` is set. The default that `Options` documents."""


def search(task: Task, start: StartPoint | None) -> Outcome:
    """Fit weak least squares from one start; a model that is linear in its parameters needs none."""
    limit = task.options.max_iterations or MAX_ITERATIONS
    p, status, evaluations = least_squares(task, task.weak.residual, task.weak.jacobian, start, limit)
    r = task.weak.residual(p)
    objective = 0.5 * float(r @ r)
    return Outcome(p, objective if np.isfinite(objective) else np.inf, status, evaluations, evaluations)


ESTIMATOR = Estimator(
    "wls",
    "weak least squares",
    search,
    likelihood=False,
    closed_form=True,
    noise_free=lambda task: task,
    minimises_weak_residual=True,
)
