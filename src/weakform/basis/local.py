"""Local test functions: one radius, evenly spaced centres, left as they are.

The likelihood does not change when Φ is replaced by TΦ with T invertible (but for a constant), so nothing is lost by
not orthonormalising; and bumps that overlap only with their neighbours make the covariance block tridiagonal, so that
everything costs O(M). With radius r and stride s, function k and l overlap only if |k - l| s < 2r: blocks of
L = ⌈2r/s⌉ functions see only the next block.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np

from ..data import Trajectory
from ..errors import FitError
from .bump import normalised
from .functions import TestFunctions

RADIUS_SAMPLES = 10.0
OVERLAP = 4.0
MAX_OVERLAP = 12.0
SHARE_OF_SPAN = 1 / 3


@dataclass(frozen=True)
class Local:
    """Bumps of one radius at evenly spaced centres.

    Parameters
    ----------
    radius : float, optional
        Half the width of the support, in time units. By default 10 samples, or a third of a series too short for that.
    stride : float, optional
        Distance of the centres, in time units; by default a quarter of the radius, but at least one sample.
    """

    radius: float | None = None
    stride: float | None = None

    def build(self, trajectory: Trajectory) -> TestFunctions:
        """The test functions on the grid of a trajectory."""
        for name, value in (("radius", self.radius), ("stride", self.stride)):
            if value is not None and not isinstance(value, numbers.Real):
                raise FitError(f"The {name} of the test functions must be a number, in time units; received {value!r}.")
        M, step = len(trajectory.times) - 1, trajectory.step
        radius = min(RADIUS_SAMPLES, M * SHARE_OF_SPAN) if self.radius is None else self.radius / step
        stride = max(radius / OVERLAP, 1.0) if self.stride is None else self.stride / step
        _check(radius, stride, M, step)
        # Centres c_j = c_0 + j·stride (in samples), the family centred in the series. On a sample or between two, a
        # bump is sampled symmetrically, so that Σ φ' = 0 and a constant leaves no quadrature error.
        count = math.floor((M - 2 * radius) / stride + 1e-9) + 1
        slack = M - 2 * radius - (count - 1) * stride
        first = max(radius, math.floor(2 * radius + slack + 1e-9) / 2)
        length = min(math.ceil(2 * radius / stride - 1e-9), count)
        blocks = -(-count // length)
        centres = (first + stride * np.arange(blocks * length)).reshape(blocks, length)
        start = np.ceil(centres[:, 0] - radius - 1e-9).astype(np.intp)
        width = int(np.floor(centres[:, -1] + radius + 1e-9 - start).max()) + 1
        # Blocks a whole number of samples apart are copies of the first.
        shift = length * stride
        if abs(shift - round(shift)) < 1e-9:
            start = start[0] + round(shift) * np.arange(blocks)
            different = slice(0, 1)
        else:
            different = slice(None)
        offset = start[different, None, None] + np.arange(width) - centres[different, :, None]
        phi, dphi = normalised(offset / radius, radius * step)
        phi, dphi = (np.broadcast_to(a, (blocks, length, width)) for a in (phi, dphi))
        return TestFunctions(
            phi,
            dphi,
            start,
            samples=M + 1,
            count=count,
            radius=radius * step,
            description=f"local bumps, radius {radius * step:.4g} ({radius:.3g} samples), "
            f"stride {stride * step:.4g} ({stride:.3g} samples)",
        )


def _check(radius: float, stride: float, M: int, step: float) -> None:
    if not (math.isfinite(radius) and radius > 1.0):
        raise FitError(
            f"The radius of the test functions must be larger than one sample ({step:g} time units); "
            f"received {radius * step:g}."
        )
    if 2 * radius > M:
        raise FitError(
            f"The radius of the test functions is too large: {radius * step:g} time units are {radius:.1f} samples, "
            f"and a series of {M + 1} samples takes at most {M / 2:g} ({M / 2 * step:g} time units)."
        )
    least = max(0.5, radius / MAX_OVERLAP)
    if not (math.isfinite(stride) and stride >= least):
        raise FitError(
            f"The stride of the test functions must be at least {least * step:.4g} time units (half a sample, and 1/12 "
            f"of the radius), or they are not numerically independent; received {stride * step:.4g}."
        )
