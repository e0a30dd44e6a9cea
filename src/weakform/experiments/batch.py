"""Fits of one model to many datasets with the same times, by the compiled engine."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..data import Dataset
from ..data.doses import Doses
from ..data.matching import MatchedPair, collect_inputs, match
from ..engine.chunk_fit import POLICY as CHUNK_POLICY
from ..engine.chunk_fit import BatchPlan, ChunkData, ChunkInputs, ChunkResult, fit_chunk, has_wide_gap, measure_size
from ..engine.lane_iteration import LaneProblem
from ..engine.lane_plan import LaneInputs, LaneMesh, build_lane_mesh, build_lane_model, explain_obstacle
from ..fitting import fit
from ..fitting.fit_arguments import check_model
from ..linalg.blas_threads import use_single_thread
from ..model import Model
from ..model.inputs import Inputs
from ..noise.kinds import KINDS
from ..parameters import Parameter, ResolvedParameters, resolve_parameters
from ..parameters.resolution import drop_parameters
from ..results.batch_result import STATUSES, BatchResult
from ..results.fit_result import FitResult
from ..results.status import Status
from ..support.array_types import FloatArray, IntArray
from ..support.errors import DataError, FitError, WeakformError
from ..support.whole_numbers import is_whole
from ..support.wording import ProgressLine
from .batch_checkpoint import SAMPLED_SETS, BatchProgress, compute_fingerprint
from .executors import LostRun, make_dask_executor

MAX_CHUNK_BYTES = 2**26
"""Memory of the arrays of one chunk, about: 64 MB. Smaller chunks spend more time between the passes, and larger ones
do not fit into a cache (`benchmarks/batch.py speed`, chunks of 16 to 128 MB)."""
MAX_CHUNK_SETS = 2048
"""Datasets of one chunk, at most: progress is shown, and an interrupt is noticed, after each chunk. By judgement."""
MIN_CHUNK_SETS = 32
"""Datasets of one chunk, at least: fewer leave lanes unused. By judgement."""
MAX_SINGLE_SHARE = 0.02
"""Share of the datasets that are fitted one by one where the engine does not converge, beyond the first
`MAX_SINGLE_FITS`; more of them keep their status. By judgement: such a fit takes a thousand times longer."""
SUSPICIOUS_P_VALUE = 1e-4
"""P-value of the model below which a rejection is checked by a single fit, whose search is a more thorough one. By
judgement: one right model in ten thousand has a smaller one."""
MAX_SINGLE_FITS = 20
"""Datasets that are fitted one by one however few there are. By judgement."""


def fit_batch(
    model: Model,
    times: ArrayLike,
    Y: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    noise: str | Sequence[str] = "gaussian",
    sigma: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    inputs: Mapping[str, Any] | None = None,
    hold: bool = False,
    doses: Doses | Sequence[Doses] | None = None,
    frames: tuple[ArrayLike, ArrayLike] | None = None,
    parameters: Mapping[str, Parameter | float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | None = None,
    start: Mapping[str, float] | ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    log: Sequence[str] = (),
    priors: Mapping[str, tuple[str, float, float]] | None = None,
    seed: int = 0,
    workers: int | None = None,
    scheduler: str | None = None,
    checkpoint: str | Path | None = None,
) -> BatchResult:
    """Fit a model to each of many datasets with the same times.

    Parameters
    ----------
    model : Model
    times : array_like, (time,)
        Increasing.
    Y : array_like, (..., time) or (..., time, column)
        With one measured column the last axis is time; with several the last two are time and column. The axes before
        them are those of the datasets, and of the result. NaN is a missing value. A memory-mapped array is read in
        pieces.
    names : sequence of str, optional
        States or observables that the columns measure; by default all states.
    noise : str or sequence of str
        Kind of noise of all columns or of each; the engine takes `"gaussian"` and `"lognormal"`.
    sigma : array_like, optional
        Standard deviation of the noise, in any shape that broadcasts to `Y`; estimated for each dataset and column if
        not given.
    weights : array_like, optional
        Relative weights of the values, one over their relative variances, in any shape that broadcasts to `Y`; 0 leaves
        a value out.
    inputs : mapping, optional
        Known inputs by name: an array `(time,)` for all datasets or `(..., time)` with one for each, at the same times;
        or a tuple `(times, values)` or `(times, values, "hold" or "linear")`.
    hold : bool
        Whether inputs keep their value until the next sample; otherwise they are interpolated linearly.
    doses : Doses, or sequence of them, optional
        The same for all datasets.
    frames : pair of array_like, (time,), optional
        Beginnings and ends, if each value is the average over a frame, as in positron emission tomography. Frames must
        not overlap, and each time must be inside its frame.
    parameters, bounds, start, fixed, tied, log, priors
        As `fit` takes them; the same for all datasets.
    seed : int
        Seed of the starts; the same seed gives the same result.
    workers : int, optional
        Number of threads; by default one for each core.
    scheduler : str, optional
        Address of a Dask scheduler; the fits then run on its workers.
    checkpoint : str or Path, optional
        File (`.npz`) that keeps the results of finished datasets, at most every few seconds, at the end and on Ctrl-C.
        A second call with the same arguments and data continues from it.

    Returns
    -------
    BatchResult
        After Ctrl-C with the datasets that were finished; the others have the status `INTERRUPTED`.

    Raises
    ------
    DataError, FitError
        If shapes do not fit, times do not increase, a name is not one of the model's, or the checkpoint belongs to
        another run.

    Examples
    --------
    >>> import numpy as np
    >>> import weakform as wf
    >>> model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    >>> t = np.linspace(0, 8, 50)
    >>> r = np.array([[1.0, 1.2], [1.4, 1.6]])
    >>> N = 1 / (1 + 9 * np.exp(-r[..., None] * t))
    >>> batch = wf.fit_batch(model, t, N + 0.01 * np.random.default_rng(0).standard_normal(N.shape))
    >>> batch.estimate["r"].round(1)
    array([[1. , 1.2],
           [1.4, 1.6]])
    """
    begin = time.monotonic()
    check_model(model)
    if workers is not None and not is_whole(workers, 1):
        raise FitError(f"workers must be a whole number, at least 1; received {workers!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"seed must be a whole number that is not negative; received {seed!r}.")
    keywords = {
        "bounds": bounds,
        "start": start,
        "fixed": fixed,
        "tied": tied,
        "log": log,
        "priors": priors,
    }
    if isinstance(names, str):
        raise DataError(f"names must be a list of names; received the text {names!r}. Write [{names!r}].")
    columns = _Columns(None if names is None else tuple(names), noise, sigma=sigma, weights=weights)
    source = _read_arguments(model, times, Y, columns, inputs={} if inputs is None else inputs, hold=hold)
    source = replace(source, doses=doses, frames=None if frames is None else _read_frames(frames, source.times))
    template = source.build_template()
    matched = match(template, model)
    if source.frames is not None:  # averages of states, not the states
        matched = replace(matched, complete=False)
    resolved = resolve_parameters(
        matched.model, matched.data, *drop_parameters(matched.unused_parameters, parameters, keywords)
    )
    if not resolved.free.any():
        raise FitError("All parameters are fixed; there is nothing to estimate.")
    source = source.order_columns(matched)
    settings = {"parameters": parameters, **keywords, "seed": seed}
    free_names = tuple(n for n, f in zip(resolved.model.parameters, resolved.free, strict=True) if f)
    result = ChunkResult.empty(source.count, len(free_names), len(source.columns))
    obstacle = explain_obstacle(resolved.shared, matched.data, int(resolved.free.sum()))
    if not obstacle and matched.complete and has_wide_gap(source.times):
        obstacle = "the times have a wide gap, in which the states are not measured"
    notes: list[str] = []
    singly: IntArray = np.zeros(0, dtype=np.int64)
    interrupted = False
    progress = BatchProgress(
        result, checkpoint, {} if checkpoint is None else _compute_fingerprint(model, source, settings)
    )
    with use_single_thread():
        if obstacle and source.frames is not None:
            raise FitError(f"Averages over frames need the engine, which cannot be used: {obstacle}.")
        if obstacle:
            notes.append(f"The engine was not used: {obstacle}. Each dataset was fitted by itself.")
            singly = np.arange(source.count)
            progress.mark_interrupted()
        else:
            plan = _build_plan(resolved, matched, seed, source.frames)
            shared = collect_inputs(resolved.shared, matched.data, 0)
            interrupted = _fit_chunks(plan, source, shared, progress, workers=workers, scheduler=scheduler)
            unsettled = ~np.array([s.converged or s is Status.EMPTY for s in STATUSES])[result.status]
            # So small a p-value is rare for a right model at its optimum: where every state is measured, a weak start
            # may have missed it. Of the datasets of a wrong model, which are many, only some are looked at again.
            is_rejected = (result.status == STATUSES.index(Status.REJECTED)) & (result.p_value < SUSPICIOUS_P_VALUE)
            suspicious = np.flatnonzero(is_rejected & matched.complete)[:MAX_SINGLE_FITS]
            # Those that were fitted singly before an interruption count, so that the same ones are chosen.
            chosen = np.flatnonzero((unsettled & (result.starts > 0)) | progress.fitted_singly)
            limit = max(MAX_SINGLE_FITS, int(MAX_SINGLE_SHARE * source.count))
            singly = np.union1d(chosen[:limit], suspicious)
            if interrupted or source.frames is not None:
                singly = singly[:0]
        fits = _SingleFits(model, source, settings, free_names, scheduler)
        interrupted = fits.run(progress, singly) or interrupted
        if obstacle and not interrupted and (result.status == STATUSES.index(Status.EMPTY)).all():
            fits.raise_refusal(0)  # the model is refused, not a dataset
    if interrupted:
        missing = int(np.sum(result.status == STATUSES.index(Status.INTERRUPTED)))
        resume = "" if checkpoint is None else " The same call continues from the checkpoint."
        notes.append(f"Interrupted: {missing:,} datasets were not fitted.{resume}")
    shape = source.shape
    log_scale = resolved.scale.log[resolved.free]
    return BatchResult(
        parameters=free_names,
        columns=tuple(matched.data.names or ()),
        shape=shape,
        estimates=result.estimate.reshape(*shape, -1),
        covariance=result.covariance.reshape(*shape, len(free_names), len(free_names)),
        sigmas=result.sigma.reshape(*shape, -1),
        p_value=result.p_value.reshape(shape),
        log_likelihood=result.log_likelihood.reshape(shape),
        bias=result.bias.reshape(shape),
        freedom=result.freedom.reshape(shape),
        status_code=result.status.reshape(shape),
        starts=result.starts.reshape(shape),
        log_scale=log_scale,
        fitted_singly=int(progress.fitted_singly.sum()),
        seconds=time.monotonic() - begin,
        notes=(*matched.data.notes, *notes, *progress.notes),
        interrupted=interrupted,
        refit=_Refit(model, source, settings, free_names, result.estimate),
    )


def _compute_fingerprint(model: Model, source: _Source, settings: Mapping[str, Any]) -> dict[str, str]:
    """Compute the fingerprint of a run, from which another one may not continue; see `batch_checkpoint`."""
    sample = np.unique(np.linspace(0, source.count - 1, SAMPLED_SETS).astype(np.int64))
    inputs = {
        name: (t, values if values.ndim == 1 else values.reshape(-1, values.shape[-1])[sample], how)
        for name, (t, values, how) in source.inputs.items()
    }
    return compute_fingerprint(
        {
            "the model": repr(model),
            "the settings": {**settings, "noise": source.noise, "names": source.names, "doses": source.doses},
            "the frames": source.frames,
            "the times": source.times,
            "the shape": (source.Y.shape, source.columns),
            "the data": source.read(sample),
            "the inputs": inputs,
        }
    )


@dataclass(frozen=True)
class _Columns:
    """What the user says about the measured columns; `fit_batch` describes the attributes."""

    names: tuple[str, ...] | None
    noise: str | Sequence[str]
    sigma: ArrayLike | None
    weights: ArrayLike | None


@dataclass(frozen=True)
class _Refit:
    """Fits one dataset of a batch again, for its full result."""

    model: Model
    source: _Source
    settings: Mapping[str, Any]
    names: tuple[str, ...]
    estimates: FloatArray

    def __call__(self, place: tuple[int, ...]) -> FitResult:
        """Fit the dataset at an index."""
        number = int(np.ravel_multi_index(place, self.source.shape)) if place else 0
        return _fit_one(self.model, self.source, number, self.settings, self.names, self.estimates[number])


@dataclass(frozen=True)
class _Source:
    """The data of a batch as they came in.

    Attributes
    ----------
    times : ndarray, (S,)
    Y : ndarray, (*shape, S, columns)
        Possibly a memory map.
    shape : tuple of int
        Of the datasets.
    columns : tuple of int
        Columns that are fitted, in the order of the model.
    names : tuple of str, or None
    noise : tuple of str
        Of each column that is fitted.
    sigma, weights : ndarray, or None
        They broadcast to `Y`.
    inputs : dict
        `(times, values, how)` of each input; values may have the axes of the datasets.
    doses
        As given.
    frames : ndarray, (S, 2), or None
    """

    times: FloatArray
    Y: FloatArray
    shape: tuple[int, ...]
    columns: tuple[int, ...]
    names: tuple[str, ...] | None
    noise: tuple[str, ...]
    sigma: FloatArray | None
    weights: FloatArray | None
    inputs: dict[str, tuple[FloatArray, FloatArray, str]]
    doses: Any = None
    frames: FloatArray | None = None

    @property
    def count(self) -> int:
        """Number of datasets."""
        return int(np.prod(self.shape, dtype=np.int64))

    def build_template(self) -> Dataset:
        """Build a dataset with the times, columns, inputs and doses of the batch, and values that are never fitted."""
        ramp = np.linspace(1.0, 2.0, len(self.times))
        values = np.tile(ramp[:, None], (1, len(self.noise)))
        return Dataset(
            self.times,
            values[:, 0] if values.shape[1] == 1 else values,
            noise=self.noise,
            names=self.names,
            inputs=self._collect_inputs(None),
            doses=self.doses,
        )

    def _collect_inputs(self, number: int | None) -> dict[str, Any] | None:
        """Return the inputs of one dataset as `Dataset` takes them; without a number, of the template."""
        result: dict[str, Any] = {}
        for name, (t, values, how) in self.inputs.items():
            if values.ndim == 1:
                own = values
            elif number is None:  # different at all times, so that the mesh has a node wherever some dataset jumps
                own = np.arange(float(len(t)))
            else:
                own = values.reshape(-1, values.shape[-1])[number]
            result[name] = (t, own, how)
        return result or None

    def select_inputs(self, chunk: slice) -> _Source:
        """Return a source that has only the inputs of some datasets."""
        inputs = {
            name: (t, values if values.ndim == 1 else values.reshape(-1, values.shape[-1])[chunk], how)
            for name, (t, values, how) in self.inputs.items()
        }
        shape = (chunk.stop - chunk.start,)
        return replace(self, Y=np.zeros((*shape, 0, 0)), shape=shape, sigma=None, weights=None, inputs=inputs)

    def replace_own_inputs(
        self, names: tuple[str, ...], mesh: LaneMesh, shared: LaneInputs, chunk: slice
    ) -> LaneInputs:
        """Return the inputs of some datasets on a mesh.

        Parameters
        ----------
        names : tuple of str
            The inputs in the order of the model.
        mesh : LaneMesh
        shared : LaneInputs
            The inputs of the template, of which those that all datasets share are kept.
        chunk : slice
            The datasets.
        """
        sets = chunk.stop - chunk.start
        tables = {
            "before": (mesh.times, True),
            "after": (mesh.times, False),
            "middle": (np.concatenate([mesh.times[:1], (mesh.times[:-1] + mesh.times[1:]) / 2]), False),
            "substeps": (mesh.substep_times, False),
        }
        parts: dict[str, FloatArray | None] = {}
        for label, (at, before) in tables.items():
            base = getattr(shared, label)
            parts[label] = None if base is None else np.repeat(base[None], sets, axis=0)
            for column, name in enumerate(names):
                table = parts[label]
                if table is None or name not in self.inputs or self.inputs[name][1].ndim == 1:
                    continue
                t, values, how = self.inputs[name]
                own = values.reshape(-1, values.shape[-1])[chunk]
                table[..., column] = _interpolate(t, own, at, how, before)
                if label == "substeps":  # at the end of an interval the limit from inside
                    table[:, :, -1, column] = _interpolate(t, own, mesh.times[1:], how, True)
        after, middle, substeps = parts["after"], parts["middle"], parts["substeps"]
        assert after is not None
        assert middle is not None
        assert substeps is not None
        return LaneInputs(parts["before"], after, middle, substeps)

    @property
    def has_own_inputs(self) -> bool:
        """Whether some input differs between datasets."""
        return any(values.ndim > 1 for _, values, _ in self.inputs.values())

    def order_columns(self, matched: MatchedPair) -> _Source:
        """Return the source with its columns in the order of the matched dataset."""
        fitted = matched.data.names or ()
        names = self.names or fitted
        columns = tuple(self.columns[names.index(name)] for name in fitted)
        noise = tuple(self.noise[names.index(name)] for name in fitted)
        return replace(self, columns=columns, noise=noise, names=tuple(fitted))

    def read(self, chosen: slice | IntArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Read some datasets: values and weights `(sets, S, K)`, and σ `(sets, K)` if it is given."""
        full = (*self.shape, *self.Y.shape[len(self.shape) :])
        numbers = np.arange(self.count)[chosen]
        if isinstance(chosen, slice) and (self.Y.flags.c_contiguous or len(self.shape) <= 1):
            values = np.array(self.Y.reshape(self.count, *full[len(self.shape) :])[chosen], dtype=float)
        else:
            values = np.array(
                self.Y[np.unravel_index(numbers, self.shape)] if self.shape else self.Y[None], dtype=float
            )
        values = values[:, :, list(self.columns)]
        scale = np.ones_like(values)
        sigma = None
        if self.sigma is not None:
            given = self._take(self.sigma, full, numbers)
            sigma = np.nanmedian(np.where(np.isfinite(given), given, np.nan), axis=1)
            scale = given / sigma[:, None]
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                scale = scale / np.sqrt(self._take(self.weights, full, numbers))
        measured = np.isfinite(values) & np.isfinite(scale) & (scale > 0)
        return values, np.where(measured, 1.0 / np.where(measured, scale, 1.0), 0.0), sigma

    def _take(self, array: FloatArray, full: tuple[int, ...], numbers: IntArray) -> FloatArray:
        """Return the part `(sets, S, K)` of an array that broadcasts to the data."""
        spread = np.broadcast_to(array, full)
        part = spread[np.unravel_index(numbers, self.shape)] if self.shape else spread[None]
        return np.array(part[:, :, list(self.columns)], dtype=float)

    def build_dataset(self, number: int) -> Dataset:
        """Build one dataset for a single fit."""
        values, weights, sigma = self.read(np.array([number]))
        with np.errstate(divide="ignore"):
            scale = np.where(weights[0] > 0, 1 / weights[0], 1.0)
        shown = np.where(weights[0] > 0, values[0], np.nan)
        given: Any = None
        if sigma is not None:
            given = sigma[0] if (scale == 1).all() else scale * sigma[0]
            given = float(given[0]) if given.ndim == 1 and len(given) == 1 else given
        one = shown.shape[1] == 1
        if one and given is not None and np.ndim(given) == 2:
            given = given[:, :1]
        data = Dataset(
            self.times,
            shown[:, 0] if one else shown,
            noise=self.noise,
            sigma=given,
            names=self.names,
            inputs=self._collect_inputs(number),
            doses=self.doses,
        )
        if sigma is None and not (scale == 1).all():
            kept = np.isin(self.times, data.trajectories[0].times)
            data = data.replace_attributes(trajectories=tuple(replace(q, scale=scale[kept]) for q in data.trajectories))
        return data


