"""The profile of one parameter: how much worse a fit becomes if it is held and all others adapt.

With the misfit `Q(p, x) = Σ (x^data - x)²/σ²` and `Q_j(v) = min Q` over all parameters and states with p_j = v, the
interval at level 1 - α is `{v : Q_j(v) - Q(p̂) <= z²}`, z the quantile. It is followed from the fit to both sides
(`profile_walk`), each refit starting from the one before; steps that are too long are repeated with shorter ones. A
valley of the misfit may bend back, so that holding this parameter alone does not lead along it: if the profile of
another parameter has reached farther, this one is followed from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.gauss_helmert import Solution
from ..support.array_types import BoolArray, FloatArray
from ..support.compact_repr import CompactRepr
from ..support.errors import FitError
from .profile_walk import Bracket, Trial, find_crossing, walk_to_end
from .refits import Refit, prepare_refits

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


@dataclass(frozen=True)
class _ProfilePolicy:
    """How a profile is followed: step lengths, and when it is given up. All by judgement unless a test is named."""

    max_trials: int = 30
    """Largest number of refits outward on one side; a profile that has not ended by then counts as lost."""
    max_closing_trials: int = 12
    """Largest number of refits that close in on a bracketed end."""

    steps_to_end: float = 3.0
    """Number of first steps that make up the half-width of Wald's interval."""
    first_step_of_bounds: float = 1e-3
    """The first step if the parameter has no finite error: a share of the width between its bounds, or of its estimate
    if it has no bounds."""
    first_step_of_error: float = 1e-3
    """Share of the step from Wald's error that is taken even if it is larger than the estimate. Apart from that the
    first step is at most the size of the estimate: where the linearisation breaks down, its error is no guide to the
    length of a step (`test_a_profile_is_followed_where_the_linearisation_breaks_down`)."""
    smallest_estimate: float = 1e-6
    """Least absolute value that is assumed for the estimate if the step is a share of it."""
    shrinking: float = 4.0
    """Factor by which a step is shortened after a refit that failed, or rose too much."""
    growth_if_flat: float = 3.0
    """Factor by which a step grows if the misfit rose by less than `flat_rise`."""
    flat_rise: float = 0.1
    """Rise of the root of the misfit, in quantiles, below which a step was far too short."""
    growth_if_slow: float = 1.5
    """Factor by which a step grows if the misfit rose by less than `slow_rise`."""
    slow_rise: float = 0.5
    """Rise of the root of the misfit, in quantiles, below which a step was too short."""

    max_rise: float = 2.0
    """Rise of the misfit in one step, in units of that at the end, above which the step was too long: a refit from too
    far may end at another optimum (`test_a_profile_follows_a_curved_valley`)."""
    max_shortenings: int = 6
    """Number of times in a row that a step is shortened before the profile counts as lost."""
    max_failures: int = 8
    """Number of times that steps are shortened on one side before the profile counts as lost."""
    shortest_step: float = 1e-4
    """Step, in first steps, below which the profile counts as lost: the model can no longer be solved from its last
    point."""
    farthest: float = 1e6
    """Distance from the estimate, in first steps or in estimates, beyond which the data set no limit: differences of
    such large numbers are rounding errors
    (`test_a_profile_that_never_rises_has_no_end_and_its_neighbour_is_followed`)."""

    close_root: float = 0.2
    """Distance of the root of the misfit from the quantile at which a refit is close enough to the end; and the rise
    within a bracket below which interpolation is accurate."""
    max_gap: float = 0.4
    """Length of a bracket, as a share of the distance of its outer end from the estimate, up to which it is short
    enough: across a longer one a curve with a kink is no straight line."""


PROFILE_POLICY = _ProfilePolicy()
BOUND_TOLERANCE = 1e-6
"""Relative difference from a bound up to which a parameter sits at it: refits stop within rounding of a bound."""


@dataclass(frozen=True, repr=False)
class Profile(CompactRepr):
    """The profile likelihood of one parameter.

    Attributes
    ----------
    name : str
        The parameter.
    values : ndarray, (points,)
        The values at which it was held, increasing.
    misfit : ndarray, (points,)
        `Q_j(v) - Q(p̂)`, twice the loss of log-likelihood.
    level : float
        Coverage probability of `interval`.
    interval : tuple of float
        Infinite on a side on which the misfit never rises enough: the data set no limit there. NaN on a side on which
        the profile could not be followed.
    beside : tuple of str
        Other parameters that are at a bound other than zero at an end of the interval, which wider bounds would make
        longer.
    """

    name: str
    values: FloatArray
    misfit: FloatArray
    level: float
    interval: tuple[float, float]
    beside: tuple[str, ...] = ()


