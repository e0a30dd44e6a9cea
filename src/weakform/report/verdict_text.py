"""The verdict on a fit, in words: good or not, what is not determined, what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..diagnostics.goodness import DOUBTED, tail
from ..diagnostics.practical_identifiability import POORLY_DETERMINED
from ..inference.intervals import LEVEL, LOOSE, overtaken
from ..results.status import Status

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


@dataclass(frozen=True)
class Verdict:
    """A headline and its reasons.

    Attributes
    ----------
    kind : str
        `"good"`, `"doubt"` or `"bad"`.
    headline : str
    reasons : tuple of str
    """

    kind: str
    headline: str
    reasons: tuple[str, ...]


def _ended(fit: FitResult, names: list[str]) -> list[str]:
    """Parameters whose intervals end at a bound, though their estimates do not."""
    ends, found = fit.intervals(), []
    for j, name in enumerate(fit.model.parameters):
        if name not in names or fit.at_bound[j] or not np.isfinite(ends[j]).all():
            continue
        width = ends[j, 1] - ends[j, 0]
        if np.isfinite(fit.bounds[j]).any() and (np.abs(ends[j] - fit.bounds[j]) <= 1e-9 * width).any():
            found.append(name)
    return found


def _beside(fit: FitResult, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Loose parameters whose intervals end where another is stopped by a bound, and which these are."""
    fit.intervals()
    curves = {name: curve for (name, level), curve in fit.late.curves.items() if level == LEVEL}
    size = dict(zip(fit.model.parameters, LOOSE * np.abs(fit.estimate) < fit.errors, strict=True))
    return {name: curves[name].beside for name in names if size[name] and name in curves and curves[name].beside}


def verdict(fit: FitResult) -> Verdict:
    """What to think of a fit."""
    names = fit.model.parameters
    free = [j for j in range(len(names)) if not fit.fixed[j]]
    with np.errstate(all="ignore"):
        loose = [
            names[j]
            for j in free
            if not fit.errors[j] <= POORLY_DETERMINED * abs(fit.estimate[j])
            and (not fit.at_bound[j] or names[j] in fit.undetermined)
        ]
    ended = _ended(fit, [names[j] for j in free if names[j] not in loose])
    beside = _beside(fit, [names[j] for j in free if names[j] not in (*loose, *ended) and not fit.at_bound[j]])
    stuck = [names[j] for j in free if fit.at_bound[j] and names[j] not in fit.undetermined]
    p = np.nan if fit.goodness is None else fit.goodness.p_value
    reasons = []
    noise_free = np.isnan(fit.errors[free]).all() and len(stuck) < len(free)
    if noise_free:
        loose = []
    determined = len(free) - len(loose) - len(stuck) - len(ended) - len(beside)
    if free and not noise_free:
        reasons.append(
            "All parameters are determined by the data."
            if determined == len(free)
            else f"{determined} of {len(free)} parameters are determined by the data."
        )
    nothing = [name for name in loose if name in fit.undetermined]
    for what, which in (
        ("Not determined", nothing),
        ("Hardly determined, with errors above half of their values", [name for name in loose if name not in nothing]),
    ):
        if which:
            reasons.append(
                f"{what}: {', '.join(which)}. Fix one, give bounds or a prior, or measure where they matter."
            )
    if ended:
        reasons.append(
            f"Limited on one side by a bound, not by the data: {', '.join(ended)}. The true value may lie beyond it."
        )
    if beside:
        others = sorted({other for found in beside.values() for other in found})
        reasons.append(
            f"Limited by the bounds of {', '.join(others)}, which they move with: {', '.join(beside)}. With wider "
            "bounds there their intervals would be longer."
        )
    if stuck:
        reasons.append(f"At a bound: {', '.join(stuck)}. Widen the bound, unless it is a law of nature.")
    if not fit.converged:
        return Verdict("bad", "The fit did not converge: do not use these numbers.", (fit.message, *reasons))
    if fit.status is Status.MISSTATED:
        doubt = "The noise is not what it was said to be: the intervals are not to be trusted."
        return Verdict("bad", doubt, ("See below which values, or which kind of noise.", *reasons))
    if fit.status is Status.REJECTED:
        doubt = "The model does not fit the data: its estimates and intervals are not to be trusted."
        return Verdict("bad", doubt, ("The warnings say what is known of where it fails.", *reasons))
    if fit.status is Status.UNRESOLVED:
        doubt = "The samples are too far apart for these dynamics: the estimates are shifted by the discretisation."
        return Verdict("bad", doubt, (fit.message, *reasons))
    if fit.status is Status.UNDETERMINED:
        return Verdict("doubt", "The fit converged, but other values fit as well.", tuple(reasons))
    if better := overtaken(fit):
        return Verdict("bad", "There is a better fit than this one.", (*better, *reasons))
    if noise_free:
        return Verdict("good", "The model follows these noise-free data; there are no errors to tell.", tuple(reasons))
    if np.isnan(p):
        what = "too few samples" if fit.goodness is not None else f"method {fit.method!r} does not test it"
        return Verdict(
            "doubt", f"The fit converged; whether the model is right was not tested ({what}).", tuple(reasons)
        )
    if p < DOUBTED:
        doubt = f"The model is doubtful ({tail(p)}); one right model in {1 / p:.0f} looks like this."
        return Verdict("doubt", doubt, tuple(reasons))
    good = f"The model fits the data: what it leaves looks like noise ({tail(p)})."
    return Verdict("doubt" if loose or stuck else "good", good, tuple(reasons))
