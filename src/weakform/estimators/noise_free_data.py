"""Data without noise: how they are noticed, and what is done about them.

The likelihood of noise-free data has no maximum: σ goes to zero. Weak least squares is exact for them, up to
quadrature, and takes the place of a method that cannot do without noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..weak.weak_problem import WeakProblem
from .estimation_problem import Problem, Refined

QUADRATURE = 2e-6
"""Weak residual, relative to `Φ'x`, below which weak least squares is said to fit to rounding: quadrature with the
default test functions leaves 9e-7 on smooth noise-free data."""
LEFT = 1e-6
"""Residuals, relative to the spread of a state, below which data are said to be noise-free."""


def is_noise_free(problem: Problem) -> bool:
    """Whether the user says so."""
    return bool((problem.sigma == 0).all())


def fits_to_rounding(problem: WeakProblem, objective: Callable[[], float]) -> bool:
    """Whether weak least squares, whose objective is asked for only if need be, leaves nothing but rounding."""
    size = problem.left_side_norm()
    # With few samples in a bump, its quadrature error may itself look like a model that fits.
    steps = [form.functions.radius / q.step for form, q in zip(problem.forms, problem.data.trajectories, strict=True)]
    if min(steps) < 8:
        return False
    # The noise of r is about σ times ‖Φ'‖; where the filter already sees noise, there is no need to look.
    noise = np.sqrt(sum(float(np.sum(form.functions.dphi**2)) for form in problem.forms) * len(problem.sigma))
    if noise > 1e3 * QUADRATURE * size:
        return False
    return bool(np.sqrt(2 * objective()) <= QUADRATURE * size)


def follows_to_rounding(problem: Problem, refined: Refined | None) -> bool:
    """Whether the refined states leave nothing of the data."""
    if refined is None or problem.data.sigma is not None or refined.freedom <= 0:
        return False
    return bool((refined.sigma <= LEFT * problem.spread).all())
