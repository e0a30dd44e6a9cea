"""Starts of many fits: draws of the parameters, screened by what they cost almost nothing to be judged by.

If every state is measured, a draw is judged by its weak residual on a few windows of the data, after one Gauss–Newton
step in the parameters in which the model is linear; the best ones are improved by weak least squares. Their states are
the data. Otherwise the equations are solved forward from each draw, and the best ones are those nearest to the data.
Where all lanes share inputs and doses, one set of forward solutions serves all datasets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.start_points import draw_stratified_shares, map_to_bounds
from ..support.array_types import BoolArray, FloatArray, IntArray
from .lane_iteration import LaneProblem, solve_in_box
from .lane_plan import LaneMesh
from .passes import LanePasses, TestWindows, from_groups, to_groups


@dataclass(frozen=True)
class _StartPolicy:
    """How many draws and windows there are. By judgement; docs/solvers.md has what they cost."""

    draws: int = 48
    """Draws of a dataset, where every state is measured and the model is not linear in its parameters."""
    shared_draws: int = 512
    """Draws that all datasets share, where states are hidden."""
    windows: int = 128
    """Windows of weak least squares, at most."""
    screening_windows: int = 16
    """Windows on which draws are compared."""
    radii: tuple[float, ...] = (5.0, 3.0, 12.0)
    """Radius of the windows in samples, for each pass over the datasets; at most a third of the series. With short
    windows noise biases the estimate, with long ones fast dynamics do."""
    weak_steps: int = 12
    """Steps of weak least squares."""
    weak_damping: float = 1e-3
    """First damping of a step that is taken back."""
    settled: float = 1e-4
    """Relative decrease of the weak residual below which weak least squares ends."""


POLICY = _StartPolicy()
"""The numbers in use."""


def fill_missing(times: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Interpolate missing values `(lanes, S, K)` in time; columns without any value become zero."""
    filled = values.copy()
    missing = weights <= 0
    for lane, column in zip(*np.nonzero(missing.any(axis=1)), strict=True):
        gone = missing[lane, :, column]
        if gone.all():
            filled[lane, :, column] = 0.0
        else:
            filled[lane, gone, column] = np.interp(times[gone], times[~gone], values[lane, ~gone, column])
    return filled


