"""Interpolation of missing values for the weak form, which needs all states at all samples.

A missing value is interpolated between its neighbours (monotone cubic, in working coordinates), and its variance is
`FILLED_VARIANCE_FACTOR` times that of a measured value. Farther than `MAX_GAP_STEPS` steps from any measured value, its
variance is at least that of the state over time. Interpolated values only help the search: the refinement of method
"wendy" gives them no weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..support.array_types import FloatArray

FILLED_VARIANCE_FACTOR = 4.0
"""Variance of an interpolated value over the variance of a measured one, so that it has less weight. By judgement."""

MAX_GAP_STEPS = 3.0
"""Distance from the nearest measured value, in median steps between samples, up to which interpolation is trusted.

Beyond it the variance of a filled value is at least the variance of the state over time. By judgement.
"""


def interpolate_missing(times: FloatArray, x: FloatArray, measured: NDArray[np.bool_]) -> FloatArray:
    """Fill missing values by monotone cubic interpolation; beyond the first and the last value, by the nearest one.

    Parameters
    ----------
    times : ndarray, (time,)
    x : ndarray, (time, D)
        States in working coordinates.
    measured : ndarray of bool, (time, D)

    Returns
    -------
    ndarray, (time, D)
        A state without any measured value stays NaN.
    """
    filled = x.copy()
    for d in range(x.shape[1]):
        present = measured[:, d]
        if present.all() or not present.any():
            continue
        measured_times, values = times[present], x[present, d]
        if len(measured_times) > 1:
            # Imported here because the import takes a third of a second, which fits without missing values save.
            from scipy.interpolate import PchipInterpolator

            inside = PchipInterpolator(measured_times, values)(np.clip(times, measured_times[0], measured_times[-1]))
            filled[~present, d] = inside[~present]
        else:
            filled[~present, d] = values[0]
    return filled


def pool_moments(working_states: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of each state over all trajectories, `(D,)` each.

    Parameters
    ----------
    working_states : list of ndarray, (time, D)
        States in working coordinates; entries that are not finite are left out.
    """
    rows = np.concatenate(working_states)
    finite = np.isfinite(rows)
    count = np.maximum(finite.sum(axis=0), 1)
    mean = np.where(finite, rows, 0.0).sum(axis=0) / count
    return mean, np.sqrt(np.where(finite, (rows - mean) ** 2, 0.0).sum(axis=0) / count)


def find_distant_entries(times: FloatArray, measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask `(time, D)` of the entries that are far from any measured value of their state.

    All entries of a state without any measured value are far.

    Parameters
    ----------
    times : ndarray, (time,)
    measured : ndarray of bool, (time, D)
    """
    step = float(np.median(np.diff(times)))
    far = np.ones(measured.shape, dtype=bool)
    for d in range(measured.shape[1]):
        measured_times = times[measured[:, d]]
        if len(measured_times):
            # The neighbours of each time are the measured times k - 1 and k; a single one is both.
            k = (
                np.clip(np.searchsorted(measured_times, times), 1, len(measured_times) - 1)
                if len(measured_times) > 1
                else np.zeros(len(times), int)
            )
            nearest = np.minimum(np.abs(times - measured_times[k]), np.abs(times - measured_times[k - 1]))
            far[:, d] = nearest > MAX_GAP_STEPS * step
    return far
