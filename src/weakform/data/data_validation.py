"""Validation of data where they enter, from the arguments of `Dataset` to one checked trajectory.

All later subpackages rely on these checks and do not repeat them. Repeated measurements at one time t are replaced by
their weighted mean in the coordinates x in which the noise is additive,

    x̄ = Σ w_k x_k / Σ w_k,    w_k = 1/s_k²,    s̄ = 1/√(Σ w_k),

and their scatter `Σ w_k (x_k - x̄)²` about it, with its degrees of freedom, is kept for the estimate of σ.
"""

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

MIN_SAMPLES_IN_DATASET = 3
"""Fewest samples of a dataset; fewer are refused. Whether they suffice for a model is checked when it is fitted. Tested
in tests/data/test_dataset.py."""
MIN_SAMPLES_IN_TRAJECTORY = 2
"""Fewest samples of one trajectory: a trajectory needs a duration. Fewer are refused."""
MAX_DROPPED_SHARE = 0.2
"""Largest share of the rows that may be dropped at the ends because the noise does not allow a value; more is an
error. By judgement."""
MAX_DISALLOWED_SHARE = 0.5
"""Largest share of the values of a state that the noise may not allow; above it the kind of noise is taken to be wrong,
which is an error. By judgement."""
SYMMETRY_TOLERANCE = 1e-8
"""Largest relative difference between an entry of a covariance and its mirror image at which the covariance counts as
symmetric; above it the covariance is refused. By judgement."""
MAX_LISTED_TIMES = 5
"""Number of times that a note lists before it cuts the list short. By judgement."""
MAX_VALUE_SIZE = 1e60
"""Largest magnitude of a value, and one over the smallest; others are refused. Squares of values, and products of them,
must stay within the range of floating-point numbers, about 1e308. By judgement."""


@dataclass(frozen=True)
class _RestartPolicy:
    """When times that go back mean that a new experiment begins, rather than that rows are unsorted."""

    max_begin_share: float = 0.1
    """Share of the duration after the first time within which a time must be to begin an experiment. By judgement."""
    max_restart_share: float = 0.34
    """Largest share of the rows that may begin an experiment; with more of them the rows are taken as unsorted. By
    judgement: an experiment has at least about three rows."""


_RESTARTS = _RestartPolicy()


@dataclass(frozen=True)
class TrajectoryArguments:
    """One trajectory as the arguments of `Dataset` describe it; see there."""

    t: ArrayLike
    U: ArrayLike
    noise: str | Sequence[str] = "gaussian"
    sigma: ArrayLike | None = None
    names: Sequence[str] | None = None
    inputs: Any = field(default_factory=dict)
    hold: bool = False


@dataclass(frozen=True)
class DatasetAttributes:
    """The attributes of a dataset that follow from one trajectory; see the attributes of `Dataset`."""

    noise: tuple[str, ...]
    sigma: FloatArray | None
    covariance: FloatArray | None
    names: tuple[str, ...] | None
    inputs: tuple[str, ...]
    notes: tuple[str, ...]