def _read_arguments(
    model: Model,
    times: ArrayLike,
    Y: ArrayLike,
    given: _Columns,
    *,
    inputs: Mapping[str, Any],
    hold: bool,
) -> _Source:
    """Check the arguments that are arrays, and bring them into one form."""
    names, noise = given.names, given.noise
    t = _to_numbers(times, "times")
    if t.ndim != 1 or len(t) < 2:
        raise DataError(f"times must be one axis of at least two numbers; received an array of shape {t.shape}.")
    if not np.isfinite(t).all() or not (np.diff(t) > 0).all():
        bad = (
            int(np.flatnonzero(~(np.diff(t) > 0))[0])
            if np.isfinite(t).all()
            else int(np.flatnonzero(~np.isfinite(t))[0])
        )
        raise DataError(
            f"times must be finite and increase; at position {bad} they are "
            f"{', '.join(f'{v:g}' for v in t[bad : bad + 2])}. Sort them, and join repeated measurements."
        )
    values = Y if isinstance(Y, np.ndarray) and Y.dtype.kind in "fiu" else _to_numbers(Y, "Y")
    columns = len(names) if names is not None else len(model.states)
    if columns == 0:
        raise DataError("names is empty; give the state or observable that each column measures.")
    axes = 1 if columns == 1 and not (values.ndim >= 2 and values.shape[-2:] == (len(t), 1)) else 2
    if values.ndim < axes or values.shape[-axes] != len(t) or (axes == 2 and values.shape[-1] != columns):
        wanted = f"(..., {len(t)})" if columns == 1 else f"(..., {len(t)}, {columns})"
        what = "time" if columns == 1 else "time and column"
        hint = (
            "" if names is not None else f" Without names=[...] the columns are all states: {', '.join(model.states)}."
        )
        raise DataError(
            f"The last {'axis' if columns == 1 else 'two axes'} of Y must be {what}, {wanted}, for {len(t)} times and "
            f"{columns} column{'s' * (columns != 1)}; received {values.shape}.{hint}"
        )
    if axes == 1:
        values = values[..., None]
    shape = values.shape[:-2]
    if int(np.prod(shape, dtype=np.int64)) == 0:
        raise DataError(f"Y has no dataset: its shape is {values.shape}.")
    kinds = (noise,) * columns if isinstance(noise, str) else tuple(noise)
    if len(kinds) != columns or any(kind not in KINDS for kind in kinds):
        raise DataError(
            f"noise must be one of {', '.join(KINDS)}, or one of them for each of {columns} columns; received "
            f"{noise!r}."
        )
    extra: dict[str, FloatArray | None] = {}
    for label, wanted_array in (("sigma", given.sigma), ("weights", given.weights)):
        if wanted_array is None:
            extra[label] = None
            continue
        array = _to_numbers(wanted_array, label)
        if axes == 1 and array.ndim:
            array = array[..., None]
        try:
            np.broadcast_shapes(array.shape, values.shape)
            fits = np.broadcast_shapes(array.shape, values.shape) == values.shape
        except ValueError:
            fits = False
        if not fits:
            raise DataError(
                f"{label} must broadcast to Y, {values.shape[: values.ndim - (axes == 1)]}; received the shape "
                f"{np.shape(wanted_array)}. For one number for each dataset add an axis of length one for time."
            )
        if (array < 0).any() or (label == "sigma" and not (array > 0).all()):
            raise DataError(f"{label} must be {'positive' if label == 'sigma' else 'zero or positive'}.")
        extra[label] = array
    if any(kind == "lognormal" for kind in kinds) and not isinstance(Y, np.memmap):
        for k, kind in enumerate(kinds):
            if kind == "lognormal" and (values[..., k] <= 0).any():
                count = int(np.sum(values[..., k] <= 0))
                raise DataError(
                    f"Log-normal noise needs positive values; {count:,} values of column {k + 1} are not. Use "
                    "noise='gaussian', or replace them by NaN if they are missing."
                )
    return _Source(
        times=t,
        Y=values,
        shape=shape,
        columns=tuple(range(columns)),
        names=None if names is None else tuple(names),
        noise=kinds,
        sigma=extra["sigma"],
        weights=extra["weights"],
        inputs=_read_inputs(inputs, t, shape, hold),
    )


