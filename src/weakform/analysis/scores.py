"""Residuals in standard deviations, and how much of what varies is explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..inference.fitted_states import fitted
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


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
