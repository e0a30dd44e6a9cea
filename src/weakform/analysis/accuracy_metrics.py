"""Accuracy of a fit: the paper's measures against a known truth, R² against the data, and standardised residuals.

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

from ..data.matching import collect_inputs
from ..data.trajectory import Truth
from ..forward.solver import simulate
from ..inference.fitted_states import FORWARD_TOLERANCE, MeasuredColumns, compute_fitted_columns, get_initial_state
from ..inference.prediction import solve_at_samples
from ..model.inputs import Inputs
from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.array_types import BoolArray, FloatArray
from ..support.errors import FitError

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

FAILURE_ERROR = 25.0
"""Coefficient error or forward error, relative. From here on a run counts as failed: the definition of the paper."""


@dataclass(frozen=True, eq=False)
class Metrics:
    """Accuracy of an estimate against a known truth.

    Attributes
    ----------
    coefficient_error : float
        Relative error of the parameters, `‖p̂ - p*‖/‖p*‖`.
    forward_error : float
        Relative error of the forward solution from the true initial state; NaN if the model cannot be solved.
    failed : bool
        Whether either error is 25 (2500%) or more, or NaN.
    covered : ndarray of bool, (J,)
        Whether the truth is within two standard errors of the estimate.
    """

    coefficient_error: float
    forward_error: float
    failed: bool
    covered: BoolArray


@np.errstate(all="ignore")
def compute_metrics(
    model: Model,
    p: FloatArray,
    covariance: FloatArray,
    times: FloatArray,
    truth: Truth,
    inputs: Inputs | None = None,
) -> Metrics:
    """Compute the accuracy of an estimate.

    Parameters
    ----------
    model : Model
    p : ndarray, (J,)
        The estimate.
    covariance : ndarray, (J, J)
    times : ndarray, (time,)
        Times of the samples.
    truth : Truth
        With states at `times`.
    inputs : Inputs, optional
        Inputs of the model over time.

    Returns
    -------
    Metrics
    """
    coefficient = float(np.linalg.norm(p - truth.parameters) / np.linalg.norm(truth.parameters))
    forward = compute_forward_error(model, p, times, truth, inputs)
    # Not `>=`: an error that is NaN has failed.
    failed = not (coefficient < FAILURE_ERROR and forward < FAILURE_ERROR)
    with np.errstate(invalid="ignore"):
        covered = np.abs(p - truth.parameters) < 2 * np.sqrt(covariance.diagonal())
    return Metrics(coefficient, forward, failed, covered)


def compute_forward_error(
    model: Model, p: FloatArray, times: FloatArray, truth: Truth, inputs: Inputs | None = None
) -> float:
    """Compute the relative error of the forward solution from the true initial state; NaN if it breaks down.

    The arguments are those of `compute_metrics`.
    """
    grid = times if times[0] == truth.begin else np.concatenate([[truth.begin], times])
    if not np.isfinite(p).all():
        return np.nan
    solved = simulate(model, p, truth.initial, grid, inputs=inputs)
    if not solved.success:
        return np.nan
    # The grid may begin before the first sample: only the states at the samples are compared.
    off = solved.states[-len(times) :] - truth.states
    return float(np.linalg.norm(off) / np.linalg.norm(truth.states))


def compute_r_squared(values: FloatArray, states: FloatArray) -> FloatArray:
    """Compute `1 - Σ(data - states)²/Σ(data - mean)²` of each state.

    Parameters
    ----------
    values : ndarray, (time, D)
        Data; missing values (NaN) are left out.
    states : ndarray, (time, D)

    Returns
    -------
    ndarray, (D,)
    """
    is_measured = np.isfinite(values)
    residual = np.sum(np.where(is_measured, (values - states) ** 2, 0.0), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - residual / np.nansum((values - np.nanmean(values, axis=0)) ** 2, axis=0))


@np.errstate(all="ignore")
def resolve_truth(fit: FitResult, truth: Truth | Mapping[str, float] | None) -> Truth:
    """Return the truth to measure a fit against.

    Parameters
    ----------
    fit : FitResult
    truth : Truth, mapping, or None
        None for the truth that simulated data carry. If only parameters are given by name, the true states are computed
        from the initial state of the fit.

    Returns
    -------
    Truth

    Raises
    ------
    FitError
        If the data carry no truth, the parameters are incomplete, or the model cannot be solved with them.
    """
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
    _, initial = get_initial_state(fit, 0)
    solved = simulate(
        fit.model.for_trajectory(0),
        p,
        initial,
        times,
        inputs=collect_inputs(fit.model, fit.data, 0),
        rtol=FORWARD_TOLERANCE,
    )
    if not solved.success:
        raise FitError(f"The model cannot be solved with the true parameters: {solved.status.value}.")
    return Truth(p, solved.states, initial, fit.sigma, float(times[0]))


def compute_fit_metrics(fit: FitResult, truth: Truth | Mapping[str, float] | None) -> Metrics:
    """Compute the accuracy of a fit against a known truth; see `FitResult.metrics`."""
    reference = resolve_truth(fit, truth)
    times, inputs = fit.data.trajectories[0].times, collect_inputs(fit.model, fit.data, 0)
    return compute_metrics(fit.model.for_trajectory(0), fit.estimate, fit.covariance, times, reference, inputs)


def compute_explained_shares(fit: FitResult) -> dict[str, float]:
    """Compute R² of each measured column, by its label, against the forward solution from the fitted initial states."""
    values = np.concatenate([q.values for q in fit.data.trajectories])
    parts = []
    for k, q in enumerate(fit.data.trajectories):
        parts.append(MeasuredColumns.select(fit, k, with_states=True).compute_values(q.times, solve_at_samples(fit, k)))
    shares = compute_r_squared(values, np.concatenate(parts))
    return {name: float(share) for name, share in zip(fit.data.labels, shares, strict=True)}


def compute_state_r_squared(fit: FitResult) -> FloatArray:
    """Compute R² of each measured column against the fitted states, `(columns,)`.

    Unlike `compute_explained_shares` it does not solve the equations, so that it also describes chaotic systems, whose
    forward solution diverges from the data.
    """
    y = np.concatenate([q.values for q in fit.data.trajectories])
    residuals = np.concatenate(fit.residuals)
    with np.errstate(all="ignore"):
        return np.asarray(1 - np.nansum(residuals**2, axis=0) / np.nansum((y - np.nanmean(y, axis=0)) ** 2, axis=0))


def standardise_residuals(fit: FitResult, k: int) -> FloatArray:
    """Compute the residuals of trajectory k over their standard deviations, `(time, columns)`; NaN where missing.

    Residuals are measured less fitted values in coordinates in which the noise is additive: logarithms for lognormal
    noise.
    """
    q, states = fit.data.trajectories[k], compute_fitted_columns(fit, k)
    standardised = np.full_like(q.values, np.nan)
    for d, kind in enumerate(KINDS[name] for name in fit.data.noise):
        with np.errstate(all="ignore"):
            off = kind.to_working(q.values[:, d]) - kind.to_working(states[:, d])
            standardised[:, d] = off / (fit.sigma[d] * q.scales[:, d])
    return standardised


@dataclass(frozen=True)
class ColumnScores:
    """Standardised residuals of one measured column over all trajectories; missing values are left out.

    Attributes
    ----------
    name : str
        The label of the column.
    times, level : ndarray, (n,)
        Times, and fitted values.
    score : ndarray, (n,)
        Residuals over their standard deviations.
    expected : ndarray, (n,)
        Quantiles of normal noise, in ascending order, for a plot of the sorted residuals against them.
    """

    name: str
    times: FloatArray
    level: FloatArray
    score: FloatArray
    expected: FloatArray


def arrange_residuals_by_column(fit: FitResult) -> list[ColumnScores]:
    """Return the standardised residuals of each measured column, for plots."""
    from scipy.special import ndtri

    trajectories = fit.data.trajectories
    e = np.concatenate([standardise_residuals(fit, k) for k in range(len(trajectories))])
    times = np.concatenate([q.times for q in trajectories])
    level = np.concatenate([q.values - r for q, r in zip(trajectories, fit.residuals, strict=True)])
    columns = []
    for d, name in enumerate(fit.data.names or fit.model.states):
        is_measured = np.isfinite(e[:, d])
        n = int(is_measured.sum())
        # Plotting positions of Hazen.
        expected = ndtri((np.arange(1, n + 1) - 0.5) / n)
        columns.append(ColumnScores(name, times[is_measured], level[is_measured, d], e[is_measured, d], expected))
    return columns
