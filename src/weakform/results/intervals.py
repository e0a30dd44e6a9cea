"""Intervals beyond Wald's: profiles of the objective, and the parametric bootstrap.

Profile: with the misfit `Q(p, x) = Σ (x^data - x)²/σ²` and `Q_j(v) = min Q` over all parameters and states with
p_j = v, the interval at level 1 - α is `{v : Q_j(v) - Q(p̂) <= z²}`, z the normal quantile: it follows the curvature
that Wald's leaves out. Bootstrap: data are drawn again from the fitted states with the fitted noise and refitted; the
interval lies between quantiles of the estimates. Both work on the constraint of method "wendy" and need no new search.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.helmert import Solution
from ..estimators.status import Status
from ..parameters.scale import Scale
from ..support.checks import is_whole
from ..support.errors import FitError
from ..support.messages import counted, suggestion
from ..support.tidy import Tidy
from ..support.typing import BoolArray, FloatArray
from .records import Quantity
from .refits import Refitted, can_refit, refit_of

if TYPE_CHECKING:
    from .result import FitResult

MAX_STEPS, MIN_RUNS = 80, 20
BEGIN = 1e-3
"""The first step of a profile without an error to tell it, as a share of the bounds or of the estimate."""
FAR = 1e6
"""How far a profile is followed, in first steps or in sizes of the estimate: what has not risen by then sets no limit,
and beyond it differences of large numbers are rounding."""
SHORTER, JUMP = 6, 2.0
"""How often a step of a profile is made shorter before it is given up, and the rise of the misfit in a step, over that
at the end, from which on it is too long: a refit from too far may end in another place."""
MOST_CLOSER, CLOSE, GAP = 12, 0.2, 0.4
"""Points added to find the end of a profile, how near the root of the misfit must come to the quantile, and how long
the gap around the end may be, as a share of its distance: a curve with a kink is no line across it."""
LOOSE, FEW, CURVED = 0.05, 600, 0.07
"""Error, relative to the estimate, above which curvature is looked for, and samples up to which it is in any case: of
chaotic systems parameters are known well along curved ways; and what it may do to an end of an interval."""
OVERTAKEN = 2.0
"""How much less misfit than the fit a profile must find for the fit not to be the best."""
LEVEL = 0.95
"""Of the intervals that an error belongs to."""
WALD, PROFILE, PARTLY = "", "by its profile", "by its profile on one side"
LOST = "its profile could not be followed: rough"
STOPPED = 1e-6
"""Relative difference from a bound below which a parameter sits there."""
IDLE = 0.1
"""Spread of a bootstrap, in standard errors, below which it did not follow what the data leave open."""


@dataclass(frozen=True, repr=False)
class Profile(Tidy):
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
    beside : tuple of str
        Other parameters that sat at a bound, other than zero, where it ends: with wider bounds it would be longer.
    """

    name: str
    values: FloatArray
    misfit: FloatArray
    level: float
    interval: tuple[float, float]
    beside: tuple[str, ...] = ()


