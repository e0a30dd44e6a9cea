"""Comparison of the optima that a search has reached: distinct outcomes are refined and ranked by the likelihood.

The objective of a search ranks its outcomes only roughly: the weak likelihood is biased, and the relaxed model searches
with a rough σ. So the outcomes that are distinct are refined, the most promising first, and the one with the best
likelihood of the data is kept. Refined outcomes elsewhere that fit equally well are alternatives: the data cannot tell
them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.symmetric_matrix import decompose_scaled_matrix
from ..support.array_types import FloatArray
from .estimation_problem import Task
from .estimator import Estimator
from .noise_level import compute_negative_log_likelihood
from .outcome import Outcome, Refinement

MAX_REFINED_OUTCOMES = 4
"""Number of distinct outcomes that are refined; further ones are dropped. By judgement: a refinement costs more than a
search."""
SAME_OUTCOME_TOLERANCE = 0.02
"""Relative difference of parameters, or of the sum of squares between them, up to which two outcomes are the same
optimum. By judgement."""
MAX_EQUIVALENT_GAP = 1.0
"""Difference of log-likelihoods below which two estimates fit equally well. By judgement; see
tests/estimators/test_distinct_optima.py for a model with two such optima."""
MIN_DISTINCT_DISTANCE = 5.0
"""Standard errors between two estimates above which they are distinct, counted along the directions that the data
determine. By judgement."""
MIN_INFORMATION_EIGENVALUE = 1e-6
"""Eigenvalue of the information, scaled to unit diagonal, up to which the data do not determine a direction: a
difference along it is none. By judgement."""


@dataclass(frozen=True)
class RankedOptima:
    """The outcomes of a search, compared by the likelihood of the data.

    Attributes
    ----------
    best : Outcome
        Refined.
    costs : tuple of float
        For each outcome of the search, minus the log-likelihood, up to a constant, of the refined outcome that it led
        to; NaN if it was not refined.
    cost : float
        Cost of the best outcome.
    alternatives : tuple of (Outcome, float)
        Other refined outcomes that fit equally well, with their costs.
    """

    best: Outcome
    costs: tuple[float, ...]
    cost: float
    alternatives: tuple[tuple[Outcome, float], ...]


def rank_optima(estimator: Estimator, task: Task, outcomes: list[Outcome]) -> RankedOptima:
    """Refine the distinct outcomes of a search and rank them by the likelihood of the data.

    Parameters
    ----------
    estimator : Estimator
        With a `refine` function.
    task : Task
    outcomes : list of Outcome
        The one with the smallest objective first.
    """
    assert estimator.refine is not None
    kept: list[Outcome] = []
    representative: list[int] = []  # for each outcome, its index in `kept`, or -1
    for outcome in outcomes:
        equal = [k for k, distinct in enumerate(kept) if _is_same_optimum(task, outcome, distinct)]
        new = np.isfinite(outcome.objective) and len(kept) < MAX_REFINED_OUTCOMES and not task.stop()
        if not equal and (new or not kept):
            kept.append(outcome)
        representative.append(equal[0] if equal else len(kept) - 1 if kept and kept[-1] is outcome else -1)
    refined = [estimator.refine(task, outcome) for outcome in kept]
    costs = [_compute_outcome_cost(task, outcome) for outcome in refined]
    # States of an estimate that has not converged need not obey the model, so that their likelihood means nothing.
    best = min(range(len(refined)), key=lambda k: (not refined[k].status.converged, np.isnan(costs[k]), costs[k]))
    remaining = sorted((k for k in range(len(refined)) if k != best), key=lambda k: costs[k])
    alternatives: list[tuple[Outcome, float]] = []
    for k in remaining:
        close = refined[k].status.converged and costs[k] - costs[best] < MAX_EQUIVALENT_GAP
        listed = (refined[best], *(outcome for outcome, _ in alternatives))
        if close and all(_is_distinct(task, refined[k], outcome) for outcome in listed):
            alternatives.append((refined[k], costs[k]))
    return RankedOptima(
        refined[best],
        tuple(costs[k] if k >= 0 else np.nan for k in representative),
        costs[best],
        alternatives=tuple(alternatives),
    )


def _compute_outcome_cost(task: Task, outcome: Outcome) -> float:
    """Return minus the log-likelihood of an outcome, up to a constant; NaN if the outcome is not refined."""
    return np.nan if outcome.refined is None else compute_negative_log_likelihood(task, outcome.refined)


def _is_same_optimum(task: Task, first: Outcome, second: Outcome) -> bool:
    """Return True if two outcomes of a search are the same optimum, by their curvatures or else by their parameters."""
    a, b = first.estimate, second.estimate
    if first.curvature is not None and second.curvature is not None:
        # Along a valley of the sum of squares two points are the same optimum though their parameters differ.
        difference = (a - b)[task.free]
        tolerance = SAME_OUTCOME_TOLERANCE * max(first.objective, second.objective)
        return all(float(difference @ H @ difference) <= tolerance for H in (first.curvature, second.curvature))
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.finfo(float).tiny)
    return bool((np.abs(a - b) <= SAME_OUTCOME_TOLERANCE * size).all())


def _is_distinct(task: Task, first: Outcome, second: Outcome) -> bool:
    """Return True if two refined estimates are distinct by the information at both of them."""
    difference = (first.estimate - second.estimate)[task.free]
    return all(_compute_distance(difference, outcome.refined) > MIN_DISTINCT_DISTANCE for outcome in (first, second))


def _compute_distance(difference: FloatArray, refined: Refinement | None) -> float:
    """Compute the length of a difference `(F,)` of free parameters in standard errors.

    Directions that the data do not determine are left out: any distance along them fits equally well.
    """
    if refined is None or refined.information is None:
        return 0.0
    H = refined.information
    d = np.sqrt(np.maximum(np.abs(H.diagonal()), np.finfo(float).tiny))
    w, V = decompose_scaled_matrix(H, d)
    along = V.T @ (d * difference)
    return float(np.sqrt(np.sum((w * along**2)[w > MIN_INFORMATION_EIGENVALUE])))
