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
from ..inference.fitted_states import RTOL, Seen, beginning, fitted
from ..inference.prediction import forward
from ..model.inputs import Inputs
from ..model.model import Model
from ..noise.kinds import KINDS
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


def scores(fit: FitResult, k: int) -> FloatArray:
    """Measured less fitted values of trajectory k over their standard deviations, in the coordinates of the noise."""
    q, there = fit.data.trajectories[k], fitted(fit, k)
    found = np.full_like(q.values, np.nan)
    for d, kind in enumerate(KINDS[name] for name in fit.data.noise):
        with np.errstate(all="ignore"):
            off = kind.to_working(q.values[:, d]) - kind.to_working(there[:, d])
            found[:, d] = off / (fit.sigma[d] * q.scales[:, d])
    return found


@dataclass(frozen=True)
class Scores:
    """Residuals of one measured column, of all trajectories, where something was measured.

    Attributes
    ----------
    name : str
    times, level : ndarray, (n,)
        When, and what the fit has there.
    score : ndarray, (n,)
        Over σ.
    expected : ndarray, (n,)
        What normal noise would give, in order.
    """

    name: str
    times: FloatArray
    level: FloatArray
    score: FloatArray
    expected: FloatArray


def by_column(fit: FitResult) -> list[Scores]:
    """The residuals of each measured column, as they are drawn."""
    from scipy.special import ndtri

    every = fit.data.trajectories
    e = np.concatenate([scores(fit, k) for k in range(len(every))])
    times = np.concatenate([q.times for q in every])
    level = np.concatenate([q.values - r for q, r in zip(every, fit.residuals, strict=True)])
    found = []
    for d, name in enumerate(fit.data.names or fit.model.states):
        there = np.isfinite(e[:, d])
        n = int(there.sum())
        expected = ndtri((np.arange(1, n + 1) - 0.5) / n)
        found.append(Scores(name, times[there], level[there, d], e[there, d], expected))
    return found


def explained(fit: FitResult) -> FloatArray:
    """R² of each measured column, `(columns,)`: one less the share of its variance that the fit leaves."""
    y = np.concatenate([q.values for q in fit.data.trajectories])
    left = np.concatenate(fit.residuals)
    with np.errstate(all="ignore"):
        return np.asarray(1 - np.nansum(left**2, axis=0) / np.nansum((y - np.nanmean(y, axis=0)) ** 2, axis=0))