def compute_profile(
    fit: FitResult,
    name: str,
    level: float = 0.95,
    refit: Refit | None = None,
    solutions: list[Solution] | None = None,
) -> Profile:
    """Compute the profile of one parameter and its interval.

    Parameters
    ----------
    fit : FitResult
    name : str
        The parameter.
    level : float
        Coverage probability.
    refit : Refit, optional
        The refits of the fit; prepared if not given.
    solutions : list of Solution, optional
        Refits of other profiles, from which this one may be followed; its own are added to them.

    Returns
    -------
    Profile
    """
    solutions, j = [] if solutions is None else solutions, fit.model.parameters.index(name)
    if fit.fixed[j]:
        raise FitError(f"{name!r} is fixed; it has no profile.")
    # The profile of a parameter that cannot be identified is flat; there is nothing to follow.
    if name in fit.undetermined:
        return Profile(name, fit.estimate[[j]], np.zeros(1), level, (-np.inf, np.inf))
    refit = refit or prepare_refits(fit)
    z = fit.quantile(level)
    points = _ProfilePoints(fit, refit, j, _choose_first_step(fit, refit, j, z), z=z, solutions=solutions)
    good = select_inside(fit, refit, solutions, z)
    ends = [points.follow_to_end(sign, good) for sign in (-1.0, 1.0)]
    # A bracketed end is interpolated last, when the least misfit on both sides is known.
    low, high = (
        points.interpolate_end(sign) if end is None else end for sign, end in zip((-1.0, 1.0), ends, strict=True)
    )
    values, misfit = points.sort_points()
    neighbours = tuple(str(n) for n in np.array(fit.model.parameters)[points.neighbours_at_bound])
    return Profile(name, values, misfit, level, (low, high), neighbours)


def select_inside(fit: FitResult, refit: Refit, solutions: list[Solution], z: float) -> list[Solution]:
    """Return the solutions with a misfit below that at an end, and with the signs of the estimate."""
    most = refit.compute_misfit(refit.best) + z**2
    return [s for s in solutions if refit.compute_misfit(s) < most and _has_signs_of_estimate(fit, s)]


def _has_signs_of_estimate(fit: FitResult, solution: Solution) -> bool:
    """Return True if parameters without bounds have the signs of their estimates.

    A profile cannot be continued from a solution with another sign: on the way there it would cross a pole.
    """
    unbounded = ~np.isfinite(fit.bounds).any(axis=1)
    return bool((np.sign(solution.p) == np.sign(fit.estimate))[unbounded].all())


def _find_parameters_at_bound(fit: FitResult, p: FloatArray) -> BoolArray:
    """Return which free parameters of `p` `(J,)` sit at a bound other than zero, `(J,)`."""
    is_at = np.isclose(p[:, None], fit.bounds, rtol=BOUND_TOLERANCE, atol=0.0) & (fit.bounds != 0)
    return np.asarray(is_at.any(axis=1) & ~fit.fixed)


def _choose_first_step(fit: FitResult, refit: Refit, j: int, z: float) -> float:
    """Choose the length of the first step along the profile of parameter j."""
    low, high = fit.bounds[j]
    step = fit.wald_errors[j] * z / PROFILE_POLICY.steps_to_end
    if not (np.isfinite(step) and step > 0):
        width = high - low
        size = width if np.isfinite(width) else max(abs(fit.estimate[j]), PROFILE_POLICY.smallest_estimate)
        step = PROFILE_POLICY.first_step_of_bounds * size
    return float(min(step, max(abs(float(refit.best.p[j])), PROFILE_POLICY.first_step_of_error * step)))


