"""Which models are special cases of others, and what that costs: likelihood ratios.

Twice the difference of the log-likelihoods is χ² with as many degrees of freedom as the smaller model has parameters
less, if the smaller one is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import symengine as se

from ..diagnostics.autocorrelation import chi_square_tail
from ..inference.information_criteria import maximum, unknowns
from ..model.expressions import parse_expression
from ..model.model import Model
from ..results.fit_result import FitResult


@dataclass(frozen=True)
class Nested:
    """A model that is another one with parameters fixed or tied: the test whether that costs anything."""

    small: str
    large: str
    statistic: float
    freedom: int
    p_value: float


def nested(fits: dict[str, FitResult]) -> list[Nested]:
    """The tests of all pairs of which one model is the other with parameters fixed or tied."""
    found = []
    for small, a in fits.items():
        for large, b in fits.items():
            freedom = unknowns(b) - unknowns(a)
            if small == large or freedom <= 0 or not _is_inside(a, b):
                continue
            statistic = max(2 * (maximum(b) - maximum(a)), 0.0)
            found.append(Nested(small, large, statistic, freedom, chi_square_tail(statistic, freedom)))
    return found


def _is_inside(a: FitResult, b: FitResult) -> bool:
    """Whether a's model is b's with parameters fixed or tied."""
    if a.model.states != b.model.states or a.data.noise != b.data.noise or a.model.driven != b.model.driven:
        return False
    if a.sigma_estimated != b.sigma_estimated or (not a.sigma_estimated and not np.array_equal(a.sigma, b.sigma)):
        return False
    if _is_shared(a, b):
        return True
    own = {*a.model.parameters, *a.tied}
    if own != set(b.model.parameters) or b.tied:
        return False
    tied = {se.Symbol(n): parse_expression(text, a.model.parameters, "tied") for n, text in a.tied.items()}
    if a.model.initial.keys() != b.model.initial.keys() or len(a.model.everything) != len(b.model.everything):
        return False
    pairs = zip((m.everything for m in _all(a)), (m.everything for m in _all(b)), strict=False)
    same = len(_all(a)) == len(_all(b)) and all(
        len(x) == len(y) and all(se.expand(e - f.subs(tied)) == 0 for e, f in zip(x, y, strict=True)) for x, y in pairs
    )
    values = [dict(zip(f.model.parameters, f.estimate, strict=True)) for f in (a, b)]
    held = [{n for n, fixed in zip(f.model.parameters, f.fixed, strict=True) if fixed} for f in (a, b)]
    return same and held[1] <= held[0] and all(values[0][n] == values[1][n] for n in held[1])


def _is_shared(a: FitResult, b: FitResult) -> bool:
    """Whether the models are the same, and trajectories share in a what they have on their own in b."""
    if a.shared is None or b.shared is None or a.index is None or b.index is None or a.tied or b.tied:
        return False
    if a.shared.parameters != b.shared.parameters or a.shared.everything != b.shared.everything:
        return False
    if a.fixed.any() or b.fixed.any() or a.index.shape != b.index.shape:
        return False
    # Whatever two trajectories share in b they share in a.
    pairs = {(int(x), int(y)) for x, y in zip(b.index.ravel(), a.index.ravel(), strict=True)}
    return len({x for x, _ in pairs}) == len(pairs)


def _all(fit: FitResult) -> tuple[Model, ...]:
    return (fit.model, *fit.model.variants)
