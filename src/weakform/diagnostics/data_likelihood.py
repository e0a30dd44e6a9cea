"""The likelihood of the data at a fit.

Let x̂ be fitted states that obey the model, x the n_d measured values of state d in working coordinates, each with the
standard deviation `σ_d s`, and `dx/du` the derivative of the working coordinates with respect to the data in their own
units. Then

    log L = Σ_d [ -½ Σ (x - x̂)²/(σ_d s)² - n_d log(σ_d √2π) + Σ (log |dx/du| - log s) ],

which is the density of the measured numbers themselves, whatever coordinates the fit has used.
"""

from __future__ import annotations

import math

import numpy as np

from ..estimators.estimation_problem import Task
from ..estimators.noise_level import compute_negative_log_likelihood, count_values
from ..estimators.outcome import Refinement
from ..noise.kinds import KINDS, STUDENT_DEGREES


def compute_log_likelihood(task: Task, refined: Refinement | None, noise_free: bool) -> float:
    """Compute the log-likelihood of the data at a fit, with the σ of the fit.

    Parameters
    ----------
    task : Task
    refined : Refinement, or None
        None if the method has no states that obey the model.
    noise_free : bool
        Whether the data have no noise, so that their density is not finite.

    Returns
    -------
    float
        NaN without states that obey the model, or without noise.
    """
    if refined is None or noise_free or not np.isfinite(refined.misfit):
        return math.nan
    data, n = task.problem.data, count_values(task)
    total = -compute_negative_log_likelihood(task, refined) - float(n.sum()) * math.log(math.sqrt(2 * math.pi))
    for q in data.trajectories:
        measured = q.measured
        with np.errstate(all="ignore"):
            slopes = np.column_stack(
                [KINDS[kind].numeric_slope(column) for kind, column in zip(data.noise, q.values.T, strict=True)]
            )
            total -= float(np.sum(np.log(slopes * q.scales)[measured]))
        if data.covariance is not None:
            # The residuals are whitened by the covariance between the columns; what remains to add is its determinant.
            total -= 0.5 * float(measured.all(axis=1).sum() * np.linalg.slogdet(data.covariance)[1])
        if q.within is not None:
            # Repeated measurements were averaged: add the terms `log(|dx/du|/s)` of the values less those of their
            # means.
            total += q.density
    return total + _correct_for_heavy_tails(task, refined)


def _correct_for_heavy_tails(task: Task, refined: Refinement) -> float:
    """Correct the log-likelihood for heavy-tailed noise.

    The fit treats such noise as normal noise with a weight for each value.

    Returns
    -------
    float
        The log-density of the kind less that of the weighted normal noise; zero for other kinds.
    """
    data, total = task.problem.data, 0.0
    for d, name in enumerate(data.noise):
        kind = KINDS[name]
        if kind.density is None or refined.residuals is None:
            continue
        r = np.concatenate([part[:, d] for part in refined.residuals])
        measured = np.isfinite(r)
        scale, base = (
            np.concatenate([part[:, d] for part in parts])[measured]
            for parts in ([q.scales for q in data.trajectories], [q.unweighted_scales for q in data.trajectories])
        )
        r, weights = r[measured], scale / base
        # The σ of the fit is larger than that of the density, to match the scatter of the estimate. The σ of the
        # density is the one from which the weights follow: w² = (ν + e²/σ²)/(ν + 1), so Σ e² = σ² Σ [(ν + 1) w² - ν].
        off = r * refined.sigma[d] * weights
        sigma = math.sqrt(
            float(np.sum(off**2)) / max(float(np.sum((STUDENT_DEGREES + 1) * weights**2 - STUDENT_DEGREES)), 1e-300)
        )
        normal = -0.5 * float(r @ r) - float(np.sum(np.log(refined.sigma[d] * scale * math.sqrt(2 * math.pi))))
        total += kind.density(off / sigma) - float(np.sum(np.log(sigma * base))) - normal
    return total
