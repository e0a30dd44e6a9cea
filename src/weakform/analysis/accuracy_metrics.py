"""The paper's measures of one estimate against a known truth, and R² against the data.

coefficient error  ‖p̂ - p*‖/‖p*‖
forward error      ‖Û(p̂, u₀*) - U*‖_F/‖U*‖_F, solved from the true initial state
failed             either is not below 25 (2500%), or the forward solution breaks down
covered            |p̂_j - p*_j| < 2 √C_jj
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..data.matching import inputs_of
from ..data.trajectory import Truth
from ..forward.solver import simulate
from ..inference.fitted_states import RTOL, Seen, beginning
from ..inference.prediction import forward
from ..model.inputs import Inputs
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from ..support.errors import FitError

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

FAILED = 25.0


@dataclass(frozen=True, eq=False)
class Metrics:
    """How near an estimate is to the truth.

    Attributes
    ----------
    coefficient_error, forward_error : float
        The second is NaN where the model cannot be solved.
    failed : bool
    covered : ndarray of bool, (J,)
        Whether two standard errors reach the truth.
    """

    coefficient_error: float
    forward_error: float
    failed: bool
    covered: BoolArray


@np.errstate(all="ignore")
def measure(
    model: Model,
    p: FloatArray,
    covariance: FloatArray,
    times: FloatArray,
    truth: Truth,
    inputs: Inputs | None = None,
) -> Metrics:
    """Measures of an estimate `(J,)` with its covariance, from data sampled at `times` `(time,)`."""
    coefficient = float(np.linalg.norm(p - truth.parameters) / np.linalg.norm(truth.parameters))
    forward = forward_error(model, p, times, truth, inputs)
    failed = not (coefficient < FAILED and forward < FAILED)
    with np.errstate(invalid="ignore"):
        covered = np.abs(p - truth.parameters) < 2 * np.sqrt(covariance.diagonal())
    return Metrics(coefficient, forward, failed, covered)


def forward_error(model: Model, p: FloatArray, times: FloatArray, truth: Truth, inputs: Inputs | None = None) -> float:
    """Relative error of the forward solution from the true initial state; NaN where there is none."""
    grid = times if times[0] == truth.begin else np.concatenate([[truth.begin], times])
    if not np.isfinite(p).all():
        return np.nan
    solved = simulate(model, p, truth.initial, grid, inputs=inputs)
    if not solved.success:
        return np.nan
    off = solved.states[-len(times) :] - truth.states
    return float(np.linalg.norm(off) / np.linalg.norm(truth.states))


def r_squared(values: FloatArray, states: FloatArray) -> FloatArray:
    """`1 - Σ(data - states)²/Σ(data - mean)²` of each state, `(D,)`, from `(time, D)`; missing data are left out."""
    there = np.isfinite(values)
    left = np.sum(np.where(there, (values - states) ** 2, 0.0), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - left / np.nansum((values - np.nanmean(values, axis=0)) ** 2, axis=0))


@np.errstate(all="ignore")
def as_truth(fit: FitResult, truth: Truth | Mapping[str, float] | None) -> Truth:
    """The truth to measure against."""
    if truth is None:
        truth = fit.data.truth
    if isinstance(truth, Truth):
        return truth
    names = fit.model.parameters
    if not isinstance(truth, Mapping) or set(truth) != set(names):
        raise FitError(
            f"These data carry no truth; give truth={{...}} with a value for each of {', '.join(names)}; "
            f"received {truth!r}."
        )
    try:
        p = np.array([float(truth[name]) for name in names])
    except (TypeError, ValueError):
        raise FitError(f"The true parameters must be numbers; received {truth!r}.") from None
    times = fit.data.trajectories[0].times
    _, initial = beginning(fit, 0)
    solved = simulate(fit.model.of(0), p, initial, times, inputs=inputs_of(fit.model, fit.data, 0), rtol=RTOL)
    if not solved.success:
        raise FitError(f"The model cannot be solved with the true parameters: {solved.status.value}.")
    return Truth(p, solved.states, initial, fit.sigma, float(times[0]))


def measure_fit(fit: FitResult, truth: Truth | Mapping[str, float] | None) -> Metrics:
    """Measure a fit against a known truth; see `FitResult.metrics`."""
    known = as_truth(fit, truth)
    times, inputs = fit.data.trajectories[0].times, inputs_of(fit.model, fit.data, 0)
    return measure(fit.model.of(0), fit.estimate, fit.covariance, times, known, inputs)


def explained_shares(fit: FitResult) -> dict[str, float]:
    """Compute R² of each measured column against the forward solution from the fitted initial states."""
    values = np.concatenate([q.values for q in fit.data.trajectories])
    parts = []
    for k, q in enumerate(fit.data.trajectories):
        parts.append(Seen.of(fit, k, every=True).values(q.times, forward(fit, k)))
    shares = r_squared(values, np.concatenate(parts))
    return {name: float(share) for name, share in zip(fit.data.labels, shares, strict=True)}
