"""Noise whose size follows from what is fitted: the fit and the weights of its values in turn (see `noise.kinds`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from .estimation_problem import Outcome, Refined, Task
from .estimator import Estimator

ROUNDS, AGREED = 20, 1e-3
"""At most so often, until weights change by less than a share."""


def settled(estimator: Estimator, task: Task, outcome: Outcome) -> tuple[Task, Outcome]:
    """The refined outcome with weights that agree with it, and the task that has them."""
    kinds = [KINDS[kind] for kind in task.problem.data.noise]
    if estimator.refine is None or all(kind.weigh is None for kind in kinds):
        return task, outcome
    for _ in range(ROUNDS):
        if outcome.refined is None or outcome.refined.residuals is None or not outcome.status.converged:
            return task, outcome
        old = [q.weights for q in task.problem.data.trajectories]
        weights = _weights(task, outcome.refined)
        moved = [np.abs(new / (1.0 if w is None else w) - 1).max() for new, w in zip(weights, old, strict=True)]
        task = replace(task, problem=task.problem.reweighed(weights))
        outcome = estimator.refine(task, outcome)
        if max(moved) < AGREED or task.stop():
            break
    return task, _widened(task, outcome)


def _columns(task: Task, refined: Refined) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values, residuals in their units and scales without weights `(samples, columns)`, of all trajectories."""
    assert refined.residuals is not None
    data = task.problem.data.trajectories
    base = np.concatenate([q.base for q in data])
    off = np.concatenate([r * refined.sigma * q.scales for r, q in zip(refined.residuals, data, strict=True)])
    return np.concatenate([q.values for q in data]), off, base


def _weights(task: Task, refined: Refined) -> tuple[FloatArray, ...]:
    values, off, base = _columns(task, refined)
    found = np.ones(values.shape)
    for d, name in enumerate(task.problem.data.noise):
        kind, there = KINDS[name], np.isfinite(values[:, d])
        if kind.weigh is not None:
            y = values[there, d]
            found[there, d] = kind.weigh(y, y - off[there, d], refined.sigma[d] * base[there, d])
    return tuple(np.split(found, np.cumsum([len(q.times) for q in task.problem.data.trajectories])[:-1]))


def _widened(task: Task, outcome: Outcome) -> Outcome:
    """With σ, and all that follows from it, as large as the scatter of the estimate under these weights."""
    refined = outcome.refined
    if refined is None or refined.residuals is None:
        return outcome
    values, off, base = _columns(task, refined)
    more = np.ones(len(refined.sigma))
    for d, name in enumerate(task.problem.data.noise):
        kind, there = KINDS[name], np.isfinite(values[:, d])
        if kind.widen is not None and task.problem.data.sigma is None:
            e = off[there, d] / (refined.sigma[d] * base[there, d])
            more[d] = kind.widen(e, kind.weigh(e, np.zeros_like(e), np.ones_like(e)) if kind.weigh else np.ones_like(e))
    if (more == 1).all():
        return outcome
    mean = float(np.mean(more))
    wider = replace(
        refined,
        sigma=refined.sigma * np.sqrt(more),
        covariance=refined.covariance * mean,
        information=None if refined.information is None else refined.information / mean,
        residuals=tuple(r / np.sqrt(more) for r in refined.residuals),
        misfit=float(sum(np.nansum(r**2 / more) for r in refined.residuals)),
    )
    return replace(outcome, refined=wider)
