"""The checks that data pass once, where they enter: what is wrong, what was expected, what was received, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..model.inputs import Inputs
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray, IntArray
from ..support.errors import DataError
from .trajectory import Trajectory

MIN_SAMPLES, MIN_IN_TRAJECTORY = 3, 2
"""Of a dataset, and of each of its trajectories; whether they suffice for a model is counted when it is fitted."""
MAX_DROPPED = 0.2
LARGEST = 1e60
BEGINNING, RESTARTS = 0.1, 0.34
"""Share of the duration within which an experiment begins, and the most of the rows that may."""


@dataclass(frozen=True)
class Given:
    """One trajectory as the arguments of `Dataset` describe it."""

    t: ArrayLike
    U: ArrayLike
    noise: str | Sequence[str] = "gaussian"
    sigma: ArrayLike | None = None
    names: Sequence[str] | None = None
    inputs: Any = field(default_factory=dict)
    hold: bool = False


@dataclass(frozen=True)
class Parts:
    """What it says of its dataset; see the attributes of `Dataset`."""

    noise: tuple[str, ...]
    sigma: FloatArray | None
    covariance: FloatArray | None
    names: tuple[str, ...] | None
    inputs: tuple[str, ...]
    notes: tuple[str, ...]


def checked(given: Given) -> tuple[Trajectory, Parts]:
    """A trajectory that later rooms may rely on, and what it says of its dataset."""
    times, values = numbers(given.t, "times"), numbers(given.U, "states U")
    values = values[:, None] if values.ndim == 1 else values
    check_times(times, values)
    names = column_names(_names(given), values.shape[1])
    column_labels = labels(names, values.shape[1])
    kinds = noise_kinds(given.noise, column_labels)
    check_size(np.diff(times), "The time between samples")
    for name, column in zip(column_labels, values.T, strict=True):
        check_size(column, name)
    level, points, covariance = check_sigma(given.sigma, column_labels, len(times))
    driven = _inputs(times, given.inputs, given.hold)
    order, sorting = sorted_rows(times), []
    if order is not None:
        times, values, points = times[order], values[order], None if points is None else points[order]
        sorting.append("The rows were not in the order of time, and have been sorted.")
    values, keep, notes = missing_values(times, values, kinds, column_labels)
    notes = [*sorting, *notes]
    scale = np.ones(values.shape) if points is None else points
    values = np.where(np.isfinite(scale), values, np.nan)
    if covariance is not None:
        partly = np.isnan(values).any(axis=1) & ~np.isnan(values).all(axis=1)
        if partly.any():
            notes.append(
                f"{int(partly.sum())} incomplete rows left out: noise correlated between states needs whole rows."
            )
            values[partly] = np.nan
    rows = np.zeros(len(times), dtype=bool)
    rows[keep] = True
    rows &= ~np.isnan(values).all(axis=1)
    left_out = int((~rows)[keep].sum())
    if left_out:
        notes.append(f"{left_out} row{'s' * (left_out > 1)} without any value left out.")
    rough = rough_weights(times, values, kinds)
    scale = scale * rough
    merged = merge_repeats(times[rows], values[rows], scale[rows], kinds)
    if len(merged.times) < rows.sum():
        notes.append(f"{int(rows.sum()) - len(merged.times)} repeated measurements joined with those at the same time.")
    weighed = bool((rough != 1).any())
    plain = points is None and len(merged.times) == rows.sum() and not weighed
    trajectory = Trajectory(
        merged.times,
        merged.values,
        scale=None if plain else merged.scale,
        inputs=driven,
        within=None if plain else merged.within,
        repeats=None if plain else merged.freedom,
        density=merged.density,
        weights=rough[rows][np.unique(times[rows], return_index=True)[1]] if weighed else None,
    )
    return trajectory, Parts(kinds, level, covariance, names, tuple(given.inputs), tuple(notes))


def numbers(values: ArrayLike, what: str) -> FloatArray:
    """A float64 copy; masked entries are NaN."""
    raw = values
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "fiub":
        raw = np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values).astype(float))
    kind = getattr(getattr(raw, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        raise DataError(f"The {what} are dates; convert them to numbers, such as days since the first sample.")
    if kind == "c" or np.iscomplexobj(raw):
        raise DataError(f"The {what} are complex; only real numbers are measured.")
    try:
        return np.array(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"The {what} must be numbers in a rectangular array: {error}.") from None


def column_names(names: Sequence[str] | None, D: int) -> tuple[str, ...] | None:
    """Names of the columns, or None."""
    if names is None:
        return None
    words = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(n, str) for n in names)
    if not words or len(names) != D or len(set(names)) != D:
        raise DataError(f"{D} columns need {D} different names in names=[...]; received {names!r}.")
    return tuple(names)


def labels(names: tuple[str, ...] | None, D: int) -> tuple[str, ...]:
    """What columns are called in messages."""
    return names or tuple(f"column {d + 1}" for d in range(D))


def check_amount(trajectories: Sequence[Trajectory]) -> None:
    """Enough samples."""
    samples = sum(len(q.times) for q in trajectories)
    if samples < MIN_SAMPLES:
        raise DataError(f"At least {MIN_SAMPLES} samples are needed; received {samples}.")
    for q in trajectories:
        if len(q.times) < MIN_IN_TRAJECTORY:
            where = f" in {q.label}" if q.label else ""
            raise DataError(
                f"{len(q.times)} samples{where} are too few: a trajectory needs at least {MIN_IN_TRAJECTORY}. Leave "
                "it out."
            )


def check_columns(trajectories: Sequence[Trajectory], labels: Mapping[int, str]) -> None:
    """Columns that are fitted, by their place, have values, and these vary."""
    for d, label in labels.items():
        values = np.concatenate([q.values[:, d] for q in trajectories])
        values = values[np.isfinite(values)]
        if not len(values):
            raise DataError(f"{label} has no measured value at all; leave the column out.")
        if len(values) > 1 and np.ptp(values) == 0:
            raise DataError(
                f"{label} never varies (it is always {values[0]:g}), so it tells nothing about the parameters. "
                "Put its value into the equations as a constant."
            )


def noise_kinds(noise: str | Sequence[str], labels: tuple[str, ...]) -> tuple[str, ...]:
    """One kind of noise for each state."""
    words = " or ".join(map(repr, KINDS))
    if not isinstance(noise, str | Sequence):
        raise DataError(f"noise is the kind of noise, {words}; received {noise!r}. Its size is sigma=.")
    kinds = (noise,) * len(labels) if isinstance(noise, str) else tuple(noise)
    if len(kinds) != len(labels):
        raise DataError(f"noise must be one word or one for each of {len(labels)} states; received {len(kinds)} words.")
    for kind in kinds:
        if kind not in KINDS:
            raise DataError(f"noise must be {words}; received {kind!r}.")
    return kinds


def check_times(times: FloatArray, values: FloatArray) -> None:
    """Finite, not decreasing, one row of values each."""
    if times.ndim != 1 or values.ndim != 2 or times.shape[0] != values.shape[0]:
        raise DataError(
            f"Times must be (time,) and states (time, state) with one row for each time; received shapes "
            f"{times.shape} and {values.shape}."
            + (" U seems to be transposed; pass U.T." if values.shape[1:] == times.shape else "")
        )
    if not np.isfinite(times).all():
        raise DataError(f"Time number {int(np.argmin(np.isfinite(times))) + 1} is not a finite number.")
    back = np.flatnonzero(np.diff(times) < 0)
    # A table of several experiments begins again and again; one that is unsorted goes back to anywhere.
    anew = times[back + 1] <= times.min() + BEGINNING * np.ptp(times)
    if len(back) and len(back) <= RESTARTS * len(times) and anew.all():
        m = int(back[0])
        raise DataError(
            f"Times begin again: t = {times[m]:g} is followed by {times[m + 1]:g} (rows {m + 1} and {m + 2}). If a new "
            "experiment begins there, name the column that tells them apart (trajectory=...), or join datasets with "
            "Dataset.join([...]); else sort the rows by time."
        )


def sorted_rows(times: FloatArray) -> IntArray | None:
    """The order of rows that are not sorted by time; None where they are."""
    return np.argsort(times, kind="stable") if (np.diff(times) < 0).any() else None


def check_size(values: FloatArray, what: str) -> None:
    """Neither so large nor so small that squares of values leave the range of floating-point numbers."""
    sizes = np.abs(values[np.isfinite(values)])
    largest = float(sizes.max(initial=0.0))
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise DataError(
            f"{what} has values of size {largest:.3g}; sizes between {1 / LARGEST:g} and {LARGEST:g} can be computed "
            "with. Choose another unit."
        )


def missing_values(
    times: FloatArray, values: FloatArray, kinds: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[FloatArray, slice, list[str]]:
    """Values with NaN where they cannot be used, the rows to keep, and what was changed, in words.

    Values that the noise does not allow (zero or less for log-normal noise) are missing; rows at the ends that have
    one are dropped, as a state that really is zero there has no logarithm to be fitted.
    """
    if np.isinf(values).any():
        m, d = np.argwhere(np.isinf(values))[0]
        raise DataError(f"{labels[d]} at t = {times[m]:g} (row {m + 1}) is {values[m, d]}, not a number.")
    allowed = np.column_stack([KINDS[kind].allows(values[:, d]) for d, kind in enumerate(kinds)])
    if allowed.all():
        return values, slice(None), []
    for d, label in enumerate(labels):
        if not allowed[:, d].any() or (~allowed[:, d]).mean() > 0.5:
            raise DataError(
                f"{int((~allowed[:, d]).sum())} of {len(values)} values of {label} are too small: {kinds[d]} noise "
                f"needs {KINDS[kinds[d]].needs}. Use noise='gaussian' for this state, or cut the data to the part that "
                "has them."
            )
    usable = np.flatnonzero(allowed.all(axis=1))
    first, last = (int(usable[0]), int(usable[-1]) + 1) if len(usable) else (0, len(values))
    notes = []
    dropped = [f"{t:g}" for t in (*times[:first], *times[last:])]
    if dropped:
        if len(dropped) > MAX_DROPPED * len(times):
            raise DataError(
                f"{len(dropped)} of {len(times)} rows at the ends have a state that its noise does not allow: "
                + "; ".join(f"{kind} noise needs {KINDS[kind].needs}" for kind in dict.fromkeys(kinds))
                + ". Use noise='gaussian', or cut the data."
            )
        notes.append(
            f"{_rows(len(dropped))} with a state that its noise does not allow dropped (t = {_some(dropped)})."
        )
    inside = [f"{times[m]:g}" for m in range(first, last) if not allowed[m].all()]
    if inside:
        count = int((~allowed[first:last]).sum())
        notes.append(
            f"{count} value{'s' * (count > 1)} that the noise does not allow (zero or negative) taken as missing "
            f"(t = {_some(inside)})."
        )
    return np.where(allowed, values, np.nan), slice(first, last), notes


def _rows(n: int) -> str:
    return f"{n} row{'s' * (n > 1)}"


def _some(words: list[str]) -> str:
    return ", ".join(words[:5]) + (", ..." if len(words) > 5 else "")


def rough_weights(times: FloatArray, values: FloatArray, kinds: tuple[str, ...]) -> FloatArray:
    """What values weigh by their kind of noise, before anything is fitted, `(rows, D)`; the same at the same time.

    Rows are sorted by time.
    """
    weights = np.ones(values.shape)
    for d, kind in enumerate(kinds):
        if KINDS[kind].weigh is None:
            continue
        there = np.flatnonzero(np.isfinite(values[:, d]))
        found = KINDS[kind].rough(values[there, d])
        _, first, group = np.unique(times[there], return_index=True, return_inverse=True)
        weights[there, d] = found[first][group]
    return weights


@dataclass(frozen=True)
class Merged:
    """Measurements at distinct times.

    Attributes
    ----------
    times : ndarray, (n,)
    values, scale : ndarray, (n, D)
        A mean of k values has the scale `1/√k`.
    within, freedom : ndarray, (D,)
        Sum of squares about the means, over the scale, and its degrees of freedom: they tell σ.
    density : float
        `Σ log |dx/du|/s` over all values less that over their means: what the means lack in the likelihood of the data.
    """

    times: FloatArray
    values: FloatArray
    scale: FloatArray
    within: FloatArray
    freedom: FloatArray
    density: float = 0.0


def merge_repeats(times: FloatArray, values: FloatArray, scale: FloatArray, kinds: tuple[str, ...]) -> Merged:
    """Repeated measurements at one time as their weighted mean, in coordinates in which the noise is additive."""
    D = values.shape[1]
    distinct, group = np.unique(times, return_inverse=True)
    if len(distinct) == len(times):
        return Merged(times, values, scale, np.zeros(D), np.zeros(D))
    merged, merged_scale = np.full((len(distinct), D), np.nan), np.full((len(distinct), D), np.inf)
    within, freedom, density = np.zeros(D), np.zeros(D), 0.0
    for d, kind in enumerate(kinds):
        there = np.isfinite(values[:, d])
        x, g = KINDS[kind].to_working(values[there, d]), group[there]
        weight = 1 / scale[there, d] ** 2
        total = np.bincount(g, weight, minlength=len(distinct))
        count = np.bincount(g, minlength=len(distinct))
        some = count > 0
        mean = np.bincount(g, weight * x, minlength=len(distinct))[some] / total[some]
        merged[some, d] = KINDS[kind].from_working(mean)
        merged_scale[some, d] = 1 / np.sqrt(total[some])
        full = np.zeros(len(distinct))
        full[some] = mean
        within[d] = float(np.sum(weight * (x - full[g]) ** 2))
        freedom[d] = float((count[some] - 1).sum())
        slope = KINDS[kind].numeric_slope
        density -= float(np.sum(np.log(slope(values[there, d]) * scale[there, d])))
        density += float(np.sum(np.log(slope(merged[some, d]) * merged_scale[some, d])))
    return Merged(distinct, merged, merged_scale, within, freedom, density)


def check_sigma(
    sigma: ArrayLike | None, labels: tuple[str, ...], rows: int
) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
    """σ of the states `(D,)`, of the points `(rows, D)`, or the covariance of the states `(D, D)`; each or None."""
    if sigma is None:
        return None, None, None
    D = len(labels)
    array = numbers(sigma, "sigma")
    if array.ndim == 2 and array.shape == (D, D) and D > 1 and rows != D:
        return np.ones(D), None, _check_covariance(array)
    if array.ndim == 2 or (array.ndim == 1 and D == 1 and array.size == rows > 1):
        points = array.reshape(rows, -1) if array.size == rows * D else array
        if points.shape != (rows, D) or not (points[np.isfinite(points)] > 0).all():
            raise DataError(
                f"sigma of the points must be positive and have the shape of the states, ({rows}, {D}), and a "
                f"covariance of the states ({D}, {D}); received shape {array.shape}."
            )
        with np.errstate(invalid="ignore"):
            level = np.array(
                [np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else 1.0 for column in points.T]
            )
        return level, points / level, None
    if array.ndim > 1 or array.size not in (1, D) or not (np.isfinite(array) & (array >= 0)).all():
        raise DataError(
            f"sigma must be one number, or one for each of {D} states, finite and not negative; or ({rows}, {D}) "
            f"standard errors of the points, or a ({D}, {D}) covariance of the states; received {np.asarray(sigma)!r}."
        )
    return np.broadcast_to(array, (D,)).copy(), None, None


def _check_covariance(array: FloatArray) -> FloatArray:
    symmetric = np.allclose(array, array.T, rtol=1e-8, atol=0)
    if not symmetric or not np.isfinite(array).all() or np.linalg.eigvalsh((array + array.T) / 2)[0] <= 0:
        raise DataError(
            f"A covariance of the states must be finite, symmetric and positive definite; received {array!r}."
        )
    return (array + array.T) / 2


def _names(given: Given) -> Any:
    """The names that are given, or those of a pandas frame or series; None for plain arrays."""
    if given.names is not None:
        return given.names
    columns = getattr(given.U, "columns", None)
    if columns is not None:
        # A frame that was made from an array has numbers for names: these mean positions.
        return None if all(isinstance(c, int | np.integer) for c in columns) else [str(c) for c in columns]
    name = getattr(given.U, "name", None) if np.ndim(given.U) == 1 else None
    return [name] if isinstance(name, str) else None


def _inputs(times: FloatArray, inputs: Mapping[str, ArrayLike], hold: bool) -> Inputs | None:
    if not isinstance(inputs, Mapping):
        raise DataError(f"inputs must be a mapping from names to values; received {inputs!r}.")
    if not inputs:
        return None
    columns = []
    apart = {name: given for name, given in inputs.items() if isinstance(given, tuple) and len(given) in (2, 3)}
    if apart:
        return _apart(times, inputs, apart, hold)
    for name, values in inputs.items():
        column = numbers(values, f"input {name!r}")
        if column.shape != times.shape:
            raise DataError(
                f"The input {name!r} must have one value for each time, {times.shape}; received {column.shape}."
            )
        if not np.isfinite(column).all():
            m = int(np.argmin(np.isfinite(column)))
            raise DataError(f"The input {name!r} at t = {times[m]:g} (row {m + 1}) is missing; inputs must be known.")
        columns.append(column)
    distinct, first, group = np.unique(times, return_index=True, return_inverse=True)
    table = np.column_stack(columns)
    if (table != table[first][group]).any():
        m = int(np.argmax((table != table[first][group]).any(axis=1)))
        raise DataError(f"The inputs have two values at t = {times[m]:g}; a known input has one.")
    return Inputs(distinct, np.column_stack(columns)[first], (hold,) * len(columns))


def _apart(times: FloatArray, inputs: Mapping[str, Any], apart: Mapping[str, Any], hold: bool) -> Inputs:
    """Inputs of which some have times of their own: `(times, values)`, or with "hold" or "linear" behind."""
    parts = []
    for name, given in inputs.items():
        if name not in apart:
            one = _inputs(times, {name: given}, hold)
            assert one is not None
            parts.append(one)
            continue
        own, values = (numbers(part, f"input {name!r}") for part in given[:2])
        word = given[2] if len(given) == 3 else "hold" if hold else "linear"
        if own.ndim != 1 or own.shape != values.shape or not len(own) or not np.isfinite([own, values]).all():
            raise DataError(
                f"The input {name!r} on times of its own needs as many values as times, all finite; received "
                f"{own.shape} times and {values.shape} values."
            )
        if (np.diff(own) <= 0).any():
            raise DataError(f"The times of the input {name!r} must increase.")
        if word not in ("hold", "linear"):
            raise DataError(f"Between its times the input {name!r} may be 'linear' or 'hold'; received {word!r}.")
        parts.append(Inputs(own, values[:, None], (word == "hold",)))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.beside(part)
    return whole
