"""Measurements: `Trajectory` and `Dataset`, validated once, where they enter.

A dataset is one or more trajectories of the same states, the kind of noise of each state, and what is known of its
size. Arrays of states are `(time, state)`. Everything behind this module may rely on: finite float64 values, strictly
increasing times, positive values wherever the noise is log-normal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .errors import DataError
from .tables import read_table
from .typing import FloatArray

MIN_SAMPLES = 8
MAX_DROPPED = 0.2
NOISE_KINDS = ("gaussian", "lognormal")


@dataclass(frozen=True)
class Truth:
    """What is known of simulated data.

    Attributes
    ----------
    parameters : ndarray, (J,)
    states : ndarray, (time, D)
        The noise-free trajectory on the same times.
    initial : ndarray, (D,)
        The state at the start of the simulation, time `begin`.
    sigma : ndarray, (D,)
        Standard deviation of the noise, of the logarithm where it is log-normal.
    """

    parameters: FloatArray
    states: FloatArray
    initial: FloatArray
    sigma: FloatArray
    begin: float = 0.0


@dataclass(frozen=True)
class Trajectory:
    """One run of the system: `times` `(time,)` and `values` `(time, D)`."""

    times: FloatArray
    values: FloatArray

    @property
    def step(self) -> float:
        """The mean time between samples."""
        return float((self.times[-1] - self.times[0]) / (len(self.times) - 1))


@dataclass(frozen=True, init=False, eq=False)
class Dataset:
    """Noisy measurements of all states of a model.

    Parameters
    ----------
    t : array_like, (time,)
        Increasing, evenly spaced times.
    U : array_like, (time, D)
        Measured states; `(time,)` for a single state.
    noise : str or sequence of str
        `"gaussian"` (additive) or `"lognormal"` (multiplicative), one word for all states or one for each.
    sigma : float or array_like, (D,), optional
        Standard deviation of the noise, of the logarithm where it is log-normal. Estimated if not given; 0 means
        noise-free.
    states : sequence of str, optional
        Names of the columns. Without names the columns are taken in the order of the model's states.
    truth : Truth, optional
        For simulated data.

    Attributes
    ----------
    trajectories : tuple of Trajectory
    noise : tuple of str, (D,)
    sigma : ndarray, (D,), or None
    states : tuple of str, or None
    notes : tuple of str
        What was changed on the way in, in words.
    """

    trajectories: tuple[Trajectory, ...]
    noise: tuple[str, ...]
    sigma: FloatArray | None
    states: tuple[str, ...] | None
    truth: Truth | None
    notes: tuple[str, ...]

    def __init__(
        self,
        t: ArrayLike,
        U: ArrayLike,
        noise: str | Sequence[str] = "gaussian",
        sigma: ArrayLike | None = None,
        *,
        states: Sequence[str] | None = None,
        truth: Truth | None = None,
    ) -> None:
        times, values = _numbers(t, "times"), _numbers(U, "states U")
        values = values[:, None] if values.ndim == 1 else values
        if times.ndim != 1 or values.ndim != 2 or times.shape[0] != values.shape[0]:
            raise DataError(
                f"Times must be (time,) and states (time, state) with one row a time; received shapes "
                f"{times.shape} and {values.shape}."
                + (" U seems to be transposed; pass U.T." if values.shape[1:] == times.shape else "")
            )
        names = _column_names(states, values.shape[1])
        labels = names or tuple(f"column {d + 1}" for d in range(values.shape[1]))
        kinds = _kinds(noise, labels)
        _check_times(times)
        keep, notes = _usable_rows(times, values, kinds, labels)
        times, values = times[keep], values[keep]
        _check_samples(values, labels)
        if truth is not None and len(truth.states) != len(times):
            truth = replace(truth, states=truth.states[keep])
        for name, value in (
            ("trajectories", (Trajectory(times, values),)),
            ("noise", kinds),
            ("sigma", _check_sigma(sigma, labels)),
            ("states", names),
            ("truth", truth),
            ("notes", notes),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        time: str | None = None,
        states: Sequence[str] | None = None,
        noise: str | Sequence[str] = "gaussian",
        sigma: ArrayLike | None = None,
    ) -> Dataset:
        """Read a table with a header row.

        Parameters
        ----------
        path : str or Path
            Separated by commas, semicolons or tabs.
        time : str, optional
            The time column; the first one by default.
        states : sequence of str, optional
            The state columns; all others by default.
        noise, sigma
            As for `Dataset`.
        """
        if not isinstance(path, str | Path):
            raise DataError(f"The path of a table is needed; received {path!r}.")
        return cls._from_columns(read_table(Path(path)), f"{path}", time, states, noise, sigma)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        time: str | None = None,
        states: Sequence[str] | None = None,
        noise: str | Sequence[str] = "gaussian",
        sigma: ArrayLike | None = None,
    ) -> Dataset:
        """Take columns of a pandas (or similar) data frame; arguments as for `from_csv`."""
        if not hasattr(frame, "columns") or len(set(map(str, frame.columns))) < len(frame.columns):
            raise DataError(
                f"A data frame with columns of different names is needed; received a {type(frame).__name__}."
            )
        columns = {str(name): frame[name].to_numpy() for name in frame.columns}
        time = None if time is None else str(time)
        states = list(map(str, states)) if states is not None and not isinstance(states, str) else states
        return cls._from_columns(columns, "the frame", time, states, noise, sigma)

    @classmethod
    def _from_columns(
        cls,
        columns: Mapping[str, ArrayLike],
        where: str,
        time: str | None,
        states: Sequence[str] | None,
        noise: str | Sequence[str],
        sigma: ArrayLike | None,
    ) -> Dataset:
        if not columns:
            raise DataError(f"{where} has no columns; a time column and one for each state are needed.")
        if isinstance(states, str):
            raise DataError(f"states must be a list of names, such as [{states!r}]; received {states!r}.")
        time = next(iter(columns)) if time is None else time
        states = [name for name in columns if name != time] if states is None else states
        for name in (time, *states):
            if name not in columns:
                raise DataError(f"No column {name!r} in {where}; its columns are: {', '.join(columns)}.")
        if not states:
            raise DataError(f"{where} has only the time column {time!r}; a column for each state is needed.")
        table = np.column_stack([_numbers(columns[name], f"column {name!r}") for name in states])
        return cls(columns[time], table, noise, sigma, states=states)

    @property
    def D(self) -> int:
        """Number of states."""
        return len(self.noise)

    @property
    def samples(self) -> int:
        """Number of sampled times in all trajectories."""
        return sum(len(trajectory.times) for trajectory in self.trajectories)

    def for_states(self, states: tuple[str, ...]) -> Dataset:
        """The columns of a model's states, in their order."""
        if self.states is None:
            if len(states) != self.D:
                raise DataError(
                    f"The model has {len(states)} states ({', '.join(states)}), the data have {self.D} columns. "
                    "Every state must be measured; name the columns with states=[...] to pick some of them."
                )
            return self
        missing = [name for name in states if name not in self.states]
        if missing:
            raise DataError(
                f"The model's state {missing[0]!r} has no column in the data, whose columns are: "
                f"{', '.join(self.states)}. Every state must be measured; rename a column or pass states=[...]."
            )
        order = [self.states.index(name) for name in states]
        if order == list(range(self.D)):
            return self
        picked = object.__new__(Dataset)
        for name, value in (
            ("trajectories", tuple(Trajectory(q.times, q.values[:, order]) for q in self.trajectories)),
            ("noise", tuple(self.noise[d] for d in order)),
            ("sigma", None if self.sigma is None else self.sigma[order]),
            ("states", states),
            ("truth", self.truth),
            ("notes", self.notes),
        ):
            object.__setattr__(picked, name, value)
        return picked

    def __repr__(self) -> str:
        names = ", ".join(self.states) if self.states else f"{self.D} states"
        spans = "; ".join(f"t = {q.times[0]:g}..{q.times[-1]:g}, {len(q.times)} samples" for q in self.trajectories)
        return f"<Dataset: {names}; {spans}; noise {', '.join(sorted(set(self.noise)))}>"


