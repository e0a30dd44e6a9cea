"""The paper's test functions: bumps of several radii at every sample, reduced by the singular value decomposition.

1. The minimal radius. The highest discrete Fourier mode of data times bump is a surrogate of the quadrature error,
   `e(r) = ‖Im F_{M/2}[φ_k u]‖`, a norm over some centres k and all states. It falls steeply with the radius and levels
   off where noise dominates. The minimal radius is the corner, where two secants fit `log e` best (relative L1).
2. Φ_full consists of bumps whose radii are multiples of the minimal radius, at every sample where they fit.
3. With `Φ_full = W diag(s) Vᵀ`: `Φ = Vᵀ` and `Φ' = diag(1/s) Wᵀ Φ'_full`, cut to K rows. K is as large as the condition
   number, the share of the sum of singular values, and the maximal number of functions allow.

S is dense: memory grows as (KD)², time as (KD)³.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from ..data.trajectory import Trajectory
from ..support.array_types import FloatArray
from ..support.compact_repr import CompactRepr
from ..support.errors import FitError
from .bump_function import normalise_bumps
from .local import ROUNDING_SAMPLES
from .test_functions import TestFunctions

SEARCH_CENTRE_COUNT = 100
"""Number of centres over which the surrogate of the quadrature error is computed at each radius. By judgement."""
SEARCH_RADIUS_COUNT = 100
"""Number of radii at which the surrogate is computed, before rounding to whole samples. By judgement."""
MIN_SEARCH_RADIUS_SAMPLES = 2
"""Smallest radius of the search, in samples: a bump with a radius of one contains a single sample. By judgement."""
MIN_SEARCH_RANGE_SAMPLES = 3
"""Difference between the largest and the smallest radius of the search, at least, in samples. It gives four radii, and
so two candidates for a corner between the ends. By judgement."""
MIN_LOG_ERROR = 1e-12
"""Lower bound of `|log e|` where misfits are divided by it, so that an error of one causes no division by zero. By
judgement."""


@dataclass(frozen=True, repr=False)
class Orthonormal(CompactRepr):
    """The paper's orthonormal family of test functions.

    Parameters
    ----------
    radius : float, optional
        The minimal radius in time units; by default it is searched for.
    multipliers : tuple of float
        The radii, as multiples of the minimal radius.
    max_condition : float
        Condition number: singular values smaller than the largest one divided by it are cut.
    information : float
        Largest share of the sum of all singular values that is kept.
    max_functions : int
        Largest number K of test functions.
    search : tuple of float, optional
        Smallest and largest radius of the search, in time units; by default two samples and half the series. The
        largest is divided by the largest multiplier, so that every multiple of the minimal radius fits.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("lotka-volterra")
    >>> fit = wf.fit(problem.model, problem.simulate(seed=1), basis=wf.Orthonormal(), method="mle")
    >>> fit.converged
    True
    """

    radius: float | None = None
    multipliers: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    max_condition: float = 1e4
    information: float = 0.95
    max_functions: int = 200
    search: tuple[float, float] | None = None

    def build(self, trajectory: Trajectory) -> TestFunctions:
        """Build the test functions on the samples of a trajectory.

        Parameters
        ----------
        trajectory : Trajectory
            Complete data at evenly spaced times.

        Returns
        -------
        TestFunctions
            One block with a window of all samples.

        Raises
        ------
        FitError
            If data are missing, the times are uneven, or no test function fits into the series.
        """
        times, step = trajectory.times, trajectory.mean_step
        if not trajectory.is_evenly_spaced or not trajectory.measured.all():
            raise FitError("Orthonormal test functions need complete data at evenly spaced times; use Local().")
        if self.radius is None:
            radii, errors = compute_radius_errors(trajectory, self.search, max(self.multipliers))
            radius, origin = float(radii[find_corner(errors)]), "corner of the Fourier surrogate"
        else:
            radius, origin = float(self.radius), "given"
        full, dfull = self._build_full_family(len(times) - 1, radius / step, step)
        W, s, Vt = svd(full, full_matrices=False, check_finite=False)
        # Each count is the number of leading singular values that one of the three limits keeps; at least one remains.
        K = min(
            int(np.searchsorted(-s, -s[0] / self.max_condition, side="right")),
            int(np.searchsorted(np.cumsum(s), self.information * s.sum(), side="right")) or 1,
            self.max_functions,
        )
        phi, dphi = Vt[:K], (W[:, :K] / s[:K]).T @ dfull
        return TestFunctions(
            phi[None],
            dphi[None],
            np.zeros(1, dtype=np.intp),
            samples=len(times),
            count=K,
            radius=radius,
            description=f"orthonormal, minimal radius {radius:.4g} ({radius / step:.3g} samples, {origin}), "
            f"multiples {', '.join(f'{m:g}' for m in self.multipliers)}, {K} of {len(s)} singular vectors",
        )

    def _build_full_family(self, M: int, radius: float, step: float) -> tuple[FloatArray, FloatArray]:
        """Compute the bumps of all radii at every sample where they fit, and their time derivatives.

        Parameters
        ----------
        M : int
            Number of steps.
        radius : float
            The minimal radius, in samples.
        step : float
            The step, in time units.

        Returns
        -------
        phi, dphi : ndarray, (functions, M + 1)

        Raises
        ------
        FitError
            If no bump fits into the series.
        """
        samples = np.arange(M + 1)
        rows = []
        for multiplier in self.multipliers:
            r = multiplier * radius
            centres = np.arange(np.ceil(r), np.floor(M - r) + 1)
            if len(centres) and r > 1:
                rows.append(normalise_bumps((samples - centres[:, None]) / r, r * step))
        if not rows:
            raise FitError(
                f"No test function of radius {radius * step:g} ({radius:.1f} samples) fits into {M + 1} samples; "
                f"choose a radius between {step:g} and {M / 2 * step:g} time units."
            )
        return np.concatenate([phi for phi, _ in rows]), np.concatenate([dphi for _, dphi in rows])


def compute_radius_errors(
    trajectory: Trajectory, search: tuple[float, float] | None, largest_multiplier: float
) -> tuple[FloatArray, FloatArray]:
    """Compute the surrogate of the quadrature error at a set of radii.

    Parameters
    ----------
    trajectory : Trajectory
        Complete data at evenly spaced times.
    search : tuple of float, optional
        Smallest and largest radius, in time units; by default two samples and half the series.
    largest_multiplier : float
        The largest multiple of the radius that must still fit into the series.

    Returns
    -------
    radii : ndarray, (n,)
        In time units; a whole number of samples each.
    errors : ndarray, (n,)

    Raises
    ------
    FitError
        If the series is too short for a search.
    """
    M, step = len(trajectory.times) - 1, trajectory.mean_step
    low, high = (2 * step, M * step / 2) if search is None else search
    lowest = max(MIN_SEARCH_RADIUS_SAMPLES, int(np.ceil(low / step - ROUNDING_SAMPLES)))
    highest = max(
        lowest + MIN_SEARCH_RANGE_SAMPLES,
        int(np.floor(min(high, M * step / 2) / step / largest_multiplier + ROUNDING_SAMPLES)),
    )
    if 2 * highest > M:
        raise FitError(f"A series of {M + 1} samples is too short to search for a radius; give one, as radius=.")
    radii = np.unique(np.linspace(lowest, highest, SEARCH_RADIUS_COUNT).astype(int))
    samples = np.arange(M + 1)
    # The mode is multiplied into the data once, so that each radius costs one product with its bumps.
    mode = np.sin(2 * np.pi * (M // 2) * samples / (M + 1))
    modulated_data = mode[:, None] * trajectory.values
    errors = np.empty(len(radii))
    for i, r in enumerate(radii):
        centres = np.unique(np.linspace(r, M - r, SEARCH_CENTRE_COUNT).astype(int))
        phi, _ = normalise_bumps((samples - centres[:, None]) / r, float(r))
        errors[i] = np.linalg.norm(phi @ modulated_data)
    return radii * step, errors


def find_corner(errors: FloatArray) -> int:
    """Return the index of the corner: the two secants that meet there fit `log errors` best in relative L1.

    Parameters
    ----------
    errors : ndarray, (n,)
        Surrogate of the quadrature error at increasing radii.
    """
    y = np.log(np.maximum(errors, np.finfo(float).tiny))
    n = len(y)
    scale = np.maximum(np.abs(y), MIN_LOG_ERROR)
    misfit = np.full(n, np.inf)
    for k in range(1, n - 1):
        falling = np.linspace(y[0], y[k], k + 1)
        level = np.linspace(y[k], y[-1], n - k)
        secants = np.concatenate([falling, level[1:]])
        misfit[k] = np.sum(np.abs(secants - y) / scale)
    return int(np.argmin(misfit))
