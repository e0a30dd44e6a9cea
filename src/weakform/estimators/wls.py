"""Weak least squares: `argmin ½‖r(p)‖²`, each equation weighted by one over its σ.

Direct where the model is linear in the free parameters, iterated from a start where it is not. Noise in the data biases
it, as the data stand on both sides of the regression; it is exact for noise-free data, and a start for the others.
"""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray
from .estimation_problem import Outcome, Task
from .estimator import Estimator
from .weak_least_squares import least_squares

MAX_ITERATIONS = 200


def search(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start; linear models need none."""
    limit = task.options.max_iterations or MAX_ITERATIONS
    p, status, evaluations = least_squares(task, task.weak.residual, task.weak.jacobian, start, limit)
    r = task.weak.residual(p)
    objective = 0.5 * float(r @ r)
    return Outcome(p, objective if np.isfinite(objective) else np.inf, status, evaluations, evaluations)


ESTIMATOR = Estimator(
    "wls",
    "weak least squares",
    search,
    has_likelihood=False,
    closed_form=True,
    noise_free=lambda task: task,
    minimises_weak_residual=True,
)
