"""Measurements: `Trajectory` and `Dataset`, validated once, where they enter.

A dataset is one or more trajectories of the same states, the kind of noise of each state, and what is known of its
size. Arrays of states are `(time, state)`. Everything behind this module may rely on: finite, strictly increasing
times; values that are finite and allowed by their noise, or NaN where missing; a finite scale for each that is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import intake
from .errors import DataError
from .expressions import listed, suggestion
from .inputs import INTERPOLATIONS, Inputs
from .trajectory import Trajectory, Truth
from .typing import FloatArray


@dataclass(frozen=True, init=False, eq=False)
class Dataset:
    """Noisy measurements of the states of a model.

    Parameters
    ----------
    t : array_like, (time,)
        Times, evenly spaced or not; a repeated time is a repeated measurement.
    U : array_like, (time, D)
        Measured states; `(time,)` for a single state. NaN is a missing value.
    noise : str or sequence of str
        `"gaussian"` (additive), `"lognormal"` (multiplicative) or `"poisson"` (counts), one word for all states or one
        for each.
    sigma : float or array_like, optional
        Standard deviation of the noise in the coordinates in which it is additive (of the logarithm where it is
        log-normal): one number, one for each state `(D,)`, one for each point `(time, D)`; or a covariance of the
        states `(D, D)`. Estimated if not given; 0 means noise-free.
    states : sequence of str, optional
        Names of the columns. Without names the columns are taken in the order of the model's states.
    inputs : mapping of str to array_like, (time,), optional
        Known inputs by name, at the same times.
    hold : bool
        Whether inputs keep their value until the next sample, as switches do; else they are interpolated linearly.
    truth : Truth, optional
        For simulated data.

    Attributes
    ----------
    trajectories : tuple of Trajectory
    noise : tuple of str, (D,)
    sigma : ndarray, (D,), or None
    covariance : ndarray, (D, D), or None
        Of the states, where it was given.
    states : tuple of str, or None
    inputs : tuple of str
        Names of the inputs.
    own_noise : bool
        Whether each trajectory has noise of its own size.
    notes : tuple of str
        What was changed on the way in, in words.
    """

    trajectories: tuple[Trajectory, ...]
    noise: tuple[str, ...]
    sigma: FloatArray | None
    covariance: FloatArray | None
    states: tuple[str, ...] | None
    inputs: tuple[str, ...]
    own_noise: bool
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
        inputs: Mapping[str, ArrayLike] | None = None,
        hold: bool = False,
        truth: Truth | None = None,
    ) -> None:
        trajectory, parts = one_trajectory(t, U, noise, sigma, states, inputs or {}, hold, "")
        if truth is not None and len(truth.states) != len(trajectory.times):
            truth = replace(truth, states=truth.states[np.isin(intake.numbers(t, "times"), trajectory.times)])
        self._set(trajectories=(trajectory,), truth=truth, **parts)
        self._check()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check(self) -> None:
        labels = _labels(self.states, self.D)
        if self.samples < intake.MIN_SAMPLES:
            raise DataError(
                f"At least {intake.MIN_SAMPLES} samples are needed for the noise level and one test function; "
                f"received {self.samples}."
            )
        for q in self.trajectories:
            where = f" in {q.label}" if q.label else ""
            if len(q.times) < intake.MIN_VALUES:
                raise DataError(
                    f"{len(q.times)} samples{where} are too few: a trajectory needs at least {intake.MIN_VALUES}. "
                    "Leave it out."
                )
        for d, label in enumerate(labels):
            values = np.concatenate([q.values[:, d] for q in self.trajectories])
            values = values[np.isfinite(values)]
            if len(values) < intake.MIN_VALUES:
                raise DataError(
                    f"{label} has only {len(values)} measured values; at least {intake.MIN_VALUES} are needed. "
                    "Every state must be measured at some times."
                )
            if np.ptp(values) == 0:
                raise DataError(
                    f"{label} never varies (it is always {values[0]:g}), so it tells nothing about the parameters. "
                    "Put its value into the equations as a constant."
                )

    @classmethod
    def join(cls, datasets: Sequence[Dataset], labels: Sequence[str] | None = None, own_noise: bool = False) -> Dataset:
        """Several experiments, subjects or segments as one dataset.

        Parameters
        ----------
        datasets : sequence of Dataset
            With the same states, kinds of noise and inputs.
        labels : sequence of str, optional
            A name for each trajectory; numbers by default.
        own_noise : bool
            Whether the noise of each trajectory has a size of its own, found from the data alone. Sizes that are given
            may always differ.
        """
        if not isinstance(datasets, Sequence) or not datasets or not all(isinstance(d, Dataset) for d in datasets):
            raise DataError(f"join takes a list of datasets; received {datasets!r}.")
        first = datasets[0]
        for k, other in enumerate(datasets[1:], 2):
            for what in ("states", "noise", "inputs"):
                if getattr(other, what) != getattr(first, what):
                    raise DataError(
                        f"Dataset {k} has other {what} than the first: {getattr(other, what)} and "
                        f"{getattr(first, what)}. Give all of them the same."
                    )
            if not _same(first.covariance, other.covariance):
                raise DataError(f"Dataset {k} has another covariance of the states than the first. Give all the same.")
            if (first.sigma is None) != (other.sigma is None):
                raise DataError(
                    f"sigma is given for some datasets only (see dataset {k}); give it for all, or for none."
                )
        sigma = first.sigma
        if sigma is not None and not all(_same(sigma, data.sigma) for data in datasets):
            datasets = [data._relative_to(sigma) for data in datasets]
        trajectories = [q for data in datasets for q in data.trajectories]
        names = [str(k) for k in range(1, len(trajectories) + 1)] if labels is None else list(map(str, labels))
        if len(names) != len(trajectories) or len(set(names)) < len(names):
            raise DataError(f"{len(trajectories)} trajectories need as many different labels; received {labels!r}.")
        joined = object.__new__(cls)
        joined._set(
            trajectories=tuple(replace(q, label=name) for q, name in zip(trajectories, names, strict=True)),
            noise=first.noise,
            sigma=sigma,
            covariance=first.covariance,
            states=first.states,
            inputs=first.inputs,
            own_noise=own_noise,
            truth=first.truth,
            notes=_told(datasets, names),
        )
        return joined

    def _relative_to(self, sigma: FloatArray) -> Dataset:
        """The same data with the difference of their σ from another one carried by the points."""
        assert self.sigma is not None
        if (self.sigma == 0).any() or (sigma == 0).any():
            raise DataError("Noise-free data (sigma 0) cannot be joined with noisy ones.")
        return self.with_trajectories(tuple(q.rescaled(self.sigma / sigma) for q in self.trajectories))

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        time: str | None = None,
        states: Sequence[str] | Mapping[str, str] | None = None,
        noise: str | Sequence[str] = "gaussian",
        sigma: ArrayLike | Mapping[str, str] | None = None,
        inputs: Sequence[str] | Mapping[str, str] = (),
        hold: bool = False,
        trajectory: str | None = None,
    ) -> Dataset:
        """Read a table with a header row.

        Parameters
        ----------
        path : str or Path
            Text separated by commas, semicolons or tabs; Parquet or Excel with the extra `table`.
        time : str, optional
            The time column; the first one that has no other role by default.
        states : sequence of str, or mapping, optional
            The state columns, all others by default; a mapping renames: `{"hare": "Hare pelts"}`.
        noise : str or sequence of str
            As for `Dataset`.
        sigma : as for `Dataset`, or mapping
            `{"hare": "hare_se"}` takes standard errors of the points from columns.
        inputs : sequence of str, or mapping
            Columns of known inputs.
        hold : bool
            As for `Dataset`.
        trajectory : str, optional
            The column that tells experiments, subjects or segments apart.
        """
        if not isinstance(path, str | Path):
            raise DataError(f"The path of a table is needed; received {path!r}.")
        from .reading import Roles, dataset
        from .tables import read_table

        return dataset(read_table(Path(path)), Roles(time, states, noise, sigma, inputs, hold, trajectory))

    @classmethod
    def from_frame(cls, frame: Any, **roles: Any) -> Dataset:
        """Take columns of a pandas (or similar) data frame; arguments as for `from_csv`."""
        if not hasattr(frame, "columns") or len(set(map(str, frame.columns))) < len(frame.columns):
            raise DataError(
                f"A data frame with columns of different names is needed; received a {type(frame).__name__}."
            )
        from .reading import Roles, dataset
        from .tables import Table

        known = [f.name for f in fields(Roles)]
        for name in roles:
            if name not in known:
                raise DataError(f"Unknown argument {name!r}.{suggestion(name, known)} Known: {', '.join(known)}.")
        columns = {str(name): frame[name].to_numpy() for name in frame.columns}
        if roles.get("time") is not None:
            roles["time"] = str(roles["time"])
        states = roles.get("states")
        if states is not None and not isinstance(states, str | Mapping):
            roles["states"] = list(map(str, states))
        return dataset(Table("the frame", columns), Roles(**roles))

    @property
    def D(self) -> int:
        """Number of states."""
        return len(self.noise)

    @property
    def samples(self) -> int:
        """Number of sampled times in all trajectories."""
        return sum(len(trajectory.times) for trajectory in self.trajectories)

    @property
    def measurements(self) -> FloatArray:
        """Measured values of each state, `(D,)`."""
        return np.asarray(np.sum([q.measured.sum(axis=0) for q in self.trajectories], axis=0), dtype=float)

    def with_trajectories(self, trajectories: tuple[Trajectory, ...]) -> Dataset:
        """The same dataset with other trajectories."""
        other = object.__new__(Dataset)
        other._set(**{**vars(self), "trajectories": trajectories})
        return other

    def for_states(self, states: tuple[str, ...], hidden: tuple[str, ...] = ()) -> Dataset:
        """The columns of a model's states, in their order; `hidden` states, the last ones, are not measured."""
        seen = states[: len(states) - len(hidden)]
        if self.states is None:
            if len(seen) != self.D:
                raise DataError(
                    f"The model has {len(seen)} states ({', '.join(seen)}), the data have {self.D} columns. "
                    "Every state must be measured; name the columns with states=[...] to pick some of them."
                )
            order = list(range(self.D))
        else:
            missing = [name for name in seen if name not in self.states]
            if missing:
                raise DataError(
                    f"The model's state {missing[0]!r} has no column in the data, whose columns are: "
                    f"{listed(self.states)}.{suggestion(missing[0], self.states)} Every state must be measured; "
                    "rename a column, or pass states={...} to tell which column is which state."
                )
            order = [self.states.index(name) for name in seen]
        if order == list(range(self.D)) and not hidden:
            return self
        if hidden and self.covariance is not None:
            raise DataError("A covariance of the states is not for second-order equations; give sigma for each state.")
        more = len(hidden)
        picked = object.__new__(Dataset)
        picked._set(
            trajectories=tuple(q.columns(order, more) for q in self.trajectories),
            noise=tuple(self.noise[d] for d in order) + ("gaussian",) * more,
            sigma=None if self.sigma is None else np.concatenate([self.sigma[order], np.full(more, np.nan)]),
            covariance=None if self.covariance is None else self.covariance[np.ix_(order, order)],
            states=states,
            inputs=self.inputs,
            own_noise=self.own_noise,
            truth=self.truth if more or self.truth is None else self.truth.columns(order),
            notes=self.notes,
        )
        return picked

    def _repr_html_(self) -> str:
        from html import escape

        from .report.html import sparkline

        rows = [f"<p>{escape(repr(self)[1:-1])}</p>"]
        for q in self.trajectories[:5]:
            for d, label in enumerate(_labels(self.states, self.D)):
                name = f"{q.label}: {label}" if q.label else label
                rows.append(f"<div>{sparkline(q.times, q.values[:, d])} {escape(name)}</div>")
        return "".join(rows)

    def __repr__(self) -> str:
        names = ", ".join(self.states) if self.states else f"{self.D} states"
        spans = "; ".join(
            f"{q.label + ': ' if q.label else ''}t = {q.times[0]:g}..{q.times[-1]:g}, {len(q.times)} samples"
            for q in self.trajectories[:5]
        )
        more = f"; and {len(self.trajectories) - 5} more trajectories" if len(self.trajectories) > 5 else ""
        gaps = self.samples * self.D - int(self.measurements.sum())
        missing = f"; {gaps} values missing" if gaps else ""
        return f"<Dataset: {names}; {spans}{more}; noise {', '.join(sorted(set(self.noise)))}{missing}>"


