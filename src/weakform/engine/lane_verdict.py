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
from ..diagnostics.noise_checks import is_rounding
from ..diagnostics.practical_identifiability import MAX_RELATIVE_ERROR, POORLY_DETERMINED
from ..estimators.discretisation_policy import DISCRETISATION
from ..results.batch_result import STATUSES
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray, IntArray
from .lane_goodness import compute_p_values
from .lane_iteration import LaneEnd, LaneProblem, LaneSolution
from .passes import LanePasses, find_finite, from_groups

STATUS_OF_END = {
    LaneEnd.RUNNING: Status.ITERATIONS,
    LaneEnd.ITERATIONS: Status.ITERATIONS,
    LaneEnd.STUCK: Status.STUCK,
    LaneEnd.NOT_FINITE: Status.START,
    LaneEnd.DIVERGING: Status.STUCK,
    LaneEnd.ABANDONED: Status.STUCK,
}
"""The status of lanes that have not converged."""
MIN_PIVOT = 1e-13
"""Smallest pivot of the information, scaled to a unit diagonal, below which it is singular: rounding has destroyed it.
By judgement."""
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
        Largest error of the rule, in σ: of an interval if every state is measured, or else at a sample.
    status : ndarray of int, (lanes,)
        Positions in `STATUSES`.
    correction : ndarray, (lanes, F)
        The shift of the parameters, on the scale of the iteration, that removes the error of the rule to first order.
    """

    covariance: FloatArray
    p_value: FloatArray
    bias: FloatArray
    error: FloatArray
    status: IntArray
    correction: FloatArray


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
    inverse, root = invert_information(solution.information, held)
    own_offset = passes.offset
    changed = np.zeros_like(residuals)
    passes.offset = truncation if own_offset is None else truncation + own_offset
    shifted = passes.linearise(residuals=changed)
    passes.offset = own_offset
    sigma = solution.sigma
    moves = np.einsum("lij,lj->li", np.where(np.isfinite(inverse), inverse, 0.0), shifted.g - plain.g)
    shift = np.abs(moves) / np.sqrt(np.einsum("lii->li", inverse))
    bias = np.nanmax(np.where(held[:, Q:], 0.0, shift[:, Q:]), axis=1, initial=0.0)
    bias = np.where(find_finite(shifted.g) & np.isfinite(bias), bias, np.inf)
    scaled = from_groups(residuals, lanes) / sigma[:, None]
    moved = from_groups(changed, lanes) / sigma[:, None]
    unit = np.maximum(sigma, DISCRETISATION.exact_share * problem.spread) / sigma
    column_of_state = model.column_of_state
    if column_of_state is not None:
        interval = np.abs(from_groups(truncation, lanes)).max(axis=1)
        error = np.max(
            interval / np.maximum(sigma, DISCRETISATION.exact_share * problem.spread)[:, column_of_state], axis=1
        )
    else:
        error = np.max(np.abs(moved - scaled) / unit[:, None], axis=(1, 2), initial=0.0)
    error = np.where(np.isfinite(error), error, np.inf)
    covariance = inverse[:, Q:, Q:] * (slope[:, :, None] * slope[:, None, :])
    is_measured = passes.weights > 0
    freedom = np.count_nonzero(is_measured.reshape(lanes, -1), axis=1) - n
    derivatives = from_groups(rows, lanes) / sigma[:, None, :, None]
    # With H = Σ d dᵀ and a root of its inverse, H⁻¹ = R Rᵀ, the columns of d R are orthonormal.
    absorbed = np.matmul(derivatives.reshape(lanes, S * K, n), root).reshape(lanes, S, K, n)
    noise_free = (sigma < MAX_NOISE_FREE_SHARE * problem.spread).all(axis=1)
    p_value = np.full(lanes, np.nan)
    testable = (solution.end == LaneEnd.CONVERGED) & ~noise_free & find_finite(absorbed)
    is_sigma_wrong = np.zeros(lanes, dtype=bool)
    if testable.any():
        p_value[testable], is_sigma_wrong[testable] = compute_p_values(
            np.where(is_measured, scaled, 0.0)[testable],
            is_measured[testable],
            absorbed[testable],
            freedom[testable],
            problem.sigma is not None,
        )
    is_constant = _find_constant_data(passes, problem, sigma)
    is_rounded = np.zeros(lanes, dtype=bool)
    for lane in np.flatnonzero(p_value < REJECTION_LEVEL):
        is_rounded[lane] = any(is_rounding(scaled[lane, is_measured[lane, :, k], k]) for k in range(K))
    status = decide_statuses(
        problem,
        solution,
        covariance,
        p_value=p_value,
        bias=bias,
        is_constant=is_constant,
        without_freedom=np.asarray(freedom <= 0) & (problem.sigma is None),
        is_misstated=is_rounded | is_sigma_wrong,
    )
    covariance = np.where(at_bound[:, :, None] | at_bound[:, None, :], np.nan, covariance)
    return LaneVerdict(covariance, p_value, bias, error, status=status, correction=moves[:, Q:])


def invert_information(H: FloatArray, held: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Invert the information of the unknowns that are not held.

    Parameters
    ----------
    H : ndarray, (lanes, n, n)
    held : ndarray of bool, (lanes, n)

    Returns
    -------
    inverse : ndarray, (lanes, n, n)
        Zero in the rows and columns of held unknowns; infinite where H is singular, and the variance of unknowns
        without any effect.
    root : ndarray, (lanes, n, n)
        `inverse = root rootᵀ`; zero where H is singular.
    """
    eye = np.eye(H.shape[1])
    diagonal = np.einsum("lii->li", H)
    d = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
    scaled = H / (d[:, :, None] * d[:, None, :])
    # What has no effect at all, as the volume of a tissue that nothing enters, leaves the others determined.
    without_effect = ~held & (diagonal <= 0)
    held = held | without_effect
    scaled = np.where(held[:, :, None] | held[:, None, :], eye, scaled)
    finite = find_finite(scaled)
    factor, pivots = _factorise(np.where(finite[:, None, None], scaled, eye))
    singular = ~finite | ~(pivots > MIN_PIVOT)
    root = _invert_triangular(np.where(singular[:, None, None], eye, factor)).transpose(0, 2, 1) / d[:, :, None]
    root = np.where(singular[:, None, None] | held[:, :, None], 0.0, root)
    inverse = np.matmul(root, root.transpose(0, 2, 1)) + np.where(without_effect[:, None] & (eye > 0), np.inf, 0.0)
    return np.where(singular[:, None, None], np.inf, inverse), root


