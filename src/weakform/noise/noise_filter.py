"""An estimate of the size of the noise from the data alone.

A high-order difference removes the smooth part of a series and keeps the noise. Let `c` be the stencil of the sixth
derivative on `2h + 1` points, scaled to `‖c‖₂ = 1`. For a smooth state plus noise of variance σ², the filtered values
have the mean square σ², so that

    σ̂_d = rms(c * x_d).

The paper uses h = 8. A shorter series takes a shorter stencil, so that from 12 samples on there is a filtered value for
at least every second one; 8 samples are needed (h = 3). At uneven times the stencil is the sixth divided difference of
seven neighbouring samples. Fast dynamics pass the filter, and then σ̂ is too large.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..support.array_types import FloatArray

DERIVATIVE_ORDER = 6
"""Order of the derivative that the filter takes, as in the paper: polynomials of lower degree are removed."""
MAX_HALF_WIDTH = 8
"""Largest half-width h of the stencil, in samples, as in the paper. A series of 33 samples or more uses it."""
MIN_FILTER_SAMPLES = 8
"""Number of samples from which the filter at even times can be used; a shorter series is filtered by divided
differences. The shortest stencil (h = 3) has 7 points."""
MIN_DIFFERENCE_POINTS = 3
"""Smallest number of neighbouring samples in a divided difference: those of a second derivative, which removes a
straight line. A shorter series gives no filtered value. By judgement."""


@cache
def build_stencil(half_width: int) -> FloatArray:
    """Return the stencil of the sixth derivative on `2·half_width + 1` equally spaced points, scaled to unit norm."""
    points = np.arange(-half_width, half_width + 1) / half_width
    # Exact for polynomials up to degree 2h: Σ c_m P_k(x_m) = P_k⁽⁶⁾(0), in the well-conditioned Chebyshev basis.
    chebyshev = np.polynomial.chebyshev
    degree = 2 * half_width
    matrix = chebyshev.chebvander(points, degree).T
    target = np.array([chebyshev.chebval(0.0, chebyshev.chebder(row, DERIVATIVE_ORDER)) for row in np.eye(degree + 1)])
    weights: FloatArray = np.linalg.solve(matrix, target)
    return weights / np.linalg.norm(weights)


def estimate_sigma(x: FloatArray) -> FloatArray:
    """Estimate the standard deviation of the noise of each state.

    Parameters
    ----------
    x : ndarray, (time, D)
        Evenly sampled states in working coordinates, at least 8 rows.

    Returns
    -------
    ndarray, (D,)
        The root mean square of the filtered values.
    """
    # With n ≥ 4h + 1 samples at least half of them have a filtered value.
    half_width = int(np.clip((len(x) - 1) // 4, DERIVATIVE_ORDER // 2, MAX_HALF_WIDTH))
    windows = np.lib.stride_tricks.sliding_window_view(x, 2 * half_width + 1, axis=0)
    return np.asarray(np.sqrt(np.mean((windows @ build_stencil(half_width)) ** 2, axis=0)))


def filter_uneven_series(t: FloatArray, x: FloatArray, scale: FloatArray) -> tuple[float, int]:
    """Filter one state at uneven times by divided differences of neighbouring samples.

    Parameters
    ----------
    t, x : ndarray, (n,)
        Times and values.
    scale : ndarray, (n,)
        Standard deviation of each value, relative to σ.

    Returns
    -------
    float
        Sum of squares of the filtered values, each of which has the variance σ² for a smooth state.
    int
        Number of filtered values.
    """
    points = min(DERIVATIVE_ORDER + 1, len(t) - 1)
    if points < MIN_DIFFERENCE_POINTS:
        return 0.0, 0
    window = np.lib.stride_tricks.sliding_window_view
    times, values, scales = window(t, points), window(x, points), window(scale, points)
    # Weights 1/Π_{j≠i} (t_i - t_j) of a divided difference; times in units of the window, so that no product overflows.
    gaps = (times[:, :, None] - times[:, None, :]) / (times[:, -1:, None] - times[:, :1, None])
    gaps[:, np.arange(points), np.arange(points)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    filtered = np.sum(c * values, axis=1) / np.sqrt(np.sum((c * scales) ** 2, axis=1))
    return float(filtered @ filtered), len(filtered)