def _read_frames(frames: tuple[ArrayLike, ArrayLike], times: FloatArray) -> FloatArray:
    """Check frames, and return their beginnings and ends, `(S, 2)`."""
    if not isinstance(frames, tuple | list) or len(frames) != 2:
        raise DataError("frames must be a pair: the times at which they begin, and the times at which they end.")
    begin, end = (_to_numbers(part, "frames") for part in frames)
    if begin.shape != times.shape or end.shape != times.shape:
        raise DataError(f"frames must have one beginning and one end for each of {len(times)} times.")
    if not (np.isfinite(begin).all() and np.isfinite(end).all() and (end > begin).all()):
        raise DataError("Each frame must end after it begins.")
    slack = 1e-9 * (end[-1] - begin[0])
    if (begin[1:] < end[:-1] - slack).any():
        k = int(np.flatnonzero(begin[1:] < end[:-1] - slack)[0])
        raise DataError(f"Frames must not overlap; frame {k + 2} begins at {begin[k + 1]:g}, before {end[k]:g}.")
    if ((times < begin - slack) | (times > end + slack)).any():
        k = int(np.flatnonzero((times < begin - slack) | (times > end + slack))[0])
        raise DataError(f"Each time must be inside its frame; {times[k]:g} is not in {begin[k]:g} to {end[k]:g}.")
    # Frames that touch share a time, however it was rounded.
    begin = np.concatenate([begin[:1], np.where(np.abs(begin[1:] - end[:-1]) <= slack, end[:-1], begin[1:])])
    return np.column_stack([begin, end])


