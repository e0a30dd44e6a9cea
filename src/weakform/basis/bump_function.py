"""The bump of the paper and its analytic derivative.

    φ(τ) = exp(-η τ²/(1 - τ²)) for |τ| < 1, else 0,     φ' = -2 η τ/(1 - τ²)² φ

It equals the paper's `exp(-η/(1 - τ²))` times `e^η`, a factor that cancels in the normalisation. With it, φ(0) = 1.
"""

import numpy as np

from ..support.array_types import FloatArray

BUMP_EXPONENT = 9.0
"""Exponent η of the bump, dimensionless, as in the paper. A larger one makes the bump narrower within its radius."""
MIN_BUMP_GAP = 1e-3
"""Value of 1 - τ² up to which the bump is set to zero; dimensionless. There φ is at most e^-8991, which is zero in
float64, so the limit changes no value; it only keeps τ/(1 - τ²)² from overflowing."""


def bump(tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute `φ(τ)` and `dφ/dτ` for an array τ of any shape; both are zero outside `|τ| < 1`."""
    gap = 1.0 - np.minimum(tau * tau, 1.0)
    bounded_gap = np.maximum(gap, MIN_BUMP_GAP)
    phi = np.where(gap > MIN_BUMP_GAP, np.exp(-BUMP_EXPONENT * (1.0 - gap) / bounded_gap), 0.0)
    return phi, -2.0 * BUMP_EXPONENT * tau / bounded_gap**2 * phi


def normalise_bumps(tau: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """Compute bumps scaled to `‖φ‖₂ = 1` and their time derivatives.

    Parameters
    ----------
    tau : ndarray, (..., n)
        Times relative to the centre, in units of the radius; the norm is over the last axis.
    radius : float
        The radius in time units, by which the derivative is scaled.

    Returns
    -------
    phi, dphi : ndarray, (..., n)
    """
    phi, dphi = bump(tau)
    # dφ/dt = (dφ/dτ)/radius, because τ is time in units of the radius.
    scale = 1.0 / np.linalg.norm(phi, axis=-1, keepdims=True)
    return phi * scale, dphi * (scale / radius)
