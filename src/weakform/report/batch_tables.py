"""The results of many fits as columns with one value for each dataset: pandas, xarray, and what files are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..results.status import Status
from ..support.array_types import FloatArray, IntArray
from ..support.optional_imports import import_pandas, import_xarray
from ..support.versions import __version__

if TYPE_CHECKING:
    from ..results.batch_result import BatchResult


@dataclass(frozen=True)
class BatchColumn:
    """One quantity of every dataset.

    Attributes
    ----------
    name : str
    values : ndarray
        In the shape of the datasets.
    description : str
    is_map : bool
        Whether it is written as an image: estimates, standard errors, p-values and statuses.
    is_status : bool
        Whether the values are positions in `list(Status)`.
    """

    name: str
    values: FloatArray | IntArray
    description: str
    is_map: bool = False
    is_status: bool = False


def list_status_names() -> list[str]:
    """Return the name of each status code."""
    return [status.name for status in Status]


def collect_columns(batch: BatchResult, level: float) -> list[BatchColumn]:
    """Collect the quantities of all datasets.

    Parameters
    ----------
    batch : BatchResult
    level : float
        Coverage probability of the intervals.

    Returns
    -------
    list of BatchColumn
        For each parameter the estimate, its error and its interval, then the rest. A name that an axis, a coordinate or
        a parameter has already gets an underscore.
    """
    used = {*batch.axis_names, *batch.coords}

    def claim(name: str) -> str:
        """Return a name that is not used yet."""
        while name in used:
            name += "_"
        used.add(name)
        return name

    names = {name: claim(name) for name in batch.parameters}  # before all others
    errors, columns = batch.standard_errors, []
    for name, own in names.items():
        ends, label = batch.interval(name, level), f"{level:.4g} interval of {name}"
        columns += [
            BatchColumn(own, batch.estimate[name], f"estimate of {name}", is_map=True),
            BatchColumn(claim(f"{name}_error"), errors[name], f"standard error of {name}", is_map=True),
            BatchColumn(claim(f"{name}_lower"), ends[..., 0], f"lower end of the {label}"),
            BatchColumn(claim(f"{name}_upper"), ends[..., 1], f"upper end of the {label}"),
        ]
    for name in batch.columns:
        own = claim("sigma" if len(batch.columns) == 1 else f"sigma_{name}")
        columns.append(BatchColumn(own, batch.sigma[name], f"standard deviation of the noise of {name}"))
    return [
        *columns,
        BatchColumn(claim("p_value"), batch.p_value, "p-value of the model", is_map=True),
        BatchColumn(claim("log_likelihood"), batch.log_likelihood, "log-likelihood"),
        BatchColumn(claim("status"), batch.status_code, "status of the fit", is_map=True, is_status=True),
        BatchColumn(claim("starts"), batch.starts, "starts of the search"),
    ]


def collect_labels(batch: BatchResult) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the position and the labels of each dataset, in the order of the raveled results.

    Returns
    -------
    axes : dict of str to ndarray, (datasets,)
        For each axis its coordinate, or the numbers from 0.
    labels : dict of str to ndarray, (datasets,)
        The other coordinates.
    """
    names, shape = batch.axis_names, batch.shape

    def spread(dims: Iterable[str], values: Any) -> Any:
        """Repeat an array that has some of the axes along the others."""
        array, dims = np.asarray(values), tuple(dims)
        order = [dims.index(name) for name in names if name in dims]
        missing = [k for k, name in enumerate(names) if name not in dims]
        return np.broadcast_to(np.expand_dims(array.transpose(order), tuple(missing)), shape).ravel()

    axes = {
        name: spread(*batch.coords[name]) if name in batch.coords else spread((name,), np.arange(length))
        for name, length in zip(names, shape, strict=True)
    }
    labels = {name: spread(*entry) for name, entry in batch.coords.items() if name not in names}
    return axes, labels


def build_batch_frame(batch: BatchResult, level: float) -> Any:
    """Build the data frame that `BatchResult.to_frame` returns."""
    pd = import_pandas()
    axes, labels = collect_labels(batch)
    columns = {**labels}
    for column in collect_columns(batch, level):
        flat = column.values.ravel()
        columns[column.name] = np.array(list_status_names())[flat] if column.is_status else flat
    if not axes:
        return pd.DataFrame(columns)
    if len(axes) == 1:
        ((name, values),) = axes.items()
        return pd.DataFrame(columns, index=pd.Index(values, name=name))
    return pd.DataFrame(columns, index=pd.MultiIndex.from_arrays(list(axes.values()), names=list(axes)))


def build_batch_arrays(batch: BatchResult, level: float) -> Any:
    """Build the Dataset that `BatchResult.to_xarray` returns."""
    xr = import_xarray()
    names = list_status_names()
    variables = {}
    for column in collect_columns(batch, level):
        attributes: dict[str, Any] = {"long_name": column.description}
        values: Any = column.values
        if column.is_status:
            values = values.astype(np.int8)
            attributes |= {"flag_values": np.arange(len(names), dtype=np.int8), "flag_meanings": " ".join(names)}
        variables[column.name] = (batch.axis_names, values, attributes)
    return xr.Dataset(
        variables,
        coords={name: (list(dims), np.asarray(values)) for name, (dims, values) in batch.coords.items()},
        attrs={
            "source": f"weakform {__version__}",
            "parameters": " ".join(batch.parameters),
            "level": level,
            "notes": "\n".join(batch.notes),
        },
    )
