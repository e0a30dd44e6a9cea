"""The bump of the paper and its analytic derivative.

    φ(τ) = exp(-η τ²/(1 - τ²)) for |τ| < 1, else 0,     φ' = -2 η τ/(1 - τ²)² φ

which is `exp(-η/(1 - τ²))` but for the factor `e^η`, which cancels in the normalisation. In this form nothing
underflows.
"""

import numpy as np

from ..support.array_types import FloatArray

BUMP_EXPONENT = 9.0
"""Exponent η of the bump, dimensionless, as in the paper. A larger one makes the bump narrower within its radius."""
MIN_BUMP_GAP = 1e-3
"""Distance 1 - τ² from the edge of the support below which the bump is set to zero; dimensionless. There it is below
e^-8991, which is zero in float64, so that only the overflow of τ/(1 - τ²)² is avoided."""


def bump(tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute `φ(τ)` and `dφ/dτ` for an array τ of any shape; both are zero outside `|τ| < 1`."""
    gap = 1.0 - np.minimum(tau * tau, 1.0)
    safe = np.maximum(gap, MIN_BUMP_GAP)
    phi = np.where(gap > MIN_BUMP_GAP, np.exp(-BUMP_EXPONENT * (1.0 - gap) / safe), 0.0)
    return phi, -2.0 * BUMP_EXPONENT * tau / safe**2 * phi


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
    scale = 1.0 / np.linalg.norm(phi, axis=-1, keepdims=True)
    return phi * scale, dphi * (scale / radius)
