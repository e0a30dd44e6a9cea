"""Intervals beyond Wald's: profiles of the objective, and the parametric bootstrap.

Profile: with the misfit `Q(p, x) = Σ (x^data - x)²/σ²` and `Q_j(v) = min Q` over all parameters and states with
p_j = v, the interval at level 1 - α is `{v : Q_j(v) - Q(p̂) <= z²}`, z the normal quantile: it follows the curvature
that Wald's leaves out. Bootstrap: data are drawn again from the fitted states with the fitted noise and refitted; the
interval lies between quantiles of the estimates. Both work on the constraint of method "wendy" and need no new search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.helmert import Settings, Solution, solve
from ..collocation.mesh import Mesh
from ..data.matching import system_of
from ..estimators import ESTIMATORS
from ..linalg.symmetric import NotPositiveDefinite
from ..parameters.priors import Priors
from ..parameters.scale import Scale
from ..support.checks import is_whole
from ..support.errors import FitError
from ..support.messages import counted
from ..support.typing import FloatArray

if TYPE_CHECKING:
    from .result import FitResult

MAX_STEPS, MIN_RUNS = 40, 20
IDLE = 0.1
"""Spread of a bootstrap, in standard errors, below which it did not follow what the data leave open."""
DRAWN = 0.02
"""Tolerance of a bootstrap run, in standard errors: far below the spread of the runs."""


@dataclass(frozen=True)
class Profile:
    """The profile of one parameter.

    Attributes
    ----------
    name : str
    values : ndarray, (points,)
        Increasing.
    misfit : ndarray, (points,)
        `Q_j(v) - Q(p̂)`.
    level : float
    interval : tuple of float
        Infinite on a side where the misfit never rises enough: the data set no limit there. NaN where it could not be
        followed.
    """

    name: str
    values: FloatArray
    misfit: FloatArray
    level: float
    interval: tuple[float, float]


def can_refit(fit: FitResult) -> bool:
    """Whether a fit can be found again from other data, or with a parameter held."""
    return ESTIMATORS[fit.method].refits and fit.goodness is not None


class Refit:
    """The constraint problem behind a result of method "wendy", ready to be solved again."""

    def __init__(self, fit: FitResult) -> None:
        if fit.covariance_kind.startswith("none"):
            raise FitError("Noise-free data have no intervals: there is nothing to be uncertain of.")
        if not can_refit(fit):
            able = " or ".join(repr(e.name) for e in ESTIMATORS.values() if e.refits)
            raise FitError(
                f"Profile and bootstrap intervals belong to method {able}; this fit is {fit.method!r}. "
                f"Fit again with method={able}."
            )
        self.p, self.sigma = fit.estimate, fit.sigma
        pairs = []
        for k, (q, u) in enumerate(zip(fit.data.trajectories, fit.denoised, strict=True)):
            system = system_of(fit.model, fit.data, k)
            states, there = system.to_working(u), q.measured
            data = np.where(there, system.to_working(np.where(there, q.values, u)), states)
            mesh = Mesh(system, q.times, data, there, q.scale)
            for _ in range(fit.mesh.bit_length() - 1):
                mesh, states = mesh.halved(self.p, states)
            pairs.append((mesh, states))
        self.meshes, self.states = (tuple(part) for part in zip(*pairs, strict=True))
        self.settings = Settings(~fit.fixed, fit.bounds[:, 0], fit.bounds[:, 1], runaway=np.inf, prior=fit.prior)
        self.covariance = np.nan_to_num(fit.covariance)
        self.best = solve(self.meshes, self.sigma, self.p, self.states, self.settings)

    def total(self, solution: Solution) -> float:
        """Misfit to the data and to the prior."""
        prior = self.settings.prior
        return solution.misfit + (0.0 if prior is None else 2 * prior.value(solution.p))

    def with_parameter(self, j: int, value: float, near: Solution) -> Solution | None:
        """The best fit with p_j = value, from a solution nearby; None where there is none."""
        free = self.settings.free.copy()
        free[j] = False
        # The others begin where the regression on p_j expects them.
        p, variance = near.p.copy(), self.covariance[j, j]
        if variance > 0:
            p = p + self.covariance[j] / variance * (value - p[j])
        p[j] = value
        try:
            solved = solve(self.meshes, self.sigma, p, near.states, replace(self.settings, free=free))
        except NotPositiveDefinite:
            return None
        return solved if np.isfinite(solved.misfit) and solved.stop.converged else None

    def _noise(self, mesh: Mesh) -> FloatArray:
        return self.sigma * np.where(mesh.measured, 1.0 if mesh.scale is None else mesh.scale, 0.0)

    def drawn(self, rng: np.random.Generator) -> Solution | None:
        """A fit to data drawn from the fitted states."""
        meshes = tuple(
            replace(mesh, data=np.where(mesh.measured, x + self._noise(mesh) * rng.standard_normal(x.shape), x))
            for mesh, x in zip(self.meshes, self.best.states, strict=True)
        )
        try:
            rough = replace(self.settings, tolerance=DRAWN)
            if isinstance(rough.prior, Priors):  # a prior is one more measurement, and is drawn like the others
                moved = rough.prior.centre + rough.prior.spread * rng.standard_normal(len(rough.prior.index))
                rough = replace(rough, prior=replace(rough.prior, centre=moved))
            solved = solve(meshes, self.sigma, self.best.p, self.best.states, rough)
        except NotPositiveDefinite:
            return None
        return solved if np.isfinite(solved.p).all() and solved.stop.converged else None


def profile(fit: FitResult, name: str, level: float = 0.95, refit: Refit | None = None) -> Profile:
    """The profile of one parameter and its interval."""
    j = fit.model.parameters.index(name)
    if fit.fixed[j]:
        raise FitError(f"{name!r} is fixed; it has no profile.")
    refit = refit or Refit(fit)
    z = fit.quantile(level)
    error = fit.errors[j]
    low, high = fit.bounds[j]
    step = error * z / 3 if np.isfinite(error) and error > 0 else 0.05 * max(abs(fit.estimate[j]), 1e-12)
    start = float(refit.best.p[j])
    # On the flat floor of a valley a profile may find a little less misfit than the fit: the least counts as zero.
    points, sides = {start: refit.total(refit.best)}, []
    for sign in (-1.0, 1.0):
        near, value, width, last = refit.best, start, step, points[start]
        # Where the misfit never rises enough there is no end; where it does, the end is found below.
        crossed, end = False, sign * np.inf
        for _ in range(MAX_STEPS):
            value = float(np.clip(value + sign * width, low, high))
            solved = refit.with_parameter(j, value, near)
            if solved is None:
                end = np.nan
                break
            points[value] = refit.total(solved)
            if points[value] - min(points.values()) >= z**2:
                crossed = True
                break
            if value in (low, high):
                end = value
                break
            near = solved
            width *= 1.5 if points[value] - last < (0.5 * z) ** 2 else 1.0
            last = points[value]
        sides.append((sign, crossed, end))
    least = min(points.values())
    risen = {value: misfit - least for value, misfit in points.items()}
    best = min(risen, key=lambda value: risen[value])
    ends = [_crossing(risen, best, sign, z) if crossed else float(end) for sign, crossed, end in sides]
    values = np.array(sorted(risen))
    return Profile(name, values, np.array([risen[v] for v in values]), level, (ends[0], ends[1]))


def _crossing(points: dict[float, float], start: float, sign: float, z: float) -> float:
    """Where √misfit, which is nearly linear, reaches z."""
    side = sorted((abs(v - start), np.sqrt(m)) for v, m in points.items() if sign * (v - start) >= 0)
    distance, root = np.array(side).T
    root = np.maximum.accumulate(root)
    k = int(np.searchsorted(root, z))
    if k >= len(root):
        return sign * np.inf
    if k == 0:
        return start
    share = (z - root[k - 1]) / (root[k] - root[k - 1])
    return start + sign * float(distance[k - 1] + share * (distance[k] - distance[k - 1]))


def bootstrap(fit: FitResult, runs: int = 200, seed: int = 0) -> FloatArray:
    """Estimates `(runs, J)` from data drawn from the fitted states; runs that fail are left out."""
    if not is_whole(runs, MIN_RUNS):
        raise FitError(f"A bootstrap needs at least {MIN_RUNS} runs; received {runs!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    refit = Refit(fit)
    draws = (refit.drawn(np.random.default_rng([seed, 3, k])) for k in range(runs))
    found = [solved.p for solved in counted(draws, "bootstrap", runs) if solved is not None]
    if len(found) < runs / 2:
        raise FitError(f"Only {len(found)} of {runs} bootstrap runs converged; the fit is too fragile for a bootstrap.")
    return np.array(found)


@np.errstate(all="ignore")
def intervals(fit: FitResult, level: float, kind: str, runs: int, seed: int) -> FloatArray:
    """See `FitResult.intervals`."""
    half = fit.quantile(level) * fit.errors  # refuses a bad level
    if kind == "wald":
        return Scale(fit.log_scale).intervals(fit.estimate, half)
    if kind == "profile":
        return _profiled(fit, level)
    if kind != "bootstrap":
        raise FitError(f"The kind must be 'wald', 'profile' or 'bootstrap'; received {kind!r}.")
    draws = bootstrap(fit, runs, seed)
    ends = np.asarray(np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0).T)
    # Along a direction that the data do not determine no draw moves: that is no knowledge.
    with np.errstate(invalid="ignore"):
        idle = (draws.std(axis=0) < IDLE * fit.errors) & ~fit.fixed
    ends[idle] = [-np.inf, np.inf]
    return ends


def _profiled(fit: FitResult, level: float) -> FloatArray:
    refit = Refit(fit)
    ends = np.column_stack([fit.estimate, fit.estimate])
    free = np.flatnonzero(~fit.fixed)
    for j in counted(free, "profile", len(free)):
        name = fit.model.parameters[j]
        fit.late.profiles[name] = profile(fit, name, level, refit)
        ends[j] = fit.late.profiles[name].interval
    return ends
