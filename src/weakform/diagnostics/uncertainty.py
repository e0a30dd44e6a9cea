"""Quantify: how well an estimate is known, at its bounds and in its own coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.estimation_problem import Outcome, Refined, Task
from ..linalg.symmetric_matrix import symmetric_inverse
from ..model.compilation import compiled
from ..support.array_types import BoolArray, FloatArray
from .poles import along
from .practical_identifiability import is_blind

EDGE, TELLING = 1e-6, 0.1
"""A parameter is at its bound if it is nearer than this share of its box, and than this share of its standard error:
of a small parameter in a wide box the data may well tell that it is not there."""
SAME = 1e-3
"""Change of the right-hand side, relative to its size, that a move onto a bound may make."""
PAPER = "the paper's covariance G⁺ S G⁺ᵀ, which belongs to unweighted least squares and tends to be too wide"
NONE = "none: noise-free data"
SANDWICH = "sandwich, for noise whose size may vary from sample to sample"
SENSITIVITIES = "from the sensitivities of the forward solution to the parameters and the initial state"
INFORMATION = "inverse information (Gᵀ S⁻¹ G)⁻¹ at the fitted states"


@dataclass(frozen=True)
class Quantified:
    """An estimate with its uncertainty, in the parameters themselves.

    Attributes
    ----------
    p : ndarray, (J,)
    covariance : ndarray, (J, J)
    kind : str
        The formula behind it, in words.
    at_bound : ndarray of bool, (J,)
    bounds : ndarray, (J, 2)
    """

    p: FloatArray
    covariance: FloatArray
    kind: str
    at_bound: BoolArray
    bounds: FloatArray


def quantify(task: Task, best: Outcome, noise_free: bool) -> Quantified:
    """Put what is at a bound onto it, and find the covariance of the others."""
    q = best.estimate
    width = task.upper - task.lower
    edge = EDGE * np.where(np.isfinite(width), width, np.abs(q))
    solved, away = best.initial is not None, np.minimum(q - task.lower, task.upper - q)
    at_bound = task.free & (away <= edge)
    if (at_bound & (away > 0)).any():
        known = _covariance(task, q, task.free & (away <= 0), best.refined, solved).diagonal()
        with np.errstate(invalid="ignore"):
            at_bound &= ~(away > TELLING * np.sqrt(known))
    onto = np.where(at_bound, np.where(q - task.lower < task.upper - q, task.lower, task.upper), q)
    if (onto != q).any() and best.refined is not None and not _alike(task, q, onto, best.refined.states):
        at_bound, onto = task.free & (away <= 0), q
    q = onto
    covariance = _covariance(task, q, at_bound, best.refined, solved)
    if noise_free:
        covariance[np.ix_(task.free, task.free)] = np.nan
    elif is_blind(task, best.refined):
        covariance[task.free, task.free] = np.inf
    p = task.scale.natural(q)
    return Quantified(
        p,
        task.scale.natural_covariance(p, covariance),
        _kind(noise_free, best.refined, task.options.covariance, solved),
        at_bound,
        np.column_stack([task.scale.natural(task.lower), task.scale.natural(task.upper)]),
    )


@np.errstate(all="ignore")
def _alike(task: Task, one: FloatArray, other: FloatArray, states: tuple[FloatArray, ...]) -> bool:
    """Whether the equations say the same along the states at two points, in working coordinates.

    With K at zero `C/(K + C)` is another model where C ends.
    """
    if task.problem.model.driven:
        return True
    changes = []
    for p in (one, other):
        found = [np.asarray(compiled(names, own.expressions)(rows)) for own, names, rows in along(task, p, states)]
        changes.append(np.concatenate([f.reshape(-1, len(states[0].T)) for f in found]))
    off = np.abs(changes[0] - changes[1]).max(axis=0)
    return bool((off <= SAME * np.abs(changes[0]).max(axis=0)).all())


def _kind(noise_free: bool, refined: Refined | None, wanted: str, solved: bool) -> str:
    if noise_free:
        return NONE
    if solved and refined is not None:
        return SENSITIVITIES
    if refined is None or wanted == "paper":
        return PAPER
    return SANDWICH if wanted == "sandwich" else INFORMATION


def _covariance(task: Task, q: FloatArray, at_bound: BoolArray, refined: Refined | None, solved: bool) -> FloatArray:
    J = len(q)
    inner = task.free & ~at_bound
    covariance = np.zeros((J, J))
    covariance[at_bound] = covariance[:, at_bound] = np.nan
    if inner.any() and np.isfinite(q).all():
        if refined is None or (task.options.covariance == "paper" and not solved):
            block = task.weak.least_squares_covariance(q, inner)
            if task.prior is not None:
                known = task.prior.hessian(q, exact=False)[np.ix_(inner, inner)]
                block = symmetric_inverse(symmetric_inverse(block) + known)
        else:
            # What sits at a bound is taken as fixed there: its rows leave the information, not the covariance.
            keep = inner[task.free]
            block = refined.covariance[np.ix_(keep, keep)]
            if not keep.all() and refined.information is not None:
                block = symmetric_inverse(refined.information[np.ix_(keep, keep)])
            elif not keep.all():
                block = symmetric_inverse(symmetric_inverse(refined.covariance)[np.ix_(keep, keep)])
        covariance[np.ix_(inner, inner)] = np.nan if np.isnan(block).any() else block
    return covariance
