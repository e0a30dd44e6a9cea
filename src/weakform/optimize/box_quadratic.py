"""A convex quadratic inside a box, exactly."""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

ROUNDS = 10
"""Changes of the active set for each variable, at most."""


def minimise_in_box(g: FloatArray, H: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """`argmin gᵀs + ½ sᵀHs` with `low <= s <= high`, by an active set; H is positive definite.

    From s = 0, which is inside: towards the minimum over what is not on its bound, as far as the next bound; what a
    bound holds back against the gradient is let go, one at a time. Raises `LinAlgError` where H has no inverse.

    Parameters
    ----------
    g : ndarray, (n,)
    H : ndarray, (n, n)
    low, high : ndarray, (n,)
        `low <= 0 <= high`.
    """
    n = len(g)
    d = np.sqrt(np.maximum(np.abs(H.diagonal()), np.finfo(float).tiny))
    with np.errstate(over="ignore"):
        g, H, low, high = g / d, H / np.outer(d, d), low * d, high * d
    plain = -np.linalg.solve(H, g)
    if ((low <= plain) & (plain <= high)).all():  # no bound is in the way
        return plain / d
    s = np.zeros(n)
    free = ~(((low == 0) & (g >= 0)) | ((high == 0) & (g <= 0)))
    for _ in range(ROUNDS * n + 1):
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
        pull[low == high] = 0.0
        j = int(np.argmax(pull)) if n else 0
        if not n or not pull[j] > 1e-12 * max(1.0, float(np.abs(g).max())):
            break
        free[j] = True
    return s / d
