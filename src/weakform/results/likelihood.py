"""The likelihood of the data at a fit.

With states x̂ that obey the model, n_d measured values of state d in working coordinates x, each with standard deviation
`σ_d s`, and `dx/du` from these to the units of the data,

    log L = Σ_d [ -½ Σ (x - x̂)²/(σ_d s)² - n_d log(σ_d √2π) + Σ (log |dx/du| - log s) ],

so that it is the density of the numbers in the table, whatever coordinates the fit has used.
"""

from __future__ import annotations

import math

import numpy as np

from ..estimators.residuals import cost, counts
from ..estimators.task import Refined, Task
from ..noise.kinds import KINDS


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
    return total
