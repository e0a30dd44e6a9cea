"""The uncertainty of an estimate: parameters at their bounds, and the covariance of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.estimation_problem import Task
from ..estimators.outcome import Outcome, Refinement
from ..linalg.symmetric_matrix import invert_symmetric
from ..model.compilation import compile_expressions
from ..support.array_types import BoolArray, FloatArray
from .poles import iterate_equation_rows
from .practical_identifiability import is_noise_unknown


@dataclass(frozen=True)
class _BoundPolicy:
    """When an estimate near a bound is set to the bound."""

    share_of_box: float = 1e-6
    """Distance from the bound, relative to the width of the bounds, or to the size of the estimate if the width is
    infinite, above which the parameter is not at its bound. By judgement."""

    share_of_error: float = 0.1
    """Distance from the bound, in standard errors, above which the parameter is not at its bound, however near it is
    relative to the width. By judgement; `tests/diagnostics/test_uncertainty.py` has a small parameter between wide
    bounds."""

    change_of_equations: float = 1e-3
    """Change of the right-hand side, relative to its maximum, when the estimate is set to the bound, above which it
    would be another model, and the estimate is kept. By judgement; for `C/(K + C)` in
    `tests/diagnostics/test_uncertainty.py` K = 0 is another model."""


BOUND_POLICY = _BoundPolicy()
"""The thresholds in use."""

PAPER_COVARIANCE = "the paper's covariance G⁺ S G⁺ᵀ, which belongs to unweighted least squares and tends to be too wide"
NO_COVARIANCE = "none: noise-free data"
SANDWICH_COVARIANCE = "sandwich, for noise whose size may vary from sample to sample"
SENSITIVITY_COVARIANCE = "from the sensitivities of the forward solution to the parameters and the initial state"
INFORMATION_COVARIANCE = "inverse information (Gᵀ S⁻¹ G)⁻¹ at the fitted states"


@dataclass(frozen=True)
class EstimateUncertainty:
    """An estimate with its uncertainty, in natural units, also of parameters on a log scale.

    Attributes
    ----------
    p : ndarray, (J,)
        The estimate.
    covariance : ndarray, (J, J)
        Zero for fixed parameters; NaN for parameters at a bound, and for noise-free data; infinite if the noise is
        unknown.
    kind : str
        The formula of the covariance, in words.
    at_bound : ndarray of bool, (J,)
        Free parameters whose estimate is at a bound.
    bounds : ndarray, (J, 2)
    """

    p: FloatArray
    covariance: FloatArray
    kind: str
    at_bound: BoolArray
    bounds: FloatArray


def quantify_uncertainty(task: Task, best: Outcome, noise_free: bool) -> EstimateUncertainty:
    """Set parameters that are at a bound to the bound, and compute the covariance of the others.

    Parameters
    ----------
    task : Task
    best : Outcome
        The estimate, in working coordinates.
    noise_free : bool

    Returns
    -------
    EstimateUncertainty
    """
    q = best.estimate
    width = task.upper - task.lower
    edge = BOUND_POLICY.share_of_box * np.where(np.isfinite(width), width, np.abs(q))
    solved, distance = best.initial is not None, np.minimum(q - task.lower, task.upper - q)
    at_bound = task.free & (distance <= edge)
    if (at_bound & (distance > 0)).any():
        # A small parameter between wide bounds is near zero relative to their width, although the data may show
        # that it is not zero.
        variance = _compute_covariance(task, q, task.free & (distance <= 0), best.refined, solved).diagonal()
        with np.errstate(invalid="ignore"):
            at_bound &= ~(distance > BOUND_POLICY.share_of_error * np.sqrt(variance))
    onto = np.where(at_bound, np.where(q - task.lower < task.upper - q, task.lower, task.upper), q)
    if (onto != q).any() and best.refined is not None and not _is_same_model(task, q, onto, best.refined.states):
        at_bound, onto = task.free & (distance <= 0), q
    q = onto
    covariance = _compute_covariance(task, q, at_bound, best.refined, solved)
    if noise_free:
        covariance[np.ix_(task.free, task.free)] = np.nan
    elif is_noise_unknown(task, best.refined):
        covariance[task.free, task.free] = np.inf
    p = task.scale.to_natural(q)
    return EstimateUncertainty(
        p,
        task.scale.to_natural_covariance(p, covariance),
        _describe_covariance(noise_free, best.refined, task.options.covariance, solved),
        at_bound,
        np.column_stack([task.scale.to_natural(task.lower), task.scale.to_natural(task.upper)]),
    )


@np.errstate(all="ignore")
def _is_same_model(task: Task, p: FloatArray, moved_p: FloatArray, states: tuple[FloatArray, ...]) -> bool:
    """Return True if the right-hand side along the fitted states is nearly the same at two estimates `(J,)`.

    Models with inputs or switches are not checked. It differs for `C/(K + C)` where C has decayed: at K = 0 the
    fraction is one.
    """
    if task.problem.model.driving_names:
        return True
    right_sides = []
    for parameters in (p, moved_p):
        values = [
            np.asarray(compile_expressions(names, trajectory_model.expressions)(rows))
            for trajectory_model, names, rows in iterate_equation_rows(task, parameters, states)
        ]
        right_sides.append(np.concatenate([f.reshape(-1, len(states[0].T)) for f in values]))
    off = np.abs(right_sides[0] - right_sides[1]).max(axis=0)
    return bool((off <= BOUND_POLICY.change_of_equations * np.abs(right_sides[0]).max(axis=0)).all())


def _describe_covariance(noise_free: bool, refined: Refinement | None, option: str, solved: bool) -> str:
    """Describe the formula of the covariance, given the option `covariance` and whether the equations were solved."""
    if noise_free:
        return NO_COVARIANCE
    if solved and refined is not None:
        return SENSITIVITY_COVARIANCE
    if refined is None or option == "paper":
        return PAPER_COVARIANCE
    return SANDWICH_COVARIANCE if option == "sandwich" else INFORMATION_COVARIANCE


def _compute_covariance(
    task: Task, q: FloatArray, at_bound: BoolArray, refined: Refinement | None, solved: bool
) -> FloatArray:
    """Compute the covariance `(J, J)` in working coordinates: zero for fixed parameters, NaN for those at a bound."""
    J = len(q)
    inner = task.free & ~at_bound
    covariance = np.zeros((J, J))
    covariance[at_bound] = covariance[:, at_bound] = np.nan
    if inner.any() and np.isfinite(q).all():
        if refined is None or (task.options.covariance == "paper" and not solved):
            block = task.weak.compute_least_squares_covariance(q, inner)
            if task.prior is not None:
                prior_information = task.prior.hessian(q, exact=False)[np.ix_(inner, inner)]
                block = invert_symmetric(invert_symmetric(block) + prior_information)
        else:
            # A parameter at its bound counts as fixed. Removing its row from the information conditions on it; removing
            # the row from the covariance would average over it.
            keep = inner[task.free]
            block = refined.covariance[np.ix_(keep, keep)]
            if not keep.all() and refined.information is not None:
                block = invert_symmetric(refined.information[np.ix_(keep, keep)])
            elif not keep.all():
                block = invert_symmetric(invert_symmetric(refined.covariance)[np.ix_(keep, keep)])
        covariance[np.ix_(inner, inner)] = np.nan if np.isnan(block).any() else block
    return covariance
