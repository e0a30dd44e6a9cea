"""Readers of the data of many fits, one for each format; `batch_data` describes what they return.

Arrays are read without pickle, and text is parsed: nothing in a file is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.cell_parsing import is_time_name, parse_cell
from ..data.text_reader import MAX_COLUMN_COUNT, check_names, check_width, read_table, split_rows
from ..support.errors import DataError, WeakformError
from ..support.optional_imports import import_nibabel, import_xarray, require_h5netcdf
from ..support.whole_numbers import refuse_devices
from ..support.wording import is_misspelt, list_names, suggest_name
from .batch_archive import read_archive
from .batch_data import BatchData, check_numbers, choose_names, get_array_name, list_measurable, read_array
from .model_file import TIME_KEY

if TYPE_CHECKING:
    from .model_file import ModelFile

COLUMN_DIMENSIONS = ("column", "columns", "channel", "channels", "observable", "state", "variable")
"""Names of a last dimension, after time, that holds the measured columns. Elsewhere they are axes of the datasets, such
as the columns of a plate. A dimension whose coordinate lists names of the model holds the measured columns, too."""
_NETCDF3_MAGIC = b"CDF"
"""First bytes of the classic formats of NetCDF, which SciPy reads; the others are HDF5."""
_RESERVED_ARRAYS = ("times", "Y", "names", "sigma", "weights", "frames")
"""Arrays of an archive that are neither measured columns nor inputs."""


def _read_npy(file: ModelFile, path: Path, names: tuple[str, ...] | None) -> BatchData:
    """Read one array, as a memory map."""
    return BatchData(str(path), read_array(path, "the data"), choose_names(file, names, str(path)))


def _read_npz(file: ModelFile, path: Path, names: tuple[str, ...] | None) -> BatchData:
    """Read an archive with `times`, and `Y` or an array for each measured name; inputs by name."""
    arrays = read_archive(path, "an archive of arrays (.npz)")
    inputs = {}
    for name in file.model.inputs:
        label = get_array_name(file, name)
        if label in arrays:
            values = check_numbers(arrays[label], f"{path}: {label}")
            own_times = arrays.get(f"{label}_times")
            how = "hold" if file.hold else "linear"
            inputs[name] = values if own_times is None else (own_times, values, how)
    input_labels = [get_array_name(file, name) for name in file.model.inputs]
    if "Y" in arrays:
        listed = tuple(map(str, np.ravel(arrays["names"]))) if "names" in arrays else None
        chosen = choose_names(file, names if names is not None else listed, str(path))
        values, labels = check_numbers(arrays["Y"], f"{path}: Y"), ["Y"]
    else:
        chosen, values, labels = _stack_named(file, names, arrays, str(path))
    used = {*_RESERVED_ARRAYS, *labels, *input_labels, *(f"{label}_times" for label in input_labels)}
    unused = [name for name in arrays if name not in used]
    for name in unused:
        if is_misspelt(name, used):
            raise DataError(f"{path}: the array {name!r} has no meaning.{suggest_name(name, used)}")
    times = arrays.get("times")
    return BatchData(
        str(path),
        values,
        chosen,
        times=None if times is None else _check_times(times, f"{path}: times"),
        inputs=inputs,
        sigma=arrays.get("sigma"),
        weights=arrays.get("weights"),
        frames=_check_frames(arrays["frames"], f"{path}: frames") if "frames" in arrays else None,
        notes=(f"Arrays that were not used: {list_names(unused)}.",) if unused else (),
    )


def _check_times(values: Any, what: str) -> Any:
    """Return times as floats; they must be one axis of numbers."""
    if np.ndim(values) != 1:
        raise DataError(f"{what} must be one axis; received the shape {np.shape(values)}.")
    return np.array(check_numbers(values, what), dtype=float)


def _check_frames(values: Any, what: str) -> Any:
    """Return frames as floats; they must be one row of beginning and end for each time."""
    if np.ndim(values) != 2 or np.shape(values)[1] != 2:
        raise DataError(
            f"{what} must have a row for each time, its beginning and its end; received the shape {np.shape(values)}."
        )
    return np.array(check_numbers(values, what), dtype=float)


def _stack_named(
    file: ModelFile, names: tuple[str, ...] | None, arrays: dict[str, Any], location: str
) -> tuple[tuple[str, ...], Any, list[str]]:
    """Stack the arrays that have the names of what is measured.

    Returns
    -------
    tuple of str
        The measured names.
    ndarray, (..., time, column)
    list of str
        The names of these arrays.
    """
    wanted = list_measurable(file) if names is None else choose_names(file, names, location)
    labels = {name: get_array_name(file, name) for name in wanted}
    chosen = tuple(name for name in wanted if labels[name] in arrays)
    if not chosen or (names is not None and len(chosen) < len(names)):
        raise DataError(
            f"{location} has neither the array 'Y' nor an array for each measured name ({list_names(labels.values())});"
            f" it has: {list_names(arrays)}."
        )
    parts = [check_numbers(arrays[labels[name]], f"{location}: {labels[name]}") for name in chosen]
    if any(part.shape != parts[0].shape for part in parts):
        shapes = ", ".join(f"{labels[name]} {part.shape}" for name, part in zip(chosen, parts, strict=True))
        raise DataError(f"{location}: all measured arrays must have the same shape; received {shapes}.")
    return chosen, parts[0] if len(parts) == 1 else np.stack(parts, axis=-1), [labels[name] for name in chosen]


def _choose_single_name(file: ModelFile, names: tuple[str, ...] | None, location: str) -> tuple[str, ...]:
    """Return what is measured in a format with one column for each dataset."""
    chosen = choose_names(file, names, location)
    if len(chosen) != 1:
        raise DataError(
            f"{location} has one measured value for each dataset and time, but {list_names(chosen)} are measured. Give "
            f"one of them with --names, or write several columns to a .npz or .nc file."
        )
    return chosen


def _read_text(file: ModelFile, path: Path, names: tuple[str, ...] | None) -> BatchData:
    """Read a text table with one row for each dataset; columns whose names are numbers are the times."""
    refuse_devices(path, DataError)
    chosen = _choose_single_name(file, names, str(path))
    rows, separator, notes = split_rows(path, keep_empty=True)
    line, header = rows[0][0], [name.strip() for name in rows[0][1]]
    if len(header) > MAX_COLUMN_COUNT:
        raise DataError(f"{path} has {len(header):,} columns; at most {MAX_COLUMN_COUNT:,} are read.")
    check_names(path, line, header)
    times = {k: value for k, name in enumerate(header) if (value := _read_time(name, separator)) is not None}
    _require_times(times, header, path)
    words = {word.strip() for word in file.missing if isinstance(word, str)}
    columns = list(times)
    values = np.empty((len(rows) - 1, len(times)))
    labels: dict[str, list[str]] = {name: [] for k, name in enumerate(header) if k not in times}
    for number, (line, row) in enumerate(rows[1:]):
        check_width(path, line, row, header, separator)
        for place, k in enumerate(columns):
            cell = np.nan if row[k].strip() in words else parse_cell(row[k], separator)
            if isinstance(cell, str):
                raise DataError(f"{path}, line {line}, column {header[k]!r}: {cell!r} is not a number.")
            values[number, place] = cell
        for k, name in enumerate(header):
            if k not in times:
                labels[name].append(row[k].strip())
    return _build_table(path, chosen, np.array(list(times.values())), values, labels=labels, notes=notes)


def _read_time(name: str, separator: str) -> float | None:
    """Return the time that the name of a column is, or None."""
    cell = parse_cell(name, separator)
    return float(cell) if isinstance(cell, float) and math.isfinite(cell) else None


def _require_times(times: dict[Any, float], header: Iterable[str], path: Path) -> None:
    """Raise an error if no column has a time as its name."""
    if not times:
        raise DataError(
            f"{path} must have one row for each dataset, and the times of the samples as the names of its columns, "
            f"such as id,0,0.5,1; its columns are: {list_names(header)}."
        )


def _build_table(path: Path, names: tuple[str, ...], times: Any, values: Any, *, labels: Any, notes: Any) -> BatchData:
    """Build the data of a table with one row for each dataset."""
    coords: dict[str, Any] = {name: (("dataset",), np.asarray(column)) for name, column in labels.items()}
    return BatchData(str(path), values, names, times=times, dims=("dataset",), coords=coords, notes=tuple(notes))


def _read_parquet(file: ModelFile, path: Path, names: tuple[str, ...] | None) -> BatchData:
    """Read a Parquet table with one row for each dataset; columns whose names are numbers are the times."""
    chosen = _choose_single_name(file, names, str(path))
    table = read_table(path)
    times = {name: value for name in table.columns if (value := _read_time(name, ",")) is not None}
    _require_times(times, table.columns, path)
    values = np.stack([table.parse_numbers(name) for name in times], axis=-1)
    labels = {name: column for name, column in table.columns.items() if name not in times}
    return _build_table(path, chosen, np.array(list(times.values())), values, labels=labels, notes=table.notes)


def read_image(path: str | Path) -> tuple[Any, Any, str]:
    """Read a NIfTI image.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    values : ndarray
        A memory map if the file is neither compressed nor scaled.
    affine : ndarray, (4, 4)
    hint : str
        A sentence with the step in time of its header, or an empty text.
    """
    nibabel = import_nibabel()
    refuse_devices(Path(path), DataError)
    try:
        image = nibabel.load(path)
        kind = image.get_data_dtype()
        # Half the memory where the file has no more digits.
        values = np.asanyarray(image.dataobj)
        if not isinstance(values, np.memmap) and values.dtype == np.float64 and kind.itemsize <= 2:
            values = values.astype(np.float32)
        zooms = image.header.get_zooms()
    except FileNotFoundError:
        raise DataError(f"Cannot read {path}: No such file or directory.") from None
    except MemoryError:
        raise DataError(f"{path} does not fit into the memory.") from None
    except Exception as error:  # nibabel raises many kinds of errors on broken files
        raise DataError(f"{path} cannot be read as a NIfTI image: {type(error).__name__}: {error}") from None
    hint = ""
    if values.ndim == 4 and len(zooms) == 4 and np.isfinite(zooms[3]) and zooms[3] > 0:
        step = float(zooms[3])
        hint = f" The header has the step {step:g}: --times 0:{step * (values.shape[3] - 1):g}:{step:g}."
    return values, image.affine, hint


def _read_nifti(file: ModelFile, path: Path, names: tuple[str, ...] | None) -> BatchData:
    """Read an image with three axes of space and one of time."""
    chosen = _choose_single_name(file, names, str(path))
    values, affine, hint = read_image(path)
    if values.ndim != 4:
        raise DataError(f"{path} must have four axes, the last one time; received the shape {values.shape}.")
    check_numbers(values, str(path))
    return BatchData(str(path), values, chosen, dims=("x", "y", "z"), affine=affine, times_hint=hint)


def _read_netcdf(file: ModelFile, path: Path, names: tuple[str, ...] | None) -> BatchData:
    """Read a NetCDF file: a variable with the dimensions (..., time) or (..., time, column), or one for each name."""
    xr = import_xarray()
    refuse_devices(path, DataError)
    try:
        with path.open("rb") as raw:
            engine = "scipy" if raw.read(len(_NETCDF3_MAGIC)) == _NETCDF3_MAGIC else "h5netcdf"
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
    if engine == "h5netcdf":
        require_h5netcdf()
    try:
        # Times stay the numbers of the file: rates are per unit of the file.
        with xr.open_dataset(path, engine=engine, decode_times=False) as dataset:
            return _NetcdfReader(file, str(path), dataset, names).read()
    except WeakformError:
        raise
    except MemoryError:
        raise DataError(f"{path} does not fit into the memory.") from None
    except Exception as error:  # the libraries below xarray raise many kinds of errors on broken files
        raise DataError(f"{path} cannot be read as NetCDF: {type(error).__name__}: {error}") from None


class _NetcdfReader:
    """Finds measured values, inputs and times in an xarray Dataset.

    Parameters
    ----------
    file : ModelFile
    location : str
        The file, for messages.
    dataset : xarray.Dataset
    names : tuple of str, or None
        What the user says is measured.
    """

    def __init__(self, file: ModelFile, location: str, dataset: Any, names: tuple[str, ...] | None) -> None:
        self.file, self.location, self.dataset, self.names = file, location, dataset, names
        self.time = self._find_time()

    def read(self) -> BatchData:
        """Return the data."""
        labels = {name: get_array_name(self.file, name) for name in list_measurable(self.file)}
        by_name = {name: label for name, label in labels.items() if self._has_time(label)}
        if self.names is not None:
            chosen = choose_names(self.file, self.names, self.location)
            by_name = {name: labels[name] for name in chosen} if all(name in by_name for name in chosen) else {}
        if by_name:
            names, values, dims = self._stack(by_name)
            variable = self.dataset[next(iter(by_name.values()))]
        else:
            variable = self._find_single_variable()
            names, values, dims = self._read_single(variable)
        axes = (*dims, self.time) if len(names) == 1 else (*dims, self.time, "")
        coords = {
            str(name): (tuple(map(str, coordinate.dims)), coordinate.values)
            for name, coordinate in variable.coords.items()
            if set(coordinate.dims) <= set(dims)
        }
        has_times = self.time in self.dataset.coords
        frames = self.dataset["frames"] if "frames" in self.dataset and "frames" not in by_name.values() else None
        return BatchData(
            self.location,
            values,
            names,
            times=_check_times(self.dataset[self.time].values, f"{self.location}: {self.time}") if has_times else None,
            inputs=self._read_inputs(dims, values.shape[: len(dims)]),
            sigma=self._read_companion("sigma", axes, labels),
            weights=self._read_companion("weights", axes, labels),
            frames=None if frames is None else _check_frames(frames.values, f"{self.location}: frames"),
            dims=dims,
            coords=coords,
        )

    def _find_time(self) -> str:
        """Return the name of the dimension of time."""
        dims = [str(name) for name in self.dataset.sizes]
        given = self.file.columns.get(TIME_KEY)
        candidates = [given] if isinstance(given, str) and given else [TIME_KEY, *filter(is_time_name, dims)]
        for name in candidates:
            if name in dims:
                return name
        raise DataError(
            f"{self.location} has no dimension {candidates[0]!r}; its dimensions are: {list_names(dims)}. Name the one "
            'of time in the model file: time = "..." under [columns].'
        )

    def _has_time(self, label: str) -> bool:
        """Return True if a variable exists and has the dimension of time."""
        return label in self.dataset.data_vars and self.time in self.dataset[label].dims

    def _find_single_variable(self) -> Any:
        """Return the variable with the measured values, if none has the name of a state or a named expression."""
        taken = {*(get_array_name(self.file, name) for name in self.file.model.inputs)}
        taken |= {"sigma", "weights", "frames"}
        candidates = [str(name) for name in self.dataset.data_vars if self._has_time(str(name)) and name not in taken]
        if len(candidates) == 1:
            return self.dataset[candidates[0]]
        measurable = list_measurable(self.file)
        if not candidates:
            raise DataError(
                f"{self.location} has no variable with the dimension {self.time!r} that may be measured; its variables "
                f"are: {list_names(map(str, self.dataset.data_vars))}."
            )
        raise DataError(
            f"{self.location} has several variables with the dimension {self.time!r}: {list_names(candidates)}. Say "
            f'which one is measured in the model file, such as {measurable[0]} = "{candidates[0]}" under [columns].'
        )

    def _read_single(self, variable: Any) -> tuple[tuple[str, ...], Any, tuple[str, ...]]:
        """Return measured names, values and dimensions of the datasets of one variable."""
        column, listed = self._find_column(variable)
        dims = tuple(str(name) for name in variable.dims if name not in (self.time, column))
        if column is None:
            names = _choose_single_name(self.file, self.names, f"{self.location}: {variable.name}")
            return names, self._take(variable, (*dims, self.time)), dims
        if self.names is not None and listed is not None and set(self.names) <= set(listed):
            variable = variable.isel({column: [listed.index(name) for name in self.names]})
        names = choose_names(self.file, self.names or listed, self.location)
        return names, self._take(variable, (*dims, self.time, column)), dims

    def _find_column(self, variable: Any) -> tuple[str | None, tuple[str, ...] | None]:
        """Return the dimension of the measured columns, if there is one, and the names in its coordinate."""
        measurable = set(list_measurable(self.file))
        dims = [str(name) for name in variable.dims]
        for name in dims:
            has_words = name in variable.coords and variable.coords[name].dtype.kind in "OUT"
            words = tuple(map(str, variable.coords[name].values)) if has_words else ()
            is_named = bool(words) and set(words) <= measurable
            is_last = dims[-2:] == [self.time, name] and name in COLUMN_DIMENSIONS
            if name != self.time and (is_named or is_last):
                return name, words or None
        return None, None

    def _stack(self, by_name: dict[str, str]) -> tuple[tuple[str, ...], Any, tuple[str, ...]]:
        """Return measured names, values and dimensions of the datasets of one variable for each name."""
        variables = [self.dataset[label] for label in by_name.values()]
        dims = tuple(str(name) for name in variables[0].dims if name != self.time)
        for variable in variables:
            if set(variable.dims) != {*dims, self.time}:
                raise DataError(
                    f"{self.location}: all measured variables must have the same dimensions; {variable.name} has "
                    f"{variable.dims}, and {variables[0].name} {variables[0].dims}."
                )
        parts = [self._take(variable, (*dims, self.time)) for variable in variables]
        return tuple(by_name), parts[0] if len(parts) == 1 else np.stack(parts, axis=-1), dims

    def _take(self, variable: Any, dims: tuple[str, ...]) -> Any:
        """Return the values of a variable with its dimensions in an order; one that it lacks has the length one."""
        unknown = [str(name) for name in variable.dims if name not in dims]
        if unknown:
            raise DataError(
                f"{self.location}: {variable.name} has the dimension {unknown[0]!r}, which the measured values do not "
                "have."
            )
        ordered = variable.transpose(*(name for name in dims if name in variable.dims)).values
        shape = [variable.sizes.get(name, 1) for name in dims]
        return check_numbers(ordered, f"{self.location}: {variable.name}").reshape(shape)

    def _read_companion(self, name: str, axes: tuple[str, ...], labels: dict[str, str]) -> Any:
        """Return the values of `sigma` or `weights`, shaped like the measured values; None if there are none."""
        if name not in self.dataset.data_vars or name in labels.values():
            return None
        variable = self.dataset[name]
        column, _ = self._find_column(variable)
        if column is None:
            column = next((str(dim) for dim in variable.dims if dim in COLUMN_DIMENSIONS and dim not in axes), None)
        if column is not None and axes[-1] == "":
            axes = (*axes[:-1], column)
        return self._take(variable, axes)

    def _read_inputs(self, dims: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the inputs: at the times of the samples, or with a dimension and coordinate of their own."""
        inputs: dict[str, Any] = {}
        for name in self.file.model.inputs:
            label = get_array_name(self.file, name)
            if label not in self.dataset.data_vars:
                continue
            variable = self.dataset[label]
            clocks = [str(dim) for dim in variable.dims if dim not in dims]
            if len(clocks) != 1:
                raise DataError(
                    f"{self.location}: the input {label!r} needs one dimension of time; its dimensions are "
                    f"{variable.dims}."
                )
            values = self._take(variable, (*dims, clocks[0]))
            is_shared = set(variable.dims) == set(clocks)
            values = values.reshape(-1) if is_shared else np.broadcast_to(values, (*shape, values.shape[-1]))
            if clocks[0] == self.time:
                inputs[name] = values
                continue
            if clocks[0] not in self.dataset.coords:
                raise DataError(
                    f"{self.location}: the input {label!r} has its own dimension {clocks[0]!r}, which needs a "
                    "coordinate with its times."
                )
            own = _check_times(self.dataset[clocks[0]].values, f"{self.location}: {clocks[0]}")
            inputs[name] = (own, values, "hold" if self.file.hold else "linear")
        return inputs


READERS: dict[str, Callable[[ModelFile, Path, tuple[str, ...] | None], BatchData]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".nc": _read_netcdf,
    ".csv": _read_text,
    ".csv.gz": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".parquet": _read_parquet,
    ".nii": _read_nifti,
    ".nii.gz": _read_nifti,
}
"""The reader of each format, by the ending of the file."""
