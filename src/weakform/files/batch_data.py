"""The data of many fits: one array with the measured values of all datasets, their times, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import DataError
from ..support.whole_numbers import refuse_devices
from ..support.wording import list_names, suggest_name
from .table_for_model import list_columns

if TYPE_CHECKING:
    from .model_file import ModelFile


NUMBER_KINDS = "fiu"
"""Kinds of types of real numbers, as NumPy's letters: floating, signed and unsigned."""

_NPY_MAGIC = b"\x93NUMPY"
"""First bytes of an array in NumPy's format."""


@dataclass(frozen=True)
class BatchData:
    """Measured values of many datasets.

    Attributes
    ----------
    location : str
        The file, for messages.
    values : ndarray, (*shape, time) or (*shape, time, column)
        Possibly a memory map. With one measured column there is no axis for it, or it has the length one.
    names : tuple of str, (column,)
        What is measured.
    times : ndarray, (time,), or None
        None as long as they are unknown.
    inputs : dict
        What `fit_batch` takes for each input.
    sigma, weights : ndarray or float, or None
        They broadcast to `values`.
    frames : ndarray, (time, 2), or None
        Beginning and end of the frame over which each value is an average.
    dims, coords
        Names of the axes of the datasets, and labels, as in `BatchResult`.
    affine : ndarray, (4, 4), or None
        Position of the voxels of an image.
    mask : ndarray of bool, or None
        The datasets in `values` are those for which it is true.
    notes : tuple of str
    times_hint : str
        What the data say about their times, for the message that they are missing.
    """

    location: str
    values: Any
    names: tuple[str, ...]
    times: FloatArray | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    sigma: Any = None
    weights: Any = None
    frames: FloatArray | None = None
    dims: tuple[str, ...] = ()
    coords: dict[str, tuple[tuple[str, ...], Any]] = field(default_factory=dict)
    affine: FloatArray | None = None
    mask: BoolArray | None = None
    notes: tuple[str, ...] = ()
    times_hint: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the datasets."""
        assert self.times is not None
        has_column = len(self.names) > 1 or self.values.shape[-2:] == (len(self.times), 1)
        return tuple(self.values.shape[: -2 if has_column else -1])


def list_measurable(file: ModelFile) -> tuple[str, ...]:
    """Return the states and named expressions that may be measured, without those that the file marks as not."""
    model = file.model
    visible = [state for state in model.states if state not in model.hidden]
    names = (*visible, *model.hidden, *model.observables)
    return tuple(name for name in names if file.columns.get(name, name))


def get_array_name(file: ModelFile, name: str) -> str:
    """Return the name of a state, named expression or input in the data: its own, or that under `[columns]`."""
    columns = list_columns(file.columns.get(name, name))
    if len(columns) != 1:
        raise DataError(
            f"{file.name}, [columns]: {name} has {len(columns)} columns, for repeats; a batch takes one for each name."
        )
    return columns[0]


def choose_names(file: ModelFile, names: tuple[str, ...] | None, location: str) -> tuple[str, ...]:
    """Return what the columns of data without names measure.

    Parameters
    ----------
    file : ModelFile
    names : tuple of str, or None
        The names that the user or the data give.
    location : str
        The file, for messages.

    Returns
    -------
    tuple of str
        Those names; else the names under `[columns]` of the model file; else all states, if the model has no named
        expression that may be what was measured.
    """
    measurable = list_measurable(file)
    if names is not None:
        for name in names:
            if name not in measurable:
                raise DataError(
                    f"{location}: {name!r} is neither a state nor a named expression of the model."
                    f"{suggest_name(name, measurable)} They are: {list_names(measurable)}."
                )
        if len(set(names)) < len(names) or not names:
            raise DataError(f"{location}: each measured name must occur once; received {list_names(names)}.")
        return names
    mapped = tuple(name for name in measurable if name in file.columns)
    if mapped:
        return mapped
    if file.model.observables:
        raise DataError(
            f"{location} does not name what was measured, which may be any of {list_names(measurable)}. Give --names, "
            f"such as --names {measurable[-1]}."
        )
    return tuple(name for name in measurable if name not in file.model.hidden)


def read_array(path: str | Path, what: str, kinds: str = NUMBER_KINDS) -> Any:
    """Read an array (`.npy`) as a memory map, without pickle.

    Parameters
    ----------
    path : str or Path
    what : str
        What it holds, for messages.
    kinds : str
        Kinds of types that are accepted, as NumPy's letters.

    Returns
    -------
    ndarray
    """
    refuse_devices(Path(path), DataError)
    damaged = f"{path} is not an array of numbers (.npy), or it is damaged"
    try:
        with Path(path).open("rb") as file:
            magic = file.read(len(_NPY_MAGIC))
        array = np.load(path, mmap_mode="r", allow_pickle=False) if magic == _NPY_MAGIC else None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, EOFError) as error:
        raise DataError(f"{damaged}: {error}.") from None
    if array is None:
        hint = " An archive of several arrays has the ending .npz." if magic.startswith(b"PK") else ""
        raise DataError(f"{damaged}.{hint}")
    return check_numbers(array, f"{path}: {what}", kinds)


def check_numbers(array: Any, what: str, kinds: str = NUMBER_KINDS) -> Any:
    """Return an array of real numbers unchanged; refuse text, complex numbers, dates and objects."""
    if getattr(array, "dtype", None) is None or array.dtype.kind not in kinds:
        raise DataError(f"{what} must be real numbers; received the type {getattr(array, 'dtype', type(array))}.")
    return array