def profile(fit: FitResult, name: str, level: float = 0.95, refit: Refitted | None = None) -> Profile:
    """The profile of one parameter and its interval."""
    j = fit.model.parameters.index(name)
    if fit.fixed[j]:
        raise FitError(f"{name!r} is fixed; it has no profile.")
    if name in fit.undetermined:  # flat as far as it goes
        return Profile(name, fit.estimate[[j]], np.zeros(1), level, (-np.inf, np.inf))
    refit = refit or refit_of(fit)
    z = fit.quantile(level)
    error = fit.wald_errors[j]
    low, high = fit.bounds[j]
    step = error * z / 3
    if not (np.isfinite(step) and step > 0):
        width = high - low
        step = BEGIN * (width if np.isfinite(width) else max(abs(fit.estimate[j]), 1e-6))
    start = float(refit.best.p[j])
    # On the flat floor of a valley a profile may find a little less misfit than the fit: the least counts as zero.
    points, sides, beside = {start: refit.total(refit.best)}, [], np.zeros(len(fit.estimate), dtype=bool)
    for sign in (-1.0, 1.0):
        path = _Path(refit, j, refit.best)
        width, last, shorter = step, points[start], 0
        # Where the misfit never rises enough there is no end; where it does, the end is found below.
        crossed, end = False, sign * np.inf
        for _ in range(MAX_STEPS):
            value = float(np.clip(path.value + sign * width, low, high))
            solved = path.solved(value, z**2)
            if (solved is None or refit.total(solved) - last > JUMP * z**2) and shorter < SHORTER:
                width, shorter = width / 4, shorter + 1  # too far for one step
                continue
            if solved is None:
                end = np.nan
                break
            points[value], shorter = refit.total(solved), 0
            if points[value] - min(points.values()) >= z**2:
                crossed = True
                beside |= _stopped(fit, solved.p)
                _closed_in(path, points, last, (value, points[value]), z)
                break
            if value in (low, high):
                end = value
                break
            if abs(value - start) > FAR * max(step, abs(start)):
                break
            path.go(solved)
            rise = points[value] - last
            width *= 3.0 if rise < (0.1 * z) ** 2 else 1.5 if rise < (0.5 * z) ** 2 else 1.0
            last = points[value]
        sides.append((sign, crossed, end))
    least = min(points.values())
    risen = {value: misfit - least for value, misfit in points.items()}
    best = min(risen, key=lambda value: risen[value])
    ends = [_crossing(risen, best, sign, z) if crossed else float(end) for sign, crossed, end in sides]
    values = np.array(sorted(risen))
    beside[j] = False
    others = tuple(str(n) for n in np.array(fit.model.parameters)[beside])
    return Profile(name, values, np.array([risen[v] for v in values]), level, (ends[0], ends[1]), others)


def _stopped(fit: FitResult, p: FloatArray) -> BoolArray:
    """Which free parameters sit at a bound that is not zero."""
    at = np.isclose(p[:, None], fit.bounds, rtol=STOPPED, atol=0.0) & (fit.bounds != 0)
    return np.asarray(at.any(axis=1) & ~fit.fixed)


class _Path:
    """A way along a profile: the last solution, and the one before it, which tells where the others go."""

    def __init__(self, refit: Refitted, j: int, near: Solution) -> None:
        self.refit, self.j, self.near = refit, j, near
        self.before: Solution | None = None

    @property
    def value(self) -> float:
        """Of the parameter, at the last solution."""
        return float(self.near.p[self.j])

    def go(self, solution: Solution) -> None:
        """One step on."""
        self.near, self.before = solution, self.near

    def solved(self, value: float, much: float) -> Solution | None:
        """The best fit with the parameter held; where that is much worse, also with the others from where they are."""
        slope = None
        if self.before is not None and self.before.p[self.j] != self.value:
            slope = (self.near.p - self.before.p) / (self.value - self.before.p[self.j])
        found = self.refit.with_parameter(self.j, value, self.near, slope)
        if found is not None and self.refit.total(found) - self.refit.total(self.near) < much:
            return found
        other = self.refit.with_parameter(self.j, value, self.near, np.zeros_like(self.near.p))
        return min((one for one in (found, other) if one is not None), key=self.refit.total, default=None)


def _closed_in(path: _Path, points: dict[float, float], low: float, outside: tuple[float, float], z: float) -> None:
    """Add points between the last one, of misfit `low`, and one beyond the end, until one is close to it."""
    value, high = outside
    start, least = float(path.refit.best.p[path.j]), min(points.values())
    for _ in range(MOST_CLOSER):
        roots = [float(np.sqrt(max(misfit - least, 0.0))) for misfit in (low, high)]
        near = min(abs(root - z) for root in roots) < CLOSE and abs(value - path.value) < GAP * abs(value - start)
        if near or roots[1] - roots[0] < CLOSE:
            return
        share = float(np.clip((z - roots[0]) / (roots[1] - roots[0]), 0.1, 0.9))
        between = path.value + share * (value - path.value)
        solved = path.solved(between, z**2)
        if solved is None:
            return
        points[between] = path.refit.total(solved)
        if points[between] - least < z**2:
            path.go(solved)
            low = points[between]
        else:
            value, high = between, points[between]


def _crossing(points: dict[float, float], start: float, sign: float, z: float) -> float:
    """Where √misfit reaches z, on one side."""
    side = [(abs(v - start), float(np.sqrt(m))) for v, m in points.items() if sign * (v - start) >= 0]
    return start + sign * crossing(side, z)


