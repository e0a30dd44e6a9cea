"""The verdict on a fit in words: whether it can be used, which parameters are not determined, what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..diagnostics.goodness import DOUBT_LEVEL, format_p_value
from ..diagnostics.practical_identifiability import POORLY_DETERMINED
from ..inference.intervals import DEFAULT_LEVEL, LOOSE_RELATIVE_ERROR, describe_better_fit
from ..results.status import Status

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


BOUND_TOLERANCE = 1e-9
"""Distance of an end of an interval from a bound, in widths of the interval. Up to it, the end is at the bound:
far above rounding. By judgement."""


@dataclass(frozen=True)
class Verdict:
    """Headline of a fit and the reasons for it.

    Attributes
    ----------
    kind : str
        `"good"`; `"doubt"`, if the fit is usable with care; or `"bad"`, if its numbers should not be used.
    headline : str
        One sentence.
    reasons : tuple of str
        Sentences that explain the headline or say what to do.
    """

    kind: str
    headline: str
    reasons: tuple[str, ...]


def _find_limited_by_bound(fit: FitResult, names: list[str]) -> list[str]:
    """Return those of the parameters `names` whose intervals end at a bound, though their estimates do not."""
    ends, limited = fit.intervals(), []
    for j, name in enumerate(fit.model.parameters):
        if name not in names or fit.at_bound[j] or not np.isfinite(ends[j]).all():
            continue
        width = ends[j, 1] - ends[j, 0]
        if np.isfinite(fit.bounds[j]).any() and (np.abs(ends[j] - fit.bounds[j]) <= BOUND_TOLERANCE * width).any():
            limited.append(name)
    return limited


def _find_limited_by_neighbours(fit: FitResult, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Find poorly known parameters whose intervals are limited by the bounds of other parameters.

    A profile ends early where another parameter, which moves along with it, is stopped by its bound.

    Parameters
    ----------
    fit : FitResult
    names : list of str
        Parameters to look at.

    Returns
    -------
    dict of str to tuple of str
        For each such parameter, the parameters at whose bounds its profile ended.
    """
    fit.intervals()
    curves = {name: curve for (name, level), curve in fit.late.curves.items() if level == DEFAULT_LEVEL}
    is_loose = dict(zip(fit.model.parameters, LOOSE_RELATIVE_ERROR * np.abs(fit.estimate) < fit.errors, strict=True))
    return {name: curves[name].beside for name in names if is_loose[name] and name in curves and curves[name].beside}


def judge_fit(fit: FitResult) -> Verdict:
    """Judge a fit in words.

    Parameters
    ----------
    fit : FitResult

    Returns
    -------
    Verdict
    """
    names = fit.model.parameters
    free = [j for j in range(len(names)) if not fit.fixed[j]]
    with np.errstate(all="ignore"):
        loose = [
            names[j]
            for j in free
            if not fit.errors[j] <= POORLY_DETERMINED * abs(fit.estimate[j])
            and (not fit.at_bound[j] or names[j] in fit.undetermined)
        ]
    limited_by_bound = _find_limited_by_bound(fit, [names[j] for j in free if names[j] not in loose])
    limited_by_neighbours = _find_limited_by_neighbours(
        fit, [names[j] for j in free if names[j] not in (*loose, *limited_by_bound) and not fit.at_bound[j]]
    )
    at_bound = [names[j] for j in free if fit.at_bound[j] and names[j] not in fit.undetermined]
    p = np.nan if fit.goodness is None else fit.goodness.p_value
    reasons = []
    noise_free = np.isnan(fit.errors[free]).all() and len(at_bound) < len(free)
    if noise_free:  # no parameter has an error then, so that none can be called poorly determined
        loose = []
    determined = len(free) - len(loose) - len(at_bound) - len(limited_by_bound) - len(limited_by_neighbours)
    # If other values fit equally well, small standard errors do not show that the data determine the parameters.
    is_contradicted = fit.status is Status.UNDETERMINED and determined == len(free)
    if free and not noise_free and not is_contradicted:
        reasons.append(
            "All parameters are determined by the data."
            if determined == len(free)
            else f"{determined} of {len(free)} parameters are determined by the data."
        )
    undetermined = [name for name in loose if name in fit.undetermined]
    for label, group in (
        ("Not determined", undetermined),
        (
            f"Poorly determined (standard error above {POORLY_DETERMINED:.0%} of the estimate)",
            [name for name in loose if name not in undetermined],
        ),
    ):
        if group:
            reasons.append(
                f"{label}: {', '.join(group)}. Fix a parameter, give bounds or a prior, or collect more informative "
                "data."
            )
    if limited_by_bound:
        reasons.append(
            f"Interval limited on one side by a bound, not by the data: {', '.join(limited_by_bound)}. The true "
            "value may be beyond the bound."
        )
    if limited_by_neighbours:
        neighbours = sorted({neighbour for group in limited_by_neighbours.values() for neighbour in group})
        reasons.append(
            f"Interval limited by the bounds of {', '.join(neighbours)} rather than by the data: "
            f"{', '.join(limited_by_neighbours)}. With wider bounds there, the interval would be longer."
        )
    if at_bound:
        reasons.append(f"At a bound: {', '.join(at_bound)}. Widen the bound, unless it is a physical limit.")
    # The gravest finding makes the headline: no convergence, wrong noise, wrong model, sampling, other optima.
    if not fit.converged:
        return Verdict("bad", "The fit did not converge: do not use these estimates.", (fit.message, *reasons))
    if fit.status is Status.MISSTATED:
        headline = "The noise differs from the assumed noise: do not trust the intervals."
        return Verdict("bad", headline, ("The warnings name the values, or the kind of noise.", *reasons))
    if fit.status is Status.REJECTED:
        headline = "The model does not fit the data: do not trust its estimates and intervals."
        return Verdict("bad", headline, ("The warnings say where it fails, as far as the data show it.", *reasons))
    if fit.status is Status.UNRESOLVED:
        headline = "The samples are too far apart for these dynamics: the discretisation shifts the estimates."
        return Verdict("bad", headline, (fit.message, *reasons))
    if fit.status is Status.UNDETERMINED:
        return Verdict(
            "doubt", "The fit converged, but other parameter values fit equally well.", tuple(reasons) or (fit.message,)
        )
    if better := describe_better_fit(fit):
        return Verdict("bad", "There is a better fit than this one.", (*better, *reasons))
    if noise_free:
        return Verdict(
            "good", "The model fits these noise-free data; without noise there are no standard errors.", tuple(reasons)
        )
    if np.isnan(p):
        label = "too few samples" if fit.goodness is not None else f"method {fit.method!r} has no such test"
        return Verdict(
            "doubt", f"The fit converged, but the model was not tested against the data ({label}).", tuple(reasons)
        )
    if p < DOUBT_LEVEL:
        headline = (
            f"The model is doubtful ({format_p_value(p)}): about one correct model in {1 / p:.0f} looks like this."
        )
        return Verdict("doubt", headline, tuple(reasons))
    headline = f"The model fits: residuals look like noise ({format_p_value(p)})."
    return Verdict("doubt" if loose or at_bound else "good", headline, tuple(reasons))
