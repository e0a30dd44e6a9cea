"""Intervals of the parameters: Wald, profile likelihood, and the parametric bootstrap.

Wald's interval is `p̂ ± z·error` on the scale of the parameter. Profiles (`profiles`) follow the curvature of the
likelihood that Wald's formula leaves out. Bootstrap: data are drawn from the fitted states with the fitted noise and
refitted; the interval lies between quantiles of the estimates. Both refit from the estimate (`refits`) and need no new
search. By default an interval is Wald's unless a bound is within reach, another parameter sits at one, or the misfit at
Wald's ends is not that of a parabola; then it is the profile's, unless the time for it is over (`profile_time`).
"""

from __future__ import annotations

import numbers
import warnings
from contextlib import suppress
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.gauss_helmert import Solution
from ..parameters.working_scale import WorkingScale
from ..results.records import Quantity
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from ..support.errors import FitError
from ..support.whole_numbers import is_whole
from ..support.wording import show_progress, suggest_name
from .profile_time import TimeLimitReached, has_automatic_profiles, limit_automatic_profiles
from .profiles import Profile, compute_profile, select_inside
from .refits import Refit, can_refit, prepare_refits

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MIN_BOOTSTRAP_RUNS = 20
"""Refits that a bootstrap needs at least; fewer have no quantiles at 95% to speak of, and are refused. By judgement."""
MIN_SHARE_OF_RUNS = 0.5
"""Share of the refits to drawn data that must converge. Below it those that did are a selection, and their quantiles
are not reported. By judgement."""
MIN_BOOTSTRAP_SPREAD = 0.1
"""Standard deviation of the bootstrap estimates of a parameter, in standard errors, below which its interval is
infinite: the refits did not move along a direction that the data do not determine
(`test_bootstrap_intervals_of_unidentifiable_parameters_are_wide`)."""

LOOSE_RELATIVE_ERROR = 0.05
"""Standard error, relative to the estimate, above which the curvature of the likelihood is checked; a parameter that is
known better is moved too little for curvature to matter. Documented in docs/method.md. By judgement."""
MAX_SAMPLES_ALWAYS_CHECKED = 600
"""Samples up to which curvature is checked whatever the errors: parameters of chaotic systems are known well along
curved directions (`test_well_determined_parameters_of_a_chaotic_system_need_profiles`). Above it the checks would cost
more refits of long series."""
MAX_ROOT_DEVIATION = 0.07
"""Relative difference between the root of the misfit at an end of Wald's interval and the quantile, up to which the
likelihood counts as quadratic there. Above it the interval comes from the profile. By judgement."""
MIN_OVERREACH = 0.01
"""How far outside an interval the profile of another parameter must have led, as a share of the interval's width, for
its own profile to be followed again from there. By judgement."""
MIN_GAIN_OF_BETTER_FIT = 2.0
"""Amount by which the misfit (minus twice the log-likelihood) at a point of a profile must be below that of the fit for
the point to be reported as a better fit. Smaller amounts occur along the flat floor of a valley. By judgement."""

DEFAULT_LEVEL = 0.95
"""Coverage probability of default intervals, and of the intervals that standard errors belong to."""

BY_WALD = ""
"""Kind of an interval by Wald's formula, as the note of its parameter shows it. The usual kind needs no note."""
BY_PROFILE = "by its profile"
"""Kind of an interval whose two ends come from the profile."""
BY_PROFILE_ON_ONE_SIDE = "by its profile on one side"
"""Kind of an interval whose profile could be followed on one side only."""
NO_DEGREES_OF_FREEDOM = "as many unknowns as values"
"""Kind of an interval if σ cannot be estimated, since no degrees of freedom are left."""
PROFILE_LOST = "rough: its profile could not be followed"
"""Kind of an interval whose profile could be followed on neither side."""
TIME_ENDED = "Wald: the time limit ended its profile"
"""Kind of an interval by Wald's formula that would come from the profile if there were time."""
TIME_ENDED_WITHOUT_WALD = "no interval: the time limit ended its profile"
"""The same if Wald's interval is not finite, as for a parameter at its bound."""
BOOTSTRAP_STREAM = 3
"""Second number of the seed of a bootstrap. It keeps these random numbers apart from all others of the same seed."""


