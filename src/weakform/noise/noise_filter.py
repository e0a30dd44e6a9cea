"""The size of the noise, from the data alone.

A high-order difference annihilates what is smooth and leaves the noise: with the stencil `c` of the sixth derivative on
`2h + 1` points scaled to `‖c‖₂ = 1`, the filtered data of a smooth state plus noise of variance σ² have mean square σ²,

    σ̂_d = rms(c * x_d).

The paper uses h = 8. A shorter series takes a shorter stencil, so that at least as many filtered values remain as the
series allows; 8 samples are the least (h = 3). At uneven times the stencil is the sixth divided difference of seven
neighbours. Fast dynamics leak through the filter: then σ̂ is too large.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..support.array_types import FloatArray

ORDER = 6
HALF_WIDTH = 8
SHORTEST = 8
"""Samples that the filter at even times needs."""


@cache
def stencil(half_width: int) -> FloatArray:
    """The unit-norm stencil of the sixth derivative on `2·half_width + 1` equally spaced points."""
    points = np.arange(-half_width, half_width + 1) / half_width
    # Exact for polynomials up to degree 2h: Σ c_m P_k(x_m) = P_k⁽⁶⁾(0), in the well-conditioned Chebyshev basis.
    chebyshev = np.polynomial.chebyshev
    degree = 2 * half_width
    matrix = chebyshev.chebvander(points, degree).T
    target = np.array([chebyshev.chebval(0.0, chebyshev.chebder(row, ORDER)) for row in np.eye(degree + 1)])
    weights: FloatArray = np.linalg.solve(matrix, target)
    return weights / np.linalg.norm(weights)


def estimate_sigma(x: FloatArray) -> FloatArray:
    """Standard deviation of the noise of each state.

    Parameters
    ----------
    x : ndarray, (time, D)
        Evenly sampled states in working coordinates, at least 8 rows.

    Returns
    -------
    ndarray, (D,)
    """
    half_width = int(np.clip((len(x) - 1) // 4, ORDER // 2, HALF_WIDTH))
    windows = np.lib.stride_tricks.sliding_window_view(x, 2 * half_width + 1, axis=0)
    return np.asarray(np.sqrt(np.mean((windows @ stencil(half_width)) ** 2, axis=0)))


def uneven_squares(t: FloatArray, x: FloatArray, scale: FloatArray) -> tuple[float, int]:
    """Sum of squares of filtered values of one state at uneven times, and how many there are.

    Parameters
    ----------
    t, x : ndarray, (n,)
    scale : ndarray, (n,)
        Standard deviation of each value, relative to σ.
    """
    points = min(ORDER + 1, len(t) - 1)
    if points < 3:
        return 0.0, 0
    window = np.lib.stride_tricks.sliding_window_view
    times, values, scales = window(t, points), window(x, points), window(scale, points)
    gaps = (times[:, :, None] - times[:, None, :]) / (times[:, -1:, None] - times[:, :1, None])
    gaps[:, np.arange(points), np.arange(points)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    filtered = np.sum(c * values, axis=1) / np.sqrt(np.sum((c * scales) ** 2, axis=1))
    return float(filtered @ filtered), len(filtered)