def validate_trajectory(arguments: TrajectoryArguments) -> tuple[Trajectory, DatasetAttributes]:
    """Validate one trajectory.

    Parameters
    ----------
    arguments : TrajectoryArguments

    Returns
    -------
    Trajectory
        Increasing times; values that are finite and allowed by their noise, or NaN; repeated measurements merged.
    DatasetAttributes
        The other attributes of its dataset, with notes on all that was changed.
    """
    times, values = convert_numbers(arguments.t, "times"), convert_numbers(arguments.U, "states U")
    values = values[:, None] if values.ndim == 1 else values
    check_times(times, values)
    names = validate_names(_infer_names(arguments), values.shape[1])
    column_labels = label_columns(names, values.shape[1])
    kinds = validate_noise(arguments.noise, column_labels)
    check_magnitude(np.diff(times), "The time between samples")
    for name, column in zip(column_labels, values.T, strict=True):
        check_magnitude(column, name)
    level, points, covariance = validate_sigma(arguments.sigma, column_labels, len(times))
    driven = _validate_inputs(times, arguments.inputs, arguments.hold)
    order, sorting = find_row_order(times), []
    if order is not None:
        times, values, points = times[order], values[order], None if points is None else points[order]
        sorting.append("The rows were not in the order of time and have been sorted.")
    values, keep, notes = mask_disallowed_values(times, values, kinds, column_labels)
    notes = [*sorting, *notes]
    scale = np.ones(values.shape) if points is None else points
    # A value without a standard error of its own cannot be weighted: it counts as missing.
    values = np.where(np.isfinite(scale), values, np.nan)
    if covariance is not None:
        # The covariance of the states whitens whole rows, so that a row with a gap cannot be used.
        partly = np.isnan(values).any(axis=1) & ~np.isnan(values).all(axis=1)
        if partly.any():
            notes.append(
                f"{int(partly.sum())} incomplete rows were left out: noise that is correlated between states needs "
                "whole rows."
            )
            values[partly] = np.nan
    rows = np.zeros(len(times), dtype=bool)
    rows[keep] = True
    rows &= ~np.isnan(values).all(axis=1)
    empty = int((~rows)[keep].sum())
    if empty:
        notes.append(f"{empty} row{'s' * (empty > 1)} without any value left out.")
    weights = estimate_weights(times, values, kinds)
    scale = scale * weights
    merged = merge_repeats(times[rows], values[rows], scale[rows], kinds)
    if len(merged.times) < rows.sum():
        notes.append(f"{int(rows.sum()) - len(merged.times)} repeated measurements joined with those at the same time.")
    has_weights = bool((weights != 1).any())
    # None in place of arrays of ones and zeros: trajectories without weights or repeats take the simpler computations.
    plain = points is None and len(merged.times) == rows.sum() and not has_weights
    trajectory = Trajectory(
        merged.times,
        merged.values,
        scale=None if plain else merged.scale,
        inputs=driven,
        within=None if plain else merged.within,
        repeats=None if plain else merged.freedom,
        density=merged.density,
        weights=weights[rows][np.unique(times[rows], return_index=True)[1]] if has_weights else None,
    )
    return trajectory, DatasetAttributes(kinds, level, covariance, names, tuple(arguments.inputs), tuple(notes))


def convert_numbers(values: ArrayLike, what: str) -> FloatArray:
    """Convert values to a new float64 array; masked entries become NaN.

    Parameters
    ----------
    values : array_like
    what : str
        What the values are, for error messages.
    """
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


def validate_names(names: Sequence[str] | None, D: int) -> tuple[str, ...] | None:
    """Validate the names of the D columns; None if they have no names."""
    if names is None:
        return None
    all_text = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(n, str) for n in names)
    if not all_text or len(names) != D or len(set(names)) != D:
        raise DataError(f"{D} columns need {D} different names in names=[...]; received {names!r}.")
    return tuple(names)


def label_columns(names: tuple[str, ...] | None, D: int) -> tuple[str, ...]:
    """Return the names of the D columns for messages: their own, or `column 1`, `column 2`, ..."""
    return names or tuple(f"column {d + 1}" for d in range(D))


def check_sample_count(trajectories: Sequence[Trajectory]) -> None:
    """Check that a dataset and each of its trajectories have enough samples."""
    samples = sum(len(q.times) for q in trajectories)
    if samples < MIN_SAMPLES_IN_DATASET:
        raise DataError(f"At least {MIN_SAMPLES_IN_DATASET} samples are needed; received {samples}.")
    for q in trajectories:
        if len(q.times) < MIN_SAMPLES_IN_TRAJECTORY:
            where = f" in {q.label}" if q.label else ""
            raise DataError(
                f"{len(q.times)} samples{where} are too few: a trajectory needs at least {MIN_SAMPLES_IN_TRAJECTORY}. "
                "Leave it out."
            )