class _ProfilePoints:
    """The points of a profile, on both sides of the estimate.

    Parameters
    ----------
    fit : FitResult
    refit : Refit
    j : int
        Position of the parameter.
    step : float
        The first step.
    z : float
        The quantile.
    solutions : list of Solution
        Refits of this and other profiles; added to.
    """

    def __init__(
        self, fit: FitResult, refit: Refit, j: int, step: float, *, z: float, solutions: list[Solution]
    ) -> None:
        self.fit, self.refit, self.j, self.step, self.z, self.solutions = fit, refit, j, step, z, solutions
        self.start = float(refit.best.p[j])
        # On the flat floor of a valley a refit may have slightly less misfit than the fit: the least counts as zero.
        self.misfits = {self.start: refit.compute_misfit(refit.best)}
        self.neighbours_at_bound = np.zeros(len(fit.estimate), dtype=bool)

    @property
    def least_misfit(self) -> float:
        """The least misfit of all points."""
        return min(self.misfits.values())

    def sort_points(self) -> tuple[FloatArray, FloatArray]:
        """Return the values in increasing order, `(points,)`, and the misfit above the least at each."""
        least = self.least_misfit
        values = np.array(sorted(self.misfits))
        return values, np.array([self.misfits[value] - least for value in values])

    def follow_to_end(self, sign: float, good: list[Solution]) -> float | None:
        """Follow the profile on one side; again from another profile's refit if one of `good` is beyond its end.

        Parameters
        ----------
        sign : float
            -1 for the lower end, 1 for the upper one.
        good : list of Solution
            Refits of all profiles with a misfit below that at an end.

        Returns
        -------
        float or None
            None if the end is bracketed; else the end itself: a bound, infinite, or NaN if the profile was lost.
        """
        end = self._follow_from(sign, self.refit.best)
        farthest = max((self.refit.best, *good), key=lambda solution: sign * float(solution.p[self.j]))
        if end is None:
            reached = self.interpolate_end(sign)
        else:
            reached = max(self.misfits, key=lambda value: sign * value) if np.isnan(end) else end
        value = float(farthest.p[self.j])
        if sign * (value - reached) > 0:
            side = _ProfileSide(self, sign, farthest)
            # The refit of the other profile holds another parameter: this profile may fit better at the same value.
            repeated = side.solve(value) or farthest
            self._forget_end(sign)
            end = self._follow_from(sign, min(repeated, farthest, key=self.refit.compute_misfit))
        return end

    def _follow_from(self, sign: float, first: Solution) -> float | None:
        """Follow the profile on one side from a solution; return the end as `follow_to_end` does."""
        side = _ProfileSide(self, sign, first)
        self.misfits[side.value] = side.misfit
        walk_to_end(side, side.step_outward(), Bracket((side.value, side.compute_root(side.misfit))), self.z)
        return side.end

    def _forget_end(self, sign: float) -> None:
        """Delete points at and beyond the end on one side: they belong to another branch of the valley."""
        least = self.least_misfit
        for value, misfit in list(self.misfits.items()):
            if sign * (value - self.start) > 0 and misfit - least >= self.z**2:
                del self.misfits[value]

    def interpolate_end(self, sign: float) -> float:
        """Return the value at which the root of the misfit reaches z, on one side of the best point."""
        best = min(self.misfits, key=lambda value: self.misfits[value])
        root = {value: float(np.sqrt(misfit - self.misfits[best])) for value, misfit in self.misfits.items()}
        side = [(abs(value - best), r) for value, r in root.items() if sign * (value - best) >= 0]
        return best + sign * find_crossing(side, self.z)


