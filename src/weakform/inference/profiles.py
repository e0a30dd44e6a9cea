"""The profile of one parameter: how much worse a fit becomes when it is held and all others adapt.

With the misfit `Q(p, x) = Σ (x^data - x)²/σ²` and `Q_j(v) = min Q` over all parameters and states with p_j = v, the
interval at level 1 - α is `{v : Q_j(v) - Q(p̂) <= z²}`, z the quantile. It is followed from the fit to both sides, each
solution from the one before; steps that are too long are taken again. A valley may bend back, so that one parameter
alone does not lead along it: where the profile of another has been farther, it is followed from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.gauss_helmert import Solution
from ..support.array_types import BoolArray, FloatArray
from ..support.compact_repr import Tidy
from ..support.errors import FitError
from .refits import Refit, refit_of

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MAX_STEPS = 30
BEGIN = 1e-3
"""The first step of a profile without an error to tell it, as a share of the bounds or of the estimate."""
FIRST = 1e-3
"""Share of a step by the error that is taken in any case, however large it is beside the estimate."""
FAR = 1e6
"""How far a profile is followed, in first steps or in sizes of the estimate: what has not risen by then sets no limit,
and beyond it differences of large numbers are rounding."""
SHORTER, FAILED, JUMP = 6, 8, 2.0
"""How often a step of a profile is made shorter before it is given up, and all of them on one side; and the rise of the
misfit in a step, over that at the end, from which on it is too long: a refit from too far may end in another place."""
SHORTEST = 1e-4
"""Of the first step: where a profile gets on by less, the model cannot be solved any more."""
MOST_CLOSER, CLOSE, GAP = 12, 0.2, 0.4
"""Points added to find the end of a profile, how near the root of the misfit must come to the quantile, and how long
the gap around the end may be, as a share of its distance: a curve with a kink is no line across it."""
STOPPED = 1e-6
"""Relative difference from a bound below which a parameter sits there."""


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


def profile(
    fit: FitResult, name: str, level: float = 0.95, refit: Refit | None = None, met: list[Solution] | None = None
) -> Profile:
    """The profile of one parameter and its interval; solutions that are `met` belong to it, and are added to."""
    met, j = [] if met is None else met, fit.model.parameters.index(name)
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
    # Where the tangent knows nothing its error is no step: a few quarters of it must lead to what is near.
    step = min(step, max(abs(start), FIRST * step))
    # On the flat floor of a valley a profile may find a little less misfit than the fit: the least counts as zero.
    points, stops = {start: refit.compute_misfit(refit.best)}, []
    good = inside(fit, refit, met, z)
    walk = _Walk(fit, refit, j, step, z, points=points, met=met)
    for sign in (-1.0, 1.0):
        stop = walk.along(sign, refit.best)
        farthest = max((refit.best, *good), key=lambda one: sign * float(one.p[j]))
        came = max(points, key=lambda value: sign * value)
        reached = walk.crossing(sign) if stop is None else came if np.isnan(stop) else stop
        if sign * (float(farthest.p[j]) - reached) > 0:
            # Along another branch of the valley, that of another profile, it reaches farther.
            again = _Path(refit, j, farthest).solved(float(farthest.p[j]), z**2) or farthest
            walk.forget(sign)
            stop = walk.along(sign, min(again, farthest, key=refit.compute_misfit))
        stops.append(stop)
    low, high = (walk.crossing(sign) if s is None else s for sign, s in zip((-1.0, 1.0), stops, strict=True))
    least = min(points.values())
    risen = {value: misfit - least for value, misfit in points.items()}
    values = np.array(sorted(risen))
    others = tuple(str(n) for n in np.array(fit.model.parameters)[walk.beside])
    return Profile(name, values, np.array([risen[v] for v in values]), level, (low, high), others)


def inside(fit: FitResult, refit: Refit, met: list[Solution], z: float) -> list[Solution]:
    """Of some solutions those that are no worse than at an end, and on the side of zero on which the estimate is."""
    most = refit.compute_misfit(refit.best) + z**2
    return [one for one in met if refit.compute_misfit(one) < most and _same_signs(fit, one)]


class _Walk:
    """From a solution along a profile to where it ends.

    Parameters
    ----------
    fit, refit, j, step, z
        The parameter, the first step and the quantile.
    points : dict
        The profile as far as it is known, by value; it is added to.
    met : list of Solution
        Those on the way, too.
    """

    def __init__(
        self,
        fit: FitResult,
        refit: Refit,
        j: int,
        step: float,
        z: float,
        *,
        points: dict[float, float],
        met: list[Solution],
    ) -> None:
        self.fit, self.refit, self.j, self.step, self.z = fit, refit, j, step, z
        self.points, self.met = points, met
        self.start = float(refit.best.p[j])
        self.beside = np.zeros(len(fit.estimate), dtype=bool)

    def along(self, sign: float, first: Solution) -> float | None:
        """To one side, until the misfit has risen enough; else what the end is: a bound, or NaN where it was lost."""
        refit, points, z = self.refit, self.points, self.z
        low, high = self.fit.bounds[self.j]
        path = _Path(refit, self.j, first)
        points[path.value] = refit.compute_misfit(first)
        width, last, shorter, failed = self.step, points[path.value], 0, 0
        for _ in range(MAX_STEPS):
            value = float(np.clip(path.value + sign * width, low, high))
            solved = path.solved(value, z**2)
            if (solved is None or refit.compute_misfit(solved) - last > JUMP * z**2) and shorter < SHORTER:
                width, shorter, failed = width / 4, shorter + 1, failed + 1  # too far for one step
                if failed > FAILED:
                    break
                continue
            if solved is None or width < SHORTEST * self.step:
                break
            now = refit.compute_misfit(solved)
            if now - last > JUMP * z**2:  # a wall, or a valley that was lost: nobody can tell from here
                break
            points[value], shorter = now, 0
            if now - min(points.values()) >= z**2:
                self.beside |= _stopped(self.fit, solved.p) & (np.arange(len(solved.p)) != self.j)
                _closed_in(path, points, last, (value, now), z)
                return None
            if value in (low, high):
                return value
            if abs(value - self.start) > FAR * max(self.step, abs(self.start)):
                return float(low if sign < 0 else high)  # it never rises
            path.go(solved)
            self.met.append(solved)
            rise = now - last
            width *= 3.0 if rise < (0.1 * z) ** 2 else 1.5 if rise < (0.5 * z) ** 2 else 1.0
            last = now
        return np.nan

    def forget(self, sign: float) -> None:
        """What was too much on a side was that of another branch."""
        least = min(self.points.values())
        for value, misfit in list(self.points.items()):
            if sign * (value - self.start) > 0 and misfit - least >= self.z**2:
                del self.points[value]

    def crossing(self, sign: float) -> float:
        """Where √misfit reaches z, on one side of the least."""
        best = min(self.points, key=lambda value: self.points[value])
        root = {value: float(np.sqrt(misfit - self.points[best])) for value, misfit in self.points.items()}
        side = [(abs(value - best), r) for value, r in root.items() if sign * (value - best) >= 0]
        return best + sign * crossing(side, self.z)


def _same_signs(fit: FitResult, one: Solution) -> bool:
    """Whether what has no bounds has the sign of its estimate: to others the way may lead over a pole."""
    loose = ~np.isfinite(fit.bounds).any(axis=1)
    return bool((np.sign(one.p) == np.sign(fit.estimate))[loose].all())


def _stopped(fit: FitResult, p: FloatArray) -> BoolArray:
    """Which free parameters sit at a bound that is not zero."""
    at = np.isclose(p[:, None], fit.bounds, rtol=STOPPED, atol=0.0) & (fit.bounds != 0)
    return np.asarray(at.any(axis=1) & ~fit.fixed)


class _Path:
    """A way along a profile: the last solution, and the one before it, which tells where the others go."""

    def __init__(self, refit: Refit, j: int, near: Solution) -> None:
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
        found = self.refit.hold_parameter(self.j, value, self.near, slope)
        if found is not None and self.refit.compute_misfit(found) - self.refit.compute_misfit(self.near) < much:
            return found
        other = self.refit.hold_parameter(self.j, value, self.near, np.zeros_like(self.near.p))
        return min((one for one in (found, other) if one is not None), key=self.refit.compute_misfit, default=None)


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
        points[between] = path.refit.compute_misfit(solved)
        if points[between] - least < z**2:
            path.go(solved)
            low = points[between]
        else:
            value, high = between, points[between]


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
