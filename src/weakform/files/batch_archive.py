"""Files of the results of many fits: NumPy archives, NetCDF, tables, and images.

A NumPy archive (`.npz`) holds every array and can be read back. It is read without pickle, so that nothing in it is
evaluated, and its arrays are checked before they become a result.
"""

from __future__ import annotations

import csv
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.batch_tables import collect_columns, collect_labels, list_status_names
from ..results.batch_result import BatchResult
from ..support.array_types import FloatArray
from ..support.errors import DataError
from ..support.optional_imports import (
    format_install_hint,
    import_nibabel,
    import_pandas,
    import_xarray,
    require_h5netcdf,
)
from ..support.versions import __version__
from ..support.whole_numbers import refuse_devices

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT_VERSION = 1
"""Version of the archive. Files of any other version are refused."""
INTERVAL_LEVEL = 0.95
"""Coverage probability of the intervals in files. The level of all reports of the package."""
_AXES_AFTER_DATASETS = {
    "estimates": 1,
    "covariance": 2,
    "sigmas": 1,
    "p_value": 0,
    "log_likelihood": 0,
    "bias": 0,
    "freedom": 0,
    "status_code": 0,
    "starts": 0,
}
"""Arrays of an archive with one entry for each dataset, and the number of axes of an entry."""
_COORDINATE_PREFIX = "coordinate."
"""What the names of the coordinates begin with in an archive: a parameter cannot have a name with a dot."""


def get_ending(path: str | Path) -> str:
    """Return the ending of a file in lower case; `.nii.gz` and `.csv.gz` are one ending."""
    name = Path(path).name.lower()
    inner = Path(name.removesuffix(".gz")).suffix if name.endswith(".gz") else ""
    return inner + ".gz" if inner in (".nii", ".csv", ".tsv", ".txt") else Path(name).suffix


def check_output(path: str | Path) -> None:
    """Raise an error if results cannot be written to a file of this name, so that no fit is lost.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    DataError
        If the ending is unknown or the path is a folder.
    WeakformError
        If a library for the format is not installed.
    """
    ending = get_ending(path)
    if ending not in _WRITERS:
        raise DataError(
            f"Results are written to a file that ends in {', '.join(_WRITERS)}; received {Path(path).name!r}."
        )
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; give the name of a file.")
    if ending == ".nc":
        import_xarray()
        require_h5netcdf()
    elif ending == ".parquet":
        import_pandas()
    elif ending in (".nii", ".nii.gz"):
        import_nibabel()


def save_batch(batch: BatchResult, path: str | Path, affine: FloatArray | None = None) -> Path:
    """Write the results to a file whose ending chooses the format; see `BatchResult.save`.

    Parameters
    ----------
    batch : BatchResult
    path : str or Path
        Missing folders on the way are created.
    affine : ndarray, (4, 4), optional
        Position of the voxels of an image; by default the identity.

    Returns
    -------
    Path
        The path of the file, or of the first image.
    """
    check_output(path)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    ending = get_ending(path)
    if ending in (".nii", ".nii.gz"):
        return _write_images(batch, Path(path), affine)
    _WRITERS[ending](batch, Path(path))
    return Path(path)


def _write_archive(batch: BatchResult, path: Path) -> None:
    """Write all arrays as a NumPy archive."""
    arrays: dict[str, Any] = {name: np.asarray(getattr(batch, name)) for name in (*_AXES_AFTER_DATASETS, "log_scale")}
    header = {
        "format": FORMAT_VERSION,
        "weakform": __version__,
        "parameters": batch.parameters,
        "columns": batch.columns,
        "statuses": list_status_names(),
        "dims": batch.dims,
        "coords": {name: list(dims) for name, (dims, _) in batch.coords.items()},
        "fitted_singly": batch.fitted_singly,
        "seconds": batch.seconds,
        "notes": batch.notes,
    }
    arrays |= {f"{_COORDINATE_PREFIX}{name}": _to_plain(values) for name, (_, values) in batch.coords.items()}
    with path.open("wb") as file:  # a file, because savez appends .npz to the name .NPZ
        np.savez(file, header=np.array(json.dumps(header)), **arrays)


def _to_plain(values: Any) -> Any:
    """Return labels as an array that needs no pickle: objects become text."""
    array = np.asarray(values)
    return array.astype(str) if array.dtype.kind == "O" else array


def _write_netcdf(batch: BatchResult, path: Path) -> None:
    """Write a NetCDF file, compressed: most of a masked image is NaN."""
    data = batch.to_xarray(INTERVAL_LEVEL)
    encoding = {name: {"zlib": True} for name in data.data_vars} if batch.shape else {}  # no filter takes a scalar
    data.to_netcdf(path, engine="h5netcdf", encoding=encoding)


def _write_csv(batch: BatchResult, path: Path) -> None:
    """Write a table as text, without pandas."""
    axes, labels = collect_labels(batch)
    names = np.array(list_status_names())
    columns = {**axes, **labels}
    for column in collect_columns(batch, INTERVAL_LEVEL):
        flat = column.values.ravel()
        columns[column.name] = names[flat] if column.is_status else flat
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*(values.tolist() for values in columns.values()), strict=True):
            # A missing value is an empty cell, which every program reads.
            writer.writerow("" if isinstance(value, float) and value != value else value for value in row)


def _write_parquet(batch: BatchResult, path: Path) -> None:
    """Write a Parquet file, with the axes of the datasets as its index."""
    try:
        batch.to_frame(INTERVAL_LEVEL).to_parquet(path)
    except ImportError as error:
        raise DataError(f"{path} cannot be written: {error}. Try: {format_install_hint('table')}") from None


