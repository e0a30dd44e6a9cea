"""Where starts have led: distinct outcomes are refined, and the likelihood of the data decides between them.

What a search minimises ranks its outcomes only roughly: the weak likelihood is biased, the relaxed model has a rough σ
in its search. Outcomes that are distinct are refined, the most promising first, and the best likelihood is kept.
Others that fit as well, and lie elsewhere, are alternatives: the data cannot tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..support.array_types import FloatArray
from .estimation_problem import Outcome, Refined, Task
from .estimator import Estimator
from .noise_level import cost

MOST = 4
"""Distinct outcomes that are refined."""
SAME = 0.02
"""Relative difference of parameters, or of a sum of squares between them, below which two outcomes are the same."""
EQUAL = 1.0
"""Difference of log-likelihoods below which two estimates fit equally well."""
APART = 5.0
"""Standard errors between two estimates that are distinct, along what the data determine."""
FLAT = 1e-6
"""Eigenvalue of the information, with unit diagonal, below which a direction is not determined."""


@dataclass(frozen=True)
class Ranked:
    """What became of the outcomes of a search.

    Attributes
    ----------
    best : Outcome
        Refined.
    costs : tuple of float
        Minus the log-likelihood, but for a constant, to which each outcome has led; NaN where it was not refined.
    cost : float
        That of the best.
    alternatives : tuple of (Outcome, float)
        Others that fit equally well, with theirs.
    """

    best: Outcome
    costs: tuple[float, ...]
    cost: float
    alternatives: tuple[tuple[Outcome, float], ...]


def rank(estimator: Estimator, task: Task, outcomes: list[Outcome]) -> Ranked:
    """Refine what is distinct among outcomes, the best of the search first, and compare."""
    assert estimator.refine is not None
    kept: list[Outcome] = []
    place: list[int] = []
    for outcome in outcomes:
        equal = [k for k, other in enumerate(kept) if _same(task, outcome, other)]
        new = np.isfinite(outcome.objective) and len(kept) < MOST and not task.stop()
        if not equal and (new or not kept):
            kept.append(outcome)
        place.append(equal[0] if equal else len(kept) - 1 if kept and kept[-1] is outcome else -1)
    refined = [estimator.refine(task, outcome) for outcome in kept]
    costs = [_cost(task, outcome) for outcome in refined]
    # States of an estimate that has not converged need not obey the model: its likelihood is none.
    best = min(range(len(refined)), key=lambda k: (not refined[k].status.converged, np.isnan(costs[k]), costs[k]))
    others = sorted((k for k in range(len(refined)) if k != best), key=lambda k: costs[k])
    found: list[tuple[Outcome, float]] = []
    for k in others:
        close = refined[k].status.converged and costs[k] - costs[best] < EQUAL
        if close and all(_apart(task, refined[k], one) for one in (refined[best], *(one for one, _ in found))):
            found.append((refined[k], costs[k]))
    return Ranked(
        refined[best], tuple(costs[k] if k >= 0 else np.nan for k in place), costs[best], alternatives=tuple(found)
    )


def _cost(task: Task, outcome: Outcome) -> float:
    return np.nan if outcome.refined is None else cost(task, outcome.refined)


def _same(task: Task, one: Outcome, other: Outcome) -> bool:
    a, b = one.estimate, other.estimate
    if one.curvature is not None and other.curvature is not None:
        # Along a valley of a sum of squares places are the same though parameters differ.
        moved = (a - b)[task.free]
        most = SAME * max(one.objective, other.objective)
        return all(float(moved @ H @ moved) <= most for H in (one.curvature, other.curvature))
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.finfo(float).tiny)
    return bool((np.abs(a - b) <= SAME * size).all())


def _apart(task: Task, one: Outcome, other: Outcome) -> bool:
    """Whether two refined estimates lie far from each other, by the information at both."""
    moved = (one.estimate - other.estimate)[task.free]
    return all(_length(moved, here.refined) > APART for here in (one, other))


def _length(moved: FloatArray, refined: Refined | None) -> float:
    """In standard errors; nothing counts along what the data do not determine."""
    if refined is None or refined.information is None:
        return 0.0
    H = refined.information
    d = np.sqrt(np.maximum(np.abs(H.diagonal()), np.finfo(float).tiny))
    w, V = np.linalg.eigh(H / np.outer(d, d))
    along = V.T @ (d * moved)
    return float(np.sqrt(np.sum((w * along**2)[w > FLAT])))
