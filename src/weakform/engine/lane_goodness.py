"""The test of the model in many lanes at once: autocorrelation of the residuals, and their size if σ is given.

The statistic and its moments are those of `diagnostics.autocorrelation`, whose docstring derives them. What a fit
absorbs of the noise is the range of the derivatives of the samples by the unknowns, which the engine has computed.
Far in the tail, where the moments are too rough to decide, noise is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..diagnostics.autocorrelation import NULL_POLICY, compute_p_value_by_draws, count_lags
from ..diagnostics.goodness import MAX_MEAN_SQUARE_OF_ROUNDING, REJECTION_LEVEL
from ..support.array_types import BoolArray, FloatArray


@dataclass(frozen=True)
class _DrawPolicy:
    """Where the p-value by moments is replaced by a share of drawn noise. By judgement: near the levels that decide."""

    above: float = 1e-6
    """P-value by moments up to which a rejection is certain."""
    below: float = 0.015
    """P-value by moments from which the model is not rejected."""
    below_in_short_series: float = 0.06
    """The same for short series, in whose tails the moments are rougher."""
    short_series: int = 60
    """Values of the shortest column below which a series is short."""
    draws: int = 1000
    """Draws of a lane."""
    draws_of_short_series: int = 3000
    """The same for short series, for which they cost less and matter more."""


POLICY = _DrawPolicy()
"""The thresholds in use."""
LANES_PER_BATCH = 16
"""Lanes whose moments are computed together. By judgement: their arrays fit into the cache of a core."""


def _chi_square_tail(value: FloatArray, freedom: FloatArray | float) -> FloatArray:
    """Compute `P(χ² > value)` elementwise."""
    from scipy.special import gammaincc

    return np.asarray(gammaincc(np.asarray(freedom) / 2, np.maximum(value, 0.0) / 2))


def compute_p_values(
    residuals: FloatArray, is_measured: BoolArray, absorbed: FloatArray, freedom: FloatArray, sigma_known: bool
) -> tuple[FloatArray, BoolArray]:
    """Compute the p-value of the model in each lane, and whether a given σ is wrong and nothing else.

    Parameters
    ----------
    residuals : ndarray, (lanes, S, K)
        In units of σ.
    is_measured : ndarray of bool, (lanes, S, K)
    absorbed : ndarray, (lanes, S, K, n)
        Derivatives of the samples by the unknowns, in units of σ, orthonormal over the samples of a lane: a basis of
        what the fit absorbs.
    freedom : ndarray, (lanes,)
        Values less fitted quantities.
    sigma_known : bool
        Whether σ was given.

    Returns
    -------
    p_value : ndarray, (lanes,)
        NaN where there are too few values.
    is_sigma_wrong : ndarray of bool, (lanes,)
    """
    lanes = len(residuals)
    p = np.full(lanes, np.nan)
    flat = is_measured.reshape(lanes, -1)
    if (flat == flat[:1]).all():
        p = _test_pattern(residuals, is_measured[0], absorbed)
    else:
        patterns, which = np.unique(flat, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            chosen = np.flatnonzero(which.ravel() == k)
            p[chosen] = _test_pattern(residuals[chosen], pattern.reshape(is_measured.shape[1:]), absorbed[chosen])
    if not sigma_known:
        return p, np.zeros(lanes, dtype=bool)
    with np.errstate(all="ignore"):
        chi_square = np.sum(residuals**2, axis=(1, 2))
        upper = _chi_square_tail(chi_square, freedom)
        both_sides = np.where(freedom > 0, 2 * np.minimum(upper, 1 - upper), np.nan)
        joined = np.where(np.isnan(p), both_sides, np.minimum(1.0, 2 * np.fmin(p, both_sides)))
        is_rounding = chi_square < MAX_MEAN_SQUARE_OF_ROUNDING * freedom
        is_contradicted = (both_sides < REJECTION_LEVEL) & (joined < REJECTION_LEVEL) & ~(p < REJECTION_LEVEL)
    # Residuals far below a given σ are rounding, and no pattern in them speaks against the model.
    return np.where(is_rounding, 1.0, joined), is_contradicted & ~is_rounding


def _test_pattern(e: FloatArray, is_measured: BoolArray, absorbed: FloatArray) -> FloatArray:
    """Test lanes with the same missing values for autocorrelation.

    Parameters
    ----------
    e : ndarray, (lanes, S, K)
    is_measured : ndarray of bool, (S, K)
    absorbed : ndarray, (lanes, S, K, n)
    """
    columns = []
    for d, column in enumerate(is_measured.T):
        rows = np.flatnonzero(column)
        if lags := count_lags(len(rows)):
            columns.append((d, rows, lags))
    freedom = sum(lags for _, _, lags in columns)
    if not freedom:
        return np.full(len(e), np.nan)
    parts = [e[:, rows, d] for d, rows, _ in columns]
    Q, positive = _compute_statistics(parts, [lags for _, _, lags in columns])
    p = _chi_square_tail(Q, freedom)
    unclear = (p <= NULL_POLICY.certain_acceptance) & (
        _chi_square_tail(positive, freedom) >= NULL_POLICY.certain_rejection
    )
    at = np.flatnonzero(unclear)
    counts = [count for _, _, count in columns]
    # Few lanes at a time, so that what is computed for all lags stays in the cache.
    for batch in np.array_split(at, -(-len(at) // LANES_PER_BATCH) or 1):
        if len(batch):
            p[batch] = _compute_by_moments(Q[batch], [absorbed[batch][:, rows, d] for d, rows, _ in columns], counts)
    shortest = min(len(rows) for _, rows, _ in columns)
    below = POLICY.below_in_short_series if shortest < POLICY.short_series else POLICY.below
    drawn = at[(p[at] > POLICY.above) & (p[at] < below)] if shortest < NULL_POLICY.long_series else at[:0]
    if len(drawn):
        draws = POLICY.draws_of_short_series if shortest < POLICY.short_series else POLICY.draws
        noise = _draw_noise(draws, tuple(len(rows) for _, rows, _ in columns))
        for lane in drawn:
            p[lane] = _compute_by_draws(Q[lane], [absorbed[lane, rows, d] for d, rows, _ in columns], counts, noise)
    return p


def _compute_statistics(parts: list[FloatArray], lags: list[int]) -> tuple[FloatArray, FloatArray]:
    """Compute Q `(lanes,)` of residuals `(lanes, n)` of each column, and Q from positive autocorrelation alone."""
    total, positive = np.zeros(len(parts[0])), np.zeros(len(parts[0]))
    for part, count in zip(parts, lags, strict=True):
        n = part.shape[1]
        power = np.maximum(np.einsum("ln,ln->l", part, part), np.finfo(float).tiny)
        for k in range(1, count + 1):
            rho = np.einsum("ln,ln->l", part[:, k:], part[:, :-k]) / power
            weight = n * (n + 2) / (n - k)
            total += weight * rho**2
            positive += weight * np.maximum(rho, 0.0) ** 2
    return total, positive


def _compute_by_moments(Q: FloatArray, bases: list[FloatArray], lags: list[int]) -> FloatArray:
    """Compute the p-value of Q `(lanes,)` from the bases `(lanes, n, m)` of each column."""
    lanes, m = len(Q), bases[0].shape[2]
    total = sum(lags)
    white = np.zeros((lanes, total, total))
    weights = np.zeros((lanes, total))
    C = np.zeros((lanes, total, m, m))
    row = 0
    for part, count in zip(bases, lags, strict=True):
        n = part.shape[1]
        freedom = n - np.einsum("lnm,lnm->l", part, part)
        moved = np.zeros((lanes, count, n, m))
        for k in range(1, count + 1):
            moved[:, k - 1, k:] += 0.5 * part[:, :-k]
            moved[:, k - 1, :-k] += 0.5 * part[:, k:]
            weights[:, row + k - 1] = n * (n + 2) / (n - k) / (freedom * (freedom + 2))
        block = slice(row, row + count)
        C[:, block] = np.matmul(part.transpose(0, 2, 1)[:, None], moved)
        flat = moved.reshape(lanes, count, -1)
        white[:, block, block] = np.diag(n - np.arange(1.0, count + 1)) - 4 * np.matmul(flat, flat.transpose(0, 2, 1))
        row += count
    flat = C.reshape(lanes, total, -1)
    covariance = white + 2 * np.matmul(flat, C.transpose(0, 1, 3, 2).reshape(lanes, total, -1).transpose(0, 2, 1))
    root, means = np.sqrt(weights), -np.trace(C, axis1=2, axis2=3)
    # Q = zᵀz with z ~ N(ν, A): its cumulants of order s are 2^(s-1) (s-1)! (tr A^s + s νᵀ A^(s-1) ν), and the χ² with
    # the same first three is shifted and scaled: its degrees of freedom follow from the skewness.
    A, nu = covariance * (root[:, :, None] * root[:, None, :]), root * means
    A2, Anu = np.matmul(A, A), np.matmul(A, nu[:, :, None])[:, :, 0]
    first = np.trace(A, axis1=1, axis2=2) + np.sum(nu**2, axis=1)
    second = 2 * (np.sum(A**2, axis=(1, 2)) + 2 * np.sum(nu * Anu, axis=1))
    third = 8 * (np.sum(A * A2, axis=(1, 2)) + 3 * np.sum(Anu**2, axis=1))
    freedom = 8 * second**3 / third**2
    p = _chi_square_tail((Q - first) * np.sqrt(2 * freedom / second) + freedom, freedom)
    return np.where(np.isfinite(p), p, np.nan)


@lru_cache(maxsize=8)
def _draw_noise(draws: int, lengths: tuple[int, ...]) -> list[FloatArray]:
    """Return normal noise `(draws, n)` for columns of some lengths; the same for all lanes, and for each call."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((draws, n)) for n in lengths]


def _compute_by_draws(Q: float, bases: list[FloatArray], lags: list[int], noise: list[FloatArray]) -> float:
    """Compute the p-value of Q from noise `(draws, n)` that is projected, for the bases `(n, m)` of each column."""
    taken = np.sum([part @ basis for part, basis in zip(noise, bases, strict=True)], axis=0)
    drawn, _ = _compute_statistics([part - taken @ basis.T for part, basis in zip(noise, bases, strict=True)], lags)
    return compute_p_value_by_draws(Q, drawn)