def check_fitted_columns(trajectories: Sequence[Trajectory], labels: Mapping[int, str]) -> None:
    """Check that each fitted column has values, and that they vary.

    Parameters
    ----------
    trajectories : sequence of Trajectory
    labels : mapping of int to str
        Position and name of each fitted column.
    """
    for d, label in labels.items():
        values = np.concatenate([q.values[:, d] for q in trajectories])
        values = values[np.isfinite(values)]
        if not len(values):
            raise DataError(f"{label} has no measured value at all; leave the column out.")
        if len(values) > 1 and np.ptp(values) == 0:
            raise DataError(
                f"{label} never varies (it is always {values[0]:g}) and carries no information about the parameters. "
                "Put its value into the equations as a constant."
            )


def validate_noise(noise: str | Sequence[str], labels: tuple[str, ...]) -> tuple[str, ...]:
    """Validate the kind of noise and return one for each state, `(D,)`."""
    words = " or ".join(map(repr, KINDS))
    if not isinstance(noise, str | Sequence):
        raise DataError(f"noise must be a kind of noise, {words}; received {noise!r}. Give its size as sigma=....")
    kinds = (noise,) * len(labels) if isinstance(noise, str) else tuple(noise)
    if len(kinds) != len(labels):
        raise DataError(f"noise must be one word or one for each of {len(labels)} states; received {len(kinds)} words.")
    for kind in kinds:
        if kind not in KINDS:
            raise DataError(f"noise must be {words}; received {kind!r}.")
    return kinds


def check_times(times: FloatArray, values: FloatArray) -> None:
    """Check that times `(time,)` are finite, belong to rows of values `(time, D)`, and do not begin again."""
    if times.ndim != 1 or values.ndim != 2 or times.shape[0] != values.shape[0]:
        raise DataError(
            f"Times must be (time,) and states (time, state) with one row for each time; received shapes "
            f"{times.shape} and {values.shape}."
            + (" U seems to be transposed; pass U.T." if values.shape[1:] == times.shape else "")
        )
    if not np.isfinite(times).all():
        raise DataError(f"Time number {int(np.argmin(np.isfinite(times))) + 1} is not a finite number.")
    back = np.flatnonzero(np.diff(times) < 0)
    # A table of several experiments goes back to an early time wherever one begins; an unsorted one goes back anywhere.
    begins_early = times[back + 1] <= times.min() + _RESTARTS.max_begin_share * np.ptp(times)
    if len(back) and len(back) <= _RESTARTS.max_restart_share * len(times) and begins_early.all():
        m = int(back[0])
        raise DataError(
            f"Times begin again: t = {times[m]:g} is followed by {times[m + 1]:g} (rows {m + 1} and {m + 2}). If a new "
            "experiment begins there, name the column that tells them apart (trajectory=...), or join datasets with "
            "Dataset.join([...]); else sort the rows by time."
        )


def find_row_order(times: FloatArray) -> IntArray | None:
    """Return the order that sorts the rows by time, `(time,)`; None if they are sorted."""
    return np.argsort(times, kind="stable") if (np.diff(times) < 0).any() else None


def check_magnitude(values: FloatArray, what: str) -> None:
    """Check that values are neither so large nor so small that products of squares overflow or underflow."""
    sizes = np.abs(values[np.isfinite(values)])
    largest = float(sizes.max(initial=0.0))
    if largest > MAX_VALUE_SIZE or 0 < largest < 1 / MAX_VALUE_SIZE:
        raise DataError(
            f"{what} has values of size {largest:.3g}; sizes must be between {1 / MAX_VALUE_SIZE:g} and "
            f"{MAX_VALUE_SIZE:g}. Choose another unit."
        )


