"""What is left of the data once a model has been fitted: its freedom and its noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from .estimation_problem import Problem, Refined, Task

T = TypeVar("T")
EXACT = 1e-7
"""Smallest σ, relative to the spread of a state: below it lies the rounding of the data."""
AGREED = 2e-3


def within_misfit(task: Task, sigma: FloatArray) -> float:
    """What repeated measurements add to the misfit: their scatter about their means."""
    parts = [float(np.sum(q.within / sigma**2)) for q in task.problem.data.trajectories if q.within is not None]
    return sum(parts)


def counts(task: Task) -> FloatArray:
    """Measured values of each state, `(D,)`, repeated measurements among them."""
    data = task.problem.data
    repeats = [q.repeats for q in data.trajectories if q.repeats is not None]
    return np.asarray(data.measurements + np.sum(repeats, axis=0) if repeats else data.measurements)


def degrees_of_freedom(task: Task) -> int:
    """Measured values less fitted parameters and initial states."""
    fitted = int(task.free.sum()) + task.problem.beginnings
    return int(counts(task).sum()) - fitted


def cost(task: Task, refined: Refined) -> float:
    """Minus the log-likelihood of the data, but for what all estimates have in common."""
    if not np.isfinite(refined.misfit):
        return np.nan
    with np.errstate(divide="ignore"):
        return 0.5 * refined.misfit + float(counts(task) @ np.log(refined.sigma))


def noise_of(task: Task) -> Callable[[FloatArray], FloatArray]:
    """A function of residuals: `σ_d² = Σ residuals²/(n_d - share of what was fitted)`, `(D,)`.

    Residuals `(rows, D)` in working coordinates, over their scale, zero where nothing was measured.
    """
    problem, values = task.problem, counts(task)
    left = np.maximum(values * degrees_of_freedom(task) / values.sum(), 1.0)
    within = sum(q.within for q in problem.data.trajectories if q.within is not None)
    # A state that the model follows exactly has no noise to tell; keep σ off the rounding of the data.
    least = np.maximum(EXACT * problem.spread, _least(problem))

    def sigma(residuals: FloatArray) -> FloatArray:
        squares = np.einsum("id,id->d", residuals, residuals) + within
        return np.asarray(np.maximum(np.sqrt(squares / left), least))

    return sigma


def _least(problem: Problem) -> FloatArray:
    """What σ is at least, `(D,)`: that of counts, where all values are whole numbers."""
    rows = np.concatenate([q.values for q in problem.data.trajectories])
    whole = (np.isnan(rows) | (rows == np.round(rows))).all(axis=0)
    return np.where(whole, [KINDS[kind].least for kind in problem.data.noise], 0.0)


def with_noise(
    task: Task,
    sigma: FloatArray,
    solution: T,
    solve: Callable[[FloatArray, T], tuple[T, bool]],
    residuals: Callable[[T], tuple[FloatArray, ...]],
    rounds: int,
) -> tuple[T, FloatArray]:
    """A solution and σ in turn, until they agree; a σ that is given stays.

    Parameters
    ----------
    task : Task
    sigma : ndarray, (D,)
        With which the solution was found.
    solution
    solve : callable
        A solution for another σ, from one nearby, and whether to go on.
    residuals : callable
        Of a solution `(time, D)`, of each trajectory, as `noise_of` takes them.
    rounds : int
        At most.
    """
    if task.problem.data.sigma is not None:
        return solution, sigma
    noise = noise_of(task)
    for _ in range(rounds):
        new = noise(np.concatenate(residuals(solution)))
        agreed = (np.abs(new / sigma - 1) < AGREED).all()
        sigma = new
        solution, good = solve(sigma, solution)
        if agreed or not good:
            break
    return solution, sigma