def estimate_sigma(
    times: FloatArray, values: FloatArray, weights: FloatArray, spread: FloatArray, share: float, min_values: int
) -> FloatArray:
    """Estimate σ `(lanes, K)` from the data alone, by divided differences that remove what is smooth.

    Parameters
    ----------
    times : ndarray, (S,)
    values, weights : ndarray, (lanes, S, K)
    spread : ndarray, (lanes, K)
        An upper limit; `share` of it is taken where there are fewer than `min_values` differences.
    """
    points = min(6, len(times) - 1)
    if points < 3:
        return share * spread
    windows = np.lib.stride_tricks.sliding_window_view
    t = windows(times, points)
    gaps = (t[:, :, None] - t[:, None, :]) / (t[:, -1:, None] - t[:, :1, None])
    gaps[:, np.arange(points), np.arange(points)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    x, w = windows(values, points, axis=1), windows(weights, points, axis=1)
    good = (w > 0).all(axis=-1)
    with np.errstate(all="ignore"):
        variance = np.einsum("np,lnkp->lnk", c**2, 1.0 / w**2)
        filtered = np.where(good, np.einsum("np,lnkp->lnk", c, x) ** 2 / variance, 0.0)
    counts = good.sum(axis=1)
    sigma = np.sqrt(filtered.sum(axis=1) / np.maximum(counts, 1))
    return np.where((counts >= min_values) & (sigma > 0), np.minimum(sigma, spread), share * spread)


def build_windows(times: FloatArray, samples: float, most: int) -> TestWindows:
    """Build bumps `(1 - s²)⁴` that are evenly spread over the series.

    Parameters
    ----------
    times : ndarray, (N,)
    samples : float
        Radius, in samples.
    most : int
        Number of bumps, at most.
    """
    steps = np.diff(times)
    weights = np.concatenate([[0.0], steps]) / 2 + np.concatenate([steps, [0.0]]) / 2
    span = times[-1] - times[0]
    radius = min(samples * float(np.median(steps[steps > 0])), span / 3)
    count = int(np.clip(2 * span / radius, min(8, most), most))
    centres = np.linspace(times[0] + radius, times[-1] - radius, count)
    s = (times - centres[:, None]) / radius
    inside = np.maximum(1 - s**2, 0.0)
    return TestWindows(inside**4 * weights, -8 * s * inside**3 / radius * weights)


class WeakStarts:
    """Weak least squares in lanes, for data in which every state is measured.

    Parameters
    ----------
    passes : LanePasses
        Their states are the data.
    problem : LaneProblem
    sigma : ndarray, (lanes, D)
        σ of each state, by which the weak residuals are weighted.
    radius : float
        Radius of the windows, in samples.
    windows : int
        Number of windows, at most.
    """

    def __init__(
        self, passes: LanePasses, problem: LaneProblem, sigma: FloatArray, radius: float, windows: int
    ) -> None:
        self.passes, self.problem = passes, problem
        self.windows = build_windows(passes.mesh.times, radius, windows)
        G, N, D, W = passes.x.shape
        self.left = np.matmul(self.windows.slope, passes.x.reshape(G, N, D * W)).reshape(G, -1, D, W)
        # The noise of Φ'x has the standard deviation σ ‖φ'‖, which is nearly the same for all windows.
        noise = float(np.sqrt(np.mean(np.sum(self.windows.slope**2, axis=1))))
        self.scale = to_groups(1.0 / (noise * sigma), W)

    def sum_residuals(self, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return H `(lanes, F, F)`, g `(lanes, F)` and half the sum of squares with the prior, `(lanes,)`, at q."""
        passes = self.passes
        p, slope = self.problem.expand(q)
        passes.p, passes.chain = to_groups(p, passes.width), to_groups(slope, passes.width)
        H, g, squares = passes.sum_weak_residuals(self.windows, self.left, self.scale)
        penalty, gradient, diagonal = self.problem.compute_prior(q)
        index = np.arange(q.shape[1])
        H[:, index, index] += diagonal
        value = 0.5 * squares + penalty
        return H, g - gradient, np.where(np.isfinite(value), value, np.inf)

    def improve(self, q: FloatArray, moving: BoolArray, steps: int) -> tuple[FloatArray, FloatArray]:
        """Run Gauss–Newton steps in some parameters.

        Parameters
        ----------
        q : ndarray, (lanes, F)
        moving : ndarray of bool, (F,)
        steps : int

        Returns
        -------
        q : ndarray, (lanes, F)
        value : ndarray, (lanes,)
            Half the sum of the squared weak residuals, with the prior; infinite where it is not finite.
        """
        problem = self.problem
        with np.errstate(all="ignore"):
            H, g, value = self.sum_residuals(q)
            damping = np.zeros(len(q))
            active = np.isfinite(value)
            for _ in range(steps if moving.any() else 0):
                if not active.any():
                    break
                low = np.where(moving, problem.lower - q, 0.0)
                high = np.where(moving, problem.upper - q, 0.0)
                delta = solve_in_box(H, g, damping + WEAK_RIDGE, low, high)
                delta = np.where(active[:, None] & np.isfinite(delta), delta, 0.0)
                trial = np.clip(q + delta, problem.lower, problem.upper)
                H_trial, g_trial, value_trial = self.sum_residuals(trial)
                better = value_trial < value
                settled = better & (value - value_trial <= POLICY.settled * value)
                q, value = np.where(better[:, None], trial, q), np.where(better, value_trial, value)
                H, g = np.where(better[:, None, None], H_trial, H), np.where(better[:, None], g_trial, g)
                damping = np.where(better, damping / 10, np.maximum(damping * 10, POLICY.weak_damping))
                active &= ~settled & (damping < MAX_WEAK_DAMPING)
        return q, value


WEAK_RIDGE = 1e-12
"""Relative ridge of the normal equations, which keeps a parameter without any effect where it is. By judgement."""
MAX_WEAK_DAMPING = 1e6
"""Damping beyond which no step of weak least squares helps. By judgement."""


def draw_parameters(problem: LaneProblem, count: int, units: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw parameters on the scale of the iteration: stratified in their bounds, or over natural units.

    Parameters
    ----------
    problem : LaneProblem
    count : int
    units : ndarray, (sets, units)
        Natural units of parameters without bounds, for each dataset.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, (sets, count, F)
        The same for all datasets but for their units.
    """
    F = len(problem.free)
    log = problem.log[problem.free]
    with np.errstate(over="ignore"):
        lower, upper = (np.where(log, np.exp(side), side) for side in (problem.lower, problem.upper))
    shares = draw_stratified_shares(count, F, rng)
    every_other = np.arange(count)[:, None] % 2 == 1
    unit = units[:, rng.integers(units.shape[1], size=shares.shape)]
    natural = map_to_bounds(lower, upper, np.broadcast_to(shares, unit.shape), unit, decades=every_other)
    with np.errstate(all="ignore"):
        q = np.where(log, np.log(natural), natural)
    return np.clip(np.where(np.isfinite(q), q, 0.0), problem.lower, problem.upper)


def collect_units(times: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return natural units for a parameter without bounds: one, sizes of the data, the time span, and quotients.

    Parameters
    ----------
    times : ndarray, (S,)
    sizes : ndarray, (sets, K)
        Sizes of the columns of each dataset; a column of zeros has the unit one.

    Returns
    -------
    ndarray, (sets, units)
    """
    span = float(times[-1] - times[0])
    sizes = np.where(np.isfinite(sizes) & (sizes > 0), sizes, 1.0)
    same = np.tile([1.0, span, 1 / span], (len(sizes), 1))
    return np.concatenate([same, sizes, 1 / sizes, sizes / span], axis=1)


def select_best(values: FloatArray, count: int) -> IntArray:
    """Return the indices of the `count` smallest values of each row, `(rows, count)`, the smallest first."""
    part = np.argpartition(values, min(count, values.shape[1]) - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(values, part, axis=1), axis=1, kind="stable")
    return np.take_along_axis(part, order, axis=1)


def average_samples(mesh: LaneMesh, values: FloatArray) -> FloatArray:
    """Return the measured values `(lanes, S, K)` of samples from observables at the nodes, `(lanes, N, K)`."""
    result = np.zeros((len(values), mesh.samples, values.shape[2]))
    for (node, sample, _), weight in zip(mesh.entries.tolist(), mesh.entry_weights.tolist(), strict=True):
        result[:, sample] += weight * values[:, node]
    return result


def solve_draws(
    passes: LanePasses, problem: LaneProblem, q: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve the equations forward from draws.

    Parameters
    ----------
    passes : LanePasses
        One lane for each draw; their states are replaced.
    problem : LaneProblem
    q : ndarray, (draws, F)
    level : ndarray, (draws, D)
        Initial values; only those that are fitted count.

    Returns
    -------
    predicted : ndarray, (draws, S, K)
        Observables at the samples, in natural units.
    states : ndarray, (draws, N, D)
    """
    p, slope = problem.expand(q)
    passes.set_point(p, slope, np.ones((len(q), passes.model.K)))
    begin, _ = passes.compute_initial(p)
    free = passes.model.free_initial
    begin[:, free] = level[:, free]
    passes.x[:, 0] = to_groups(begin, passes.width)
    passes.march()
    return average_samples(passes.mesh, passes.observe()), from_groups(passes.x, len(q))