def _told(datasets: Sequence[Dataset], names: list[str]) -> tuple[str, ...]:
    """Notes of all datasets, equal ones once, with the trajectories that they are about."""
    about: dict[str, list[str]] = {}
    position = 0
    for data in datasets:
        mine = names[position : position + len(data.trajectories)]
        position += len(data.trajectories)
        for note in data.notes:
            about.setdefault(note, []).extend(mine)
    return tuple(f"{', '.join(who)}: {note}" for note, who in about.items())


def _same(a: FloatArray | None, b: FloatArray | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _labels(names: tuple[str, ...] | None, D: int) -> tuple[str, ...]:
    return names or tuple(f"column {d + 1}" for d in range(D))


def one_trajectory(
    t: ArrayLike,
    U: ArrayLike,
    noise: str | Sequence[str],
    sigma: ArrayLike | None,
    states: Sequence[str] | None,
    inputs: Mapping[str, ArrayLike],
    hold: bool,
    label: str,
) -> tuple[Trajectory, dict[str, Any]]:
    """One trajectory, checked, and what it says of the dataset."""
    times, values = intake.numbers(t, "times"), intake.numbers(U, "states U")
    values = values[:, None] if values.ndim == 1 else values
    intake.check_times(times, values)
    names = intake.column_names(states, values.shape[1])
    labels = _labels(names, values.shape[1])
    kinds = intake.noise_kinds(noise, labels)
    intake.check_size(np.diff(times), "The time between samples")
    for label, column in zip(labels, values.T, strict=True):
        intake.check_size(column, label)
    level, points, covariance = intake.check_sigma(sigma, labels, len(times))
    values, keep, notes = intake.missing_values(times, values, kinds, labels)
    scale = np.ones(values.shape) if points is None else points
    values = np.where(np.isfinite(scale), values, np.nan)
    if covariance is not None:
        partly = np.isnan(values).any(axis=1) & ~np.isnan(values).all(axis=1)
        if partly.any():
            notes.append(
                f"{int(partly.sum())} incomplete rows left out: noise correlated between states needs whole rows."
            )
            values[partly] = np.nan
    driven = _inputs(times, inputs, hold)
    rows = np.zeros(len(times), dtype=bool)
    rows[keep] = True
    rows &= ~np.isnan(values).all(axis=1)
    left_out = int((~rows)[keep].sum())
    if left_out:
        notes.append(f"{left_out} row{'s' * (left_out > 1)} without any value left out.")
    merged = intake.merge_repeats(times[rows], values[rows], scale[rows], kinds)
    if len(merged[0]) < rows.sum():
        notes.append(f"{int(rows.sum()) - len(merged[0])} repeated measurements joined with those at the same time.")
    plain = points is None and len(merged[0]) == rows.sum()
    trajectory = Trajectory(
        merged[0],
        merged[1],
        None if plain else merged[2],
        driven,
        label,
        None if plain else merged[3],
        None if plain else merged[4],
    )
    parts = {
        "noise": kinds,
        "sigma": level,
        "covariance": covariance,
        "states": names,
        "inputs": tuple(inputs),
        "own_noise": False,
        "notes": tuple(notes),
    }
    return trajectory, parts


def part(
    t: ArrayLike,
    U: ArrayLike,
    noise: str | Sequence[str],
    sigma: Any,
    states: Sequence[str],
    inputs: Mapping[str, ArrayLike],
    hold: bool,
) -> Dataset:
    """A dataset of one trajectory that is too short to stand alone, perhaps."""
    trajectory, parts = one_trajectory(t, U, noise, sigma, states, inputs, hold, "")
    data = object.__new__(Dataset)
    data._set(trajectories=(trajectory,), truth=None, **parts)
    return data


def _inputs(times: FloatArray, inputs: Mapping[str, ArrayLike], hold: bool) -> Inputs | None:
    if not isinstance(inputs, Mapping):
        raise DataError(f"inputs must be a mapping from names to values; received {inputs!r}.")
    if not inputs:
        return None
    columns = []
    for name, values in inputs.items():
        column = intake.numbers(values, f"input {name!r}")
        if column.shape != times.shape:
            raise DataError(f"The input {name!r} must have one value a time, {times.shape}; received {column.shape}.")
        if not np.isfinite(column).all():
            m = int(np.argmin(np.isfinite(column)))
            raise DataError(f"The input {name!r} at t = {times[m]:g} (row {m + 1}) is missing; inputs must be known.")
        columns.append(column)
    distinct, first, group = np.unique(times, return_index=True, return_inverse=True)
    table = np.column_stack(columns)
    if (table != table[first][group]).any():
        m = int(np.argmax((table != table[first][group]).any(axis=1)))
        raise DataError(f"The inputs have two values at t = {times[m]:g}; a known input has one.")
    return Inputs(distinct, np.column_stack(columns)[first], INTERPOLATIONS[1] if hold else INTERPOLATIONS[0])
