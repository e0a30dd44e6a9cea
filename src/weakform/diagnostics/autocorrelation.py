"""Test whether residuals are autocorrelated: the portmanteau statistic of Ljung and Box, and its null distribution.

    Q = Σ_d Σ_k n_d²/n_dk · ρ̂_d(k)²,      ρ̂_d(k) = Σ e_i e_{i+k} / Σ e_i²

summed over columns d and lags k, with n_dk pairs of values that are k apart; trajectories are pooled, and no pair spans
two. For white noise Q is χ² with one degree of freedom for each lag and column, but residuals are not white: a fit
absorbs part of the noise, more of it with few samples (`collocation.residual_projection`). Where that matters, noise is
drawn, and Q is compared with its values for the residuals of fits to that noise: for a model that is linear within its
standard errors the test is exact. The part that a fit absorbs is a subspace of few dimensions, computed from a few
draws. In long series the sums `r_dk = Σ e_i e_{i+k}` are nearly normal, and their moments follow from the subspace:
with an orthonormal basis B of it, and the symmetric matrix L_dk that has one half at each pair, `r_dk = eᵀ L_dk e`,

    E r_i = -tr C_i,    Cov(r_i, r_j) = 2 [tr L_i L_j - 2 ⟨L_i B, L_j B⟩ + tr C_i C_j],    C_i = Bᵀ L_i B,

and Q, a sum of squares of normal variables, is compared with a χ² of the same first three cumulants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..collocation.residual_projection import ResidualProjection
from ..support.array_types import BoolArray, FloatArray, IntArray

MAX_LAGS = 10
"""Lags of each column, at most. By judgement: with it the test has its nominal size (`docs/accuracy.md`, size of the
test)."""

MIN_VALUES_PER_LAG = 8
"""Values of a column for each lag: shorter columns have fewer lags. By judgement."""

MIN_VALUES_OF_COLUMN = 10
"""Number of values below which a column is not tested: it would have at most one lag. By judgement; documented in
`docs/when-not-to-trust.md`."""


@dataclass(frozen=True)
class _NullPolicy:
    """How the null distribution of Q is computed: from the limit, by moments, or by draws; and how exactly."""

    absorbed_share: float = 1e-3
    """Ratio of fitted quantities to values below which the residuals are treated as white, and Q as χ². By
    judgement."""

    certain_acceptance: float = 0.5
    """P-value of the χ² limit above which it is returned unchanged: no better computation would reject the model. By
    judgement."""

    certain_rejection: float = 1e-20
    """P-value of positive autocorrelation alone, by the χ² limit, below which the limit is returned: a fit that absorbs
    noise makes neighbours less alike, so that no draw would come near. By judgement."""

    long_series: int = 300
    """Least number of values of the shortest tested column at which sums of products are normal enough for small
    p-values by moments; for shorter series noise is drawn. By judgement; `docs/accuracy.md` has the size of the test at
    40 to 400 samples."""

    first_vectors: int = 16
    """Random vectors with which the absorbed subspace is computed at first; doubled as long as they are too few. By
    judgement."""

    max_vectors: int = 64
    """Random vectors with which the absorbed subspace is computed, at most. With a larger subspace, draws are projected
    by the fit itself. By judgement."""

    rank_tolerance: float = 1e-2
    """Singular value, relative to the largest, below which a direction is not part of the absorbed subspace. By
    judgement: those of a projection are one and zero, and the random vectors change those that are not zero only by a
    factor."""

    spare_vectors: int = 4
    """Random vectors beyond the rank of the subspace. With this number or fewer, the vectors are doubled: they may not
    span the subspace. By judgement."""

    draws_below: tuple[tuple[float, int], ...] = ((0.1, 2_500), (0.03, 10_000))
    """Pairs of a p-value by moments and the number of draws below it: far in the tail, sums of few products are not
    normal. A p-value above the first one is returned unchanged. By judgement."""

    min_draws: int = 500
    """Draws, at least; also the draws of one batch, at most. By judgement."""

    drawn_values: int = 4_000_000
    """Values drawn in total, about: long series have fewer draws. By judgement."""

    values_of_batch: int = 1_000_000
    """Values drawn in one batch: 8 MB. By judgement."""

    enough_beyond: int = 50
    """Number of draws beyond Q after which no more are drawn, if their share is above `clearly_accepted`. By
    judgement."""

    clearly_accepted: float = 0.07
    """Share of draws beyond Q above which the p-value is clearly above the 5% at which a model is doubted. By
    judgement: with 50 draws beyond Q its standard error is about 0.01."""

    counted_beyond: int = 5
    """Least number of draws beyond Q for their share to be the p-value; with fewer a scaled χ² continues the tail. By
    judgement."""


NULL_POLICY = _NullPolicy()
"""The thresholds in use. `python benchmarks/goodness.py size` measures the size of the test with them."""


@dataclass(frozen=True)
class AutocorrelationTest:
    """Result of the test for autocorrelation.

    Attributes
    ----------
    statistic : float
        Q.
    freedom : int
        Degrees of freedom that Q has for white noise.
    p_value : float
        NaN if there are too few values.
    """

    statistic: float
    freedom: int
    p_value: float


@dataclass(frozen=True)
class _ColumnPairs:
    """Pairs of values of one column.

    Attributes
    ----------
    rows : ndarray of int, (n,)
        Rows that have a value.
    pairs : tuple of pairs
        For each lag k: a mask or slice of those values `k, ..., n - 1` that have a partner k values before in the same
        trajectory, and their number. Lags without any pair are left out.
    """

    rows: IntArray
    pairs: tuple[tuple[BoolArray | slice, int], ...]


def count_lags(values: int) -> int:
    """Return the number of lags at which a column with so many values is tested; 0 if it has too few."""
    return min(MAX_LAGS, values // MIN_VALUES_PER_LAG) if values >= MIN_VALUES_OF_COLUMN else 0


def _pair_rows(is_measured: BoolArray, trajectory: IntArray) -> list[_ColumnPairs]:
    """Pair the values of each column, given which of all rows are measured and to which trajectory a row belongs."""
    columns = []
    for column in is_measured.T:
        rows = np.flatnonzero(column)
        pairs = [trajectory[rows[k:]] == trajectory[rows[:-k]] for k in range(1, count_lags(len(rows)) + 1)]
        counted = [(slice(None) if pair.all() else pair, int(pair.sum())) for pair in pairs]  # a slice copies nothing
        columns.append(_ColumnPairs(rows, tuple(pair for pair in counted if pair[1])))
    return columns


def _compute_statistic(e: FloatArray, columns: list[_ColumnPairs], positive_only: bool = False) -> FloatArray:
    """Compute Q `(draws,)` of residuals `(rows, columns, draws)`; with `positive_only`, from positive ρ̂ alone."""
    total = np.zeros(e.shape[2])
    for d, column in enumerate(columns):
        part = e[column.rows, d]
        n, power = len(part), np.sum(part * part, axis=0)
        for k, (pair, count) in enumerate(column.pairs, 1):
            product = np.einsum("ib,ib->b", part[k:][pair], part[:-k][pair])
            rho = product / np.maximum(power, np.finfo(float).tiny)
            # Ljung and Box: n (n + 2) in place of n², which brings Q of short series nearer to χ².
            total += n * (n + 2) / count * (np.maximum(rho, 0.0) if positive_only else rho) ** 2
    return total


def run_autocorrelation_test(
    residuals: tuple[FloatArray, ...], absorbed_share: float = 0.0, project_noise: ResidualProjection | None = None
) -> AutocorrelationTest:
    """Test residuals for autocorrelation.

    Parameters
    ----------
    residuals : tuple of ndarray, (time, columns)
        Of each trajectory; NaN where missing.
    absorbed_share : float
        Number of fitted quantities over number of values.
    project_noise : callable, optional
        Computes the residuals of fits to noise `(rows, columns, draws)`. Without it Q is taken for χ².

    Returns
    -------
    AutocorrelationTest
    """
    e, is_measured, columns = _stack_residuals(residuals)
    freedom = sum(len(column.pairs) for column in columns)
    if not freedom:
        return AutocorrelationTest(0.0, 0, np.nan)
    Q = float(_compute_statistic(e[:, :, None], columns)[0])
    limit = compute_chi_square_tail(Q, freedom)
    positive_p = compute_chi_square_tail(float(_compute_statistic(e[:, :, None], columns, True)[0]), freedom)
    is_white = project_noise is None or absorbed_share < NULL_POLICY.absorbed_share
    if is_white or limit > NULL_POLICY.certain_acceptance or positive_p < NULL_POLICY.certain_rejection:
        return AutocorrelationTest(Q, freedom, limit)
    assert project_noise is not None
    basis = _compute_absorbed_subspace(is_measured, project_noise)
    if basis is not None:
        p = _compute_p_value_by_moments(Q, basis, columns)
        shortest = min(len(column.rows) for column in columns if column.pairs)
        if p > NULL_POLICY.draws_below[0][0] or shortest >= NULL_POLICY.long_series:
            return AutocorrelationTest(Q, freedom, p)
        project_noise = _project_out(basis)
    else:
        p = limit
    draws = max((draws for level, draws in NULL_POLICY.draws_below if p < level), default=NULL_POLICY.min_draws)
    drawn = _draw_statistics(Q, is_measured, columns, project_noise, draws)
    return AutocorrelationTest(Q, freedom, limit if drawn is None else compute_p_value_by_draws(Q, drawn))


def _stack_residuals(residuals: tuple[FloatArray, ...]) -> tuple[FloatArray, BoolArray, list[_ColumnPairs]]:
    """Stack the residuals of all trajectories.

    Returns
    -------
    e : ndarray, (rows, columns)
        Zero where missing.
    is_measured : ndarray of bool, (rows, columns)
    columns : list of _ColumnPairs
        Pairs of values of each column.
    """
    rows = np.concatenate(residuals)
    is_measured = np.isfinite(rows)
    trajectory = np.repeat(np.arange(len(residuals)), [len(part) for part in residuals])
    return np.where(is_measured, rows, 0.0), is_measured, _pair_rows(is_measured, trajectory)


def is_autocorrelated(residuals: tuple[FloatArray, ...], level: float) -> bool:
    """Return True if neighbouring residuals are positively correlated, by a quick test.

    The test takes residuals for white noise, so that no draws are needed. It is safe, since noise that a fit absorbs
    makes neighbours less alike; only a wrong model or a wrong estimate makes them more alike.

    Parameters
    ----------
    residuals : tuple of ndarray, (time, columns)
        Of each trajectory; NaN where missing.
    level : float
        P-value below which they are autocorrelated.
    """
    e, _, columns = _stack_residuals(residuals)
    freedom = sum(len(column.pairs) for column in columns)
    return (
        freedom > 0
        and compute_chi_square_tail(float(_compute_statistic(e[:, :, None], columns, True)[0]), freedom) < level
    )


def _compute_absorbed_subspace(is_measured: BoolArray, project_noise: ResidualProjection) -> FloatArray | None:
    """Compute the subspace of noise that the fit absorbs.

    The range of a projection is the range of its product with a few random vectors, if they are more than its rank
    (the randomised range finder).

    Returns
    -------
    ndarray, (rows, columns, m)
        An orthonormal basis; None if the subspace has too many dimensions, or the projection is not finite.
    """
    rng = np.random.default_rng(1)
    count = NULL_POLICY.first_vectors
    while count <= min(NULL_POLICY.max_vectors, is_measured.size // 2):
        noise = np.where(is_measured[:, :, None], rng.standard_normal((*is_measured.shape, count)), 0.0)
        with np.errstate(all="ignore"):
            absorbed = noise - project_noise(noise)
        if not np.isfinite(absorbed).all():
            return None
        basis, sizes, _ = np.linalg.svd(absorbed.reshape(is_measured.size, count), full_matrices=False)
        rank = int(np.sum(sizes > NULL_POLICY.rank_tolerance * sizes[0]))
        if rank < count - NULL_POLICY.spare_vectors:
            return basis[:, :rank].reshape(*is_measured.shape, rank)
        count *= 2
    return None


def _project_out(basis: FloatArray) -> ResidualProjection:
    """Return the projection onto the complement of a subspace, `e - B Bᵀ e`; it is faster than that of the fit."""
    flat = basis.reshape(-1, basis.shape[2])

    def project(noise: FloatArray) -> FloatArray:
        columns = noise.reshape(len(flat), -1)
        return (columns - flat @ (flat.T @ columns)).reshape(noise.shape)

    return project


def _compute_p_value_by_moments(Q: float, basis: FloatArray, columns: list[_ColumnPairs]) -> float:
    """Compute the p-value of Q as if the sums r_dk were normal; the formulas are at the top of the module.

    Parameters
    ----------
    Q : float
    basis : ndarray, (rows, columns, m)
        Orthonormal basis of the absorbed subspace.
    columns : list of _ColumnPairs
    """
    m = basis.shape[2]
    weights: list[float] = []
    inner: list[FloatArray] = []
    lags = [len(column.pairs) for column in columns]
    white = np.zeros((sum(lags), sum(lags)))
    for d, column in enumerate(columns):
        part, row = basis[column.rows, d], len(inner)
        # Σ e_i² of a column has the mean n - tr BᵀB, its degrees of freedom.
        n, freedom = len(part), len(part) - float(np.sum(part * part))
        moved = np.zeros((lags[d], *part.shape))  # L_dk B
        for k, (pair, count) in enumerate(column.pairs, 1):
            moved[k - 1, k:][pair] += 0.5 * part[:-k][pair]
            moved[k - 1, :-k][pair] += 0.5 * part[k:][pair]
            weights.append(n * (n + 2) / count / (freedom * (freedom + 2)))
            inner.append(part.T @ moved[k - 1])
        # 2 tr L_i L_j is the number of pairs if i = j, else zero; lags of different columns share only the C_i.
        flat, block = moved.reshape(lags[d], -1), slice(row, row + lags[d])
        white[block, block] = np.diag([float(count) for _, count in column.pairs]) - 4 * flat @ flat.T
    C = np.array(inner).reshape(-1, m, m)
    covariance = white + 2 * C.reshape(len(C), -1) @ C.transpose(0, 2, 1).reshape(len(C), -1).T
    root, means = np.sqrt(weights), -np.trace(C, axis1=1, axis2=2)
    # Q = Σ_i λ_i (z_i + δ_i)² with independent standard normal z_i: `values` are the λ_i and `shift` the δ_i².
    values, vectors = np.linalg.eigh(covariance * np.outer(root, root))
    values = np.maximum(values, 1e-12)
    shift = (vectors.T @ (root * means)) ** 2 / values
    # The cumulants of order s: 2^(s-1) (s-1)! Σ λ_i^s (1 + s δ_i²).
    # The χ² with the same three is shifted and scaled: its degrees of freedom follow from the skewness.
    first, second, third = (
        factor * float(np.sum(values**s * (1 + s * shift))) for s, factor in ((1, 1.0), (2, 2.0), (3, 8.0))
    )
    freedom = 8 * second**3 / third**2
    return compute_chi_square_tail(max((Q - first) * np.sqrt(2 * freedom / second) + freedom, 0.0), freedom)


def _draw_statistics(
    Q: float, is_measured: BoolArray, columns: list[_ColumnPairs], project: ResidualProjection, draws: int
) -> FloatArray | None:
    """Draw noise, project it as the fit does, and compute its statistics until enough of them are beyond Q.

    The seed is fixed, so that the same data have the same p-value.

    Parameters
    ----------
    Q : float
    is_measured : ndarray of bool, (rows, columns)
    columns : list of _ColumnPairs
    project : callable
        Computes the residuals of fits to noise `(rows, columns, draws)`.
    draws : int
        Number of draws, at most.

    Returns
    -------
    ndarray, (draws,)
        None if one of them is not finite.
    """
    rng = np.random.default_rng(0)
    draws = int(np.clip(NULL_POLICY.drawn_values // is_measured.size, NULL_POLICY.min_draws, draws))
    batch = int(np.clip(NULL_POLICY.values_of_batch // is_measured.size, 1, NULL_POLICY.min_draws))
    batches: list[FloatArray] = []
    beyond = 0
    with np.errstate(all="ignore"):
        for begin in range(0, draws, batch):
            noise = rng.standard_normal((*is_measured.shape, min(batch, draws - begin)))
            if not is_measured.all():
                noise = np.where(is_measured[:, :, None], noise, 0.0)
            batches.append(_compute_statistic(project(noise), columns))
            beyond += int(np.sum(batches[-1] >= Q))
            count = sum(map(len, batches))
            if beyond >= NULL_POLICY.enough_beyond and beyond > NULL_POLICY.clearly_accepted * count:
                break
    statistics = np.concatenate(batches)
    return statistics if np.isfinite(statistics).all() else None


def compute_p_value_by_draws(Q: float, drawn: FloatArray) -> float:
    """Compute the p-value of Q from `drawn` `(draws,)`: the share beyond Q, or a scaled χ² if too few are beyond it."""
    beyond = int(np.sum(drawn >= Q))
    if beyond >= NULL_POLICY.counted_beyond:
        return (beyond + 1) / (len(drawn) + 1)
    # A χ² scaled to the mean and the variance of the draws.
    mean, variance = float(drawn.mean()), float(drawn.var())
    scaled = compute_chi_square_tail(2 * mean * Q / variance, 2 * mean**2 / variance)
    return min(scaled, (beyond + 1) / (len(drawn) + 1))


def compute_chi_square_tail(value: float, freedom: float) -> float:
    """Compute `P(χ² > value)` with `freedom` degrees of freedom; NaN if there are none."""
    from scipy.special import gammaincc

    return float(gammaincc(freedom / 2, value / 2)) if freedom > 0 else float("nan")
