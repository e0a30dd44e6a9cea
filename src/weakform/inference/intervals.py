"""Intervals beyond Wald's: profiles of the objective, and the parametric bootstrap.

Profiles (`profiles`) follow the curvature that Wald's formula leaves out. Bootstrap: data are drawn again from the
fitted states with the fitted noise and refitted; the interval lies between quantiles of the estimates. Both work on the
constraint of method "wendy" and need no new search.
"""

from __future__ import annotations

import numbers
import warnings
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.gauss_helmert import Solution
from ..parameters.working_scale import Scale
from ..results.records import Quantity
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.whole_numbers import is_whole
from ..support.wording import counted, suggestion
from .profiles import Profile, inside, profile
from .refits import Refitted, can_refit, refit_of

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MIN_RUNS = 20
BEYOND = 0.01
"""How far outside of an interval other profiles must have been, as a share of its width, for it to be too short."""
LOOSE, FEW, CURVED = 0.05, 600, 0.07
"""Error, relative to the estimate, above which curvature is looked for, and samples up to which it is in any case: of
chaotic systems parameters are known well along curved ways; and what it may do to an end of an interval."""
OVERTAKEN = 2.0
"""How much less misfit than the fit a profile must find for the fit not to be the best."""
LEVEL = 0.95
"""Of the intervals that an error belongs to."""
WALD, PROFILE, PARTLY = "", "by its profile", "by its profile on one side"
BLIND = "as many unknowns as values"
LOST = "its profile could not be followed: rough"
IDLE = 0.1
"""Spread of a bootstrap, in standard errors, below which it did not follow what the data leave open."""


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


def interval_quantile(fit: FitResult, level: float) -> float:
    """Return the half-width of an interval in standard errors: normal, or Student's t if σ was estimated."""
    if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise FitError(f"The level must be a number between 0 and 1, such as 0.95; received {level!r}.")
    if fit.goodness is None or not fit.sigma_estimated:
        return NormalDist().inv_cdf(0.5 + float(level) / 2)
    from scipy.special import stdtrit

    return float(stdtrit(max(fit.goodness.freedom, 1), 0.5 + float(level) / 2))


def wald_errors(fit: FitResult) -> FloatArray:
    """Return standard errors from the covariance alone, `(J,)`; infinite for parameters that are not identifiable."""
    unknown = [name in fit.undetermined for name in fit.model.parameters]
    with np.errstate(invalid="ignore"):
        return np.where(unknown, np.inf, np.sqrt(fit.covariance.diagonal()))


def correlation_matrix(fit: FitResult) -> FloatArray:
    """Return the correlations of the estimates, `(J, J)`; NaN for parameters that are fixed or at a bound."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(fit.covariance / np.outer(fit.wald_errors, fit.wald_errors))


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
    if fit.sigma_estimated and fit.goodness is not None and fit.goodness.freedom <= 0:
        return ends, tuple(np.where(fit.fixed, WALD, BLIND).tolist())
    open_to = ~fit.fixed & ~np.isin(fit.model.parameters, list(fit.undetermined))
    # With a neighbour at its bound an error takes that one as known, and is too small.
    beyond = (ends[:, 0] < fit.bounds[:, 0]) | (ends[:, 1] > fit.bounds[:, 1]) | fit.at_bound.any()
    loose = (fit.wald_errors > LOOSE * np.abs(fit.estimate)) | (fit.data.samples <= FEW)
    loose &= "covariance" not in fit.options.non_default_names  # who asks for another covariance wants its intervals
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
    bent = [
        int(j)
        for j in counted(suspects, "intervals", len(suspects))
        if beyond[j] or not _parabolic(refit, int(j), ends[j], z)
    ]
    for j, curve in zip(bent, _curves(fit, bent, level, refit), strict=True):
        found = np.array(curve.interval)
        lost = np.isnan(found)
        # Where it was lost the interval has all that was followed, and what Wald says.
        wald, followed = np.clip(ends[j], *fit.bounds[j]), curve.values[[0, -1]]
        wider = np.array([min(wald[0], followed[0]), max(wald[1], followed[1])])
        ends[j] = np.where(lost, wider, found)
        kinds[j] = LOST if lost.all() else PROFILE if not lost.any() else PARTLY
    return ends, tuple(kinds)


def _curves(fit: FitResult, which: list[int], level: float, refit: Refitted) -> list[Profile]:
    """The profiles of some parameters, computed once.

    Where that of one has led the others beyond the ends of their own, these are followed again from there.
    """
    names, met = [fit.model.parameters[j] for j in which], list[Solution]()
    new = [name for name in names if (name, level) not in fit.late.curves]
    for name in counted(new, "profile", len(new)):
        fit.late.curves[name, level] = profile(fit, name, level, refit, met)
    good = inside(fit, refit, met, fit.quantile(level))
    again = len(new) > 1 and fit.status is not Status.REJECTED  # nobody is to trust those of a wrong model
    for j, name in zip(which, names, strict=True) if again else ():
        curve = fit.late.curves[name, level]
        low, high = np.where(np.isnan(curve.interval), curve.values[[0, -1]], curve.interval)
        if any(one.p[j] < low - BEYOND * (high - low) or one.p[j] > high + BEYOND * (high - low) for one in good):
            fit.late.curves[name, level] = profile(fit, name, level, refit, met)
    return [fit.late.curves[name, level] for name in names]


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
    for j, curve in zip(free, _curves(fit, free.tolist(), level, refit), strict=True):
        fit.late.profiles[curve.name] = curve
        ends[j] = curve.interval
    lost = [fit.model.parameters[j] for j in free if np.isnan(ends[j]).any()]
    if lost:
        words = f"The profile of {', '.join(lost)} could not be followed to an end, which is NaN; a bootstrap may tell"
        warnings.warn(words, stacklevel=4)
    return ends
