"""The results of many fits of one model: arrays in the shape of what came in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..support.wording import suggest_name
from .status import Status

if TYPE_CHECKING:
    from .fit_result import FitResult

STATUSES = tuple(Status)
"""All statuses; `BatchResult.status_code` holds positions in it."""


class NamedArrays(Mapping[str, FloatArray]):
    """Arrays of one shape by the name of a parameter or a column.

    Parameters
    ----------
    names : tuple of str, (n,)
    values : ndarray, (..., n)
    what : str
        What a name is, for messages.
    """

    def __init__(self, names: tuple[str, ...], values: FloatArray, what: str) -> None:
        self._names, self._values, self._what = names, values, what

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self._names:
            raise FitError(
                f"{name!r} is no {self._what} of this result, which has: {', '.join(self._names)}."
                f"{suggest_name(str(name), self._names)}"
            )
        return self._values[..., self._names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """Return all arrays stacked along a last axis."""
        del copy
        return np.asarray(self._values, dtype=dtype)

    def __repr__(self) -> str:
        return f"<{', '.join(self._names)}: arrays {self._values.shape[:-1]}>"


@dataclass(frozen=True, repr=False)
class BatchResult:
    """Fits of one model to many datasets.

    All arrays have the shape of the data without the axes of time and column, `shape`.

    Attributes
    ----------
    parameters : tuple of str, (J,)
        Free parameters.
    columns : tuple of str, (K,)
        Measured columns.
    shape : tuple of int
    estimates : ndarray, (*shape, J)
    covariance : ndarray, (*shape, J, J)
        NaN for parameters at a bound.
    sigmas : ndarray, (*shape, K)
        Standard deviation of the noise, given or estimated.
    p_value : ndarray, shape
        P-value of the model; NaN without a test.
    log_likelihood : ndarray, shape
    bias : ndarray, shape
        Error of the discretisation: largest shift of a parameter, in standard errors.
    status_code : ndarray of int, shape
        Position of the status in `list(Status)`.
    starts : ndarray of int, shape
        Starts that were followed.
    fitted_singly : int
        Datasets that the engine could not settle, and that were fitted one by one.
    log_scale : ndarray of bool, (J,)
        Parameters that were estimated on a log scale; their intervals are positive.
    seconds : float
    notes : tuple of str
    dims : tuple of str
        Names of the axes of the datasets, for tables and files; see `axis_names` for the names of axes without them.
    coords : dict
        Labels of the datasets, such as the number of a well or the position of a voxel: the names of their axes, and an
        array, by name.
    interrupted : bool
        Whether the user interrupted before all datasets were fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import weakform as wf
    >>> model, t = wf.Model.from_text("x' = -k*x"), np.linspace(0, 4, 40)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal((2, 3, 40))
    >>> batch = wf.fit_batch(model, t, np.exp(-0.5 * t) + noise)
    >>> batch.shape, batch.parameters, batch.estimate["k"].shape
    ((2, 3), ('k',), (2, 3))
    """

    parameters: tuple[str, ...]
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    estimates: FloatArray
    covariance: FloatArray
    sigmas: FloatArray
    p_value: FloatArray
    log_likelihood: FloatArray
    bias: FloatArray
    status_code: IntArray
    starts: IntArray
    log_scale: BoolArray
    fitted_singly: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    coords: Mapping[str, tuple[tuple[str, ...], Any]] = field(default_factory=dict)
    interrupted: bool = False
    refit: Callable[[tuple[int, ...]], FitResult] | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Number of datasets."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes of the datasets: `dims`, else `dataset`, or `axis_0`, `axis_1`, ... for several axes."""
        if len(self.dims) == len(self.shape):
            return self.dims
        return ("dataset",) if len(self.shape) == 1 else tuple(f"axis_{k}" for k in range(len(self.shape)))

    @property
    def estimate(self) -> NamedArrays:
        """Estimates by parameter: `batch.estimate["k"]` has the shape of the datasets."""
        return NamedArrays(self.parameters, self.estimates, "free parameter")

    @property
    def standard_errors(self) -> NamedArrays:
        """Standard errors by parameter, from the covariance."""
        with np.errstate(invalid="ignore"):
            values = np.sqrt(np.einsum("...ii->...i", self.covariance))
        return NamedArrays(self.parameters, values, "free parameter")

    @property
    def sigma(self) -> NamedArrays:
        """Standard deviation of the noise by column."""
        return NamedArrays(self.columns, self.sigmas, "column")

    def interval(self, name: str, level: float = 0.95) -> FloatArray:
        """Return confidence intervals of a parameter.

        Parameters
        ----------
        name : str
        level : float
            Between 0 and 1.

        Returns
        -------
        ndarray, (*shape, 2)
            `estimate ± quantile · standard error`; for a parameter on a log scale the same for its logarithm.
        """
        if not 0 < level < 1:
            raise FitError(f"level must be between 0 and 1; received {level!r}.")
        estimate, error = self.estimate[name], self.standard_errors[name]
        quantile = NormalDist().inv_cdf((1 + level) / 2)
        ends = np.stack([-quantile * error, quantile * error], axis=-1)
        if self.log_scale[self.parameters.index(name)]:
            with np.errstate(all="ignore"):
                return np.asarray(estimate[..., None] * np.exp(ends / estimate[..., None]))
        return np.asarray(estimate[..., None] + ends)

    @property
    def status(self) -> Any:
        """A `Status` for each dataset: an array of objects in the shape of the datasets."""
        table = np.empty(len(STATUSES), dtype=object)
        table[:] = STATUSES
        return table[self.status_code]

    @property
    def success(self) -> BoolArray:
        """Whether each fit converged, and no evidence speaks against the model or the estimate."""
        return np.asarray(np.array([s.success for s in STATUSES])[self.status_code])

    def count_statuses(self) -> dict[Status, int]:
        """Count the datasets with each status, the most frequent first."""
        counts = np.bincount(self.status_code.ravel(), minlength=len(STATUSES))
        return {STATUSES[k]: int(counts[k]) for k in np.argsort(-counts, kind="stable") if counts[k]}

    def to_frame(self, level: float = 0.95) -> Any:
        """Return one row for each dataset as a pandas data frame.

        Parameters
        ----------
        level : float
            Coverage probability of the intervals.

        Returns
        -------
        pandas.DataFrame
            The index holds the axes of the datasets. The columns are, for a parameter `k`: the estimate `k`, its
            standard error `k_error`, and the ends of its interval `k_lower` and `k_upper`; then `sigma` of each
            measured column, `p_value`, `log_likelihood`, the name of the `status`, and `starts`.

        Examples
        --------
        >>> import numpy as np
        >>> import weakform as wf
        >>> model, t = wf.Model.from_text("x' = -k*x"), np.linspace(0, 4, 40)
        >>> noise = 0.01 * np.random.default_rng(0).standard_normal((3, 40))
        >>> batch = wf.fit_batch(model, t, np.exp(-0.5 * t) + noise)
        >>> batch.to_frame()["k"].round(1).tolist()
        [0.5, 0.5, 0.5]
        """
        from ..report.batch_tables import build_batch_frame

        return build_batch_frame(self, level)

    def to_xarray(self, level: float = 0.95) -> Any:
        """Return the results as an xarray Dataset whose variables have the axes of the datasets.

        Parameters
        ----------
        level : float
            Coverage probability of the intervals.

        Returns
        -------
        xarray.Dataset
            The variables have the names of the columns of `to_frame`. The status is a number, the position of the
            status in `list(Status)`; its attributes `flag_values` and `flag_meanings` give the names.
        """
        from ..report.batch_tables import build_batch_arrays

        return build_batch_arrays(self, level)

    def save(self, path: str | Path) -> Path:
        """Write the results to a file whose ending chooses the format.

        Parameters
        ----------
        path : str or Path
            `.npz` for all arrays, which `BatchResult.load` reads; `.nc` for the variables of `to_xarray`; `.csv` or
            `.parquet` for the table of `to_frame`; `.nii` or `.nii.gz` for one image for each parameter, standard
            error, p-value and status, whose names begin with that of `path`. An existing file is replaced.

        Returns
        -------
        Path
            The path of the file.
        """
        from ..files.batch_archive import save_batch

        return save_batch(self, path)

    @classmethod
    def load(cls, path: str | Path) -> BatchResult:
        """Read results that `save` wrote to a `.npz` file.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        BatchResult
            Without the data, so that `batch[index]` is not available.
        """
        from ..files.batch_archive import load_batch

        return load_batch(path)

    def __getitem__(self, index: Any) -> FitResult:
        """Return the full result of one dataset, fitted again from its estimate."""
        place = index if isinstance(index, tuple) else (index,)
        if len(place) != len(self.shape) or not all(isinstance(i, int | np.integer) for i in place):
            raise FitError(
                f"batch[...] takes one whole number for each of the {len(self.shape)} axes of the datasets, "
                f"{self.shape}; received {index!r}. Arrays of all datasets are batch.estimate[name] and others."
            )
        place = tuple(int(i) + (n if i < 0 else 0) for i, n in zip(place, self.shape, strict=True))
        if any(not 0 <= i < n for i, n in zip(place, self.shape, strict=True)):
            raise IndexError(f"The datasets have the shape {self.shape}; received the index {index!r}.")
        if self.refit is None:
            raise FitError("This result was read from a file, which holds no data: a full result needs a new fit.")
        return self.refit(place)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single dataset has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[FitResult]:
        raise TypeError("full results are not computed for all datasets: use batch.estimate, or batch[index] for one")

    def __repr__(self) -> str:
        total = self.size
        lines = [
            f"{total:,} dataset{'s' * (total != 1)} {self.shape if len(self.shape) > 1 else ''}".rstrip()
            + f", {len(self.parameters)} parameter{'s' * (len(self.parameters) != 1)}, {self.seconds:.3g} s"
        ]
        for status, count in self.count_statuses().items():
            meaning = "success" if status.success else status.value.split(":")[0]
            lines.append(f"  {count:>10,}  {status.name:<12} {meaning}")
        good = self.success
        if good.any():
            lines.append("Estimates of the successes: median, and from the 5th to the 95th percentile")
            for name in self.parameters:
                low, middle, high = np.quantile(self.estimate[name][good], [0.05, 0.5, 0.95])
                errors = self.standard_errors[name][good]
                finite = errors[np.isfinite(errors)]  # a parameter at a bound has none
                error = f"; standard error {np.median(finite):.2g}" if len(finite) else ""
                lines.append(f"  {name:<12} {middle:<11.5g} {low:.4g} to {high:.4g}{error}")
        if self.fitted_singly:
            lines.append(f"{self.fitted_singly:,} of them were fitted one by one.")
        lines += self.notes
        return "\n".join(lines)
