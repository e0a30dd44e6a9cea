"""Reading of the data of many fits, whatever their format, with the times, inputs and mask that the user names.

Each format has a reader in `batch_formats`. This module adds what the data lack, and checks that all of it fits
together, before any work is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.column_roles import find_time_column
from ..data.dataset import Dataset
from ..data.doses import Doses
from ..data.text_reader import read_table
from ..results.batch_result import STATUSES, BatchResult
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import DataError
from ..support.wording import list_names, suggest_name
from .batch_archive import get_ending
from .batch_data import NUMBER_KINDS, BatchData, read_array
from .batch_formats import READERS, read_image
from .model_file import ModelFile

MAX_TIME_COUNT = 1_000_000
"""Number of times that a range such as 0:10:0.5 may have; more are refused, since a misplaced decimal point could fill
the memory. By judgement."""
MASK_KINDS = f"{NUMBER_KINDS}b"
"""Kinds of types of a mask, as NumPy's letters: numbers and truth values."""
RANGE_TOLERANCE = 1e-6
"""Distance, in steps, up to which the end of a range counts as one of its times. It covers the rounding of steps such
as 0.1. By judgement."""


@dataclass(frozen=True)
class BatchOptions:
    """Choices for reading the data of many fits that neither the data nor the model file make.

    Attributes
    ----------
    times : str, optional
        Times of the samples: a file, or a range such as `0:10:0.5`.
    names : tuple of str, optional
        The states or named expressions that are measured, in the order of the columns.
    inputs : mapping of str to str
        File of each input.
    mask : str, optional
        File of an array that is zero where a dataset is left out.
    """

    times: str | None = None
    names: tuple[str, ...] | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    mask: str | None = None


def read_batch_data(file: ModelFile, path: str | Path, options: BatchOptions | None = None) -> BatchData:
    """Read the data of many fits.

    Parameters
    ----------
    file : ModelFile
    path : str or Path
        `.npy`, `.npz`, `.nc`, `.nii`, `.nii.gz`, `.parquet`, or a text table with one row for each dataset.
    options : BatchOptions, optional

    Returns
    -------
    BatchData
        With times, inputs and known noise; only the datasets of the mask.

    Raises
    ------
    DataError
        If the file cannot be read, times or inputs are missing, or shapes do not fit.
    """
    options = options or BatchOptions()
    ending = get_ending(path)
    if ending not in READERS:
        raise DataError(
            f"{path}: data of many fits are read from files that end in {', '.join(READERS)}; received {ending!r}."
        )
    if not Path(path).exists():
        raise DataError(f"Cannot read {path}: No such file or directory.")
    data = READERS[ending](file, Path(path), options.names)
    if options.times is not None:
        data = replace(data, times=parse_times(options.times))
    _check_shape(data, "--times" if options.times is not None else str(path))
    data = _blank_missing(_add_sigma(data, file), file)
    inputs = {name: _read_input(name, source, file.hold) for name, source in options.inputs.items()}
    data = replace(data, inputs={**data.inputs, **inputs})
    missing = [name for name in file.model.inputs if name not in data.inputs]
    if missing:
        raise DataError(
            f"{path} has no values of the input {missing[0]!r} of the model. Give them with --inputs "
            f"{missing[0]}=FILE: a table with the columns time and {missing[0]}, or an array (.npy) at the times of "
            "the samples."
        )
    return data if options.mask is None else _apply_mask(data, options.mask)


def parse_times(text: str) -> FloatArray:
    """Return the times that the user names.

    Parameters
    ----------
    text : str
        A file with an array (`.npy`) or a table with a column of times; or a range `begin:end:step`, whose end is one
        of the times if it is a whole number of steps away.

    Returns
    -------
    ndarray, (time,)
    """
    parts = text.split(":")
    if len(parts) == 3:
        try:
            begin, end, step = map(float, parts)
        except ValueError:
            begin, end, step = np.nan, np.nan, np.nan
        if np.isfinite([begin, end, step]).all() and step > 0 and end > begin:
            count = np.floor((end - begin) / step + RANGE_TOLERANCE) + 1
            if count > MAX_TIME_COUNT:
                raise DataError(f"--times {text} has {count:,.0f} times; at most {MAX_TIME_COUNT:,} are taken.")
            return np.asarray(begin + step * np.arange(int(count)), dtype=float)
        raise DataError(
            f"--times takes a file, or begin:end:step with a positive step, such as 0:10:0.5; received {text!r}."
        )
    if not Path(text).exists():
        raise DataError(f"--times: there is no file {text}. Give a file, or a range begin:end:step such as 0:10:0.5.")
    if get_ending(text) == ".npy":
        times = np.array(read_array(text, "the times"), dtype=float)
        if times.ndim != 1:
            raise DataError(f"--times: {text} must be one axis of times; received the shape {times.shape}.")
        return times
    table = read_table(Path(text))
    times, _ = table.parse_times(find_time_column(list(table.columns)))
    return times


def _check_shape(data: BatchData, source: str) -> None:
    """Raise an error unless the data have times, and their last axes are those of time and column."""
    if data.times is None:
        raise DataError(
            f"{data.location} has no times of the samples. Give them with --times: a file (.npy, or a table with a "
            f"column time), or a range such as 0:10:0.5.{data.times_hint}"
        )
    count, columns, shape = len(data.times), len(data.names), data.values.shape
    fits = shape[-1:] == (count,) or shape[-2:] == (count, 1) if columns == 1 else shape[-2:] == (count, columns)
    if fits:
        return
    expected = f"(..., {count})" if columns == 1 else f"(..., {count}, {columns})"
    axes = "axis must be time" if columns == 1 else "two axes must be time and column"
    hint = "" if columns == 1 else f" The measured columns are {list_names(data.names)}; --names gives others."
    raise DataError(
        f"{data.location}: the last {axes}, {expected}, for the {count} times of {source}; received the shape "
        f"{tuple(shape)}.{hint}"
    )


