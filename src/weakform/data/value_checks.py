"""From what a user gives to one checked trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..model.inputs import Inputs
from ..support.array_types import FloatArray
from ..support.errors import DataError
from . import data_validation
from .trajectory import Trajectory


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
    times, values = data_validation.numbers(given.t, "times"), data_validation.numbers(given.U, "states U")
    values = values[:, None] if values.ndim == 1 else values
    data_validation.check_times(times, values)
    names = data_validation.column_names(_names(given), values.shape[1])
    labels = data_validation.labels(names, values.shape[1])
    kinds = data_validation.noise_kinds(given.noise, labels)
    data_validation.check_size(np.diff(times), "The time between samples")
    for name, column in zip(labels, values.T, strict=True):
        data_validation.check_size(column, name)
    level, points, covariance = data_validation.check_sigma(given.sigma, labels, len(times))
    driven = _inputs(times, given.inputs, given.hold)
    order, sorting = data_validation.sorted_rows(times), []
    if order is not None:
        times, values, points = times[order], values[order], None if points is None else points[order]
        sorting.append("The rows were not in the order of time, and have been sorted.")
    values, keep, notes = data_validation.missing_values(times, values, kinds, labels)
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
    rough = data_validation.rough_weights(times, values, kinds)
    scale = scale * rough
    merged = data_validation.merge_repeats(times[rows], values[rows], scale[rows], kinds)
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
        column = data_validation.numbers(values, f"input {name!r}")
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
        own, values = (data_validation.numbers(part, f"input {name!r}") for part in given[:2])
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
