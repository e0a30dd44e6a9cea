"""The exact minimum of a convex quadratic in a box, by an active set."""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

MAX_CHANGES_PER_VARIABLE = 10
"""Largest number of changes of the active set, for each variable.

An active set that repeats itself by rounding would not end otherwise. By judgement.
"""
RELEASE_TOLERANCE = 1e-12
"""Component of the gradient, relative to the largest of g but at least to one, above which a bound is released.

The variables are scaled to unit curvature. A smaller pull is rounding. By judgement.
"""


def minimise_in_box(g: FloatArray, H: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Compute `argmin gᵀs + ½ sᵀHs` subject to `low <= s <= high`.

    The search begins at s = 0, inside the box. It moves towards the minimum over the variables that are not at a bound,
    as far as the next bound, at which that variable is then held. At the minimum over the free variables, the variable
    that its bound holds back most strongly against the gradient is released.

    Parameters
    ----------
    g : ndarray, (n,)
    H : ndarray, (n, n)
        Positive definite.
    low, high : ndarray, (n,)
        `low <= 0 <= high`.

    Returns
    -------
    ndarray, (n,)
        s.

    Raises
    ------
    LinAlgError
        If H is singular.
    """
    n = len(g)
    # Unit curvature makes the result independent of the units of the variables.
    d = np.sqrt(np.maximum(np.abs(H.diagonal()), np.finfo(float).tiny))
    lower, upper = low, high
    with np.errstate(over="ignore"):
        g, H, low, high = g / d, H / np.outer(d, d), low * d, high * d
    plain = -np.linalg.solve(H, g)
    if ((low <= plain) & (plain <= high)).all():  # no bound is active
        return np.clip(plain / d, lower, upper)
    s = np.zeros(n)
    free = ~(((low == 0) & (g >= 0)) | ((high == 0) & (g <= 0)))
    for _ in range(MAX_CHANGES_PER_VARIABLE * n + 1):
        target = s.copy()
        if free.any():
            target[free] = -np.linalg.solve(H[np.ix_(free, free)], g[free] + H[np.ix_(free, ~free)] @ s[~free])
        move = target - s
        limit = np.where(move < 0, low, high)
        with np.errstate(all="ignore"):
            reach = np.where(move != 0, (limit - s) / move, np.inf)
        j = int(np.argmin(reach)) if n else 0
        if n and reach[j] < 1:
            s = s + reach[j] * move
            s[j] = limit[j]
            free[j] = False
            continue
        s = target
        slope = g + H @ s
        pull = np.where(free, 0.0, np.where(s <= low, -slope, slope))
        pull[low == high] = 0.0  # cannot move, whatever the gradient
        j = int(np.argmax(pull)) if n else 0
        if not n or not pull[j] > RELEASE_TOLERANCE * max(1.0, float(np.abs(g).max())):
            break
        free[j] = True
    # Scaling back may leave the box by rounding: 145 of 2400 random problems did.
    return np.clip(s / d, lower, upper)
