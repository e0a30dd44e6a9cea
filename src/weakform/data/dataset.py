"""Measurements, validated once, where they enter.

A dataset is one or more trajectories of the same states, the kind of noise of each state, and the size of the noise if
it is known. Arrays of states are `(time, state)`. All other parts of the package may rely on: finite, strictly
increasing times; values that are finite and allowed by their noise, or NaN where missing; a finite scale for each
measured value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..support.array_types import FloatArray
from ..support.errors import DataError
from ..support.wording import suggest_name
from . import data_validation
from .data_validation import TrajectoryArguments, validate_trajectory
from .doses import Doses, validate_doses
from .trajectory import Trajectory, Truth

MAX_SHOWN_TRAJECTORIES = 5
"""Number of trajectories that the representation of a dataset shows before it only counts the rest. By judgement."""


@dataclass(frozen=True, init=False, eq=False)
class Dataset:
    """Noisy measurements of the states of a model.

    Parameters
    ----------
    t : array_like, (time,)
        Times, evenly spaced or not. A repeated time is a repeated measurement.
    U : array_like, (time, D)
        Measured states; `(time,)` for a single state. NaN is a missing value.
    noise : str or sequence of str
        Kind of noise: one word for all states or one for each. `"gaussian"` (additive), `"lognormal"`
        (multiplicative), `"poisson"` or `"negative-binomial"` (counts), or `"student"` (heavy tails).
    sigma : float or array_like, optional
        Standard deviation of the noise in the coordinates in which it is additive (of the logarithm if it is
        log-normal): one number, one for each state `(D,)`, one for each point `(time, D)`; or a covariance of the
        states `(D, D)`. Estimated if not given; 0 means noise-free.
    doses : Doses, or sequence of them, optional
        Amounts that were put into states.
    names : sequence of str, optional
        Names of the columns; by default those of a pandas frame or series. Each name must be one of the model's.
        Columns without names are taken in the order of the model's states.
    inputs : mapping of str to array_like, (time,), optional
        Known inputs by name, at the same times. An input with its own times is a tuple `(times, values)`, or
        `(times, values, "hold" or "linear")`.
    hold : bool
        Whether inputs keep their value until the next sample, as switches do; otherwise they are interpolated linearly.
    truth : Truth, optional
        For simulated data.
    trajectories : sequence of Trajectory, optional
        Trajectories that are validated already, in place of `t` and `U`. Readers of files and `join` use this form:
        `noise` is one word for each state, `sigma` is `(D,)`, and `inputs` are names.
    covariance, own_noise, notes, selected
        The attributes of the same names; only with `trajectories`.

    Attributes
    ----------
    trajectories : tuple of Trajectory
    noise : tuple of str, (D,)
    sigma : ndarray, (D,), or None
    covariance : ndarray, (D, D), or None
        Covariance of the noise between the states, if it was given.
    names : tuple of str, or None
        Names of the columns.
    inputs : tuple of str
        Names of the inputs.
    truth : Truth, or None
    own_noise : bool
        Whether the noise of each trajectory has a separate size.
    notes : tuple of str
        What was changed or decided when the data were read.
    selected : bool
        Whether the columns were chosen by name, so that each must be one of the model's; false if all columns of a
        table were read.

    Examples
    --------
    >>> import numpy as np
    >>> import weakform as wf
    >>> t = np.linspace(0, 5, 11)
    >>> wf.Dataset(t, np.exp(-t), names=["x"])
    <Dataset: x; t = 0..5, 11 samples; noise gaussian>
    """

    trajectories: tuple[Trajectory, ...]
    noise: tuple[str, ...]
    sigma: FloatArray | None
    covariance: FloatArray | None
    names: tuple[str, ...] | None
    inputs: tuple[str, ...]
    own_noise: bool
    truth: Truth | None
    notes: tuple[str, ...]
    selected: bool

    def __init__(
        self,
        t: ArrayLike | None = None,
        U: ArrayLike | None = None,
        noise: str | Sequence[str] = "gaussian",
        sigma: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        inputs: Mapping[str, ArrayLike] | Sequence[str] | None = None,
        hold: bool = False,
        doses: Doses | Sequence[Doses] | None = None,
        truth: Truth | None = None,
        trajectories: Sequence[Trajectory] | None = None,
        covariance: FloatArray | None = None,
        own_noise: bool = False,
        notes: Sequence[str] = (),
        selected: bool = True,
    ) -> None:
        if trajectories is None:
            if t is None or U is None:
                raise DataError("A dataset needs times t and values U: Dataset(t, U).")
            arguments = TrajectoryArguments(t, U, noise, sigma, names=names, inputs=inputs or {}, hold=hold)
            trajectory, parts = validate_trajectory(arguments)
            trajectory = replace(trajectory, doses=validate_doses(doses))
            if truth is not None and len(truth.states) != len(trajectory.times):
                # Rows were merged or dropped: the truth keeps the same times.
                truth = replace(
                    truth, states=truth.states[np.isin(data_validation.convert_numbers(t, "times"), trajectory.times)]
                )
            values = {"trajectories": (trajectory,), "truth": truth, **vars(parts)}
            data_validation.check_sample_count((trajectory,))
        else:
            values = {
                "trajectories": tuple(trajectories),
                "noise": tuple(noise),
                "sigma": None if sigma is None else np.asarray(sigma, dtype=float),
                "covariance": covariance,
                "names": None if names is None else tuple(names),
                "inputs": tuple(inputs or ()),
                "truth": truth,
                "notes": tuple(notes),
            }
        for name, value in {"own_noise": own_noise, "selected": selected, **values}.items():
            object.__setattr__(self, name, value)  # as the generated constructor of a frozen dataclass does

    def replace_weights(self, weights: Sequence[FloatArray]) -> Dataset:
        """Return the dataset with other weights of its values, `(time, D)` for each trajectory."""
        parts = tuple(q.replace_weights(w) for q, w in zip(self.trajectories, weights, strict=True))
        return self.replace_attributes(trajectories=parts)

    def replace_attributes(self, **changes: Any) -> Dataset:
        """Return the dataset with some attributes changed."""
        return Dataset(**{**{field.name: getattr(self, field.name) for field in fields(self)}, **changes})

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns for messages, `(D,)`."""
        return data_validation.label_columns(self.names, self.D)

    @classmethod
    def join(cls, datasets: Sequence[Dataset], labels: Sequence[str] | None = None, own_noise: bool = False) -> Dataset:
        """Join several experiments, subjects or segments to one dataset.

        Parameters
        ----------
        datasets : sequence of Dataset
            They must have the same names, kinds of noise and inputs.
        labels : sequence of str, optional
            A name for each trajectory; numbers by default.
        own_noise : bool
            Whether the noise of each trajectory has a separate size, estimated from the data alone. Sizes that are
            given may always differ.

        Returns
        -------
        Dataset
            With the trajectories of all datasets, in their order.
        """
        if not isinstance(datasets, Sequence) or not datasets or not all(isinstance(d, Dataset) for d in datasets):
            raise DataError(f"join takes a list of datasets; received {datasets!r}.")
        from .dataset_join import join_datasets

        return join_datasets(datasets, labels, own_noise)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        time: str | None = None,
        names: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        noise: str | Sequence[str] = "gaussian",
        sigma: ArrayLike | Mapping[str, str] | None = None,
        inputs: Sequence[str] | Mapping[str, str] = (),
        hold: bool = False,
        trajectory: str | None = None,
        missing: Sequence[float | str] = (),
        sheet: str | None = None,
    ) -> Dataset:
        """Read a table with a header row.

        The table has one column for each name (wide), or one value per row: `id, time, name, value[, sd]` (long).

        Parameters
        ----------
        path : str or Path
            Text separated by commas, semicolons or tabs, also compressed (`.csv.gz`); Parquet or Excel with the extra
            `table`.
        time : str, optional
            The time column; by default the column named like a time, or else the first one that has no other role.
        names : sequence of str, or mapping, optional
            The measured columns; by default all columns without another role. A mapping renames columns:
            `{"hare": "Hare pelts"}`. A list of columns repeats the measurement of one state:
            `{"OD": ["OD_1", "OD_2"]}`.
        noise : str or sequence of str
            As for `Dataset`.
        sigma : as for `Dataset`, or mapping
            A mapping takes standard errors of the points from columns: `{"hare": "hare_se"}`.
        inputs : sequence of str, or mapping
            Columns of known inputs; a mapping renames them.
        hold : bool
            As for `Dataset`.
        trajectory : str, optional
            The column that tells experiments, subjects or segments apart.
        missing : sequence of float or str
            Values that stand for a missing one, such as -999 or `"<LOD"`.
        sheet : str, optional
            The sheet of a spreadsheet; the first by default.

        Returns
        -------
        Dataset
            Its `notes` list what was decided when the table was read.

        Examples
        --------
        >>> import weakform as wf
        >>> wf.Dataset.from_csv("examples/lynx_hare.csv", noise="lognormal").names
        ('hare', 'lynx')
        """
        if not isinstance(path, str | Path):
            raise DataError(f"The path of a table is needed; received {path!r}.")
        from .column_roles import Roles, build_dataset
        from .text_reader import read_table

        roles = Roles(time, names, noise, sigma, inputs=inputs, hold=hold, trajectory=trajectory, missing=missing)
        return build_dataset(read_table(Path(path), sheet), roles)

    def with_doses(self, doses: Any, into: str | None = None) -> Dataset:
        """Return the data with doses added.

        Parameters
        ----------
        doses : Doses, sequence, mapping, path or data frame
            Doses for every trajectory; a mapping from the label of a trajectory to its doses; or a table with one row
            for each dose. A table has the columns `time` and `amount`, and optionally `id` (the label of the
            trajectory), `state`, `duration`, `rate` and `lag`.
        into : str, optional
            The state that is dosed, if a table has no column `state`.

        Returns
        -------
        Dataset
        """
        from .nonmem import add_doses

        return add_doses(self, doses, into)

    @classmethod
    def from_nonmem(
        cls, source: Any, *, into: str, measured: str, noise: str = "gaussian", sigma: ArrayLike | None = None
    ) -> Dataset:
        """Read a table in the format of NONMEM, with doses and measurements in rows below each other.

        Parameters
        ----------
        source : path or data frame
            With the columns `TIME`, `AMT` and `DV`, and optionally `ID`, `EVID` (0 or 1), `MDV` and `RATE`; a dot is an
            empty cell. A value in a row above a dose of the same time was measured before the dose.
        into : str
            The state that is dosed.
        measured : str
            The state, or named expression of the model, that `DV` measures.
        noise, sigma : as for `Dataset`

        Returns
        -------
        Dataset
            One trajectory for each subject.
        """
        from .nonmem import read_nonmem

        return read_nonmem(source, into, measured, noise, sigma)

    @classmethod
    def from_frame(cls, frame: Any, **roles: Any) -> Dataset:
        """Build a dataset from a data frame (pandas, polars).

        Parameters
        ----------
        frame : data frame
            The index of a pandas frame is the time if it looks like one.
        **roles
            The keyword arguments of `from_csv`, except `sheet`.

        Returns
        -------
        Dataset
        """
        from .column_roles import Roles, build_dataset
        from .pandas_reader import check_frame, convert_frame

        allowed = [f.name for f in fields(Roles)]
        for name in roles:
            if name not in allowed:
                raise DataError(f"Unknown argument {name!r}.{suggest_name(name, allowed)} Known: {', '.join(allowed)}.")
        if roles.get("time") is not None:
            roles["time"] = str(roles["time"])
        names = roles.get("names")
        if names is not None and not isinstance(names, str | Mapping):
            roles["names"] = list(map(str, names))
        return build_dataset(convert_frame(check_frame(frame), roles.get("time")), Roles(**roles))

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
        """Number of measured values of each state, `(D,)`; repeated measurements at one time count as one."""
        return np.asarray(np.sum([q.measured.sum(axis=0) for q in self.trajectories], axis=0), dtype=float)

    @property
    def repeated_measurements(self) -> FloatArray:
        """Number of values of each state that were merged into another one at the same time, `(D,)`.

        `measurements + repeated_measurements` is the number of all values that were measured.
        """
        repeats = [q.repeats for q in self.trajectories if q.repeats is not None]
        return np.asarray(np.sum(repeats, axis=0) if repeats else np.zeros(self.D), dtype=float)

    def _repr_html_(self) -> str:
        from html import escape

        from ..report.html_report import draw_sparkline

        rows = [f"<p>{escape(repr(self)[1:-1])}</p>"]
        for q in self.trajectories[:MAX_SHOWN_TRAJECTORIES]:
            for d, label in enumerate(self.labels):
                name = f"{q.label}: {label}" if q.label else label
                rows.append(f"<div>{draw_sparkline(q.times, q.values[:, d])} {escape(name)}</div>")
        return "".join(rows)

    def __repr__(self) -> str:
        names = ", ".join(self.names) if self.names else f"{self.D} states"
        spans = "; ".join(
            f"{q.label + ': ' if q.label else ''}t = {q.times[0]:g}..{q.times[-1]:g}, {len(q.times)} samples"
            for q in self.trajectories[:MAX_SHOWN_TRAJECTORIES]
        )
        hidden = len(self.trajectories) - MAX_SHOWN_TRAJECTORIES
        more = f"; and {hidden} more trajectories" if hidden > 0 else ""
        gaps = self.samples * self.D - int(self.measurements.sum())
        remarks = f"; {gaps} value{'s' * (gaps != 1)} missing" if gaps else ""
        count = sum(len(doses.each) for q in self.trajectories for doses in q.doses)
        remarks += f"; {count} dose{'s' * (count > 1)}" if count else ""
        return f"<Dataset: {names}; {spans}{more}; noise {', '.join(sorted(set(self.noise)))}{remarks}>"
