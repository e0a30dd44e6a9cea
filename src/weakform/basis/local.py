"""Local test functions: bumps of one radius at evenly spaced centres.

If Φ is replaced by TΦ with an invertible T, the likelihood changes only by a constant, so that nothing is gained by
orthonormalising. Bumps that overlap only with their neighbours make the covariance block tridiagonal, so that all
operations cost O(M). With radius r and stride s, the functions k and l overlap only if |k - l| s < 2r: a block of
L = ⌈2r/s⌉ functions overlaps only with the next block.

At uneven times the sums carry trapezoidal weights w, and φ' is corrected by φ times a cubic so that

    Σ_m w_m [φ'(t_m) τ_m^k + k φ(t_m) τ_m^(k-1)] = 0,     k = 0..3:

integration by parts stays exact for cubic polynomials (for quadratic ones if a bump has only five samples). A bump with
a gap wider than half its radius, or with fewer than five samples, is left out.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np

from ..data.trajectory import Trajectory
from ..support.array_types import FloatArray
from ..support.compact_repr import CompactRepr
from ..support.errors import FitError
from .bump_function import bump, normalise_bumps
from .test_functions import TestFunctions

DEFAULT_RADIUS_SAMPLES = 10.0
"""Default radius, in samples. A larger radius filters more noise, a smaller one keeps faster dynamics. The section on
the radius in docs/accuracy.md (`benchmarks/radius.py`) compares radii from 4 to 20 samples: none is best for all
problems, and the default method, which uses the test functions only for its search, has the same error with all of
them."""
DEFAULT_STRIDES_PER_RADIUS = 4.0
"""Default radius over stride, dimensionless. A larger one gives more functions, which overlap more. By judgement."""
MAX_STRIDES_PER_RADIUS = 12.0
"""Largest radius over stride that is accepted, dimensionless. Beyond it neighbouring test functions are nearly linearly
dependent, and the covariance of the weak residual nearly singular. By judgement."""
MIN_STRIDE_SAMPLES = 0.5
"""Smallest stride that is accepted, in samples; centres are then on the samples and half-way between. A smaller stride
gives more test functions than the samples can tell apart. By judgement."""
MAX_RADIUS_SHARE = 1 / 3
"""Largest default radius, as a share of the duration of a series. It leaves several test functions to a series that is
too short for `DEFAULT_RADIUS_SAMPLES`, as tests/basis/test_basis.py tests down to 8 samples."""
MIN_SAMPLES_PER_BUMP = 5
"""Number of samples that a bump at uneven times must have; one with fewer is left out. By judgement: with fewer, the
correction of φ' would be exact for linear polynomials at most (`SAMPLES_BEYOND_DEGREE`)."""
MAX_CORRECTION_DEGREE = 3
"""Degree of the polynomials for which integration by parts is exact at uneven times. By judgement; exactness up to this
degree is tested in tests/basis/test_basis.py."""
SAMPLES_BEYOND_DEGREE = 3
"""Number of samples of a bump less the degree of its correction, at least: with fewer than six samples the degree is
lower, so that fewer conditions than samples are imposed. By judgement."""
MIN_RELATIVE_MOMENT = 1e-10
"""Singular value of the moment matrix of a bump, relative to the largest one, below which it counts as zero in the
least-squares solution for the correction. By judgement."""
MAX_GAP_IN_RADII = 0.5
"""Widest gap between samples inside a bump, in radii; a bump with a wider one is left out, as its sums are no longer
close to integrals. By judgement."""
RADIUS_GROWTH_FACTOR = 1.3
"""Factor by which the default radius grows while no bump at uneven times has enough samples. By judgement."""
ROUNDING_SAMPLES = 1e-9
"""Difference from a whole number of samples, or of strides, that is taken for rounding. By judgement: far above the
rounding error of times divided by their step, far below a difference that matters."""


