"""Checks of the noise against what was assumed: outliers, scatter that follows the level, skewness, correlation.

Each check looks at the residuals of a fit. A finding is about the noise, not the model, as long as nothing else speaks
against the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..data import Dataset
from ..data.trajectory import Trajectory
from ..estimators.outcome import Refinement
from ..noise.kinds import KINDS
from ..support.array_types import BoolArray, FloatArray, IntArray
from .autocorrelation import run_autocorrelation_test

MIN_VALUES_FOR_OUTLIERS = 12
"""Number of values of a column below which its noise is not checked, and no value is called an outlier. By
judgement."""

MIN_VALUES_FOR_KIND = 30
"""Number of values of a column below which neither its scatter nor its skewness nor its correlation is tested. By
judgement."""

MIN_EXPECTED_COUNT = 3.0
"""Expected value of a count below which the count is left out of the checks: it is far from normal. By judgement."""

MAX_LISTED_VALUES = 4
"""Outliers that a sentence lists, at most."""


@dataclass(frozen=True)
class _OutlierPolicy:
    """When a value is an outlier. Robust standard deviations are those of `_compute_robust_deviation`."""

    far: float = 5.0
    """Size of a residual, in robust standard deviations, above which it is large: 6 in 10 million values of normal
    noise are. By judgement."""

    extreme: float = 20.0
    """Size of a residual, in robust standard deviations, above which it is an outlier even next to other large ones,
    and before anything else about the noise is considered. By judgement; `test_single_absurd_value_is_named_by_its_row`
    in `tests/test_edges.py`."""

    isolated: float = 0.5
    """Residual of the larger neighbour, as a share of that of the value, above which the value is part of a slow
    misfit, not an outlier. By judgement."""

    common: float = 0.1
    """Share of large residuals above which they are not outliers but typical of the noise. By judgement."""

    margin: float = 1.5
    """Ratio of the largest residual to the limit, below which nothing is reported: the largest of many values is often
    just beyond a limit. By judgement."""

    neighbour_deviations: float = 20.0
    """Distance of a value from the median of five neighbours, in robust standard deviations of such distances. Above
    this and `spreads` a value is reported without a fit. By judgement."""

    spreads: float = 3.0
    """The same distance, in robust standard deviations of the column. By judgement."""


@dataclass(frozen=True)
class _ScatterPolicy:
    """When the scatter depends on the level unlike that of the kind of noise; |e| is proportional to level^power."""

    clear: float = 3.5
    """Rank correlation of |residual| and level, in standard deviations, above which it is no coincidence. By judgement:
    5 in 10,000 are larger by chance."""

    strong: float = 6.0
    """The same correlation, above which the scatter explains so much that the remaining autocorrelation is tested at
    `weak_evidence`. By judgement."""

    min_power: float = 0.25
    """Power of the level below which the scatter hardly depends on the level. By judgement: half of the power 1/2 of
    counts."""

    proportional: float = 0.75
    """Power of the level below which whole numbers scatter like Poisson counts (power 1/2), and above which they
    scatter like overdispersed ones (power 1). By judgement: half way."""

    min_spread_of_level: float = 0.05
    """Standard deviation of the logarithm of the level below which the levels are too alike for a power. By
    judgement."""


@dataclass(frozen=True)
class _CorrelationPolicy:
    """When correlated noise explains the autocorrelation of residuals."""

    least: float = 0.1
    """Correlation of neighbouring residuals below which it cannot be the reason for a rejection. By judgement."""

    most: float = 0.8
    """Correlation of neighbouring residuals above which it is a slow pattern, as in the residuals of a wrong model. By
    judgement; documented in `docs/when-not-to-trust.md`."""

    differences: float = 0.12
    """Deviation of the correlation of neighbouring differences from `-(1 - ρ)/2` above which there is a slow pattern,
    or white noise on top of one. By judgement."""

    uncorrelated: float = 0.02
    """P-value of the test for autocorrelation above which residuals are uncorrelated, and the finding about the noise
    explains a rejection. By judgement."""

    weak_evidence: float = 1e-6
    """The same, after a strong dependence of the scatter on the level has been removed. By judgement: noise of
    another kind also shifts the fit, which correlates its residuals somewhat."""


@dataclass(frozen=True)
class _DrawingPolicy:
    """How the standard deviations of residuals are computed from draws of the noise."""

    draws: int = 200
    """Draws of the noise: the standard error of each standard deviation is 5% of it, `1/√(2·200)`."""

    max_values: int = 5_000_000
    """Largest number of values drawn in total. If more were needed, all residuals are taken to have the standard
    deviation one: of many values a fit absorbs next to nothing of each. By judgement."""

    min_deviation: float = 0.1
    """Standard deviation of a residual over σ, at least: it divides the residual of a value that the fit follows
    closely. By judgement."""


MIN_SKEWNESS = 5.0
"""Skewness, in standard deviations of the skewness of normal noise, above which residuals are called skewed. By
judgement."""

OUTLIER_POLICY = _OutlierPolicy()
"""The thresholds of outliers in use."""

SCATTER_POLICY = _ScatterPolicy()
"""The thresholds of scatter in use."""

CORRELATION_POLICY = _CorrelationPolicy()
"""The thresholds of correlated noise in use."""

DRAWING_POLICY = _DrawingPolicy()
"""The settings of the draws in use."""


@dataclass(frozen=True)
class _RoundingPolicy:
    """When the residuals of a rejected model are those of rounded values: uniform between two limits. By judgement; the
    test of rounded curves is in `tests/diagnostics/test_noise_checks.py`.
    """

    min_values: int = 100
    """Values below which the shape of the residuals shows too little."""
    no_error: float = 1e-6
    """Residual, relative to the largest, below which the model reproduces a value exactly."""
    kurtosis: tuple[float, float] = (1.6, 2.2)
    """Fourth moment over the squared second one: 1.8 for uniform residuals, 1.5 for a wave, 3 for normal ones."""
    max_correlation: float = 0.5
    """Correlation of neighbours: that of the smooth residuals of a wrong model is near one. Rounding errors of a slow
    curve are alike, too, until they jump from one limit to the other."""


_ROUNDING = _RoundingPolicy()


def is_rounding(e: FloatArray) -> bool:
    """Return True if the residuals `(n,)` of a rejected model are those of rounded values."""
    # A curve that begins at zero has no rounding error there.
    e = e[np.abs(e) > _ROUNDING.no_error * np.abs(e).max(initial=0.0)]
    if len(e) < _ROUNDING.min_values:
        return False
    square = float(np.mean(e**2))
    kurtosis = float(np.mean(e**4)) / square**2
    correlation = float(np.mean(e[1:] * e[:-1])) / square
    return _ROUNDING.kurtosis[0] < kurtosis < _ROUNDING.kurtosis[1] and correlation < _ROUNDING.max_correlation


@dataclass(frozen=True)
class NoiseFindings:
    """Findings about the noise.

    Attributes
    ----------
    sentences : tuple of str
        One for each finding.
    is_misstated : bool
        Whether there are outliers; or, if the model is not rejected, a scatter other than the kind of noise has.
    explains_rejection : bool
        Whether the findings explain why the model was rejected.
    """

    sentences: tuple[str, ...] = ()
    is_misstated: bool = False
    explains_rejection: bool = False


@dataclass(frozen=True)
class _ColumnResiduals:
    """Residuals of one measured column, concatenated over trajectories.

    Attributes
    ----------
    name, kind : str
        The label of the column, and its kind of noise.
    position : pair of ndarray of int `(n,)` and int
        Rows among the samples of all trajectories, and the index of the column.
    trajectory, row : ndarray of int, (n,)
        Index of the trajectory, and of the sample in it.
    time, value, level : ndarray, (n,)
        Time, measured value, fitted value.
    e : ndarray, (n,)
        Residuals over σ.
    """

    name: str
    kind: str
    position: tuple[IntArray, int]
    trajectory: IntArray
    row: IntArray
    time: FloatArray
    value: FloatArray
    level: FloatArray
    e: FloatArray


def check_noise(
    data: Dataset,
    refined: Refinement,
    is_rejected: bool,
    *,
    rejected_by_repeats: bool = False,
    allow_uneven: bool = False,
) -> NoiseFindings:
    """Check the noise by the residuals of a fit that converged.

    Parameters
    ----------
    data : Dataset
    refined : Refinement
    is_rejected : bool
        Whether the model is rejected.
    rejected_by_repeats : bool
        Whether repeated measurements reject the model. They show the noise without a model, so that its kind cannot
        explain the rejection.
    allow_uneven : bool
        Whether the size of the noise may vary from sample to sample (the sandwich covariance).

    Returns
    -------
    NoiseFindings
    """
    sentences: list[str] = []
    has_outliers = is_uneven = explains_rejection = False
    deviations: FloatArray | None = None
    for column in _iterate_columns(data, refined):
        if is_rejected and not rejected_by_repeats and is_rounding(column.e):
            step = np.sqrt(12 * np.mean(column.e**2)) * refined.sigma[column.position[1]]
            sentences.append(
                f"The residuals of {column.name} are those of values that were rounded to steps of about {step:.2g}, "
                "not noise: they are evenly spread between two limits. Their pattern says nothing about the model, and "
                "the intervals may be too narrow. Take the values before they were rounded."
            )
            explains_rejection = True
            continue
        scatter, equal, strong = _check_scatter(column)
        if scatter:
            # A fit absorbs more of the noise where it can follow single values. Such residuals are small, whatever the
            # noise: each is divided by its own standard deviation before its size is compared with the level.
            if deviations is None:
                deviations = _compute_standard_deviations(data, refined)
            even = replace(column, e=column.e / deviations[column.position])
            scatter, equal, strong = _check_scatter(even)
        far = _find_outliers(column, OUTLIER_POLICY.extreme)
        if scatter and not allow_uneven and not far.any():
            least = CORRELATION_POLICY.weak_evidence if strong else CORRELATION_POLICY.uncorrelated
            explained = not rejected_by_repeats and _is_uncorrelated(equal, column, least)
            if not is_rejected or explained:  # else the model is wrong, and its residuals show nothing about the noise
                sentences.append(scatter)
                is_uneven = True
                explains_rejection |= is_rejected
            continue
        far = far if far.any() else _find_outliers(column, OUTLIER_POLICY.far)
        if far.any():
            sentences.append(_describe_outliers(column, far, data))
            has_outliers = True
        elif skewed := _describe_skewness(column):
            sentences.append(skewed)
        elif is_rejected and not rejected_by_repeats and (correlation := _estimate_correlation(column)) is not None:
            explains_rejection = True
            sentences.append(
                f"The noise of {column.name} is correlated from sample to sample ({correlation:.2f}): its values carry "
                "less information than as many independent ones, and the intervals are too narrow. Use only every few "
                "samples. A slow process that the model lacks would look the same."
            )
    is_misstated = has_outliers or (is_uneven and not is_rejected)
    return NoiseFindings(tuple(sentences), is_misstated, explains_rejection and not has_outliers)


def _iterate_columns(data: Dataset, refined: Refinement) -> Iterator[_ColumnResiduals]:
    """Yield the residuals of each column whose noise can be checked."""
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
        if KINDS[kind].min_sigma > 0:  # small counts are far from normal, and zeros far from everything
            is_large = level >= MIN_EXPECTED_COUNT
            trajectory, row, time, value, level, e = (a[is_large] for a in (trajectory, row, time, value, level, e))
        # Heavy-tailed noise, the kind with `widen`, expects values far out.
        if len(e) >= MIN_VALUES_FOR_OUTLIERS and KINDS[kind].widen is None:
            position = (begins[trajectory] + row, d)
            yield _ColumnResiduals(name, kind, position, trajectory, row, time=time, value=value, level=level, e=e)


def _compute_standard_deviations(data: Dataset, refined: Refinement) -> FloatArray:
    """Compute the standard deviations of residuals over σ, `(samples, columns)`; below one if the fit absorbs noise."""
    is_measured = np.concatenate([q.measured for q in data.trajectories])
    if refined.project_residuals is None or is_measured.size * DRAWING_POLICY.draws > DRAWING_POLICY.max_values:
        return np.ones(is_measured.shape)
    noise = np.random.default_rng(0).standard_normal((*is_measured.shape, DRAWING_POLICY.draws))
    with np.errstate(all="ignore"):
        deviations = refined.project_residuals(np.where(is_measured[:, :, None], noise, 0.0)).std(axis=2)
    return np.where(np.isfinite(deviations), np.maximum(deviations, DRAWING_POLICY.min_deviation), 1.0)


def warn_of_isolated_outliers(data: Dataset) -> tuple[str, ...]:
    """Warn of single values that are far from their neighbours, without a fit: they may have misled it.

    Returns
    -------
    tuple of str
        One sentence that lists them; empty if there are none.
    """
    descriptions = []
    for d, name in enumerate(data.labels):
        for q in data.trajectories:
            rows = np.flatnonzero(q.measured[:, d])
            y = q.values[rows, d]
            if len(y) < MIN_VALUES_FOR_OUTLIERS or KINDS[data.noise[d]].weigh is not None:
                continue
            windows = np.lib.stride_tricks.sliding_window_view(np.pad(y, 2, mode="edge"), 5)
            off = np.abs(y - np.median(windows, axis=1))
            limit = max(
                OUTLIER_POLICY.neighbour_deviations * _compute_robust_deviation(off),
                OUTLIER_POLICY.spreads * _compute_robust_deviation(y - np.median(y)),
            )
            far = off > limit
            if far.sum() <= max(1.0, OUTLIER_POLICY.common * len(y)):
                descriptions += [
                    _describe_value(q, int(rows[i]), name, float(y[i])) for i in np.flatnonzero(far)[:MAX_LISTED_VALUES]
                ]
    if not descriptions:
        return ()
    return (
        f"Values far from their neighbours: {'; '.join(descriptions[:MAX_LISTED_VALUES])}. If they are errors, correct "
        'or remove them; else allow for heavy tails: noise="student".',
    )


def _describe_value(q: Trajectory, row: int, name: str, value: float) -> str:
    """Describe a value by its row in the table, counted from one, its column and its time."""
    of = f" of {q.label}" if q.label else ""
    return f"row {row + 1}{of}, {name} = {value:g} at t = {q.times[row]:g}"


def _compute_robust_deviation(e: FloatArray) -> float:
    """Compute a standard deviation that outliers do not enlarge: 1.4826 times the median absolute value."""
    return 1.4826 * float(np.median(np.abs(e)))


def _find_outliers(column: _ColumnResiduals, limit: float) -> BoolArray:
    """Find outliers: residuals beyond `limit` robust standard deviations whose neighbours are much smaller.

    Returns
    -------
    ndarray of bool, (n,)
        All False if too many residuals are that large, or the largest is hardly beyond the limit.
    """
    e = column.e
    size = _compute_robust_deviation(e)
    z = np.abs(e) / size if size > 0 else np.zeros(len(e))
    same = column.trajectory[1:] == column.trajectory[:-1]
    # The larger neighbour in the same trajectory.
    beside = np.zeros(len(z))
    beside[1:] = np.where(same, z[:-1], 0.0)
    beside[:-1] = np.maximum(beside[:-1], np.where(same, z[1:], 0.0))
    far = z > limit
    alone = far & ((beside < OUTLIER_POLICY.isolated * z) | (z > OUTLIER_POLICY.extreme))
    few = far.sum() <= max(1.0, OUTLIER_POLICY.common * len(z))
    if few and alone.any() and z.max() > OUTLIER_POLICY.margin * limit:
        return alone
    return np.zeros(len(z), dtype=bool)


def _describe_outliers(column: _ColumnResiduals, far: BoolArray, data: Dataset) -> str:
    """Describe the outliers of a column in a sentence, the largest first; `far` `(n,)` is True for outliers."""
    descriptions = []
    for i in np.argsort(-np.abs(np.where(far, column.e, 0.0)))[: int(min(far.sum(), MAX_LISTED_VALUES))]:
        q = data.trajectories[int(column.trajectory[i])]
        descriptions.append(_describe_value(q, int(column.row[i]), column.name, float(column.value[i])))
    more = f", and {int(far.sum()) - MAX_LISTED_VALUES} more" if far.sum() > MAX_LISTED_VALUES else ""
    return (
        f"Outliers that noise of this size does not explain: {'; '.join(descriptions)}{more}. Correct or remove "
        'wrong values, or allow for heavy tails: noise="student".'
    )


def _compute_ranks(a: FloatArray) -> FloatArray:
    """Return the rank of each value, `(n,)`; the smallest has rank zero."""
    order = np.empty(len(a))
    order[np.argsort(a, kind="stable")] = np.arange(len(a))
    return order


def _check_scatter(column: _ColumnResiduals) -> tuple[str, FloatArray, bool]:
    """Check whether the scatter depends on the level unlike that of the kind of noise.

    Returns
    -------
    words : str
        A sentence; empty if the scatter is that of the kind of noise.
    equal : ndarray, (n,)
        Residuals whose dependence on the level has been divided out.
    strong : bool
        Whether the dependence is strong.
    """
    e, level, n = column.e, np.abs(column.level), len(column.e)
    positive = (level > 0) & (e != 0)
    if n < MIN_VALUES_FOR_KIND or np.ptp(level) <= 0 or positive.sum() < MIN_VALUES_FOR_KIND:
        return "", e, False
    # Spearman's rank correlation, whose standard deviation is 1/√(n - 1) without dependence.
    correlation = float(np.corrcoef(_compute_ranks(np.abs(e)), _compute_ranks(level))[0, 1]) * np.sqrt(n - 1)
    a, b = np.log(level[positive]), np.log(np.abs(e[positive]))
    if np.std(a) < SCATTER_POLICY.min_spread_of_level:
        return "", e, False
    slope = float(np.cov(a, b)[0, 1] / np.var(a, ddof=1))
    with np.errstate(all="ignore"):
        equal = e / np.maximum(level, np.finfo(float).tiny) ** slope
    strong = abs(correlation) > SCATTER_POLICY.strong
    more = correlation > SCATTER_POLICY.clear and slope > SCATTER_POLICY.min_power
    less = correlation < -SCATTER_POLICY.clear and slope < -SCATTER_POLICY.min_power
    if column.kind == "gaussian" and more:
        is_count = bool((column.value == np.round(column.value)).all() and (column.value >= 0).all())
        is_poisson = is_count and slope < SCATTER_POLICY.proportional
        right = "poisson" if is_poisson else "negative-binomial" if is_count else "lognormal"
        advice = f'noise="{right}"' if is_count or (column.value > 0).all() else "one sigma for each value"
        words = f"The scatter of {column.name} grows with its level, unlike that of Gaussian noise: try {advice}."
        return words, equal, strong
    if column.kind == "lognormal" and less:
        return (
            f"The relative scatter of {column.name} shrinks as its level grows, unlike that of lognormal noise: try "
            'noise="gaussian".',
            equal,
            strong,
        )
    if column.kind == "poisson" and more:
        return (
            f'Large counts of {column.name} scatter more than Poisson counts do: try noise="negative-binomial".',
            equal,
            strong,
        )
    return "", e, False


def _describe_skewness(column: _ColumnResiduals) -> str:
    """Describe skewed residuals in a sentence; return an empty string if they are not skewed."""
    e, n = column.e, len(column.e)
    if n < MIN_VALUES_FOR_KIND or e.std() <= 0 or column.kind not in ("gaussian", "lognormal"):
        return ""
    # The skewness of n normal values has the standard deviation √(6/n).
    skewness = float(np.mean(((e - e.mean()) / e.std()) ** 3)) * np.sqrt(n / 6)
    if abs(skewness) < MIN_SKEWNESS:
        return ""
    right = "lognormal" if column.kind == "gaussian" and skewness > 0 and (column.value > 0).all() else "student"
    return f'The residuals of {column.name} are skewed: try noise="{right}".'


def _is_uncorrelated(e: FloatArray, column: _ColumnResiduals, least: float = CORRELATION_POLICY.uncorrelated) -> bool:
    """Return True if residuals `(n,)` of a column are not autocorrelated: their p-value is above `least`."""
    if not np.isfinite(e).all():
        return False
    parts = tuple(e[column.trajectory == k, None] for k in np.unique(column.trajectory))
    return bool(run_autocorrelation_test(parts).p_value > least)


def _estimate_correlation(column: _ColumnResiduals) -> float | None:
    """Estimate the correlation ρ of neighbouring residuals if it explains their autocorrelation; return None if not.

    It does if the noise is autoregressive of first order, in its differences too: neighbouring differences then have
    the correlation `-(1 - ρ)/2`. A slow pattern plus white noise, as in the residuals of a wrong model, has a lower
    one, near the -1/2 of white noise; a slow pattern alone has a higher one.
    """
    same = column.trajectory[1:] == column.trajectory[:-1]
    a, b = column.e[:-1][same], column.e[1:][same]
    power = float(column.e @ column.e)
    if len(a) < MIN_VALUES_FOR_KIND or power <= 0:
        return None
    rho = float(a @ b) / power
    if not CORRELATION_POLICY.least < rho < CORRELATION_POLICY.most:
        return None
    d = np.diff(column.e)
    inner = same[1:] & same[:-1]
    before, after = d[:-1][inner], d[1:][inner]
    rough = float(before @ after) / float(np.sqrt((before @ before) * (after @ after)))
    if abs(rough + (1 - rho) / 2) > CORRELATION_POLICY.differences:
        return None
    # Autoregressive noise is white once ρ times its predecessor is subtracted.
    white = np.where(np.append(False, same), column.e - rho * np.append(0.0, column.e[:-1]), column.e)
    return rho if _is_uncorrelated(white, column) else None