def crossing(points: list[tuple[float, float]], z: float) -> float:
    """The distance at which √misfit, which is nearly linear in it, reaches z, from pairs of both; infinite if never."""
    distance, root = np.array(sorted(points)).T
    root = np.maximum.accumulate(root)
    k = int(np.searchsorted(root, z))
    if k >= len(root):
        return np.inf
    if k == 0:
        return 0.0
    share = (z - root[k - 1]) / (root[k] - root[k - 1])
    return float(distance[k - 1] + share * (distance[k] - distance[k - 1]))


def bootstrap(fit: FitResult, runs: int = 200, seed: int = 0) -> FloatArray:
    """Estimates `(runs, J)` from data drawn from the fitted states; runs that fail are left out."""
    if not is_whole(runs, MIN_RUNS):
        raise FitError(f"A bootstrap needs at least {MIN_RUNS} runs; received {runs!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    refit = refit_of(fit)
    draws = (refit.drawn(np.random.default_rng([seed, 3, k])) for k in range(runs))
    found = [solved.p for solved in counted(draws, "bootstrap", runs) if solved is not None]
    if len(found) < runs / 2:
        raise FitError(f"Only {len(found)} of {runs} bootstrap runs converged; the fit is too fragile for a bootstrap.")
    return np.array(found)


def quantity(fit: FitResult, name: str) -> Quantity:
    """A parameter, or an initial value, with its interval."""
    names = fit.model.parameters
    if name not in names and name.endswith("(0)") and name[:-3] in fit.model.states:
        found = fit.initial[name[:-3]]
        if isinstance(found, Quantity):
            return found
        raise KeyError(f"{name!r} differs between trajectories: see fit.initial[{name[:-3]!r}].")
    if name not in names:
        raise KeyError(f"No parameter {name!r}.{suggestion(str(name), names)} There are: {', '.join(names)}.")
    j = names.index(name)
    ends, kinds = automatic(fit, LEVEL)
    low, high = ends[j]
    note = "fixed" if fit.fixed[j] else kinds[j]
    if fit.at_bound[j]:
        note = f"at its bound{f', {note}' if note else ': no Wald interval'}"
    note = "cannot be determined" if name in fit.undetermined else note
    return Quantity(name, float(fit.estimate[j]), float(fit.errors[j]), (float(low), float(high)), note)


@np.errstate(all="ignore")
def intervals(fit: FitResult, level: float, kind: str, runs: int, seed: int) -> FloatArray:
    """See `FitResult.intervals`."""
    half = fit.quantile(level) * fit.wald_errors  # refuses a bad level
    if kind == "auto":
        return automatic(fit, level)[0].copy()
    if kind == "wald":
        return Scale(fit.log_scale).intervals(fit.estimate, half)
    if kind == "profile":
        return _profiled(fit, level)
    if kind != "bootstrap":
        raise FitError(f"The kind must be 'auto', 'wald', 'profile' or 'bootstrap'; received {kind!r}.")
    if (runs, seed) not in fit.late.bootstraps:
        fit.late.bootstraps[runs, seed] = bootstrap(fit, runs, seed)
    draws = fit.late.bootstraps[runs, seed]
    ends = np.asarray(np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0).T)
    # Along a direction that the data do not determine no draw moves: that is no knowledge.
    with np.errstate(invalid="ignore"):
        idle = (draws.std(axis=0) < IDLE * fit.wald_errors) & ~fit.fixed
    ends[idle] = [-np.inf, np.inf]
    return ends


@np.errstate(all="ignore")
def automatic(fit: FitResult, level: float) -> tuple[FloatArray, tuple[str, ...]]:
    """Intervals `(J, 2)`, and the kind of each: by the profile where a bound is near or the misfit is no parabola."""
    if level not in fit.late.automatic:
        fit.late.automatic[level] = _automatic(fit, level)
    return fit.late.automatic[level]


def overtaken(fit: FitResult) -> tuple[str, ...]:
    """A sentence, if a profile has come upon a better fit than the fit itself."""
    gains = {}
    for curve in fit.late.curves.values():
        here = int(np.argmin(np.abs(curve.values - fit.estimate[fit.model.parameters.index(curve.name)])))
        if curve.misfit[here] > OVERTAKEN:
            gains[curve.name] = (float(curve.misfit[here]) / 2, float(curve.values[np.argmin(curve.misfit)]))
    if not gains:
        return ()
    name, (gain, value) = max(gains.items(), key=lambda item: item[1][0])
    return (
        f"A profile has come upon a better fit: with {name} = {value:.4g} the log-likelihood is {gain:.1f} higher than "
        f"at the estimate, which is not the best. Fit again with method='relaxed' and start={{{name!r}: {value:.4g}}}.",
    )


