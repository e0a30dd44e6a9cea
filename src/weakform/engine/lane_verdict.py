"""The verdict on each lane: covariance, error of the rule, test of the model, status.

The rules and thresholds are those of a single fit (`diagnostics.fit_verdict`, `diagnostics.goodness`), as masks over
the lanes. What a single fit checks beyond them (outliers, the kind of noise, poles, aliasing) needs a look at one
dataset at a time and is left to `fit`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..diagnostics.fit_verdict import CONSTANCY_POLICY, VERDICT_POLICY
from ..diagnostics.goodness import REJECTION_LEVEL
from ..diagnostics.practical_identifiability import MAX_RELATIVE_ERROR, POORLY_DETERMINED
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray, IntArray
from .lane_goodness import compute_p_values
from .lane_iteration import LaneEnd, LaneProblem, LaneSolution
from .passes import LanePasses, find_finite, from_groups

STATUSES = tuple(Status)
"""All statuses; results of many fits hold positions in it."""
STATUS_OF_END = {
    LaneEnd.RUNNING: Status.ITERATIONS,
    LaneEnd.ITERATIONS: Status.ITERATIONS,
    LaneEnd.STUCK: Status.STUCK,
    LaneEnd.NOT_FINITE: Status.START,
    LaneEnd.DIVERGING: Status.STUCK,
}
"""The status of lanes that have not converged."""
MAX_NOISE_FREE_SHARE = 1e-5
"""σ relative to the spread of a column below which the data are taken to be noise-free: what remains is the error of
the rule and rounding, and tests nothing. By judgement."""


@dataclass(frozen=True)
class LaneVerdict:
    """What is known about each lane besides its solution.

    Attributes
    ----------
    covariance : ndarray, (lanes, F, F)
        Of the free parameters, in natural units; NaN for those at a bound.
    p_value : ndarray, (lanes,)
    bias : ndarray, (lanes,)
        Error of the rule: the largest shift of a parameter, in standard errors.
    error : ndarray, (lanes,)
        Largest error of the rule at a sample, in σ.
    status : ndarray of int, (lanes,)
        Positions in `STATUSES`.
    """

    covariance: FloatArray
    p_value: FloatArray
    bias: FloatArray
    error: FloatArray
    status: IntArray


def judge_lanes(passes: LanePasses, problem: LaneProblem, solution: LaneSolution) -> LaneVerdict:
    """Judge all lanes at their solutions, where the states of the passes are.

    Parameters
    ----------
    passes : LanePasses
    problem : LaneProblem
    solution : LaneSolution
    """
    with np.errstate(all="ignore"):
        return _judge(passes, problem, solution)


def _judge(passes: LanePasses, problem: LaneProblem, solution: LaneSolution) -> LaneVerdict:
    """Judge all lanes; overflow in lanes without solution is expected."""
    lanes, model, W = passes.lanes, passes.model, passes.width
    n, Q, K, S = model.unknowns, len(model.free_initial), model.K, passes.mesh.samples
    p, slope = problem.expand(solution.q)
    passes.set_point(p, slope, solution.sigma)
    residuals = np.zeros((passes.groups, S, K, W))
    rows = np.zeros((passes.groups, S, K, n, W))
    plain = passes.linearise(residuals=residuals, rows=rows)
    truncation = passes.compute_truncation()
    at_bound = solution.at_lower | solution.at_upper
    held = np.concatenate([np.zeros((lanes, Q), dtype=bool), at_bound], axis=1)
    inverse = invert_information(solution.information, held)
    own_offset = passes.offset
    changed = np.zeros_like(residuals)
    passes.offset = truncation if own_offset is None else truncation + own_offset
    shifted = passes.linearise(residuals=changed)
    passes.offset = own_offset
    sigma = solution.sigma
    shift = np.abs(np.einsum("lij,lj->li", inverse, shifted.g - plain.g)) / np.sqrt(np.einsum("lii->li", inverse))
    bias = np.nanmax(np.where(held[:, Q:], 0.0, shift[:, Q:]), axis=1, initial=0.0)
    bias = np.where(find_finite(shifted.g) & np.isfinite(bias), bias, np.inf)
    scaled = from_groups(residuals, lanes) / sigma[:, None]
    moved = from_groups(changed, lanes) / sigma[:, None]
    unit = np.maximum(sigma, 1e-3 * problem.spread) / sigma
    error = np.max(np.abs(moved - scaled) / unit[:, None], axis=(1, 2), initial=0.0)
    error = np.where(np.isfinite(error), error, np.inf)
    covariance = inverse[:, Q:, Q:] * (slope[:, :, None] * slope[:, None, :])
    is_measured = passes.weights > 0
    freedom = np.count_nonzero(is_measured.reshape(lanes, -1), axis=1) - n
    derivatives = from_groups(rows, lanes) / sigma[:, None, :, None]
    # With H = Σ d dᵀ = L Lᵀ the columns of d L⁻ᵀ are orthonormal.
    factor = np.linalg.cholesky(np.where(find_finite(inverse)[:, None, None], _force(inverse), np.eye(n)))
    absorbed = np.einsum("lski,lij->lskj", np.where(held[:, None, None], 0.0, derivatives), factor)
    noise_free = (sigma < MAX_NOISE_FREE_SHARE * problem.spread).all(axis=1)
    p_value = np.full(lanes, np.nan)
    testable = (solution.end == LaneEnd.CONVERGED) & ~noise_free & find_finite(absorbed)
    if testable.any():
        p_value[testable] = compute_p_values(
            np.where(is_measured, scaled, 0.0)[testable],
            is_measured[testable],
            absorbed[testable],
            freedom[testable],
            problem.sigma is not None,
        )
    is_constant = _find_constant_data(passes, problem, sigma)
    status = decide_statuses(
        problem,
        solution,
        covariance,
        p_value=p_value,
        bias=bias,
        is_constant=is_constant,
        without_freedom=np.asarray(freedom <= 0),
    )
    covariance = np.where(at_bound[:, :, None] | at_bound[:, None, :], np.nan, covariance)
    return LaneVerdict(covariance, p_value, bias, error, status)


def _force(inverse: FloatArray) -> FloatArray:
    """Return covariances `(lanes, n, n)` that a Cholesky factorisation accepts: the unit matrix in place of others."""
    values = np.linalg.eigvalsh(np.where(np.isfinite(inverse), inverse, 0.0))
    good = values[:, 0] > 0
    return np.where(good[:, None, None], inverse, np.eye(inverse.shape[1]))


def invert_information(H: FloatArray, held: BoolArray) -> FloatArray:
    """Invert the information `(lanes, n, n)` of the unknowns that are not held; infinite where it is singular."""
    n = H.shape[1]
    eye = np.eye(n)
    d = np.sqrt(np.maximum(np.einsum("lii->li", H), np.finfo(float).tiny))
    scaled = H / (d[:, :, None] * d[:, None, :])
    scaled = np.where(held[:, :, None] | held[:, None, :], eye, scaled)
    finite = find_finite(scaled)
    values, vectors = np.linalg.eigh(np.where(finite[:, None, None], scaled, eye))
    singular = ~finite | (values[:, 0] < 1e-13 * values[:, -1])
    safe = np.where(singular[:, None], 1.0, values)
    inverse = np.einsum("lij,lj,lkj->lik", vectors, 1.0 / safe, vectors) / (d[:, :, None] * d[:, None, :])
    inverse = np.where(held[:, :, None] | held[:, None, :], 0.0, inverse)
    return np.where(singular[:, None, None], np.inf, inverse)


def _find_constant_data(passes: LanePasses, problem: LaneProblem, sigma: FloatArray) -> BoolArray:
    """Return True for lanes whose data vary no more than their noise, and whose noise explains their variation."""
    weights, values = passes.weights, passes.data
    total = np.maximum(np.sum(weights**2, axis=1), np.finfo(float).tiny)
    mean = np.sum(weights**2 * np.where(weights > 0, values, 0.0), axis=1) / total
    off = np.where(weights > 0, (values - mean[:, None]) * weights, 0.0) / sigma[:, None]
    count = np.count_nonzero(weights, axis=1) - 1
    limit = CONSTANCY_POLICY.deviations
    quiet = np.sum(off**2, axis=1) < count + limit * np.sqrt(2 * np.maximum(count, 1))
    pieces = np.array_split(np.arange(values.shape[1]), min(CONSTANCY_POLICY.pieces, values.shape[1]))
    slow = np.zeros(quiet.shape)
    for piece in pieces:
        slow += np.sum(off[:, piece], axis=1) ** 2 / np.maximum(np.count_nonzero(weights[:, piece], axis=1), 1)
    flat = slow < len(pieces) - 1 + limit * np.sqrt(2 * max(len(pieces) - 1, 1))
    return np.asarray((quiet & flat).all(axis=1) & (sigma > 0.5 * problem.spread).all(axis=1))


def decide_statuses(
    problem: LaneProblem,
    solution: LaneSolution,
    covariance: FloatArray,
    *,
    p_value: FloatArray,
    bias: FloatArray,
    is_constant: BoolArray,
    without_freedom: BoolArray,
) -> IntArray:
    """Decide the status of each lane, `(lanes,)`, as positions in `STATUSES`."""
    estimate = solution.p[:, problem.free]
    at_bound = solution.at_lower | solution.at_upper
    log = problem.log[problem.free]
    lower, upper = (np.where(log, np.exp(side), side) for side in (problem.lower, problem.upper))
    at_nonzero = (at_bound & (estimate != 0) & ~(log & (lower == 0) & solution.at_lower)).any(axis=1)
    inner = ~at_bound
    variance = np.einsum("lii->li", covariance)
    # The variance of each over its variance if all others were known, C_jj (C⁻¹)_jj.
    marginal = np.where(np.isfinite(covariance), covariance, 0.0)
    blocked = np.where(at_bound[:, :, None] | at_bound[:, None, :], np.eye(len(problem.free)), marginal)
    precision = invert_information(blocked, np.zeros_like(at_bound))
    inflation = variance * np.einsum("lii->li", precision)
    width = upper - lower
    size = np.maximum(
        np.abs(estimate), np.where(np.isfinite(width), VERDICT_POLICY.negligible_share_of_box * width, 0.0)
    )
    relative = np.sqrt(variance) / np.maximum(size, np.finfo(float).tiny)
    infinite = (inner & ~np.isfinite(variance)).any(axis=1)
    is_unknown = (inner & (relative > MAX_RELATIVE_ERROR)).any(axis=1)
    is_unknown |= (np.where(inner, relative > POORLY_DETERMINED, True)).all(axis=1) & inner.any(axis=1)
    is_trade_off = (
        inner & (inflation > VERDICT_POLICY.max_inflation) & (relative > VERDICT_POLICY.well_known_error)
    ).any(axis=1)
    result = np.full(len(p_value), STATUSES.index(Status.CONVERGED))
    undetermined = infinite | is_unknown | is_trade_off | at_nonzero
    # In the order of importance, the last one first: each overwrites the ones before.
    for mask, status in (
        (undetermined, Status.UNDETERMINED),
        (p_value < REJECTION_LEVEL, Status.REJECTED),
        (bias > VERDICT_POLICY.max_bias, Status.UNRESOLVED),
        (is_constant | without_freedom, Status.UNDETERMINED),
    ):
        result[mask] = STATUSES.index(status)
    for end, status in STATUS_OF_END.items():
        result[solution.end == end] = STATUSES.index(status)
    return result
