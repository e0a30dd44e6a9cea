"""Residuals in standard deviations, and how much of what varies is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..noise.kinds import KINDS
from ..support.typing import FloatArray
from .observation import fitted

if TYPE_CHECKING:
    from .result import FitResult


def scores(fit: FitResult, k: int) -> FloatArray:
    """Measured less fitted values of trajectory k over their standard deviations, in the coordinates of the noise."""
    q, there = fit.data.trajectories[k], fitted(fit, k)
    found = np.full_like(q.values, np.nan)
    for d, kind in enumerate(KINDS[name] for name in fit.data.noise):
        with np.errstate(all="ignore"):
            off = kind.to_working(q.values[:, d]) - kind.to_working(there[:, d])
            found[:, d] = off / (fit.sigma[d] * q.scales[:, d])
    return found


def explained(fit: FitResult) -> FloatArray:
    """R² of each measured column, `(columns,)`: one less the share of its variance that the fit leaves."""
    y = np.concatenate([q.values for q in fit.data.trajectories])
    left = np.concatenate(fit.residuals)
    with np.errstate(all="ignore"):
        return np.asarray(1 - np.nansum(left**2, axis=0) / np.nansum((y - np.nanmean(y, axis=0)) ** 2, axis=0))
