"""Local test functions: one radius, evenly spaced centres, left as they are.

The likelihood does not change when Φ is replaced by TΦ with T invertible (but for a constant), so nothing is lost by
not orthonormalising; and bumps that overlap only with their neighbours make the covariance block tridiagonal, so that
everything costs O(M). With radius r and stride s, function k and l overlap only if |k - l| s < 2r: blocks of
L = ⌈2r/s⌉ functions see only the next block.

At uneven times the sums carry trapezoidal weights w, and φ' is corrected by φ times a cubic so that

    Σ_m w_m [φ'(t_m) τ_m^k + k φ(t_m) τ_m^(k-1)] = 0,     k = 0..3:

integration by parts stays exact for cubic polynomials. A bump that would bridge a gap wider than half its radius, or
that sees fewer than five samples, is left out.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np

from ..data.trajectory import Trajectory
from ..support.array_types import FloatArray
from ..support.compact_repr import Tidy
from ..support.errors import FitError
from .bump_function import bump, normalised
from .test_functions import TestFunctions

RADIUS_SAMPLES = 10.0
OVERLAP = 4.0
MAX_OVERLAP = 12.0
SHARE_OF_SPAN = 1 / 3
FEWEST, WIDEST_GAP, GROWTH = 5, 0.5, 1.3


@dataclass(frozen=True, repr=False)
class Local(Tidy):
    """Bumps of one radius at evenly spaced centres.

    Parameters
    ----------
    radius : float, optional
        Half the width of the support, in time units. By default 10 samples, or a third of a series too short for that.
    stride : float, optional
        Distance of the centres, in time units; by default a quarter of the radius, but at least one sample.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("lotka-volterra")
    >>> fit = wf.fit(problem.model, problem.simulate(seed=1), basis=wf.Local(radius=0.2))
    >>> round(fit.basis[0].radius, 2)
    0.2
    """

    radius: float | None = None
    stride: float | None = None

    def build(self, trajectory: Trajectory) -> TestFunctions:
        """The test functions on the grid of a trajectory."""
        for name, value in (("radius", self.radius), ("stride", self.stride)):
            if value is not None and not isinstance(value, numbers.Real):
                raise FitError(f"The {name} of the test functions must be a number, in time units; received {value!r}.")
        M, step = len(trajectory.times) - 1, trajectory.step
        if not trajectory.even:
            return _uneven(trajectory.times, self.radius, self.stride)
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


def _uneven(times: FloatArray, radius: float | None, stride: float | None) -> TestFunctions:
    # The median, so that a few wide gaps do not make all bumps wide.
    M, step = len(times) - 1, float(np.median(np.diff(times)))
    given = radius is not None
    span = times[-1] - times[0]
    r = min(RADIUS_SAMPLES * step, M * SHARE_OF_SPAN * step, span * SHARE_OF_SPAN) if radius is None else float(radius)
    while True:
        s = max(r / OVERLAP, step) if stride is None else float(stride)
        if given or stride is not None:
            _check(r / step, s / step, int(span / step), step)
        centres = _centres(times, r, s)
        if len(centres) or given or 2 * r * GROWTH > span:
            break
        r *= GROWTH
    if not len(centres):
        raise FitError(
            f"No test function of radius {r:.4g} sees enough samples: the times have gaps too wide for it. Leave the "
            "radius out, or split the series at its gaps into several trajectories."
        )
    length = min(math.ceil(2 * r / s - 1e-9), len(centres))
    blocks = -(-len(centres) // length)
    first = np.searchsorted(times, centres - r, side="right")
    last = np.searchsorted(times, centres + r, side="left")
    start = first[::length]
    stop = np.array([last[min((k + 1) * length, len(centres)) - 1] for k in range(blocks)])
    phi, dphi = np.zeros((2, blocks, length, int((stop - start).max())))
    weights = np.gradient(times)
    weights[[0, -1]] = np.diff(times)[[0, -1]] / 2
    weights[1:-1] = (times[2:] - times[:-2]) / 2
    for j, centre in enumerate(centres):
        k, l = divmod(j, length)
        here = slice(first[j], last[j])
        values = _corrected((times[here] - centre) / r, weights[here] / step, r)
        columns = slice(first[j] - start[k], last[j] - start[k])
        phi[k, l, columns], dphi[k, l, columns] = values
    return TestFunctions(
        phi,
        dphi,
        start,
        samples=M + 1,
        count=len(centres),
        radius=r,
        description=f"local bumps at uneven times, radius {r:.4g} (about {r / step:.3g} samples), stride {s:.4g}",
        width=stop - start,
    )


def _centres(times: FloatArray, radius: float, stride: float) -> FloatArray:
    """Centres of the bumps that see enough samples and no gap."""
    span = times[-1] - times[0] - 2 * radius
    count = math.floor(span / stride + 1e-9) + 1
    slack = span - (count - 1) * stride
    origin = times[0] + radius + slack / 2
    # Only those near samples: a gap may be wider than all that was measured.
    near = np.arange(math.ceil(2 * radius / stride) + 1)
    index = np.unique(np.ceil((times - radius - origin) / stride)[:, None] + near)
    centres = origin + stride * index[(index >= 0) & (index < count)]
    first = np.searchsorted(times, centres - radius, side="right")
    last = np.searchsorted(times, centres + radius, side="left")
    # Gaps as far as they lie inside the support.
    inside = [
        np.concatenate([[centre - radius], times[a:b], [centre + radius]])
        for centre, a, b in zip(centres, first, last, strict=True)
    ]
    widest = np.array([np.diff(points).max() for points in inside])
    return np.asarray(centres[(last - first >= FEWEST) & (widest <= WIDEST_GAP * radius)])


def _corrected(tau: FloatArray, weights: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """`w φ` and `w φ'` at `τ` `(n,)`, with unit norm of the first, exact for polynomials of low degree."""
    phi, dphi = bump(tau)
    phi, dphi = phi * weights, dphi * weights
    degree = min(3, len(tau) - 3)
    powers = tau ** np.arange(2 * degree + 1)[:, None]
    moments = powers @ phi
    wanted = -np.array([k * moments[k - 1] if k else 0.0 for k in range(degree + 1)]) - powers[: degree + 1] @ dphi
    system = moments[np.add.outer(np.arange(degree + 1), np.arange(degree + 1))]
    cubic = np.linalg.lstsq(system, wanted, rcond=1e-10)[0] @ powers[: degree + 1]
    scale = 1.0 / np.linalg.norm(phi)
    return phi * scale, (dphi + phi * cubic) * (scale / radius)


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
