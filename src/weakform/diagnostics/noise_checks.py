"""Is the noise what it was said to be? Values that no noise explains, scatter that follows the level, correlation.

Each is looked for in the residuals of a fit. What is found there is said of the noise and not of the model, as long as
nothing else speaks against the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..data import Dataset
from ..data.trajectory import Trajectory
from ..estimators.outcome import Refined
from ..noise.kinds import KINDS
from ..support.array_types import BoolArray, FloatArray, IntArray
from .autocorrelation import serial

FEWEST, MANY = 12, 30
"""Values of a column below which nothing is said of single ones, and of their kind."""
FAR, EXTREME, ISOLATED, COMMON = 5.0, 20.0, 0.5, 0.1
"""Robust standard deviations beyond which a value is out of the question, and is so whatever else is wrong; the most
that its neighbours may be off, relative to it; and the share of values above which they are not exceptions."""
CLEAR, STRONG, LOPSIDED = 3.5, 6.0, 5.0
"""Standard deviations of a rank correlation of size and level that are no chance, and that explain much; and of the
skewness."""
STEEP, ALL_THE_WAY, NARROW = 0.25, 0.75, 0.05
"""Power of the level with which the scatter grows: nearly not, and nearly in proportion; and the spread of the
logarithm of the level below which none can be told."""
CORRELATED, DIFFERENCES, PASSED, HARDLY = (0.1, 0.8), 0.12, 0.02, 1e-6
"""Correlation from sample to sample that may be that of noise: a stronger one is a slow pattern, as of a wrong model;
by how much that of the differences may be off; and the p-value above which there is nothing else, or
nothing that a wrong kind of noise would not do."""
ALONE, ALONE_IN_SPREAD = 20.0, 3.0
"""How far a value stands from its neighbours: in units of how far others do, and of the spread of all."""
COUNTED = 3.0
"""Mean of counts from which on they are looked at."""
DRAWS, MOST_DRAWN, LEAST_LEFT = 200, 5_000_000, 0.1
"""Draws of the noise by which that is measured, the most values of them, and the least that is left."""
SHOWN = 4


@dataclass(frozen=True)
class NoiseDoubts:
    """What is wrong with the noise.

    Attributes
    ----------
    words : tuple of str
    exceptions : bool
        Whether there are values that no noise explains, or a scatter that is not that of its kind.
    instead : bool
        Whether what was found explains a rejection of the model.
    """

    words: tuple[str, ...] = ()
    exceptions: bool = False
    instead: bool = False


@dataclass(frozen=True)
class _Column:
    """The residuals of a column, over σ, one behind the other."""

    name: str
    kind: str
    place: tuple[IntArray, int]
    trajectory: IntArray
    row: IntArray
    time: FloatArray
    value: FloatArray
    level: FloatArray
    e: FloatArray


def noise_doubts(
    data: Dataset, refined: Refined, rejected: bool, *, repeated: bool = False, uneven: bool = False
) -> NoiseDoubts:
    """Look at the residuals of a fit that converged.

    Parameters
    ----------
    rejected : bool
        Whether the model is.
    repeated : bool
        Whether it is by repeated measurements, which tell the noise without it.
    uneven : bool
        Whether noise may scatter as it likes.
    """
    words: list[str] = []
    exceptions = unequal = instead = False
    sizes: FloatArray | None = None
    for column in _columns(data, refined):
        scatter, equal, strong = _scatter(column)
        if scatter:  # what fitted values take of the noise, where they can, must not look like a small one
            if sizes is None:
                sizes = _sizes(data, refined)
            even = replace(column, e=column.e / sizes[column.place])
            scatter, equal, strong = _scatter(even)
        far = _exceptions(column, EXTREME)
        if scatter and not uneven and not far.any():
            explained = not repeated and _passes(equal, column, HARDLY if strong else PASSED)
            if not rejected or explained:  # else the model is wrong, and its residuals tell nothing of the noise
                words.append(scatter)
                unequal = True
                instead |= rejected
            continue
        far = far if far.any() else _exceptions(column, FAR)
        if far.any():
            words.append(_named(column, far, data))
            exceptions = True
        elif lopsided := _lopsided(column):
            words.append(lopsided)
        elif rejected and not repeated and (correlation := _correlation(column)) is not None:
            instead = True
            words.append(
                f"The noise of {column.name} is correlated from sample to sample ({correlation:.2f}): its values tell "
                "less than as many independent ones, and intervals are too short. Use every few samples only; or a "
                "slow process that the model lacks looks like this."
            )
    return NoiseDoubts(tuple(words), exceptions or (unequal and not rejected), instead and not exceptions)


def _columns(data: Dataset, refined: Refined) -> Iterator[_Column]:
    assert refined.residuals is not None
    begins = np.cumsum([0, *(len(q.times) for q in data.trajectories)])
    for d, (name, kind) in enumerate(zip(data.labels, data.noise, strict=True)):
        parts: list[tuple[FloatArray | IntArray, ...]] = []
        for k, (q, r) in enumerate(zip(data.trajectories, refined.residuals, strict=True)):
            rows = np.flatnonzero(np.isfinite(r[:, d]))
            value, e = q.values[rows, d], r[rows, d]
            with np.errstate(all="ignore"):
                x = KINDS[kind].to_working(value) - e * refined.sigma[d] * q.scales[rows, d]
                level = KINDS[kind].from_working(x)
            parts.append((np.full(len(rows), k), rows, q.times[rows], value, level, e))
        trajectory, row, time, value, level, e = (np.concatenate(part) for part in zip(*parts, strict=True))
        if KINDS[kind].least > 0:  # small counts are far from normal, and zeros far from everything
            some = level >= COUNTED
            trajectory, row, time, value, level, e = (a[some] for a in (trajectory, row, time, value, level, e))
        if len(e) >= FEWEST and KINDS[kind].widen is None:
            place = (begins[trajectory] + row, d)
            yield _Column(name, kind, place, trajectory, row, time=time, value=value, level=level, e=e)


def _sizes(data: Dataset, refined: Refined) -> FloatArray:
    """Standard deviations that residuals over σ have by what the fit takes of the noise, `(samples, columns)`."""
    there = np.concatenate([q.measured for q in data.trajectories])
    if refined.leftover is None or there.size * DRAWS > MOST_DRAWN:
        return np.ones(there.shape)
    noise = np.random.default_rng(0).standard_normal((*there.shape, DRAWS))
    with np.errstate(all="ignore"):
        left = refined.leftover(np.where(there[:, :, None], noise, 0.0)).std(axis=2)
    return np.where(np.isfinite(left), np.maximum(left, LEAST_LEFT), 1.0)


def lonely(data: Dataset) -> tuple[str, ...]:
    """Values that stand alone, far from their neighbours, in words: what a fit may have stumbled over."""
    found = []
    for d, name in enumerate(data.labels):
        for q in data.trajectories:
            rows = np.flatnonzero(q.measured[:, d])
            y = q.values[rows, d]
            if len(y) < FEWEST or KINDS[data.noise[d]].weigh is not None:
                continue
            near = np.lib.stride_tricks.sliding_window_view(np.pad(y, 2, mode="edge"), 5)
            off = np.abs(y - np.median(near, axis=1))
            far = off > max(ALONE * _robust(off), ALONE_IN_SPREAD * _robust(y - np.median(y)))
            if far.sum() <= max(1.0, COMMON * len(y)):
                found += [_place(q, int(rows[i]), name, float(y[i])) for i in np.flatnonzero(far)[:SHOWN]]
    if not found:
        return ()
    words = (
        f"Far from their neighbours stand: {'; '.join(found[:SHOWN])}. If this is an error, correct it or leave it out"
    )
    return (f'{words}, or let heavy tails take care of it: noise="student".',)


def _place(q: Trajectory, row: int, name: str, value: float) -> str:
    """A value as a person finds it in the table."""
    of = f" of {q.label}" if q.label else ""
    return f"row {row + 1}{of}, {name} = {value:g} at t = {q.times[row]:g}"


def _robust(e: FloatArray) -> float:
    return 1.4826 * float(np.median(np.abs(e)))


def _exceptions(column: _Column, limit: float) -> BoolArray:
    """Values far out, alone among their neighbours."""
    e = column.e
    size = _robust(e)
    z = np.abs(e) / size if size > 0 else np.zeros(len(e))
    same = column.trajectory[1:] == column.trajectory[:-1]
    beside = np.zeros(len(z))
    beside[1:] = np.where(same, z[:-1], 0.0)
    beside[:-1] = np.maximum(beside[:-1], np.where(same, z[1:], 0.0))
    far = z > limit
    alone = far & ((beside < ISOLATED * z) | (z > EXTREME))
    few = far.sum() <= max(1.0, COMMON * len(z)) and alone.any() and z.max() > 1.5 * limit
    return alone if few else np.zeros(len(z), dtype=bool)


def _named(column: _Column, far: BoolArray, data: Dataset) -> str:
    places = []
    for i in np.argsort(-np.abs(np.where(far, column.e, 0.0)))[: int(min(far.sum(), SHOWN))]:
        q = data.trajectories[int(column.trajectory[i])]
        places.append(_place(q, int(column.row[i]), column.name, float(column.value[i])))
    more = f", and {int(far.sum()) - SHOWN} more" if far.sum() > SHOWN else ""
    return (
        f"No noise of this size explains: {'; '.join(places)}{more}. Correct or leave out what is wrong, or let "
        'heavy tails take care of it: noise="student".'
    )


def _ranks(a: FloatArray) -> FloatArray:
    order = np.empty(len(a))
    order[np.argsort(a, kind="stable")] = np.arange(len(a))
    return order


def _scatter(column: _Column) -> tuple[str, FloatArray, bool]:
    """Whether the scatter follows the level as it should not, in words; residuals without that; and if it is strong."""
    e, level, n = column.e, np.abs(column.level), len(column.e)
    there = (level > 0) & (e != 0)
    if n < MANY or np.ptp(level) <= 0 or there.sum() < MANY:
        return "", e, False
    correlation = float(np.corrcoef(_ranks(np.abs(e)), _ranks(level))[0, 1]) * np.sqrt(n - 1)
    a, b = np.log(level[there]), np.log(np.abs(e[there]))
    if np.std(a) < NARROW:
        return "", e, False
    slope = float(np.cov(a, b)[0, 1] / np.var(a, ddof=1))
    with np.errstate(all="ignore"):
        equal = e / np.maximum(level, np.finfo(float).tiny) ** slope
    strong = abs(correlation) > STRONG
    more, less = correlation > CLEAR and slope > STEEP, correlation < -CLEAR and slope < -STEEP
    if column.kind == "gaussian" and more:
        whole = bool((column.value == np.round(column.value)).all() and (column.value >= 0).all())
        right = "poisson" if whole and slope < ALL_THE_WAY else "negative-binomial" if whole else "lognormal"
        advice = f'noise="{right}"' if whole or (column.value > 0).all() else "sigma for each point"
        words = f"The scatter of {column.name} grows with its level: this is not gaussian noise; try {advice}."
        return words, equal, strong
    if column.kind == "lognormal" and less:
        return (
            f"The scatter of {column.name}, relative to its level, shrinks where that is large: this is not lognormal "
            'noise; try noise="gaussian".',
            equal,
            strong,
        )
    if column.kind == "poisson" and more:
        return (
            f"The counts of {column.name} scatter more where they are large than counts do: try "
            'noise="negative-binomial".',
            equal,
            strong,
        )
    return "", e, False


def _lopsided(column: _Column) -> str:
    """Whether the residuals lie lopsided, in words."""
    e, n = column.e, len(column.e)
    if n < MANY or e.std() <= 0 or column.kind not in ("gaussian", "lognormal"):
        return ""
    skewness = float(np.mean(((e - e.mean()) / e.std()) ** 3)) * np.sqrt(n / 6)
    if abs(skewness) < LOPSIDED:
        return ""
    other = "lognormal" if column.kind == "gaussian" and skewness > 0 and (column.value > 0).all() else "student"
    return f'The residuals of {column.name} lie lopsided: try noise="{other}".'


def _passes(e: FloatArray, column: _Column, least: float = PASSED) -> bool:
    """Whether these residuals do not hang together."""
    if not np.isfinite(e).all():
        return False
    parts = tuple(e[column.trajectory == k, None] for k in np.unique(column.trajectory))
    return bool(serial(parts).p_value > least)


def _correlation(column: _Column) -> float | None:
    """Of neighbours, where that is all there is, down to the shortest times; None else.

    Neighbouring differences of noise with the correlation ρ have `-(1 - ρ)/2`. A slow pattern with white noise on it,
    as a wrong model leaves it, has less, as if the noise were alone; a slow pattern alone has more.
    """
    same = column.trajectory[1:] == column.trajectory[:-1]
    a, b = column.e[:-1][same], column.e[1:][same]
    power = float(column.e @ column.e)
    if len(a) < MANY or power <= 0:
        return None
    rho = float(a @ b) / power
    if not CORRELATED[0] < rho < CORRELATED[1]:
        return None
    d = np.diff(column.e)
    inner = same[1:] & same[:-1]
    left, right = d[:-1][inner], d[1:][inner]
    rough = float(left @ right) / float(np.sqrt((left @ left) * (right @ right)))
    if abs(rough + (1 - rho) / 2) > DIFFERENCES:
        return None
    white = np.where(np.append(False, same), column.e - rho * np.append(0.0, column.e[:-1]), column.e)
    return rho if _passes(white, column) else None
