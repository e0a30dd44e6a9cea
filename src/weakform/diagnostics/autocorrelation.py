"""Do residuals hang together? The portmanteau statistic of Ljung and Box, and its distribution under a right model.

    Q = Σ_d Σ_k n_d²/n_dk · ρ̂_d(k)²,      ρ̂_d(k) = Σ e_i e_{i+k} / Σ e_i²

over columns d and lags k, with n_dk pairs of values that are k apart; trajectories are pooled, and no pair straddles
two. For white noise Q is χ² with one degree of freedom for each lag and column, but residuals are not white: a fit
takes part of the noise with it, more so with few samples (`collocation.leftover`). Where that matters, noise is drawn,
and Q is compared with its values in what the fit leaves: for a model that is linear over its standard errors the test
is exact. What the fit takes is a subspace of few dimensions, found by a few draws. In long series the sums
`r_dk = Σ e_i e_{i+k}` are normal, and their moments follow from the subspace: with an orthonormal basis B of it and the
matrix L_dk of the pairs (one half at each),

    E r_i = -tr C_i,    Cov(r_i, r_j) = 2 [tr L_i L_j - 2 ⟨L_i B, L_j B⟩ + tr C_i C_j],    C_i = Bᵀ L_i B,

and Q, a sum of squares of normal variables, is compared with a χ² of the same three first cumulants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..collocation.residual_projection import Leftover
from ..support.array_types import BoolArray, FloatArray, IntArray

LAGS = 10
FEWEST = 10
"""Values of a column below which nothing is said of it."""
ABSORBED = 1e-3
"""Share of what was fitted among the values below which the residuals are as good as white."""
LONG, DIMENSIONS, SMALL = 300, 64, 1e-2
"""Values of every column from which on sums are normal enough for small p-values; dimensions of the subspace up to
which it is looked for; and what is not part of it, relative to what is."""
CLEAR = 0.5
"""P-value of the limit above which nobody needs a better one."""
SURELY = 1e-20
"""P-value of neighbours that are alike below which draws would change nothing: what a fit takes makes them unlike."""
DRAWS = ((0.1, 2_500), (0.03, 10_000))
"""Draws of the noise, where the p-value by moments is below this: far out, sums of few products are not normal."""
LEAST_DRAWS, WORK, BATCH = 500, 4_000_000, 1_000_000
"""Fewer where there are many values: at least so many; and values that are drawn in all, and at a time."""
BEYOND, CLEARLY = 50, 0.07
"""Draws beyond the statistic, and their share, after which there are enough: then it is clearly above 5%."""
SPARE = 4
"""Random vectors beyond the rank, so that the least of what is found stands out."""
COUNTED = 5
"""Draws beyond the statistic that must be there to be counted; the tail behind is that of a scaled χ²."""


@dataclass(frozen=True)
class Serial:
    """The test of serial correlation.

    Attributes
    ----------
    statistic, freedom : float, int
        Q, and the degrees of freedom that it has for white noise.
    p_value : float
        NaN where there are too few values.
    """

    statistic: float
    freedom: int
    p_value: float


@dataclass(frozen=True)
class _Column:
    """Which rows have a value of a column; and for each lag which of these have a partner, and how many."""

    rows: IntArray
    pairs: tuple[tuple[BoolArray | slice, int], ...]


def _columns(there: BoolArray, trajectory: IntArray) -> list[_Column]:
    found = []
    for column in there.T:
        rows = np.flatnonzero(column)
        lags = min(LAGS, len(rows) // 8) if len(rows) >= FEWEST else 0
        pairs = [trajectory[rows[k:]] == trajectory[rows[:-k]] for k in range(1, lags + 1)]
        counted = [(slice(None) if pair.all() else pair, int(pair.sum())) for pair in pairs]  # a slice copies nothing
        found.append(_Column(rows, tuple(pair for pair in counted if pair[1])))
    return found


def _statistic(e: FloatArray, columns: list[_Column], positive: bool = False) -> FloatArray:
    """Q of residuals `(rows, columns, draws)`; only of what is `positive` of ρ̂."""
    total = np.zeros(e.shape[2])
    for d, column in enumerate(columns):
        part = e[column.rows, d]
        n, power = len(part), np.sum(part * part, axis=0)
        for k, (pair, count) in enumerate(column.pairs, 1):
            product = np.einsum("ib,ib->b", part[k:][pair], part[:-k][pair])
            rho = product / np.maximum(power, np.finfo(float).tiny)
            total += n * (n + 2) / count * (np.maximum(rho, 0.0) if positive else rho) ** 2
    return total


def serial(residuals: tuple[FloatArray, ...], absorbed: float = 0.0, left: Leftover | None = None) -> Serial:
    """Test residuals `(time, columns)` of all trajectories, NaN where missing.

    Parameters
    ----------
    residuals : tuple of ndarray
    absorbed : float
        Share of what was fitted among the values.
    left : callable, optional
        What the fit leaves of noise.
    """
    e, there, columns = _arranged(residuals)
    freedom = sum(len(column.pairs) for column in columns)
    if not freedom:
        return Serial(0.0, 0, np.nan)
    Q = float(_statistic(e[:, :, None], columns)[0])
    limit = chi_square_tail(Q, freedom)
    alike = chi_square_tail(float(_statistic(e[:, :, None], columns, True)[0]), freedom)
    if left is None or absorbed < ABSORBED or limit > CLEAR or alike < SURELY:
        return Serial(Q, freedom, limit)
    basis = _taken(there, left)
    if basis is not None:
        p = _by_moments(Q, basis, columns)
        if p > DRAWS[0][0] or min(len(column.rows) for column in columns if column.pairs) >= LONG:
            return Serial(Q, freedom, p)
        left = _without(basis)
    else:
        p = limit
    draws = max((draws for level, draws in DRAWS if p < level), default=LEAST_DRAWS)
    drawn = _drawn(Q, there, columns, left, draws)
    return Serial(Q, freedom, limit if drawn is None else _tail(Q, drawn))


def _arranged(residuals: tuple[FloatArray, ...]) -> tuple[FloatArray, BoolArray, list[_Column]]:
    """All rows, zero where missing; where they are not; and the pairs."""
    rows = np.concatenate(residuals)
    there = np.isfinite(rows)
    trajectory = np.repeat(np.arange(len(residuals)), [len(part) for part in residuals])
    return np.where(there, rows, 0.0), there, _columns(there, trajectory)


def hangs_together(residuals: tuple[FloatArray, ...], level: float) -> bool:
    """Whether neighbouring residuals are clearly alike: quickly, and without regard to what the fit has taken.

    What a fit takes makes neighbours unlike; only a model, or an estimate, that is wrong makes them alike.
    """
    e, _, columns = _arranged(residuals)
    freedom = sum(len(column.pairs) for column in columns)
    return freedom > 0 and chi_square_tail(float(_statistic(e[:, :, None], columns, True)[0]), freedom) < level


def _taken(there: BoolArray, left: Leftover) -> FloatArray | None:
    """What the fit takes of noise: an orthonormal basis `(rows, columns, m)`; None where that is too much.

    The range of a projection is that of its product with a few random vectors, if they are more than its rank.
    """
    rng = np.random.default_rng(1)
    count = 16
    while count <= min(DIMENSIONS, there.size // 2):
        noise = np.where(there[:, :, None], rng.standard_normal((*there.shape, count)), 0.0)
        with np.errstate(all="ignore"):
            taken = noise - left(noise)
        if not np.isfinite(taken).all():
            return None
        basis, sizes, _ = np.linalg.svd(taken.reshape(there.size, count), full_matrices=False)
        rank = int(np.sum(sizes > SMALL * sizes[0]))
        if rank < count - SPARE:
            return basis[:, :rank].reshape(*there.shape, rank)
        count *= 2
    return None


def _without(basis: FloatArray) -> Leftover:
    """Noise less its part in a subspace."""
    flat = basis.reshape(-1, basis.shape[2])

    def left(noise: FloatArray) -> FloatArray:
        columns = noise.reshape(len(flat), -1)
        return (columns - flat @ (flat.T @ columns)).reshape(noise.shape)

    return left


def _by_moments(Q: float, basis: FloatArray, columns: list[_Column]) -> float:
    """The p-value as if the sums were normal."""
    m = basis.shape[2]
    weights: list[float] = []
    inner: list[FloatArray] = []
    lags = [len(column.pairs) for column in columns]
    white = np.zeros((sum(lags), sum(lags)))
    for d, column in enumerate(columns):
        part, row = basis[column.rows, d], len(inner)
        n, freedom = len(part), len(part) - float(np.sum(part * part))
        moved = np.zeros((lags[d], *part.shape))
        for k, (pair, count) in enumerate(column.pairs, 1):
            moved[k - 1, k:][pair] += 0.5 * part[:-k][pair]
            moved[k - 1, :-k][pair] += 0.5 * part[k:][pair]
            weights.append(n * (n + 2) / count / (freedom * (freedom + 2)))
            inner.append(part.T @ moved[k - 1])
        flat, here = moved.reshape(lags[d], -1), slice(row, row + lags[d])
        white[here, here] = np.diag([float(count) for _, count in column.pairs]) - 4 * flat @ flat.T
    C = np.array(inner).reshape(-1, m, m)
    covariance = white + 2 * C.reshape(len(C), -1) @ C.transpose(0, 2, 1).reshape(len(C), -1).T
    root, means = np.sqrt(weights), -np.trace(C, axis1=1, axis2=2)
    values, vectors = np.linalg.eigh(covariance * np.outer(root, root))
    values = np.maximum(values, 1e-12)
    shift = (vectors.T @ (root * means)) ** 2 / values
    first, second, third = (
        factor * float(np.sum(values**s * (1 + s * shift))) for s, factor in ((1, 1.0), (2, 2.0), (3, 8.0))
    )
    freedom = 8 * second**3 / third**2
    return chi_square_tail(max((Q - first) * np.sqrt(2 * freedom / second) + freedom, 0.0), freedom)


def _drawn(Q: float, there: BoolArray, columns: list[_Column], left: Leftover, draws: int) -> FloatArray | None:
    """Its values in what is left of noise, again and again until enough are beyond Q; the same for the same data."""
    rng = np.random.default_rng(0)
    draws = int(np.clip(WORK // there.size, LEAST_DRAWS, draws))
    batch = int(np.clip(BATCH // there.size, 1, LEAST_DRAWS))
    found: list[FloatArray] = []
    beyond = 0
    with np.errstate(all="ignore"):
        for begin in range(0, draws, batch):
            noise = rng.standard_normal((*there.shape, min(batch, draws - begin)))
            if not there.all():
                noise = np.where(there[:, :, None], noise, 0.0)
            found.append(_statistic(left(noise), columns))
            beyond += int(np.sum(found[-1] >= Q))
            if beyond >= BEYOND and beyond > CLEARLY * sum(map(len, found)):
                break
    every = np.concatenate(found)
    return every if np.isfinite(every).all() else None


def _tail(Q: float, drawn: FloatArray) -> float:
    """The share of draws beyond Q; by a scaled χ² where there are next to none."""
    beyond = int(np.sum(drawn >= Q))
    if beyond >= COUNTED:
        return (beyond + 1) / (len(drawn) + 1)
    mean, variance = float(drawn.mean()), float(drawn.var())
    scaled = chi_square_tail(2 * mean * Q / variance, 2 * mean**2 / variance)
    return min(scaled, (beyond + 1) / (len(drawn) + 1))


def chi_square_tail(value: float, freedom: float) -> float:
    """`P(χ² > value)`."""
    from scipy.special import gammaincc

    return float(gammaincc(freedom / 2, value / 2)) if freedom > 0 else float("nan")
