"""Information criteria: the likelihood, penalised by the number of unknowns, an estimated σ among them.

The likelihood is that of the measured values themselves, whatever coordinates a fit has used, so that fits with
different kinds of noise can be compared. A fit estimates σ² as the sum of squares over the degrees of freedom; the
likelihood is largest with the sum of squares over the number of values. For a column of n values with `m = Σ r²` in
units of the fit's σ, the log-likelihood at its maximum is larger by `(m - n - n log(m/n))/2`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..noise.kinds import KINDS
from .fitted_states import compute_fitted_columns

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


def count_values(fit: FitResult) -> int:
    """Count the measured values; repeated measurements count one by one."""
    return int((fit.data.measurements + fit.data.repeated_measurements).sum())


def count_unknowns(fit: FitResult) -> int:
    """Count the estimated unknowns: parameters, initial values that are not given, and each σ if it was estimated."""
    free = int((~fit.fixed).sum())
    model = fit.model.for_trajectory(0)
    initial = sum(state not in model.initial for state in model.states) * len(fit.data.trajectories)
    return free + initial + (len(fit.sigma) if fit.sigma_estimated else 0)


@np.errstate(all="ignore")
def compute_max_log_likelihood(fit: FitResult) -> float:
    """Compute the log-likelihood at the σ that maximises it, or at the given σ.

    Returns
    -------
    float
        NaN if the noise is not normal in its working coordinates, or has its own size in each trajectory: then the fit
        does not maximise a likelihood in σ.
    """
    if fit.data.own_noise or any(KINDS[k].weigh is not None or KINDS[k].density is not None for k in fit.data.noise):
        return math.nan
    if not fit.sigma_estimated or not math.isfinite(fit.log_likelihood):
        return fit.log_likelihood
    gain = 0.0
    for d, name in enumerate(fit.data.noise):
        kind = KINDS[name]
        m = n = 0.0
        for k, q in enumerate(fit.data.trajectories):
            measured = q.measured[:, d]
            off = kind.to_working(q.values[measured, d]) - kind.to_working(compute_fitted_columns(fit, k)[measured, d])
            m += float(np.sum((off / (fit.sigma[d] * q.scales[measured, d])) ** 2))
            n += float(measured.sum())
            # Repeats at one time are stored as their mean; their scatter about it belongs to the likelihood, too.
            if q.within is not None and q.repeats is not None:
                m, n = m + float(q.within[d] / fit.sigma[d] ** 2), n + float(q.repeats[d])
        if m > 0 and n > 0:
            gain += 0.5 * (m - n - n * math.log(m / n))
    return fit.log_likelihood + gain


def aic(fit: FitResult) -> float:
    """Compute Akaike's criterion, `2k - 2 log L`."""
    return 2 * count_unknowns(fit) - 2 * compute_max_log_likelihood(fit)


def aicc(fit: FitResult) -> float:
    """Compute Akaike's criterion with the correction for small samples; infinite if n <= k + 1."""
    n, k = count_values(fit), count_unknowns(fit)
    return aic(fit) + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf


def bic(fit: FitResult) -> float:
    """Compute Schwarz's criterion, `k log n - 2 log L`."""
    return count_unknowns(fit) * math.log(max(count_values(fit), 1)) - 2 * compute_max_log_likelihood(fit)
