"""Values to stand in where none were measured, for the weak form, which needs all states at all samples.

A missing value is interpolated between its neighbours (monotone cubic, in working coordinates), with `FILLED` times the
variance; farther than `NEAR` steps from any measured value it is taken to be as uncertain as the state varies. This
serves to find the way: the refinement of method "wendy" gives such values no weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..support.array_types import FloatArray

FILLED, NEAR = 4.0, 3.0


def interpolate(times: FloatArray, x: FloatArray, measured: NDArray[np.bool_]) -> FloatArray:
    """States `(time, D)` with missing values filled; a state without any value stays NaN."""
    filled = x.copy()
    for d in range(x.shape[1]):
        there = measured[:, d]
        if there.all() or not there.any():
            continue
        known, values = times[there], x[there, d]
        if len(known) > 1:
            from scipy.interpolate import PchipInterpolator  # a third of a second, where nothing is missing in vain

            inside = PchipInterpolator(known, values)(np.clip(times, known[0], known[-1]))
            filled[~there, d] = inside[~there]
        else:
            filled[~there, d] = values[0]
    return filled


def pooled(works: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Mean and spread of each state over all trajectories, `(D,)`."""
    rows = np.concatenate(works)
    there = np.isfinite(rows)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, rows, 0.0).sum(axis=0) / count
    return mean, np.sqrt(np.where(there, (rows - mean) ** 2, 0.0).sum(axis=0) / count)


def distant(times: FloatArray, measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which entries `(time, D)` are far from any measured value of their state."""
    step = float(np.median(np.diff(times)))
    far = np.ones(measured.shape, dtype=bool)
    for d in range(measured.shape[1]):
        known = times[measured[:, d]]
        if len(known):
            k = (
                np.clip(np.searchsorted(known, times), 1, len(known) - 1)
                if len(known) > 1
                else np.zeros(len(times), int)
            )
            nearest = np.minimum(np.abs(times - known[k]), np.abs(times - known[k - 1]))
            far[:, d] = nearest > NEAR * step
    return far
