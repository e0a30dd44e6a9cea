"""Iteration between a fit and the weights of its values, for noise whose size depends on what is fitted.

The standard deviation of a count, say, is the root of its mean, which the fit determines (see `noise.kinds`). Fit and
weights are updated in turn until they agree.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from .estimation_problem import Task
from .estimator import Estimator
from .outcome import Outcome, Refinement

MAX_WEIGHT_ROUNDS = 20
"""Largest number of updates of the weights. By judgement."""
WEIGHT_TOLERANCE = 1e-3
"""Largest relative change of a weight at which weights and fit agree. By judgement."""


def iterate_weights(estimator: Estimator, task: Task, outcome: Outcome) -> tuple[Task, Outcome]:
    """Update a refined outcome and the weights of the values in turn until they agree.

    Returns
    -------
    task : Task
        With the last weights; unchanged if no column has noise of such a kind.
    outcome : Outcome
        Refined with these weights.
    """
    kinds = [KINDS[kind] for kind in task.problem.data.noise]
    if estimator.refine is None or all(kind.weigh is None for kind in kinds):
        return task, outcome
    for _ in range(MAX_WEIGHT_ROUNDS):
        if outcome.refined is None or outcome.refined.residuals is None or not outcome.status.converged:
            return task, outcome
        old = [q.weights for q in task.problem.data.trajectories]
        weights = _compute_weights(task, outcome.refined)
        changes = [np.abs(new / (1.0 if w is None else w) - 1).max() for new, w in zip(weights, old, strict=True)]
        task = replace(task, problem=task.problem.with_weights(weights))
        outcome = estimator.refine(task, outcome)
        if max(changes) < WEIGHT_TOLERANCE or task.stop():
            break
    return task, _widen_covariance(task, outcome)


def _join_columns(task: Task, refined: Refinement) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Join all trajectories into arrays `(samples, columns)`.

    Returns
    -------
    values : ndarray
        The data; NaN where nothing was measured.
    differences : ndarray
        Residuals in the units of the data (the kinds with weights are additive in these).
    base : ndarray
        Scales of the values without the weights.
    """
    assert refined.residuals is not None
    data = task.problem.data.trajectories
    base = np.concatenate([q.unweighted_scales for q in data])
    differences = np.concatenate([r * refined.sigma * q.scales for r, q in zip(refined.residuals, data, strict=True)])
    return np.concatenate([q.values for q in data]), differences, base


def _compute_weights(task: Task, refined: Refinement) -> tuple[FloatArray, ...]:
    """Compute the weights `(time, columns)` of each trajectory that follow from a fit; one where the noise has none."""
    values, differences, base = _join_columns(task, refined)
    weights = np.ones(values.shape)
    for d, name in enumerate(task.problem.data.noise):
        kind, measured = KINDS[name], np.isfinite(values[:, d])
        if kind.weigh is not None:
            y = values[measured, d]
            weights[measured, d] = kind.weigh(y, y - differences[measured, d], refined.sigma[d] * base[measured, d])
    return tuple(np.split(weights, np.cumsum([len(q.times) for q in task.problem.data.trajectories])[:-1]))


def _widen_covariance(task: Task, outcome: Outcome) -> Outcome:
    """Return the outcome with σ, and all that follows from it, as large as the estimate scatters under its weights.

    An M-estimate such as that for Student's noise has another variance than its weights promise (`Kind.widen`).
    """
    refined = outcome.refined
    if refined is None or refined.residuals is None:
        return outcome
    values, differences, base = _join_columns(task, refined)
    factors = np.ones(len(refined.sigma))
    for d, name in enumerate(task.problem.data.noise):
        kind, measured = KINDS[name], np.isfinite(values[:, d])
        if kind.widen is not None and task.problem.data.sigma is None:
            e = differences[measured, d] / (refined.sigma[d] * base[measured, d])
            weights = kind.weigh(e, np.zeros_like(e), np.ones_like(e)) if kind.weigh else np.ones_like(e)
            factors[d] = kind.widen(e, weights)
    if (factors == 1).all():
        return outcome
    # Parameters see all columns: their covariance grows by the mean of the factors.
    mean = float(np.mean(factors))
    wider = replace(
        refined,
        sigma=refined.sigma * np.sqrt(factors),
        covariance=refined.covariance * mean,
        information=None if refined.information is None else refined.information / mean,
        residuals=tuple(r / np.sqrt(factors) for r in refined.residuals),
        misfit=float(sum(np.nansum(r**2 / factors) for r in refined.residuals)),
    )
    return replace(outcome, refined=wider)
