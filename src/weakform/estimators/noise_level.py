"""Noise level and degrees of freedom of a fit, from its residuals.

With n_d measured values in column d, n values in all and k fitted parameters and initial states,

    σ_d² = Σ residuals²/(n_d (n - k)/n),

so that each column loses its share of what was fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from .estimation_problem import Problem, Task
from .outcome import Refinement

Solution = TypeVar("Solution")
MIN_RELATIVE_SIGMA = 1e-7
"""Smallest estimate of σ, relative to the spread of a column: smaller residuals are the rounding of the data. By
judgement."""
SIGMA_TOLERANCE = 2e-3
"""Relative change of σ below which solution and σ agree. By judgement: σ itself is known to `1/√(2n)` of its size, 2%
of it with 1000 values."""


def compute_within_misfit(task: Task, sigma: FloatArray) -> float:
    """Return what repeated measurements add to the misfit: the squared scatter about their means, over σ² `(D,)`."""
    parts = [float(np.sum(q.within / sigma**2)) for q in task.problem.data.trajectories if q.within is not None]
    return sum(parts)


def count_values(task: Task) -> FloatArray:
    """Count the measured values of each column, each repeated measurement as one value, `(D,)`."""
    data = task.problem.data
    return np.asarray(data.measurements + data.repeated_measurements)


def count_degrees_of_freedom(task: Task) -> int:
    """Count the measured values less the fitted parameters and initial states."""
    fitted = int(task.free.sum()) + task.problem.fitted_initial_count
    return int(count_values(task).sum()) - fitted


def compute_negative_log_likelihood(task: Task, refined: Refinement) -> float:
    """Compute minus the log-likelihood of the data, without the terms that all estimates have in common.

    NaN if the method has no likelihood.
    """
    if not np.isfinite(refined.misfit):
        return np.nan
    with np.errstate(divide="ignore"):
        return 0.5 * refined.misfit + float(count_values(task) @ np.log(refined.sigma))


def build_noise_estimator(task: Task) -> Callable[[FloatArray], FloatArray]:
    """Return the function that estimates σ `(D,)` from residuals, by the formula of this module.

    Its argument is the array of residuals `(rows, D)` of all trajectories in working coordinates, over their scale,
    and zero where nothing was measured.
    """
    problem, values = task.problem, count_values(task)
    freedom = np.maximum(values * count_degrees_of_freedom(task) / values.sum(), 1.0)
    within = sum(q.within for q in problem.data.trajectories if q.within is not None)
    # Residuals of a column that the model follows exactly are rounding, which is no measure of noise.
    least = np.maximum(MIN_RELATIVE_SIGMA * problem.spread, _compute_min_sigma(problem))

    def estimate_sigma(residuals: FloatArray) -> FloatArray:
        squares = np.einsum("id,id->d", residuals, residuals) + within
        return np.asarray(np.maximum(np.sqrt(squares / freedom), least))

    return estimate_sigma


def _compute_min_sigma(problem: Problem) -> FloatArray:
    """Return the smallest σ of each column `(D,)`: that of its kind of noise if all values are whole, else 0."""
    rows = np.concatenate([q.values for q in problem.data.trajectories])
    whole = (np.isnan(rows) | (rows == np.round(rows))).all(axis=0)
    return np.where(whole, [KINDS[kind].min_sigma for kind in problem.data.noise], 0.0)


def alternate_with_noise(
    task: Task,
    sigma: FloatArray,
    solution: Solution,
    solve: Callable[[FloatArray, Solution], tuple[Solution, bool]],
    residuals: Callable[[Solution], tuple[FloatArray, ...]],
    rounds: int,
) -> tuple[Solution, FloatArray]:
    """Update a solution and σ in turn until they agree; a σ that the user gives is kept.

    Parameters
    ----------
    task : Task
    sigma : ndarray, (D,)
        σ of the first solution.
    solution
        The first solution, of any type.
    solve : callable
        `solve(sigma, near)` returns the solution for another σ, found from one nearby, and whether to go on.
    residuals : callable
        Returns the residuals `(time, D)` of each trajectory for a solution, over their scale and zero where nothing was
        measured.
    rounds : int
        Largest number of updates.

    Returns
    -------
    solution
    sigma : ndarray, (D,)
    """
    if task.problem.data.sigma is not None:
        return solution, sigma
    estimate_sigma = build_noise_estimator(task)
    for _ in range(rounds):
        new = estimate_sigma(np.concatenate(residuals(solution)))
        agreed = (np.abs(new / sigma - 1) < SIGMA_TOLERANCE).all()
        sigma = new
        solution, good = solve(sigma, solution)
        if agreed or not good:
            break
    return solution, sigma