def _write_images(batch: BatchResult, path: Path, affine: FloatArray | None) -> Path:
    """Write one image for each estimate, standard error, p-value and status; return the path of the first.

    The names of the status codes go to a JSON file beside the image of the status.
    """
    nibabel = import_nibabel()
    if not 1 <= len(batch.shape) <= 3:
        raise DataError(
            f"An image has up to three axes; the datasets have the shape {batch.shape}. Write a .nc or .npz file."
        )
    ending = get_ending(path)
    base = path.name[: -len(ending)]
    paths = []
    for column in collect_columns(batch, INTERVAL_LEVEL):
        if not column.is_map:
            continue
        values = column.values.reshape(batch.shape + (1,) * (3 - len(batch.shape)))
        target = path.with_name(f"{base}_{column.name}{path.name[-len(ending) :]}")
        kind = np.int16 if column.is_status else np.float32
        nibabel.save(nibabel.Nifti1Image(values.astype(kind), np.eye(4) if affine is None else affine), target)
        paths.append(target)
        if column.is_status:
            codes = json.dumps(dict(enumerate(list_status_names())), indent=1)
            path.with_name(f"{base}_{column.name}.json").write_text(codes + "\n", encoding="utf-8")
    return paths[0]


_WRITERS: dict[str, Callable[..., object]] = {
    ".npz": _write_archive,
    ".nc": _write_netcdf,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".nii": _write_images,
    ".nii.gz": _write_images,
}
"""The function that writes each format."""


def read_archive(path: str | Path, what: str) -> dict[str, Any]:
    """Read all arrays of a NumPy archive (`.npz`), without pickle.

    Parameters
    ----------
    path : str or Path
    what : str
        What the file should be, for messages.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    DataError
        If the file is missing, not an archive, damaged, or holds objects.
    """
    refuse_devices(Path(path), DataError)
    try:
        with Path(path).open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
    except MemoryError:
        raise DataError(f"{path} does not fit into the memory.") from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(f"{path} is not {what}, or it is damaged: {error}.") from None
    raise DataError(f"{path} is not {what}: it is a single array and not an archive (.npz).")


def load_batch(path: str | Path) -> BatchResult:
    """Read the results of many fits from a NumPy archive; see `BatchResult.load`.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    BatchResult

    Raises
    ------
    DataError
        If the file cannot be read, is no such archive, or its arrays do not fit together.
    """
    if not isinstance(path, str | Path):
        raise DataError(f"The path of saved results must be a text or a Path; received {path!r}.")
    if get_ending(path) in _WRITERS and get_ending(path) != ".npz":
        raise DataError(
            f"Only .npz files hold all results and can be loaded; received {Path(path).name!r}. Read a .nc file with "
            "xarray.open_dataset, and a table with pandas."
        )
    arrays, hint = read_archive(path, "a file of results"), ""
    try:
        header = json.loads(str(arrays["header"]))
        if "checkpoint" in header:
            hint = "; it is a checkpoint, from which fit_batch continues with checkpoint=..."
        version, writer = header["format"], header["weakform"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{path} is not a file of results{hint or f': it has no header ({error})'}.") from None
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path} has format {version!r}; weakform {__version__} reads format {FORMAT_VERSION}. It was written by "
            f"weakform {writer!r}; use that version."
        )
    try:
        return _restore_batch(header, arrays)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise DataError(f"{path} is not a file of results, or it is damaged: {error}.") from None


def _restore_batch(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> BatchResult:
    """Build a result from the parts of an archive; raise `ValueError` if they do not fit together."""
    parameters, columns, dims = (tuple(map(str, header[name])) for name in ("parameters", "columns", "dims"))
    shape = arrays["p_value"].shape
    count, width = len(parameters), len(columns)
    entry_shapes = {"estimates": (count,), "covariance": (count, count), "sigmas": (width,)}
    for name in _AXES_AFTER_DATASETS:
        expected = shape + entry_shapes.get(name, ())
        kinds = "iu" if name in ("status_code", "starts") else "f"
        if arrays[name].shape != expected or arrays[name].dtype.kind not in kinds:
            raise ValueError(f"{name} has the shape {arrays[name].shape} in place of {expected}, or no numbers")
    if arrays["log_scale"].shape != (count,) or arrays["log_scale"].dtype.kind != "b":
        raise ValueError(f"log_scale must be {count} truth values")
    # The order of the statuses may grow with a later version, so the codes are those of the file.
    names = list_status_names()
    positions = np.array([names.index(name) for name in header["statuses"]], dtype=np.int64)
    codes = arrays["status_code"]
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < len(positions):
        raise ValueError("a status code is unknown")
    coords = {}
    lengths = dict(zip(dims, shape, strict=False))
    for name, names_of_axes in header["coords"].items():
        values = arrays[f"{_COORDINATE_PREFIX}{name}"]
        if values.shape != tuple(lengths[axis] for axis in names_of_axes):
            raise ValueError(f"the coordinate {name} does not fit the datasets")
        coords[str(name)] = (tuple(map(str, names_of_axes)), values)
    if dims and len(dims) != len(shape):
        raise ValueError(f"{len(dims)} names for {len(shape)} axes")
    return BatchResult(
        parameters=parameters,
        columns=columns,
        shape=shape,
        **{name: arrays[name] for name in _AXES_AFTER_DATASETS if name != "status_code"},
        status_code=positions[codes],
        log_scale=arrays["log_scale"],
        fitted_singly=int(header["fitted_singly"]),
        seconds=float(header["seconds"]),
        notes=tuple(map(str, header["notes"])),
        dims=dims,
        coords=coords,
    )
