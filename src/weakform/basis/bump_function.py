"""The bump of the paper and its analytic derivative.

    φ(τ) = exp(-η τ²/(1 - τ²)) for |τ| < 1, else 0,     φ' = -2 η τ/(1 - τ²)² φ

which is `exp(-η/(1 - τ²))` up to the factor `e^η` that the normalisation removes; written so, nothing underflows.
"""

import numpy as np

from ..support.array_types import FloatArray

ETA = 9.0


def bump(tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`φ(τ)` and `dφ/dτ`, zero outside `|τ| < 1`; any shape."""
    gap = 1.0 - np.minimum(tau * tau, 1.0)
    safe = np.maximum(gap, 1e-3)
    # At a gap of 1e-3 the bump is below e^-8991 = 0 in float64.
    phi = np.where(gap > 1e-3, np.exp(-ETA * (1.0 - gap) / safe), 0.0)
    return phi, -2.0 * ETA * tau / safe**2 * phi


def normalised(tau: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """Bumps `(..., n)` scaled to `‖φ‖₂ = 1` over the last axis, and their time derivatives."""
    phi, dphi = bump(tau)
    scale = 1.0 / np.linalg.norm(phi, axis=-1, keepdims=True)
    return phi * scale, dphi * (scale / radius)
