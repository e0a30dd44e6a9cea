"""Predictions: forward solutions of the fitted model over the data and beyond, with pointwise bands (`state_bands`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.event_schedule import find_jump_times
from ..support.array_types import FloatArray
from ..support.errors import DataError, FitError
from ..support.progress import Watch
from ..support.whole_numbers import is_whole
from .fitted_states import compute_joint_covariance, get_initial_state, make_covariance_finite, solve_forward
from .refits import can_refit
from .state_bands import BandBuilder, JointEstimate, Prediction

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

POINTS_TO_DRAW = 400
"""Approximate number of times at which a fitted trajectory is drawn: enough for a smooth curve on a page. Every sample
is among them, even if there are more. By judgement."""
MAX_RELATIVE_DEPARTURE = 0.25
"""Root-mean-square difference of the forward solution from the fitted states, as a share of each state's spread, up to
which the solution follows them. Solutions of chaotic systems differ by about the spread itself. By judgement."""
LABELS_TO_LIST = 10
"""Number of labels of trajectories that an error message lists."""


def find_trajectory_number(fit: FitResult, trajectory: int | str) -> int:
    """Return the number of a trajectory that is given by its number or its label."""
    labels = [q.label for q in fit.data.trajectories]
    if isinstance(trajectory, str) and trajectory in labels:
        return labels.index(trajectory)
    if not is_whole(trajectory, 0) or int(trajectory) >= len(labels):
        several = f"one of {len(labels)}: {', '.join(labels[:LABELS_TO_LIST])}"
        choices = several if len(labels) > 1 else "there is one, number 0"
        raise FitError(f"The trajectory must be a number from 0, or a label ({choices}); received {trajectory!r}.")
    return int(trajectory)


@np.errstate(all="ignore")
def predict(
    fit: FitResult,
    times: ArrayLike,
    *,
    trajectory: int | str = 0,
    initial: ArrayLike | Mapping[str, float] | None = None,
    level: float = 0.95,
    kind: str = "auto",
    seed: int = 0,
    watch: Watch | None = None,
) -> Prediction:
    """Solve the fitted model at any times, with a pointwise band; see `FitResult.predict`.

    A `watch` stops the computation of a band of kind `"profile"`, which then raises `TimeLimitReached`.
    """
    z = fit.quantile(level)
    if kind not in ("auto", "delta", "sampling", "profile"):
        raise FitError(f"The kind of band must be 'auto', 'delta', 'sampling' or 'profile'; received {kind!r}.")
    if kind == "profile" and not (fit.nodes and can_refit(fit) and fit.converged and initial is None):
        raise FitError(
            "Bands by the likelihood are computed for fits by method 'relaxed' that have converged, from their fitted "
            "initial values; use kind='sampling'."
        )
    trajectory = find_trajectory_number(fit, trajectory)
    grid = _check_times(times)
    begin, _ = get_initial_state(fit, trajectory)
    if initial is None:
        if grid[0] < begin:
            raise DataError(
                f"The trajectory begins at t = {begin:g}; a prediction from its fitted initial state cannot go back to "
                f"t = {grid[0]:g}. Give initial=[...], the state at the first of the times."
            )
        mean, covariance = compute_joint_covariance(fit, trajectory, make_covariance_finite(fit))
    else:
        begin = float(grid[0])
        mean, covariance = _build_known_start(fit, initial)
    band = BandBuilder(fit, trajectory, grid, begin, JointEstimate(mean, covariance, is_given=initial is not None))
    return band.build_prediction(level, z, kind, seed, watch)


@np.errstate(all="ignore")
def solve_at_samples(fit: FitResult, trajectory: int) -> FloatArray:
    """Compute the forward solution at the samples of a trajectory, `(time, D)`; NaN from where the solver fails."""
    solution, before = solve_forward(fit, trajectory, fit.data.trajectories[trajectory].times)
    return solution.states[before:]


def is_solution_close(fit: FitResult, trajectory: int) -> bool:
    """Return True if the forward solution stays close to the fitted states; a chaotic one departs."""
    # A solution that the solver lost is NaN, and compares as not close.
    solution, states = solve_at_samples(fit, trajectory), fit.denoised[trajectory]
    spread = np.sqrt(np.mean((states - states.mean(axis=0)) ** 2, axis=0))
    with np.errstate(invalid="ignore"):
        departure = np.sqrt(np.mean((solution - states) ** 2, axis=0))
        return bool((departure <= MAX_RELATIVE_DEPARTURE * spread).all())


def build_fine_grid(fit: FitResult, trajectory: int) -> FloatArray:
    """Return the samples of a trajectory and times between them, a few hundred in all, for drawing, `(time,)`."""
    times = fit.data.trajectories[trajectory].times
    begin, _ = get_initial_state(fit, trajectory)
    times = np.concatenate([[begin], times]) if begin < times[0] else times
    between = max(1, POINTS_TO_DRAW // len(times))
    parts = times[:-1, None] + np.diff(times)[:, None] * np.arange(between) / between
    fine = np.append(parts.ravel(), times[-1])
    # A jump needs a point on either side, or it would be drawn as a slope.
    jumps = [t for t in find_jump_times(fit.model.for_trajectory(trajectory)) if fine[0] < t < fine[-1]]
    return np.unique([*fine, *jumps, *(np.nextafter(t, -np.inf) for t in jumps)]) if jumps else fine


def _check_times(times: ArrayLike) -> FloatArray:
    """Validate the times of a prediction and return them as an array `(time,)`."""
    try:
        grid = np.atleast_1d(np.array(times, dtype=float))
    except (TypeError, ValueError):
        raise DataError(f"The times must be numbers; received {times!r}.") from None
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or (np.diff(grid) <= 0).any():
        raise DataError("The times of a prediction must be finite and increase.")
    return grid


def _build_known_start(fit: FitResult, initial: ArrayLike | Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
    """Return mean `(J + D,)` and covariance `(J + D, J + D)` of (p, x₀) for an initial state that the user gives."""
    D, J = len(fit.model.states), len(fit.model.parameters)
    values = [initial.get(name, np.nan) for name in fit.model.states] if isinstance(initial, Mapping) else initial
    try:
        u0 = np.atleast_1d(np.array(values, dtype=float))
    except (TypeError, ValueError):
        u0 = np.array([np.nan])
    if u0.shape != (D,) or not np.isfinite(u0).all():
        raise DataError(f"The initial state must be {D} numbers ({', '.join(fit.model.states)}); received {initial!r}.")
    # A known initial state has no variance.
    covariance = np.zeros((J + D, J + D))
    covariance[:J, :J] = make_covariance_finite(fit)
    return np.concatenate([fit.estimate, u0]), covariance


def get_fitted_trajectory(fit: FitResult, number: int | str, level: float, kind: str) -> Prediction:
    """Return the fitted trajectory with its band over the time of the data, computed once and then kept."""
    number = find_trajectory_number(fit, number)
    key = (number, level, kind)
    if key not in fit.late.bands:
        fit.late.bands[key] = fit.predict(build_fine_grid(fit, number), trajectory=number, level=level, kind=kind)
    return fit.late.bands[key]