def _to_numbers(values: ArrayLike, what: str) -> FloatArray:
    """Convert to an array of floats."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be an array of numbers: {error}.") from None


def _read_inputs(
    inputs: Mapping[str, Any], t: FloatArray, shape: tuple[int, ...], hold: bool
) -> dict[str, tuple[FloatArray, FloatArray, str]]:
    """Bring inputs into the form `(times, values, how)`."""
    result = {}
    for name, given in inputs.items():
        how = "hold" if hold else "linear"
        own_times = t
        if isinstance(given, tuple) and len(given) in (2, 3):
            own_times = _to_numbers(given[0], f"the times of the input {name!r}")
            values = _to_numbers(given[1], f"the input {name!r}")
            how = str(given[2]) if len(given) == 3 else how
        else:
            values = _to_numbers(given, f"the input {name!r}")
        if how not in ("hold", "linear"):
            raise DataError(f"The input {name!r} is interpolated by 'hold' or 'linear'; received {how!r}.")
        if values.ndim == 0 or values.shape[-1] != len(own_times) or values.shape[:-1] not in ((), shape):
            raise DataError(
                f"The input {name!r} must be ({len(own_times)},), or {(*shape, len(own_times))} with one for each "
                f"dataset; received {values.shape}."
            )
        if not np.isfinite(values).all():
            raise DataError(f"The input {name!r} has values that are not finite; inputs are known at all their times.")
        result[name] = (own_times, values, how)
    return result


def _build_plan(
    parameters: ResolvedParameters, matched: MatchedPair, seed: int, frames: FloatArray | None
) -> BatchPlan:
    """Build what all chunks have in common."""
    index, log = parameters.index, parameters.scale.log
    hidden = HiddenStateProblem.from_model(
        parameters.model, parameters.shared, index, matched.data, np.ones(matched.data.D), log=log
    )
    lane_model = build_lane_model(hidden, parameters.free, matched.complete)
    meshes = tuple(
        build_lane_mesh(hidden, matched.complete, halvings, frames) for halvings in range(CHUNK_POLICY.halvings + 1)
    )
    free = lane_model.free
    scale, (lower, upper) = parameters.scale, parameters.bounds
    base = np.where(np.isnan(parameters.fixed_values), 0.0, parameters.fixed_values)
    names = [parameters.model.parameters[j] for j in free]
    together = np.isin(names, parameters.model.linear_among(names)) & ~log[free]
    start = parameters.start
    problem = LaneProblem(
        base=base,
        free=free,
        log=log,
        lower=scale.to_working(lower)[free],
        upper=scale.to_working(upper)[free],
        prior=None if parameters.prior is None else parameters.prior.convert_to_scale(scale),
        sigma=None,
        spread=np.ones((1, matched.data.D)),
    )
    return BatchPlan(
        model=lane_model,
        meshes=meshes,
        complete=matched.complete,
        is_linear=bool(together.all()),
        linear=together,
        problem=problem,
        start=None if start is None else scale.to_working(start)[free],
        seed=seed,
    )


def _choose_chunk(plan: BatchPlan) -> int:
    """Return the number of datasets of a chunk."""
    model, mesh = plan.model, plan.meshes[0]
    per_lane = 8 * (
        len(mesh.times) * model.D * (model.D + model.F + 3)
        + 3 * mesh.samples * model.K * (model.unknowns + 3)
        + 2 * model.unknowns**2
    )
    return int(np.clip(MAX_CHUNK_BYTES // per_lane // 8 * 8, MIN_CHUNK_SETS, MAX_CHUNK_SETS))


@dataclass(frozen=True)
class _SharedInputs:
    """The inputs that all datasets share, on each mesh; it can be sent to another process, unlike a closure.

    Attributes
    ----------
    meshes : tuple of LaneMesh
    inputs : Inputs
    kept : dict of int to LaneInputs
        Those that were evaluated already, by the number of the mesh.
    """

    meshes: tuple[LaneMesh, ...]
    inputs: Inputs
    kept: dict[int, LaneInputs] = field(default_factory=dict)

    def __call__(self, level: int) -> LaneInputs:
        """Evaluate the inputs on a mesh."""
        if level not in self.kept:
            self.kept[level] = LaneInputs.evaluate(self.meshes[level], self.inputs)
        return self.kept[level]


@dataclass(frozen=True)
class _OwnInputs:
    """The inputs of the datasets of a chunk, on each mesh.

    Attributes
    ----------
    shared : _SharedInputs
    source : _Source
        With the inputs of the chunk.
    names : tuple of str
        The inputs in the order of the model.
    kept : dict of int to LaneInputs
        Those that were evaluated already, by the number of the mesh.
    """

    shared: _SharedInputs
    source: _Source
    names: tuple[str, ...]
    kept: dict[int, LaneInputs] = field(default_factory=dict)

    def __call__(self, level: int) -> LaneInputs:
        """Evaluate the inputs on a mesh."""
        if level not in self.kept:
            chunk, shared = slice(0, self.source.count), self.shared
            self.kept[level] = self.source.replace_own_inputs(self.names, shared.meshes[level], shared(level), chunk)
        return self.kept[level]


def _fit_chunks(
    plan: BatchPlan,
    source: _Source,
    inputs: Inputs | None,
    progress: BatchProgress,
    *,
    workers: int | None,
    scheduler: str | None,
) -> bool:
    """Fit all chunks that are not finished; return True if the user interrupted."""
    size = _choose_chunk(plan)
    shared = None if inputs is None else _SharedInputs(plan.meshes, inputs)
    chunks = [slice(first, min(first + size, source.count)) for first in range(0, source.count, size)]
    chunks = [chunk for chunk in chunks if not progress.fitted[chunk].all()]
    if not chunks:
        return False
    # The same for all chunks, so that their results depend neither on their order nor on an earlier interruption.
    sample = np.unique(np.linspace(0, source.count - 1, size).astype(np.int64))
    plan = replace(plan, typical=measure_size(plan.model, _read_chunk(source, sample, None)))
    bar = ProgressLine(lambda: f"fits: {np.count_nonzero(progress.fitted):,} of {source.count:,}")
    progress.mark_interrupted()
    cores = min(workers or os.cpu_count() or 1, len(chunks))

    def read(chunk: slice) -> ChunkData:
        """Read the data and inputs of one chunk."""
        if shared is None or not source.has_own_inputs:
            own = None if shared is None else ChunkInputs(shared, is_shared=True)
        else:
            own = ChunkInputs(_OwnInputs(shared, source.select_inputs(chunk), plan.model.inputs), is_shared=False)
        return _read_chunk(source, chunk, own)

    # An interrupt may come at any moment: what a thread has finished is here until it is copied.
    finished: dict[int, ChunkResult] = {}

    def work(chunk: slice) -> tuple[slice, ChunkResult]:
        """Fit one chunk."""
        finished[chunk.start] = part = fit_chunk(plan, read(chunk))
        return chunk, part

    parts = (
        _run(work, chunks, cores)
        if scheduler is None
        else _run_on_cluster(plan, read, chunks, scheduler, progress.notes)
    )
    try:
        for chunk, part in parts:
            progress.keep(np.arange(chunk.start, chunk.stop), part)
            finished.pop(chunk.start, None)
            bar.update()
    except KeyboardInterrupt:
        parts.close()  # waits for the threads
        for first, part in finished.items():
            progress.keep(np.arange(first, first + len(part.status)), part)
        progress.mark_interrupted()
        return True
    finally:
        progress.write()  # after an error as well
        bar.close()
    return False


def _run(
    work: Callable[[slice], tuple[slice, ChunkResult]], chunks: list[slice], cores: int
) -> Generator[tuple[slice, ChunkResult]]:
    """Run the work on all chunks, in threads if there are several cores."""
    if cores == 1:
        yield from map(work, chunks)
        return
    with ThreadPoolExecutor(cores) as pool:
        futures = [pool.submit(work, chunk) for chunk in chunks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:  # also when the generator is closed; chunks that have begun are waited for
            for future in futures:
                future.cancel()
            raise


def _run_on_cluster(
    plan: BatchPlan,
    read: Callable[[slice], ChunkData],
    chunks: list[slice],
    scheduler: str,
    notes: list[str],
) -> Generator[tuple[slice, ChunkResult]]:
    """Fit all chunks on the workers of a Dask scheduler; those that they lose are fitted here.

    Only this process reads the data, so the workers need no common disk.
    """
    lost: list[slice] = []
    reason = ""
    execute = make_dask_executor(scheduler, partial(_fit_job, plan))
    for (chunk, _), part in execute((chunk, read(chunk)) for chunk in chunks):
        if isinstance(part, LostRun):
            lost.append(chunk)
            reason = part.reason
        else:
            yield chunk, part
    if lost:
        notes.append(f"{len(lost)} of {len(chunks)} chunks were lost by the workers, and fitted here: {reason}.")
    for chunk in lost:
        yield chunk, fit_chunk(plan, read(chunk))


def _fit_job(plan: BatchPlan, job: tuple[slice, ChunkData]) -> ChunkResult:
    """Fit a chunk on a worker."""
    with use_single_thread():
        return fit_chunk(plan, job[1])


def _interpolate(t: FloatArray, values: FloatArray, at: FloatArray, how: str, before: bool) -> FloatArray:
    """Return inputs `(sets, times)` at other times, as `model.inputs.Inputs` does for one dataset.

    Parameters
    ----------
    t : ndarray, (times,)
    values : ndarray, (sets, times)
    at : ndarray
        Of any shape.
    how : str
        "hold" or "linear".
    before : bool
        Whether a held input has its limit from the left.

    Returns
    -------
    ndarray, (sets, *shape of `at`)
    """
    last = len(t) - 1
    if how == "hold" or not last:  # a single value holds at all times
        k = np.searchsorted(t, at, side="left" if before else "right") - 1
        return values[:, np.clip(k, 0, last)]
    right = np.clip(np.searchsorted(t, at, side="right"), 1, last)
    share = np.clip((at - t[right - 1]) / (t[right] - t[right - 1]), 0.0, 1.0)
    return np.asarray(values[:, right - 1] * (1 - share) + values[:, right] * share)


def _read_chunk(source: _Source, chunk: slice | IntArray, inputs: ChunkInputs | None) -> ChunkData:
    """Read a chunk in the coordinates of its noise."""
    values, weights, sigma = source.read(chunk)
    measured = weights > 0
    working = np.zeros_like(values)
    with np.errstate(all="ignore"):
        for k, kind in enumerate(source.noise):
            working[..., k] = KINDS[kind].to_working(values[..., k])
    measured &= np.isfinite(working)
    return ChunkData(source.times, np.where(measured, working, 0.0), np.where(measured, weights, 0.0), sigma, inputs)


@contextmanager
def _end_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt` inside `fit`, which would else return, and the next fit would begin.

    `fit` leaves a handler alone that is not Python's own.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class _SingleFits:
    """Fits of datasets one by one.

    Attributes
    ----------
    model : Model
    source : _Source
    settings : mapping
        Arguments of `fit`.
    names : tuple of str
        Free parameters.
    scheduler : str, or None
        Address of a Dask scheduler, on whose workers they run.
    """

    model: Model
    source: _Source
    settings: Mapping[str, Any]
    names: tuple[str, ...]
    scheduler: str | None

    def run(self, progress: BatchProgress, chosen: IntArray) -> bool:
        """Fit some datasets, and replace their results; return True if the user interrupted."""
        chosen = chosen[~progress.fitted_singly[chosen]]
        done = 0
        bar = ProgressLine(lambda: f"single fits: {done} of {len(chosen)}")
        try:
            with _end_at_interrupt():
                for number, single in self._iterate(chosen):
                    self._keep(progress, number, single)
                    done += 1
                    bar.update()
        except KeyboardInterrupt:
            return True
        finally:
            progress.write()
            bar.close()
        return False

    def raise_refusal(self, number: int) -> None:
        """Fit one dataset again, and let the error pass that refuses it."""
        _fit_one(self.model, self.source, number, self.settings, self.names, None)

    def _iterate(self, chosen: IntArray) -> Iterator[tuple[int, FitResult | None]]:
        """Yield the number and the result of each dataset, None if its fit was refused."""
        if self.scheduler is None:
            for number in map(int, chosen):
                try:
                    yield number, _fit_one(self.model, self.source, number, self.settings, self.names, None)
                except WeakformError:
                    yield number, None
            return
        arguments = {k: v for k, v in self.settings.items() if v is not None}
        refused: list[int] = []
        if not len(chosen):
            return
        for (number, _), single in make_dask_executor(self.scheduler, partial(_fit_dataset, self.model, arguments))(
            self._build_jobs(chosen, refused)
        ):
            yield number, None if isinstance(single, LostRun) else single
        yield from ((number, None) for number in refused)

    def _build_jobs(self, chosen: IntArray, refused: list[int]) -> Iterator[tuple[int, Dataset]]:
        """Yield the number and the data of each dataset; add those that make no dataset to `refused`."""
        for number in map(int, chosen):
            try:
                yield number, self.source.build_dataset(number)
            except WeakformError:
                refused.append(number)

    def _keep(self, progress: BatchProgress, number: int, single: FitResult | None) -> None:
        """Take over the result of a dataset."""
        result = progress.result
        if single is None:
            if result.status[number] == STATUSES.index(Status.INTERRUPTED):
                result.status[number] = STATUSES.index(Status.EMPTY)
        else:
            keep = [single.model.parameters.index(name) for name in self.names]  # without those that are fixed
            result.estimate[number] = np.asarray(single.estimate)[keep]
            result.covariance[number] = np.asarray(single.covariance)[np.ix_(keep, keep)]
            result.sigma[number] = single.sigma
            result.p_value[number] = np.nan if single.goodness is None else single.goodness.p_value
            result.log_likelihood[number] = single.log_likelihood
            is_known = not single.sigma_estimated or single.goodness is None
            result.freedom[number] = np.inf if is_known or single.goodness is None else single.goodness.freedom
            result.status[number] = STATUSES.index(single.status)
            result.starts[number] += len(single.starts)
        progress.fitted_singly[number] = True
        progress.write_when_due()


def _fit_dataset(model: Model, arguments: Mapping[str, Any], job: tuple[int, Dataset]) -> FitResult | None:
    """Fit a dataset on a worker; return None if the fit is refused."""
    try:
        return fit(model, job[1], **arguments)
    except WeakformError:
        return None


def _fit_one(
    model: Model,
    source: _Source,
    number: int,
    settings: Mapping[str, Any],
    names: tuple[str, ...],
    estimate: FloatArray | None,
) -> FitResult:
    """Fit one dataset by itself, from an estimate if there is one."""
    if source.frames is not None:
        raise FitError(
            "A full result is not available for averages over frames, which only fit_batch can fit. The estimates and "
            "their errors are in the arrays of the batch."
        )
    arguments = {k: v for k, v in settings.items() if v is not None}
    if estimate is not None and np.isfinite(estimate).all():
        arguments["start"] = dict(zip(names, map(float, estimate), strict=True))
        given = arguments.get("parameters")
        if given:
            arguments["parameters"] = {
                name: replace(value, start=None) if isinstance(value, Parameter) else value
                for name, value in given.items()
            }
    return fit(model, source.build_dataset(number), **arguments)