@np.errstate(all="ignore")
def errors(fit: FitResult) -> FloatArray:
    """See `FitResult.errors`."""
    (ends, kinds), wald = automatic(fit, LEVEL), fit.wald_errors
    by_profile = np.array([kind in (PROFILE, PARTLY) for kind in kinds])
    return np.where(by_profile, mean_reach(ends, fit.estimate) / fit.quantile(LEVEL), wald)


def mean_reach(ends: FloatArray, values: FloatArray) -> FloatArray:
    """The mean of what intervals `(n, 2)` reach to both sides of values `(n,)`; where one is an end, to the other."""
    reach = np.abs(ends - values[:, None])
    return np.asarray(reach.sum(axis=1) / np.maximum((reach > 0).sum(axis=1), 1))


def _automatic(fit: FitResult, level: float) -> tuple[FloatArray, tuple[str, ...]]:
    ends = intervals(fit, level, "wald", 0, 0)
    kinds = [WALD] * len(ends)
    open_to = ~fit.fixed & ~np.isin(fit.model.parameters, list(fit.undetermined))
    # With a neighbour at its bound an error takes that one as known, and is too small.
    beyond = (ends[:, 0] < fit.bounds[:, 0]) | (ends[:, 1] > fit.bounds[:, 1]) | fit.at_bound.any()
    loose = (fit.wald_errors > LOOSE * np.abs(fit.estimate)) | (fit.data.samples <= FEW)
    loose &= "covariance" not in fit.options.given  # who asks for another covariance wants its intervals
    suspects = np.flatnonzero(open_to & (beyond | loose))
    if not len(suspects) or not can_refit(fit) or not fit.converged or fit.covariance_kind.startswith("none"):
        return ends, tuple(kinds)
    try:
        refit = refit_of(fit)
    except FitError:
        return ends, tuple(kinds)
    if refit.solves and fit.status is Status.UNDETERMINED:  # minutes of solving along a valley would tell no more
        return ends, tuple(kinds)
    z = fit.quantile(level)
    for j in counted(suspects, "intervals", len(suspects)):
        if beyond[j] or not _parabolic(refit, int(j), ends[j], z):
            found = np.array(_curve(fit, fit.model.parameters[j], level, refit).interval)
            lost = np.isnan(found)
            ends[j] = np.where(lost, np.clip(ends[j], *fit.bounds[j]), found)
            kinds[j] = LOST if lost.all() else PROFILE if not lost.any() else PARTLY
    return ends, tuple(kinds)


def _curve(fit: FitResult, name: str, level: float, refit: Refitted) -> Profile:
    """The profile of a parameter, computed once."""
    if (name, level) not in fit.late.curves:
        fit.late.curves[name, level] = profile(fit, name, level, refit)
    return fit.late.curves[name, level]


def _parabolic(refit: Refitted, j: int, ends: FloatArray, z: float) -> bool:
    """Whether the misfit at the ends of Wald's interval is what it promises."""
    least = refit.total(refit.best)
    for end in ends:
        solved = refit.with_parameter(j, float(end), refit.best) if np.isfinite(end) else None
        if solved is None or not abs(np.sqrt(max(refit.total(solved) - least, 0.0)) / z - 1) < CURVED:
            return False
    return True


def _profiled(fit: FitResult, level: float) -> FloatArray:
    refit = refit_of(fit)
    ends = np.column_stack([fit.estimate, fit.estimate])
    free = np.flatnonzero(~fit.fixed)
    for j in counted(free, "profile", len(free)):
        name = fit.model.parameters[j]
        fit.late.profiles[name] = _curve(fit, name, level, refit)
        ends[j] = fit.late.profiles[name].interval
    lost = [fit.model.parameters[j] for j in free if np.isnan(ends[j]).any()]
    if lost:
        words = f"The profile of {', '.join(lost)} could not be followed to an end, which is NaN; a bootstrap may tell"
        warnings.warn(words, stacklevel=4)
    return ends