def bootstrap(fit: FitResult, runs: int = 200, seed: int = 0) -> FloatArray:
    """Refit data that are drawn from the fitted states with the fitted noise.

    Returns
    -------
    ndarray, (runs that converged, J)
        The estimates; runs that fail are left out.
    """
    if not is_whole(runs, MIN_BOOTSTRAP_RUNS):
        raise FitError(f"A bootstrap needs at least {MIN_BOOTSTRAP_RUNS} runs; received {runs!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    refit = prepare_refits(fit)
    draws = refit.refit_many_drawn(np.random.default_rng([seed, BOOTSTRAP_STREAM, k]) for k in range(runs))
    estimates = [solution.p for solution in show_progress(draws, "bootstrap", runs) if solution is not None]
    if len(estimates) < runs * MIN_SHARE_OF_RUNS:
        raise FitError(
            f"Only {len(estimates)} of {runs} bootstrap runs converged; at least {MIN_SHARE_OF_RUNS:.0%} must. "
            "Use intervals(kind='profile')."
        )
    return np.array(estimates)


def get_quantity(fit: FitResult, name: str) -> Quantity:
    """Return a parameter, or an initial value such as `x(0)`, with its default interval."""
    names = fit.model.parameters
    if name not in names and name.endswith("(0)") and name[:-3] in fit.model.states:
        initial = fit.initial[name[:-3]]
        if isinstance(initial, Quantity):
            return initial
        raise KeyError(f"{name!r} differs between trajectories: see fit.initial[{name[:-3]!r}].")
    if name not in names:
        raise KeyError(f"No parameter {name!r}.{suggest_name(str(name), names)} There are: {', '.join(names)}.")
    j = names.index(name)
    ends, kinds = get_default_intervals(fit, DEFAULT_LEVEL)
    low, high = ends[j]
    note = "fixed" if fit.fixed[j] else kinds[j]
    if fit.at_bound[j]:
        note = f"at its bound{f', {note}' if note else ': no Wald interval'}"
    note = "cannot be determined" if name in fit.undetermined else note
    return Quantity(name, float(fit.estimate[j]), float(fit.errors[j]), (float(low), float(high)), note)


def compute_interval_quantile(fit: FitResult, level: float) -> float:
    """Return the half-width of an interval in standard errors: normal, or Student's t if σ was estimated."""
    if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise FitError(f"The level must be a number between 0 and 1, such as 0.95; received {level!r}.")
    if fit.goodness is None or not fit.sigma_estimated:
        return NormalDist().inv_cdf(0.5 + float(level) / 2)
    from scipy.special import stdtrit

    return float(stdtrit(max(fit.goodness.freedom, 1), 0.5 + float(level) / 2))


def compute_wald_errors(fit: FitResult) -> FloatArray:
    """Return standard errors from the covariance alone, `(J,)`; infinite for parameters that are not identifiable."""
    unknown = [name in fit.undetermined for name in fit.model.parameters]
    with np.errstate(invalid="ignore"):
        return np.where(unknown, np.inf, np.sqrt(fit.covariance.diagonal()))


def compute_correlations(fit: FitResult) -> FloatArray:
    """Return the correlations of the estimates, `(J, J)`; NaN for parameters that are fixed or at a bound."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(fit.covariance / np.outer(fit.wald_errors, fit.wald_errors))


@np.errstate(all="ignore")
def compute_intervals(fit: FitResult, level: float, kind: str, runs: int, seed: int) -> FloatArray:
    """Compute intervals `(J, 2)` of one kind; see `FitResult.intervals`."""
    half = fit.quantile(level) * fit.wald_errors  # raises if the level is invalid
    if kind == "auto":
        return get_default_intervals(fit, level)[0].copy()
    if kind == "wald":
        return WorkingScale(fit.log_scale).compute_intervals(fit.estimate, half)
    if kind == "profile":
        return _compute_profile_intervals(fit, level)
    if kind != "bootstrap":
        raise FitError(f"The kind must be 'auto', 'wald', 'profile' or 'bootstrap'; received {kind!r}.")
    if (runs, seed) not in fit.late.bootstraps:
        fit.late.bootstraps[runs, seed] = bootstrap(fit, runs, seed)
    draws = fit.late.bootstraps[runs, seed]
    ends = np.asarray(np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0).T)
    # Along a direction that the data do not determine, refits stay where they begin: their small spread there does not
    # show precision.
    with np.errstate(invalid="ignore"):
        unmoved = (draws.std(axis=0) < MIN_BOOTSTRAP_SPREAD * fit.wald_errors) & ~fit.fixed
    ends[unmoved] = [-np.inf, np.inf]
    return ends


@np.errstate(all="ignore")
def get_default_intervals(fit: FitResult, level: float) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the default intervals, computed once; by the profile if a bound is near or the misfit is not quadratic.

    Returns
    -------
    ends : ndarray, (J, 2)
    kinds : tuple of str
        The kind of each interval: `BY_WALD`, `BY_PROFILE` ...
    """
    if level not in fit.late.automatic:
        fit.late.automatic[level] = _compute_default_intervals(fit, level)
    return fit.late.automatic[level]


def describe_better_fit(fit: FitResult) -> tuple[str, ...]:
    """Return a sentence if a profile reached a better fit than the fit itself, else nothing."""
    gains = {}
    for curve in fit.late.curves.values():
        at_estimate = int(np.argmin(np.abs(curve.values - fit.estimate[fit.model.parameters.index(curve.name)])))
        if curve.misfit[at_estimate] > MIN_GAIN_OF_BETTER_FIT:
            gains[curve.name] = (float(curve.misfit[at_estimate]) / 2, float(curve.values[np.argmin(curve.misfit)]))
    if not gains:
        return ()
    name, (gain, value) = max(gains.items(), key=lambda item: item[1][0])
    return (
        f"A profile reached a better fit: with {name} = {value:.4g} the log-likelihood is {gain:.1f} higher than at "
        f"the estimate, which is not the best. Fit again with method='relaxed' and start={{{name!r}: {value:.4g}}}.",
    )


@np.errstate(all="ignore")
def compute_errors(fit: FitResult) -> FloatArray:
    """Compute standard errors that match the default intervals, `(J,)`; see `FitResult.errors`."""
    (ends, kinds), wald = get_default_intervals(fit, DEFAULT_LEVEL), fit.wald_errors
    by_profile = np.array([kind in (BY_PROFILE, BY_PROFILE_ON_ONE_SIDE) for kind in kinds])
    return np.where(by_profile, compute_mean_reach(ends, fit.estimate) / fit.quantile(DEFAULT_LEVEL), wald)


def compute_mean_reach(ends: FloatArray, values: FloatArray) -> FloatArray:
    """Compute the mean distance from values `(n,)` to the two ends `(n, 2)` of their intervals, `(n,)`.

    If a value is an end itself, as at a bound, it is the distance to the other end.
    """
    reach = np.abs(ends - values[:, None])
    return np.asarray(reach.sum(axis=1) / np.maximum((reach > 0).sum(axis=1), 1))


def _compute_default_intervals(fit: FitResult, level: float) -> tuple[FloatArray, tuple[str, ...]]:
    """Compute default intervals `(J, 2)` and their kinds; see `get_default_intervals`."""
    ends = compute_intervals(fit, level, "wald", 0, 0)
    kinds = [BY_WALD] * len(ends)
    if fit.sigma_estimated and fit.goodness is not None and fit.goodness.freedom <= 0:
        return ends, tuple(np.where(fit.fixed, BY_WALD, NO_DEGREES_OF_FREEDOM).tolist())
    identifiable = ~fit.fixed & ~np.isin(fit.model.parameters, list(fit.undetermined))
    # The covariance holds a parameter at its bound fixed, so that the errors of the others are too small.
    beyond = (ends[:, 0] < fit.bounds[:, 0]) | (ends[:, 1] > fit.bounds[:, 1]) | fit.at_bound.any()
    loose = (fit.wald_errors > LOOSE_RELATIVE_ERROR * np.abs(fit.estimate)) | (
        fit.data.samples <= MAX_SAMPLES_ALWAYS_CHECKED
    )
    # A user who chooses another covariance wants the intervals of that covariance.
    loose &= "covariance" not in fit.options.non_default_names
    suspects = [int(j) for j in np.flatnonzero(identifiable & (beyond | loose))]
    has_profiles = can_refit(fit) and has_automatic_profiles(fit) and not fit.covariance_kind.startswith("none")
    if not suspects or not has_profiles:
        return ends, tuple(kinds)
    for j in _profile_suspects(fit, level, suspects, beyond, ends):
        curve = fit.late.curves.get((fit.model.parameters[j], level))
        if curve is None:
            kinds[j] = TIME_ENDED if np.isfinite(ends[j]).all() else TIME_ENDED_WITHOUT_WALD
            continue
        interval = np.array(curve.interval)
        lost = np.isnan(interval)
        # If a profile was lost on a side, the interval contains all values that were followed, and Wald's interval.
        wald, followed = np.clip(ends[j], *fit.bounds[j]), curve.values[[0, -1]]
        wider = np.array([min(wald[0], followed[0]), max(wald[1], followed[1])])
        ends[j] = np.where(lost, wider, interval)
        kinds[j] = PROFILE_LOST if lost.all() else BY_PROFILE if not lost.any() else BY_PROFILE_ON_ONE_SIDE
    return ends, tuple(kinds)


def _profile_suspects(
    fit: FitResult, level: float, suspects: list[int], beyond: BoolArray, wald: FloatArray
) -> list[int]:
    """Compute the profiles of parameters for which Wald's interval may be wrong, as long as the time limit allows.

    Parameters
    ----------
    fit : FitResult
    level : float
    suspects : list of int
        Positions of the parameters to check.
    beyond : ndarray of bool, (J,)
        Those that need a profile in any case; of the others only those whose misfit is not quadratic do.
    wald : ndarray, (J, 2)
        Wald's intervals.

    Returns
    -------
    list of int
        The parameters that need a profile, or that could not be checked in time. `late.curves` has the profiles that
        were computed.
    """
    z, unsettled = fit.quantile(level), list(suspects)
    with limit_automatic_profiles(fit) as watch:
        try:
            refit = prepare_refits(fit, watch)
        except TimeLimitReached:
            return unsettled
        except FitError:  # the fit cannot be repeated: all intervals stay Wald's
            return []
        # Solving the equations along a valley takes minutes, and would not change the verdict that it is one.
        if refit.solves_equations and fit.status is Status.UNDETERMINED:
            return []
        with suppress(TimeLimitReached):
            for j in show_progress(suspects, "intervals", len(suspects)):
                if not beyond[j] and _is_parabolic(refit, j, wald[j], z):
                    unsettled.remove(j)
            _compute_profiles(fit, unsettled, level, refit)
    return unsettled


def _compute_profiles(fit: FitResult, which: list[int], level: float, refit: Refit) -> list[Profile]:
    """Compute the profiles of the parameters in positions `which`, each once, and keep them.

    If the profile of one parameter led another beyond the ends of its own, the other is followed again from there.
    """
    names, solutions = [fit.model.parameters[j] for j in which], list[Solution]()
    new = [name for name in names if (name, level) not in fit.late.curves]
    for name in show_progress(new, "profile", len(new)):
        fit.late.curves[name, level] = compute_profile(fit, name, level, refit, solutions)
    good = select_inside(fit, refit, solutions, fit.quantile(level))
    # Profiles of a rejected model are not followed twice: its intervals are not to be trusted anyway.
    follows_twice = len(new) > 1 and fit.status is not Status.REJECTED
    for j, name in zip(which, names, strict=True) if follows_twice else ():
        curve = fit.late.curves[name, level]
        low, high = np.where(np.isnan(curve.interval), curve.values[[0, -1]], curve.interval)
        margin = MIN_OVERREACH * (high - low)
        if any(solution.p[j] < low - margin or solution.p[j] > high + margin for solution in good):
            fit.late.curves[name, level] = compute_profile(fit, name, level, refit, solutions)
    return [fit.late.curves[name, level] for name in names]


def _is_parabolic(refit: Refit, j: int, ends: FloatArray, z: float) -> bool:
    """Return True if the misfit at both ends of Wald's interval of p_j is z², as for a parabola."""
    least = refit.compute_misfit(refit.best)
    for end in ends:
        solution = refit.hold_parameter(j, float(end), refit.best) if np.isfinite(end) else None
        if solution is None:
            return False
        root = np.sqrt(max(refit.compute_misfit(solution) - least, 0.0))
        if not abs(root / z - 1) < MAX_ROOT_DEVIATION:
            return False
    return True


def _compute_profile_intervals(fit: FitResult, level: float) -> FloatArray:
    """Compute profile intervals `(J, 2)` of all free parameters; warn if an end could not be followed and is NaN."""
    refit = prepare_refits(fit)
    ends = np.column_stack([fit.estimate, fit.estimate])
    free = np.flatnonzero(~fit.fixed)
    for j, curve in zip(free, _compute_profiles(fit, free.tolist(), level, refit), strict=True):
        fit.late.profiles[curve.name] = curve
        ends[j] = curve.interval
    # Default intervals whose profiles the time limit ended are computed again, and use these profiles.
    _, kinds = fit.late.automatic.get(level, (ends, ()))
    if TIME_ENDED in kinds or TIME_ENDED_WITHOUT_WALD in kinds:
        del fit.late.automatic[level]
    lost = [fit.model.parameters[j] for j in free if np.isnan(ends[j]).any()]
    if lost:
        message = (
            f"The profile of {', '.join(lost)} could not be followed to an end, which is NaN; "
            "intervals(kind='bootstrap') may give one"
        )
        warnings.warn(message, stacklevel=4)
    return ends