def _factorise(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factors of matrices `(lanes, n, n)`, and the smallest pivot of each, `(lanes,)`.

    Loops over the columns and works on all lanes at once; LAPACK would be called for each lane.
    """
    A, n = A.copy(), A.shape[1]
    factor, smallest = np.zeros_like(A), np.full(len(A), np.inf)
    for k in range(n):
        pivot = A[:, k, k].copy()
        smallest = np.fmin(smallest, np.where(np.isnan(pivot), -np.inf, pivot))
        column = A[:, k:, k] / np.sqrt(np.where(pivot > 0, pivot, 1.0))[:, None]
        factor[:, k:, k] = column
        A[:, k:, k:] -= column[:, :, None] * column[:, None, :]
    return factor, smallest


def _invert_triangular(factor: FloatArray) -> FloatArray:
    """Invert lower triangular matrices `(lanes, n, n)`, all lanes at once."""
    n = factor.shape[1]
    inverse = np.zeros_like(factor)
    for k in range(n):
        row = -np.matmul(factor[:, k : k + 1, :k], inverse[:, :k])[:, 0] if k else np.zeros((len(factor), n))
        row[:, k] += 1.0
        inverse[:, k] = row / factor[:, k, k][:, None]
    return inverse


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
    is_misstated: BoolArray,
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
    precision, _ = invert_information(blocked, np.zeros_like(at_bound))
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
        (is_misstated & (bias <= VERDICT_POLICY.max_bias), Status.MISSTATED),
    ):
        result[mask] = STATUSES.index(status)
    for end, status in STATUS_OF_END.items():
        result[solution.end == end] = STATUSES.index(status)
    return result