def _numbers(values: ArrayLike, what: str) -> FloatArray:
    raw = values.filled(np.nan) if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "fiu" else values
    kind = getattr(getattr(raw, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        raise DataError(f"The {what} are dates; convert them to numbers, such as days since the first sample.")
    if kind == "c" or np.iscomplexobj(raw):
        raise DataError(f"The {what} are complex; only real numbers are measured.")
    try:
        array = np.array(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"The {what} must be numbers in a rectangular array: {error}.") from None
    return array


def _column_names(states: Sequence[str] | None, D: int) -> tuple[str, ...] | None:
    if states is None:
        return None
    words = isinstance(states, Sequence) and not isinstance(states, str) and all(isinstance(s, str) for s in states)
    if not words or len(states) != D or len(set(states)) != D:
        raise DataError(f"{D} columns need {D} different names in states=[...]; received {states!r}.")
    return tuple(states)


def _kinds(noise: str | Sequence[str], labels: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(noise, str | Sequence):
        raise DataError(
            f"noise is the kind of noise, 'gaussian' or 'lognormal'; received {noise!r}. Its size is sigma=."
        )
    kinds = (noise,) * len(labels) if isinstance(noise, str) else tuple(noise)
    if len(kinds) != len(labels):
        raise DataError(f"noise must be one word or one for each of {len(labels)} states; received {len(kinds)} words.")
    for kind in kinds:
        if kind not in NOISE_KINDS:
            raise DataError(f"noise must be 'gaussian' or 'lognormal'; received {kind!r}.")
    return kinds


def _check_times(times: FloatArray) -> None:
    if len(times) < MIN_SAMPLES:
        raise DataError(
            f"At least {MIN_SAMPLES} samples are needed for the noise level and one test function; "
            f"received {len(times)}."
        )
    if not np.isfinite(times).all():
        raise DataError(f"Time number {int(np.argmin(np.isfinite(times))) + 1} is not a finite number.")
    steps = np.diff(times)
    if (steps <= 0).any():
        m = int(np.argmax(steps <= 0))
        what = "repeated" if steps[m] == 0 else "unsorted"
        raise DataError(
            f"Times must increase: t = {times[m]:g} is followed by {times[m + 1]:g} "
            f"({what}, rows {m + 1} and {m + 2}). Sort the rows by time, and average repeated measurements."
        )
    step = (times[-1] - times[0]) / (len(times) - 1)
    off = np.abs(steps - step)
    # Printed tables round their times, so up to 1% of a step is taken as even.
    if off.max() > 0.01 * step:
        m = int(np.argmax(off))
        raise DataError(
            f"Times must be evenly spaced: most steps are {np.median(steps):g}, but between t = {times[m]:g} and "
            f"{times[m + 1]:g} (rows {m + 1} and {m + 2}) it is {steps[m]:g}. Interpolate to an even grid, "
            "or use the part of the data before or after the gap."
        )


def _usable_rows(
    times: FloatArray, values: FloatArray, kinds: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[slice, tuple[str, ...]]:
    """Drop unusable rows at the ends (non-positive log-normal values); refuse them inside."""
    finite = np.isfinite(values)
    if not finite.all():
        m, d = np.argwhere(~finite)[0]
        raise DataError(
            f"{labels[d]} at t = {times[m]:g} (row {m + 1}) is {values[m, d]}, not a number; "
            f"{int((~finite).sum())} of {values.size} values are missing. Fill or cut them."
        )
    log = np.array([kind == "lognormal" for kind in kinds])
    bad = (values <= 0) & log
    rows = bad.any(axis=1)
    if not rows.any():
        return slice(None), ()
    usable = np.flatnonzero(~rows)
    if not len(usable) or len(usable) < usable[-1] - usable[0] + 1:
        m, d = np.argwhere(bad & (np.arange(len(rows)) >= (usable[0] if len(usable) else 0))[:, None])[0]
        raise DataError(
            f"{labels[d]} at t = {times[m]:g} (row {m + 1}) is {values[m, d]:g}, but log-normal noise needs positive "
            "values. Rows at the ends are dropped, rows inside are not: use noise='gaussian' for this state, "
            "or cut the data there."
        )
    if rows.sum() > MAX_DROPPED * len(rows):
        raise DataError(
            f"{int(rows.sum())} of {len(rows)} rows have a non-positive state, but log-normal noise needs positive "
            "values. Use noise='gaussian', or cut the data to the part that is positive."
        )
    first, last = int(usable[0]), int(usable[-1]) + 1
    dropped = [f"{times[m]:g}" for m in np.flatnonzero(rows)]
    shown = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
    note = f"{len(dropped)} row{'s' * (len(dropped) > 1)} with a non-positive log-normal state dropped (t = {shown})."
    return slice(first, last), (note,)


def _check_samples(values: FloatArray, labels: tuple[str, ...]) -> None:
    if len(values) < MIN_SAMPLES:
        raise DataError(f"Only {len(values)} usable samples remain; at least {MIN_SAMPLES} are needed.")
    for d, label in enumerate(labels):
        if np.ptp(values[:, d]) == 0:
            raise DataError(
                f"{label} never varies (it is always {values[0, d]:g}), so it tells nothing about the parameters. "
                "Put its value into the equations as a constant."
            )


def _check_sigma(sigma: ArrayLike | None, labels: tuple[str, ...]) -> FloatArray | None:
    if sigma is None:
        return None
    array = _numbers(sigma, "sigma")
    if array.ndim > 1 or array.size not in (1, len(labels)) or not (np.isfinite(array) & (array >= 0)).all():
        raise DataError(
            f"sigma must be one number, or one for each of {len(labels)} states, finite and not negative; "
            f"received {np.asarray(sigma)!r}."
        )
    return np.broadcast_to(array, (len(labels),)).copy()