def _add_sigma(data: BatchData, file: ModelFile) -> BatchData:
    """Add the σ of the model file."""
    if file.sigma is None:
        return data
    if data.sigma is not None:
        raise DataError(f"sigma is in {data.location} and in the model file; leave out one of them.")
    without = [name for name in data.names if name not in file.sigma]
    if without:
        raise DataError(
            f"{file.name}: [sigma] lacks {without[0]!r}, which is measured; give a sigma for every measured name, or "
            "none."
        )
    sigma = [file.sigma[name] for name in data.names]
    return replace(data, sigma=sigma[0] if len(sigma) == 1 else np.array(sigma))


def _blank_missing(data: BatchData, file: ModelFile) -> BatchData:
    """Put NaN in place of the numbers that mean a missing value; a memory map is then read as a whole."""
    numbers = [value for value in file.missing if not isinstance(value, str)]
    if not numbers:
        return data
    return replace(data, values=np.where(np.isin(data.values, numbers), np.nan, data.values))


def _read_input(name: str, source: str, hold: bool) -> Any:
    """Read an input from a table with the columns time and its name, or an array at the times of the samples."""
    if get_ending(source) == ".npy":
        return np.array(read_array(source, f"the input {name!r}"), dtype=float)
    table = read_table(Path(source))
    time = find_time_column([column for column in table.columns if column != name]) if len(table.columns) > 1 else ""
    if name not in table.columns or not time:
        raise DataError(
            f"{source} must have the columns time and {name}; it has: {list_names(table.columns)}."
            f"{suggest_name(name, table.columns)}"
        )
    times, _ = table.parse_times(time)
    return times, table.parse_numbers(name), "hold" if hold else "linear"


def _apply_mask(data: BatchData, source: str) -> BatchData:
    """Keep the datasets for which a mask is not zero, along one axis."""
    if get_ending(source) in (".nii", ".nii.gz"):
        mask = np.asarray(read_image(source)[0])
    elif get_ending(source) == ".npy":
        mask = np.asarray(read_array(source, "the mask", MASK_KINDS))
    else:
        raise DataError(f"--mask takes a file that ends in .npy, .nii or .nii.gz; received {source!r}.")
    shape = data.shape
    if mask.shape != shape:
        raise DataError(
            f"--mask: {source} must have the shape of the datasets, {shape}; received {mask.shape}. The datasets are "
            f"the axes of {data.location} before time."
        )
    chosen = np.isfinite(mask) & (mask != 0)
    if not chosen.any():
        raise DataError(f"--mask: {source} leaves out every dataset; it is zero everywhere.")
    assert data.times is not None
    full = data.values.shape

    def take(array: Any) -> Any:
        """Keep the chosen datasets of an array that broadcasts to the data."""
        if array is None or np.ndim(array) <= len(full) - len(shape):
            return array
        return np.broadcast_to(array, full)[chosen]

    def take_input(value: Any) -> Any:
        """Keep the chosen datasets of an input that differs between them."""
        if isinstance(value, tuple):
            return (value[0], take_input(value[1]), *value[2:])
        return value[chosen] if np.ndim(value) > 1 and np.shape(value)[:-1] == shape else value

    return replace(
        data,
        values=data.values[chosen],
        sigma=take(data.sigma),
        weights=take(data.weights),
        inputs={name: take_input(value) for name, value in data.inputs.items()},
        mask=chosen,
    )


def read_doses(data: BatchData, path: str, into: str | None) -> tuple[Doses, ...]:
    """Read a table of doses, the same for all datasets.

    Parameters
    ----------
    data : BatchData
    path : str
        A table with the columns time and amount, and optionally state, duration, rate and lag.
    into : str, or None
        The state that receives the doses, if the table has no column `state`.

    Returns
    -------
    tuple of Doses
    """
    assert data.times is not None
    carrier = Dataset(data.times, np.linspace(1.0, 2.0, len(data.times)), names=[data.names[0]])
    return carrier.with_doses(path, into).trajectories[0].doses


def restore_shape(batch: BatchResult, data: BatchData) -> BatchResult:
    """Return the results in the shape of the data before the mask, with their axes and labels.

    Parameters
    ----------
    batch : BatchResult
        Of the datasets that the mask leaves.
    data : BatchData

    Returns
    -------
    BatchResult
        The datasets that the mask leaves out have the status `EMPTY`.
    """
    mask = data.mask
    if mask is None:
        return replace(batch, dims=data.dims, coords=data.coords)

    def spread(values: Any, fill: float) -> Any:
        """Return values of the datasets of the mask in its shape."""
        full = np.full(mask.shape + values.shape[1:], fill, dtype=values.dtype)
        full[mask] = values
        return full

    return replace(
        batch,
        shape=mask.shape,
        **{
            name: spread(getattr(batch, name), np.nan)
            for name in ("estimates", "covariance", "sigmas", "p_value", "log_likelihood", "bias", "freedom")
        },
        status_code=spread(batch.status_code, STATUSES.index(Status.EMPTY)),
        starts=spread(batch.starts, 0),
        dims=data.dims,
        coords=data.coords,
        refit=None,
    )