def mask_disallowed_values(
    times: FloatArray, values: FloatArray, kinds: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[FloatArray, slice, list[str]]:
    """Replace values that the noise does not allow by NaN, and drop rows at the ends that have one.

    Log-normal noise, for example, does not allow zero or less. A row at an end is dropped as a whole, because a state
    that really is zero there has no logarithm that could be fitted.

    Parameters
    ----------
    times : ndarray, (time,)
    values : ndarray, (time, D)
    kinds, labels : tuple of str, (D,)
        Kind of noise and name of each state.

    Returns
    -------
    values : ndarray, (time, D)
    keep : slice
        The rows that remain.
    notes : list of str
        What was changed.
    """
    if np.isinf(values).any():
        m, d = np.argwhere(np.isinf(values))[0]
        raise DataError(f"{labels[d]} at t = {times[m]:g} (row {m + 1}) is {values[m, d]}, not a number.")
    allowed = np.column_stack([KINDS[kind].is_possible(values[:, d]) for d, kind in enumerate(kinds)])
    if allowed.all():
        return values, slice(None), []
    for d, label in enumerate(labels):
        if not allowed[:, d].any() or (~allowed[:, d]).mean() > MAX_DISALLOWED_SHARE:
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
        if len(dropped) > MAX_DROPPED_SHARE * len(times):
            raise DataError(
                f"{len(dropped)} of {len(times)} rows at the ends have a state that its noise does not allow: "
                + "; ".join(f"{kind} noise needs {KINDS[kind].needs}" for kind in dict.fromkeys(kinds))
                + ". Use noise='gaussian', or cut the data."
            )
        notes.append(
            f"{_count_rows(len(dropped))} dropped, with a value that the noise does not allow (t = "
            f"{_list_some(dropped)})."
        )
    inside = [f"{times[m]:g}" for m in range(first, last) if not allowed[m].all()]
    if inside:
        count = int((~allowed[first:last]).sum())
        notes.append(
            f"{count} value{'s' * (count > 1)} taken as missing, because the noise does not allow zero or negative "
            f"values (t = {_list_some(inside)})."
        )
    return np.where(allowed, values, np.nan), slice(first, last), notes


def _count_rows(n: int) -> str:
    """Return `1 row`, `2 rows` and so on."""
    return f"{n} row{'s' * (n > 1)}"


def _list_some(words: list[str]) -> str:
    """Return the words, separated by commas; of more than `MAX_LISTED_TIMES` only the first ones."""
    return ", ".join(words[:MAX_LISTED_TIMES]) + (", ..." if len(words) > MAX_LISTED_TIMES else "")


def estimate_weights(times: FloatArray, values: FloatArray, kinds: tuple[str, ...]) -> FloatArray:
    """Estimate the scale of each value by its kind of noise, from the data alone, before anything is fitted.

    Parameters
    ----------
    times : ndarray, (time,)
        Sorted.
    values : ndarray, (time, D)
    kinds : tuple of str, (D,)

    Returns
    -------
    ndarray, (time, D)
        Equal for values at the same time, so that these can be merged; ones for kinds of noise without weights.
    """
    weights = np.ones(values.shape)
    for d, kind in enumerate(kinds):
        if KINDS[kind].weigh is None:
            continue
        measured = np.flatnonzero(np.isfinite(values[:, d]))
        initial = KINDS[kind].estimate_initial_scale(values[measured, d])
        _, first, group = np.unique(times[measured], return_index=True, return_inverse=True)
        weights[measured, d] = initial[first][group]
    return weights


@dataclass(frozen=True)
class MergedMeasurements:
    """Measurements at distinct times.

    Attributes
    ----------
    times : ndarray, (n,)
    values, scale : ndarray, (n, D)
        A mean of k values of scale 1 has the scale `1/√k`.
    within, freedom : ndarray, (D,)
        Sum of squares about the means, each relative to its scale, and its degrees of freedom; they contribute to the
        estimate of σ.
    density : float
        `Σ log(|dx/du|/s)` over all values, less the same sum over the means: the term that the likelihood of the means
        lacks compared with the likelihood of all values.
    """

    times: FloatArray
    values: FloatArray
    scale: FloatArray
    within: FloatArray
    freedom: FloatArray
    density: float = 0.0


def merge_repeats(
    times: FloatArray, values: FloatArray, scale: FloatArray, kinds: tuple[str, ...]
) -> MergedMeasurements:
    """Replace repeated measurements at one time by their weighted mean, in coordinates in which the noise is additive.

    Parameters
    ----------
    times : ndarray, (time,)
        Sorted; equal times are repeated measurements.
    values, scale : ndarray, (time, D)
        Scales are standard deviations relative to the σ of each state. NaN is a missing value.
    kinds : tuple of str, (D,)

    Returns
    -------
    MergedMeasurements
    """
    D = values.shape[1]
    distinct, group = np.unique(times, return_inverse=True)
    if len(distinct) == len(times):
        return MergedMeasurements(times, values, scale, np.zeros(D), np.zeros(D))
    merged, merged_scale = np.full((len(distinct), D), np.nan), np.full((len(distinct), D), np.inf)
    within, freedom, density = np.zeros(D), np.zeros(D), 0.0
    for d, kind in enumerate(kinds):
        measured = np.isfinite(values[:, d])
        x, g = KINDS[kind].to_working(values[measured, d]), group[measured]
        weight = 1 / scale[measured, d] ** 2
        total = np.bincount(g, weight, minlength=len(distinct))
        count = np.bincount(g, minlength=len(distinct))
        occupied = count > 0  # at other times all values of this state are missing
        mean = np.bincount(g, weight * x, minlength=len(distinct))[occupied] / total[occupied]
        merged[occupied, d] = KINDS[kind].from_working(mean)
        merged_scale[occupied, d] = 1 / np.sqrt(total[occupied])
        means = np.zeros(len(distinct))
        means[occupied] = mean
        # The expectation is σ² times the degrees of freedom: at each time, the number of values less one.
        within[d] = float(np.sum(weight * (x - means[g]) ** 2))
        freedom[d] = float((count[occupied] - 1).sum())
        # log |dx/du| = -log(slope), as the slope is du/dx.
        slope = KINDS[kind].numeric_slope
        density -= float(np.sum(np.log(slope(values[measured, d]) * scale[measured, d])))
        density += float(np.sum(np.log(slope(merged[occupied, d]) * merged_scale[occupied, d])))
    return MergedMeasurements(distinct, merged, merged_scale, within, freedom, density)


def validate_sigma(
    sigma: ArrayLike | None, labels: tuple[str, ...], rows: int
) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
    """Validate sigma, whose meaning follows from its shape.

    Parameters
    ----------
    sigma : array_like, or None
        One number; one for each state, `(D,)`; standard errors of the points, `(rows, D)`; or a covariance of the
        states, `(D, D)`.
    labels : tuple of str, (D,)
    rows : int

    Returns
    -------
    level : ndarray, (D,), or None
        σ of each state; the median of the standard errors if these are given for points.
    points : ndarray, (rows, D), or None
        Standard errors of the points relative to `level`.
    covariance : ndarray, (D, D), or None
    """
    if sigma is None:
        return None, None, None
    D = len(labels)
    array = convert_numbers(sigma, "sigma")
    # A square array is ambiguous if there are as many rows as states: it is read as standard errors of the points.
    if array.ndim == 2 and array.shape == (D, D) and D > 1 and rows != D:
        return np.ones(D), None, _validate_covariance(array)
    if array.ndim == 2 or (array.ndim == 1 and D == 1 and array.size == rows > 1):
        points = array.reshape(rows, -1) if array.ndim == 1 and array.size == rows * D else array
        if points.shape != (rows, D) or not (points[np.isfinite(points)] > 0).all():
            raise DataError(
                f"sigma of the points must be positive and have the shape of the states, ({rows}, {D}); a covariance "
                f"of the states must have the shape ({D}, {D}); received shape {array.shape}."
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


def _validate_covariance(array: FloatArray) -> FloatArray:
    """Check that a covariance of the states `(D, D)` is positive definite; return it exactly symmetric."""
    symmetric = np.allclose(array, array.T, rtol=SYMMETRY_TOLERANCE, atol=0)
    if not symmetric or not np.isfinite(array).all() or np.linalg.eigvalsh((array + array.T) / 2)[0] <= 0:
        raise DataError(
            f"A covariance of the states must be finite, symmetric and positive definite; received {array!r}."
        )
    return (array + array.T) / 2


def _infer_names(arguments: TrajectoryArguments) -> Any:
    """Return the names that the user gave, or those of a pandas frame or series; None for plain arrays."""
    if arguments.names is not None:
        return arguments.names
    columns = getattr(arguments.U, "columns", None)
    if columns is not None:
        # A frame created from an array has numbers for names: they are positions.
        return None if all(isinstance(c, int | np.integer) for c in columns) else [str(c) for c in columns]
    name = getattr(arguments.U, "name", None) if np.ndim(arguments.U) == 1 else None
    return [name] if isinstance(name, str) else None


def _validate_inputs(times: FloatArray, inputs: Mapping[str, ArrayLike], hold: bool) -> Inputs | None:
    """Validate the known inputs.

    Parameters
    ----------
    times : ndarray, (time,)
        Times of the samples.
    inputs : mapping of str to array_like, (time,), or tuple
        Values at these times, or a tuple `(times, values)` or `(times, values, "hold" or "linear")`.
    hold : bool
        Whether inputs keep their value until the next sample.

    Returns
    -------
    Inputs, or None
        On distinct times; None without inputs.
    """
    if not isinstance(inputs, Mapping):
        raise DataError(f"inputs must be a mapping from names to values; received {inputs!r}.")
    if not inputs:
        return None
    columns = []
    on_own_times = {name: part for name, part in inputs.items() if isinstance(part, tuple) and len(part) in (2, 3)}
    if on_own_times:
        return _combine_inputs(times, inputs, on_own_times, hold)
    for name, values in inputs.items():
        column = convert_numbers(values, f"input {name!r}")
        if column.shape != times.shape:
            raise DataError(
                f"The input {name!r} must have one value for each time, {times.shape}; received {column.shape}."
            )
        if not np.isfinite(column).all():
            m = int(np.argmin(np.isfinite(column)))
            raise DataError(
                f"The input {name!r} at t = {times[m]:g} (row {m + 1}) is missing; inputs must be known at all times."
            )
        columns.append(column)
    distinct, first, group = np.unique(times, return_index=True, return_inverse=True)
    table = np.column_stack(columns)
    if (table != table[first][group]).any():
        m = int(np.argmax((table != table[first][group]).any(axis=1)))
        raise DataError(f"The inputs have two values at t = {times[m]:g}; a known input has one value at each time.")
    return Inputs(distinct, np.column_stack(columns)[first], (hold,) * len(columns))


def _combine_inputs(
    times: FloatArray, inputs: Mapping[str, Any], on_own_times: Mapping[str, Any], hold: bool
) -> Inputs:
    """Validate inputs some of which have their own times.

    Parameters
    ----------
    times : ndarray, (time,)
        Times of the samples.
    inputs : mapping
        All inputs, as `_validate_inputs` takes them.
    on_own_times : mapping
        The inputs that are tuples `(times, values)`, or `(times, values, "hold" or "linear")`.
    hold : bool
        Whether an input that does not say so itself keeps its value until its next time.

    Returns
    -------
    Inputs
        On the union of all times.
    """
    parts = []
    for name, value in inputs.items():
        if name not in on_own_times:
            part = _validate_inputs(times, {name: value}, hold)
            assert part is not None
            parts.append(part)
            continue
        own_times, values = (convert_numbers(array, f"input {name!r}") for array in value[:2])
        mode = value[2] if len(value) == 3 else "hold" if hold else "linear"
        same_shape = own_times.ndim == 1 and own_times.shape == values.shape
        if not same_shape or not len(own_times) or not np.isfinite([own_times, values]).all():
            raise DataError(
                f"The input {name!r} has its own times and needs as many values as times, all finite; received "
                f"{own_times.shape} times and {values.shape} values."
            )
        if (np.diff(own_times) <= 0).any():
            raise DataError(f"The times of the input {name!r} must increase.")
        if mode not in ("hold", "linear"):
            raise DataError(f"The input {name!r} may be 'linear' or 'hold' between its times; received {mode!r}.")
        parts.append(Inputs(own_times, values[:, None], (mode == "hold",)))
    combined = parts[0]
    for part in parts[1:]:
        combined = combined.merge_with(part)
    return combined