@dataclass(frozen=True, repr=False)
class Local(CompactRepr):
    """Bumps of one radius at evenly spaced centres.

    Parameters
    ----------
    radius : float, optional
        Half the width of the support, in time units. By default 10 samples, but at most a third of the series.
    stride : float, optional
        Distance between centres, in time units. By default a quarter of the radius, but at least one sample.

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
        """Build the test functions on the samples of a trajectory.

        Parameters
        ----------
        trajectory : Trajectory
            Its times, even or uneven; the values are not used.

        Returns
        -------
        TestFunctions

        Raises
        ------
        FitError
            If the radius or the stride is impossible for these times.
        """
        for name, value in (("radius", self.radius), ("stride", self.stride)):
            if value is not None and not isinstance(value, numbers.Real):
                raise FitError(f"The {name} of the test functions must be a number, in time units; received {value!r}.")
        M, step = len(trajectory.times) - 1, trajectory.mean_step
        if not trajectory.is_evenly_spaced:
            return _build_uneven(trajectory.times, self.radius, self.stride)
        radius = min(DEFAULT_RADIUS_SAMPLES, M * MAX_RADIUS_SHARE) if self.radius is None else self.radius / step
        stride = max(radius / DEFAULT_STRIDES_PER_RADIUS, 1.0) if self.stride is None else self.stride / step
        _check_spacing(radius, stride, M, step)
        # Centres c_j = c_0 + j·stride (in samples), with equal margins at both ends of the series. The first centre is
        # on a sample or half-way between two, where a bump is sampled symmetrically: Σ φ' = 0, and a constant has no
        # quadrature error.
        count = math.floor((M - 2 * radius) / stride + ROUNDING_SAMPLES) + 1
        slack = M - 2 * radius - (count - 1) * stride
        first = max(radius, math.floor(2 * radius + slack + ROUNDING_SAMPLES) / 2)
        length = min(math.ceil(2 * radius / stride - ROUNDING_SAMPLES), count)
        blocks = -(-count // length)
        centres = (first + stride * np.arange(blocks * length)).reshape(blocks, length)
        start = np.ceil(centres[:, 0] - radius - ROUNDING_SAMPLES).astype(np.intp)
        width = int(np.floor(centres[:, -1] + radius + ROUNDING_SAMPLES - start).max()) + 1
        # If blocks are a whole number of samples apart, all are copies of the first, which is stored once.
        shift = length * stride
        if abs(shift - round(shift)) < ROUNDING_SAMPLES:
            start = start[0] + round(shift) * np.arange(blocks)
            distinct = slice(0, 1)
        else:
            distinct = slice(None)
        offset = start[distinct, None, None] + np.arange(width) - centres[distinct, :, None]
        phi, dphi = normalise_bumps(offset / radius, radius * step)
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


def _build_uneven(times: FloatArray, radius: float | None, stride: float | None) -> TestFunctions:
    """Build test functions at uneven times.

    Parameters
    ----------
    times : ndarray, (M + 1,)
    radius, stride : float, or None
        In time units; None for the default.

    Returns
    -------
    TestFunctions
        They include the quadrature weights.

    Raises
    ------
    FitError
        If no bump has enough samples, or the radius or the stride is impossible.
    """
    # The median step, so that a few wide gaps do not make all bumps wide.
    M, step = len(times) - 1, float(np.median(np.diff(times)))
    is_radius_fixed = radius is not None
    span = times[-1] - times[0]
    largest = min(DEFAULT_RADIUS_SAMPLES * step, M * MAX_RADIUS_SHARE * step, span * MAX_RADIUS_SHARE)
    r = largest if radius is None else float(radius)
    # A default radius grows until at least one bump has enough samples; a radius of the user never changes.
    while True:
        s = max(r / DEFAULT_STRIDES_PER_RADIUS, step) if stride is None else float(stride)
        if is_radius_fixed or stride is not None:
            _check_spacing(r / step, s / step, int(span / step), step)
        centres = _place_centres(times, r, s)
        if len(centres) or is_radius_fixed or 2 * r * RADIUS_GROWTH_FACTOR > span:
            break
        r *= RADIUS_GROWTH_FACTOR
    if not len(centres):
        raise FitError(
            f"No test function of radius {r:.4g} time units has {MIN_SAMPLES_PER_BUMP} samples without a wide gap. "
            "Leave the radius out, or split the series at its gaps into several trajectories."
        )
    length = min(math.ceil(2 * r / s - ROUNDING_SAMPLES), len(centres))
    blocks = -(-len(centres) // length)
    first = np.searchsorted(times, centres - r, side="right")
    last = np.searchsorted(times, centres + r, side="left")
    start = first[::length]
    stop = np.array([last[min((k + 1) * length, len(centres)) - 1] for k in range(blocks)])
    phi, dphi = np.zeros((2, blocks, length, int((stop - start).max())))
    # Trapezoidal weights of the sums over samples.
    weights = np.empty(len(times))
    weights[[0, -1]] = np.diff(times)[[0, -1]] / 2
    weights[1:-1] = (times[2:] - times[:-2]) / 2
    for j, centre in enumerate(centres):
        k, l = divmod(j, length)  # function l of block k
        support = slice(first[j], last[j])
        columns = slice(first[j] - start[k], last[j] - start[k])
        phi[k, l, columns], dphi[k, l, columns] = _correct_derivatives(
            (times[support] - centre) / r, weights[support] / step, r
        )
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


def _place_centres(times: FloatArray, radius: float, stride: float) -> FloatArray:
    """Return the centres of the bumps that have enough samples and no wide gap.

    Parameters
    ----------
    times : ndarray, (M + 1,)
    radius, stride : float
        In time units.

    Returns
    -------
    ndarray, (K,)
    """
    span = times[-1] - times[0] - 2 * radius
    count = math.floor(span / stride + ROUNDING_SAMPLES) + 1
    slack = span - (count - 1) * stride
    origin = times[0] + radius + slack / 2
    # Only centres near samples are candidates: a gap may be many times as long as the rest of the series.
    offsets = np.arange(math.ceil(2 * radius / stride) + 1)
    index = np.unique(np.ceil((times - radius - origin) / stride)[:, None] + offsets)
    centres = origin + stride * index[(index >= 0) & (index < count)]
    first = np.searchsorted(times, centres - radius, side="right")
    last = np.searchsorted(times, centres + radius, side="left")
    # The edges of the support count as points, so that a gap at an edge is measured within the support only.
    points_by_bump = [
        np.concatenate([[centre - radius], times[a:b], [centre + radius]])
        for centre, a, b in zip(centres, first, last, strict=True)
    ]
    widest = np.array([np.diff(points).max() for points in points_by_bump])
    return np.asarray(centres[(last - first >= MIN_SAMPLES_PER_BUMP) & (widest <= MAX_GAP_IN_RADII * radius)])


def _correct_derivatives(tau: FloatArray, weights: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """Compute `w φ` and `w φ'`, corrected so that integration by parts is exact for cubic polynomials.

    Parameters
    ----------
    tau : ndarray, (n,)
        Times relative to the centre, in units of the radius.
    weights : ndarray, (n,)
        Trapezoidal weights w.
    radius : float
        The radius in time units.

    Returns
    -------
    phi, dphi : ndarray, (n,)
        Scaled to `‖w φ‖₂ = 1`.
    """
    phi, dphi = bump(tau)
    phi, dphi = phi * weights, dphi * weights
    degree = min(MAX_CORRECTION_DEGREE, len(tau) - SAMPLES_BEYOND_DEGREE)
    # The correction is φ Σ_i c_i τ^i. With moments μ_k = Σ_m w φ τ^k, the condition of degree k reads
    # Σ_i μ_(k+i) c_i = -k μ_(k-1) - Σ_m w φ' τ^k.
    powers = tau ** np.arange(2 * degree + 1)[:, None]
    moments = powers @ phi
    right_side = -np.array([k * moments[k - 1] if k else 0.0 for k in range(degree + 1)]) - powers[: degree + 1] @ dphi
    moment_matrix = moments[np.add.outer(np.arange(degree + 1), np.arange(degree + 1))]
    cubic = np.linalg.lstsq(moment_matrix, right_side, rcond=MIN_RELATIVE_MOMENT)[0] @ powers[: degree + 1]
    scale = 1.0 / np.linalg.norm(phi)
    return phi * scale, (dphi + phi * cubic) * (scale / radius)


def _check_spacing(radius: float, stride: float, M: int, step: float) -> None:
    """Raise `FitError` if radius or stride, in samples, are impossible for M steps of `step` time units."""
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
    least = max(MIN_STRIDE_SAMPLES, radius / MAX_STRIDES_PER_RADIUS)
    if not (math.isfinite(stride) and stride >= least):
        raise FitError(
            f"The stride of the test functions must be at least {least * step:.4g} time units (half a sample, and "
            f"1/{MAX_STRIDES_PER_RADIUS:g} of the radius), because test functions that are closer are not numerically "
            f"independent; received {stride * step:.4g}."
        )