class _ProfileSide:
    """The route along a profile on one side; its positions are values of the parameter (`profile_walk.Route`).

    Parameters
    ----------
    points : _ProfilePoints
        Added to on the way.
    sign : float
        -1 to follow the profile to smaller values, 1 to larger ones.
    first : Solution
        Where the way begins.

    Attributes
    ----------
    end : float, or None
        The end of the interval: None if it is bracketed, NaN if the profile was lost, else a bound or infinite.
    """

    max_trials = PROFILE_POLICY.max_trials
    max_closing_trials: int | None = PROFILE_POLICY.max_closing_trials

    def __init__(self, points: _ProfilePoints, sign: float, first: Solution) -> None:
        self.points, self.sign = points, sign
        self.last_solution, self.misfit = first, points.refit.compute_misfit(first)
        self.previous_solution: Solution | None = None
        self.width, self.shortenings, self.failures = points.step, 0, 0
        self.end: float | None = np.nan
        self.least = points.least_misfit
        self.has_given_up = False

    @property
    def value(self) -> float:
        """The parameter at the last solution."""
        return float(self.last_solution.p[self.points.j])

    @property
    def is_bracketed(self) -> bool:
        """True if a refit has been beyond the end."""
        return self.end is None

    def compute_root(self, misfit: float) -> float:
        """Return the root of a misfit above the least one."""
        # Once the end is bracketed the least misfit is kept: changing it would move the end while the walk closes in.
        if not self.is_bracketed:
            self.least = min(self.points.least_misfit, misfit)
        return float(np.sqrt(max(misfit - self.least, 0.0)))

    def step_outward(self) -> float:
        """Return the value one step on, inside the bounds."""
        return float(np.clip(self.value + self.sign * self.width, *self.points.fit.bounds[self.points.j]))

    def solve(self, value: float) -> Solution | None:
        """Compute the best fit with the parameter held at a value.

        The other parameters start on the straight line through the last two solutions. If the misfit then rises by
        more than it does at the end, they also start from the last solution itself, as a straight line may leave a
        curved valley; the better of the two is returned.
        """
        refit, j, slope = self.points.refit, self.points.j, None
        if self.previous_solution is not None and self.previous_solution.p[j] != self.value:
            slope = (self.last_solution.p - self.previous_solution.p) / (self.value - self.previous_solution.p[j])
        first = refit.hold_parameter(j, value, self.last_solution, slope)
        large_rise = self.points.z**2
        if first is not None and refit.compute_misfit(first) - refit.compute_misfit(self.last_solution) < large_rise:
            return first
        second = refit.hold_parameter(j, value, self.last_solution, np.zeros_like(self.last_solution.p))
        return min((s for s in (first, second) if s is not None), key=refit.compute_misfit, default=None)

    def refit_at(self, position: float, bracket: Bracket) -> Trial[Solution] | None:
        """Refit with the parameter at a value; return None if that failed, or if the misfit rose too much."""
        solution = self.solve(position)
        if solution is None:
            return None
        misfit = self.points.refit.compute_misfit(solution)
        if bracket.is_open and misfit - self.misfit > PROFILE_POLICY.max_rise * self.points.z**2:
            return None
        return Trial(position, self.compute_root(misfit), solution)

    def retreat(self, position: float, bracket: Bracket) -> float:
        """Shorten the step; give up if it was shortened too often, or if the end is bracketed already."""
        # The step is always taken from the last good solution, wherever the failed refit was.
        del position
        self.width, self.shortenings, self.failures = (
            self.width / PROFILE_POLICY.shrinking,
            self.shortenings + 1,
            self.failures + 1,
        )
        too_often = self.shortenings > PROFILE_POLICY.max_shortenings or self.failures > PROFILE_POLICY.max_failures
        self.has_given_up = too_often or not bracket.is_open
        return self.step_outward()

    def is_finished(self, trial: Trial[Solution], bracket: Bracket) -> bool:
        """Record a refit; return True if it is at a bound, far away or close to the end, or if the profile is lost."""
        was_open = not self.is_bracketed
        if was_open and self.width < PROFILE_POLICY.shortest_step * self.points.step:
            return True
        misfit = self.points.refit.compute_misfit(trial.solution)
        self.points.misfits[trial.position], self.shortenings = misfit, 0
        if bracket.is_open:
            return self._passes_limit(trial.position)
        if was_open:
            self.end = None
            # The refit beyond the end shows which bounds limit the others there.
            at_bound = _find_parameters_at_bound(self.points.fit, trial.solution.p)
            at_bound[self.points.j] = False
            self.points.neighbours_at_bound |= at_bound
        elif trial.root < self.points.z:
            self._accept(trial.solution)
        return self._is_narrow(bracket)

    def advance(self, trial: Trial[Solution]) -> float:
        """Return the next value outward from a refit; the step is longer if the misfit hardly rose."""
        z, misfit = self.points.z, self.points.misfits[trial.position]
        self._accept(trial.solution)
        self.points.solutions.append(trial.solution)
        rise = misfit - self.misfit
        if rise < (PROFILE_POLICY.flat_rise * z) ** 2:
            self.width *= PROFILE_POLICY.growth_if_flat
        elif rise < (PROFILE_POLICY.slow_rise * z) ** 2:
            self.width *= PROFILE_POLICY.growth_if_slow
        self.misfit = misfit
        return self.step_outward()

    def _accept(self, solution: Solution) -> None:
        """Make a solution the last one, from which the next refit starts."""
        self.last_solution, self.previous_solution = solution, self.last_solution

    def _passes_limit(self, value: float) -> bool:
        """Return True, and set the end, at a bound or so far away that the data set no limit."""
        low, high = self.points.fit.bounds[self.points.j]
        if value in (low, high):
            self.end = value
        elif abs(value - self.points.start) > PROFILE_POLICY.farthest * max(self.points.step, abs(self.points.start)):
            # Without a bound on this side, the bound is infinite.
            self.end = float(low if self.sign < 0 else high)
        else:
            return False
        return True

    def _is_narrow(self, bracket: Bracket) -> bool:
        """Return True if interpolation in a bracket is accurate: it is short, or one of its ends is at the quantile."""
        assert bracket.outer is not None
        (inner, low), (outer, high) = bracket.inner, bracket.outer
        has_close_end = min(abs(root - self.points.z) for root in (low, high)) < PROFILE_POLICY.close_root
        is_short = abs(outer - inner) < PROFILE_POLICY.max_gap * abs(outer - self.points.start)
        return (has_close_end and is_short) or high - low < PROFILE_POLICY.close_root
