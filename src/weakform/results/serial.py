"""Do residuals hang together? The portmanteau statistic of Ljung and Box, and its distribution under a right model.

    Q = Σ_d Σ_k n_d²/n_dk · ρ̂_d(k)²,      ρ̂_d(k) = Σ e_i e_{i+k} / Σ e_i²

over columns d and lags k, with n_dk pairs of values that are k apart; trajectories are pooled, and no pair straddles
two. For white noise Q is χ² with one degree of freedom for each lag and column, but residuals are not white: a fit
takes part of the noise with it, more so with few samples. Where that matters, noise is drawn, what the fit leaves of it
is found (`collocation.leftover`), and Q is compared with its values there: for a model that is linear over its standard
errors the test is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..collocation.leftover import Leftover
from ..support.typing import BoolArray, FloatArray, IntArray

LAGS = 10
FEWEST = 10
"""Values of a column below which nothing is said of it."""
ABSORBED = 1e-3
"""Share of what was fitted among the values below which the residuals are as good as white."""
CLEAR = 0.5
"""P-value of the limit above which nobody needs a better one."""
DRAWS, NEAR = (500, 10_000), 0.1
"""Draws of the noise, and again more of them where the p-value is below this."""
LEAST_DRAWS, WORK, BATCH = 500, 8_000_000, 1_000_000
"""Fewer where there are many values: at least so many; and values that are drawn in all, and at a time."""
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
    """Which rows have a value of a column, and which of these are how far apart."""

    rows: IntArray
    pairs: tuple[BoolArray, ...]


def _columns(there: BoolArray, trajectory: IntArray) -> list[_Column]:
    found = []
    for column in there.T:
        rows = np.flatnonzero(column)
        lags = min(LAGS, len(rows) // 8) if len(rows) >= FEWEST else 0
        pairs = [trajectory[rows[k:]] == trajectory[rows[:-k]] for k in range(1, lags + 1)]
        found.append(_Column(rows, tuple(pair for pair in pairs if pair.any())))
    return found


def _statistic(e: FloatArray, columns: list[_Column]) -> FloatArray:
    """Q of residuals `(rows, columns, draws)`."""
    total = np.zeros(e.shape[2])
    for d, column in enumerate(columns):
        part = e[column.rows, d]
        n, power = len(part), np.sum(part * part, axis=0)
        for k, pair in enumerate(column.pairs, 1):
            product = np.einsum("ib,ib->b", part[k:][pair], part[:-k][pair])
            total += n * (n + 2) / pair.sum() * (product / np.maximum(power, np.finfo(float).tiny)) ** 2
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
    rows = np.concatenate(residuals)
    there = np.isfinite(rows)
    trajectory = np.repeat(np.arange(len(residuals)), [len(part) for part in residuals])
    columns = _columns(there, trajectory)
    freedom = sum(len(column.pairs) for column in columns)
    if not freedom:
        return Serial(0.0, 0, np.nan)
    e = np.where(there, rows, 0.0)
    Q = float(_statistic(e[:, :, None], columns)[0])
    limit = chi_square_tail(Q, freedom)
    if left is None or absorbed < ABSORBED or limit > CLEAR:
        return Serial(Q, freedom, limit)
    p = limit
    for draws in DRAWS:
        drawn = _drawn(there, columns, left, draws)
        p = limit if drawn is None else _tail(Q, drawn)
        if p > NEAR:
            break
    return Serial(Q, freedom, p)


def _drawn(there: BoolArray, columns: list[_Column], left: Leftover, draws: int) -> FloatArray | None:
    """Q of what is left of noise, again and again; the same for the same data."""
    rng = np.random.default_rng(0)
    draws = int(np.clip(WORK // there.size, LEAST_DRAWS, draws))
    batch = max(BATCH // there.size, 1)
    found = []
    with np.errstate(all="ignore"):
        for begin in range(0, draws, batch):
            noise = rng.standard_normal((*there.shape, min(batch, draws - begin)))
            found.append(_statistic(left(np.where(there[:, :, None], noise, 0.0)), columns))
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
