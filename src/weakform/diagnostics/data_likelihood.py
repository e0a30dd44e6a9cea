"""The likelihood of the data at a fit.

With states x̂ that obey the model, n_d measured values of state d in working coordinates x, each with standard deviation
`σ_d s`, and `dx/du` from these to the units of the data,

    log L = Σ_d [ -½ Σ (x - x̂)²/(σ_d s)² - n_d log(σ_d √2π) + Σ (log |dx/du| - log s) ],

so that it is the density of the numbers in the table, whatever coordinates the fit has used.
"""

from __future__ import annotations

import math

import numpy as np

from ..estimators.estimation_problem import Task
from ..estimators.noise_level import cost, counts
from ..estimators.outcome import Refined
from ..noise.kinds import KINDS, TAIL


def log_likelihood(task: Task, refined: Refined | None, noise_free: bool) -> float:
    """Of the data given the fit, with its σ; NaN where there are no such states, or no noise."""
    if refined is None or noise_free or not np.isfinite(refined.misfit):
        return math.nan
    data, n = task.problem.data, counts(task)
    total = -cost(task, refined) - float(n.sum()) * math.log(math.sqrt(2 * math.pi))
    for q in data.trajectories:
        there = q.measured
        with np.errstate(all="ignore"):
            slopes = np.column_stack(
                [KINDS[kind].numeric_slope(column) for kind, column in zip(data.noise, q.values.T, strict=True)]
            )
            total -= float(np.sum(np.log(slopes * q.scales)[there]))
        if data.covariance is not None:
            total -= 0.5 * float(there.all(axis=1).sum() * np.linalg.slogdet(data.covariance)[1])
        if q.within is not None:
            total += q.density
    return total + _tails(task, refined)


def _tails(task: Task, refined: Refined) -> float:
    """What kinds of noise with a density of their own add to the normal one of their weights."""
    data, total = task.problem.data, 0.0
    for d, name in enumerate(data.noise):
        kind = KINDS[name]
        if kind.density is None or refined.residuals is None:
            continue
        r = np.concatenate([part[:, d] for part in refined.residuals])
        there = np.isfinite(r)
        scale, base = (
            np.concatenate([part[:, d] for part in parts])[there]
            for parts in ([q.scales for q in data.trajectories], [q.base for q in data.trajectories])
        )
        r, weights = r[there], scale / base
        # σ of these weights is that of the estimate's scatter; the σ that belongs to the density gives the weights.
        off = r * refined.sigma[d] * weights
        sigma = math.sqrt(float(np.sum(off**2)) / max(float(np.sum((TAIL + 1) * weights**2 - TAIL)), 1e-300))
        normal = -0.5 * float(r @ r) - float(np.sum(np.log(refined.sigma[d] * scale * math.sqrt(2 * math.pi))))
        total += kind.density(off / sigma) - float(np.sum(np.log(sigma * base))) - normal
    return total
