"""Detection of data without noise.

The likelihood of noise-free data has no maximum: σ goes to zero. Weak least squares is exact for such data, up to
quadrature, and replaces a method that cannot handle them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..weak.weak_problem import WeakProblem
from .estimation_problem import Problem
from .outcome import Refinement

MAX_WEAK_RESIDUAL = 2e-6
"""Weak residual, relative to `Φ'x`, up to which weak least squares fits to rounding. The quadrature with the default
test functions leaves 9e-7 on smooth noise-free data, a little less than half of it."""
MIN_SAMPLES_PER_RADIUS = 8
"""Samples in the radius of a test function below which quadrature errors are too large to judge by weak residuals. By
judgement."""
VISIBLE_NOISE_FACTOR = 1e3
"""Expected weak residual of the noise that a filter finds, in units of `MAX_WEAK_RESIDUAL`, above which the data are
noisy without further checks. By judgement."""
MAX_RELATIVE_SIGMA = 1e-6
"""Estimated σ, relative to the spread of a column, up to which the data are noise-free. By judgement."""


def is_noise_free(problem: Problem) -> bool:
    """Return True if σ is zero for all columns, as it is if the user gives `sigma=0`."""
    return bool((problem.sigma == 0).all())


def is_exact_weak_fit(problem: WeakProblem, objective: Callable[[], float]) -> bool:
    """Return True if weak least squares fits the data to rounding.

    Parameters
    ----------
    problem : WeakProblem
    objective : callable
        Returns the objective `½‖r‖²` of weak least squares. It is called only if the data do not visibly have noise.
    """
    size = problem.compute_left_side_norm()
    # With few samples in a bump, its quadrature error may itself look like a model that fits.
    steps = [
        form.functions.radius / q.mean_step for form, q in zip(problem.forms, problem.data.trajectories, strict=True)
    ]
    if min(steps) < MIN_SAMPLES_PER_RADIUS:
        return False
    # The noise of r is about σ times ‖Φ'‖; where the filter already finds noise, least squares need not be run.
    noise = np.sqrt(sum(float(np.sum(form.functions.dphi**2)) for form in problem.forms) * len(problem.sigma))
    if noise > VISIBLE_NOISE_FACTOR * MAX_WEAK_RESIDUAL * size:
        return False
    return bool(np.sqrt(2 * objective()) <= MAX_WEAK_RESIDUAL * size)


def is_exact_fit(problem: Problem, refined: Refinement | None) -> bool:
    """Return True if the estimated noise of a refined fit is no more than rounding.

    False if σ is given, and if there are no more values than fitted quantities.
    """
    if refined is None or problem.data.sigma is not None or refined.freedom <= 0:
        return False
    return bool((refined.sigma <= MAX_RELATIVE_SIGMA * problem.spread).all())
