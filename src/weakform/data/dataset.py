"""Measurements, validated once, where they enter.

A dataset is one or more trajectories of the same states, the kind of noise of each state, and what is known of its
size. Arrays of states are `(time, state)`. Everything behind this room may rely on: finite, strictly increasing times;
values that are finite and allowed by their noise, or NaN where missing; a finite scale for each that is there.
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
from ..support.wording import suggestion
from . import data_validation
from .data_validation import Given, checked
from .doses import Doses, checked_doses
from .trajectory import Trajectory, Truth


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
    doses : Doses, or sequence of them, optional
        Amounts that were put into states.
    names : sequence of str, optional
        Names of the columns, those of a pandas frame or series by default. Columns without names are taken in the order
        of the model's states; each name must be one of the model's.
    inputs : mapping of str to array_like, (time,), optional
        Known inputs by name, at the same times.
    hold : bool
        Whether inputs keep their value until the next sample, as switches do; else they are interpolated linearly.
    truth : Truth, optional
        For simulated data.
    trajectories : sequence of Trajectory, optional
        In place of `t` and `U`, trajectories that are checked already, as readers of files and `join` have them; then
        `noise` is one word for each state, `sigma` is `(D,)`, and `inputs` are names.
    covariance, own_noise, notes, selected
        The attributes, for such trajectories.

    Attributes
    ----------
    trajectories : tuple of Trajectory
    noise : tuple of str, (D,)
    sigma : ndarray, (D,), or None
    covariance : ndarray, (D, D), or None
        Of the states, where it was given.
    names : tuple of str, or None
        Of the columns.
    inputs : tuple of str
        Names of the inputs.
    own_noise : bool
        Whether each trajectory has noise of its own size.
    notes : tuple of str
        What was changed on the way in, in words.
    selected : bool
        Whether the columns were chosen by name, so that each must be one of the model's; false for a table all of whose
        columns were read.

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
            given = Given(t, U, noise, sigma, names=names, inputs=inputs or {}, hold=hold)
            trajectory, parts = checked(given)
            trajectory = replace(trajectory, doses=checked_doses(doses))
            if truth is not None and len(truth.states) != len(trajectory.times):
                truth = replace(
                    truth, states=truth.states[np.isin(data_validation.numbers(t, "times"), trajectory.times)]
                )
            values = {"trajectories": (trajectory,), "truth": truth, **vars(parts)}
            data_validation.check_amount((trajectory,))
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
            object.__setattr__(self, name, value)  # what the constructor of a frozen dataclass does itself

    def reweighed(self, weights: Sequence[FloatArray]) -> Dataset:
        """The same with other weights `(time, D)` of the values of each trajectory."""
        parts = tuple(q.reweighed(w) for q, w in zip(self.trajectories, weights, strict=True))
        return self.replaced(trajectories=parts)

    def replaced(self, **changes: Any) -> Dataset:
        """The same dataset with some attributes changed."""
        return Dataset(**{**{field.name: getattr(self, field.name) for field in fields(self)}, **changes})

    @property
    def labels(self) -> tuple[str, ...]:
        """What the columns are called in messages."""
        return data_validation.labels(self.names, self.D)

    @classmethod
    def join(cls, datasets: Sequence[Dataset], labels: Sequence[str] | None = None, own_noise: bool = False) -> Dataset:
        """Several experiments, subjects or segments as one dataset.

        Parameters
        ----------
        datasets : sequence of Dataset
            With the same names, kinds of noise and inputs.
        labels : sequence of str, optional
            A name for each trajectory; numbers by default.
        own_noise : bool
            Whether the noise of each trajectory has a size of its own, found from the data alone. Sizes that are given
            may always differ.

        Returns
        -------
        Dataset
        """
        if not isinstance(datasets, Sequence) or not datasets or not all(isinstance(d, Dataset) for d in datasets):
            raise DataError(f"join takes a list of datasets; received {datasets!r}.")
        from .dataset_join import joined

        return joined(datasets, labels, own_noise)

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
        """Read a table with a header row: a column for each name, or one value a row (`id, time, name, value[, sd]`).

        Parameters
        ----------
        path : str or Path
            Text separated by commas, semicolons or tabs, also packed (`.csv.gz`); Parquet or Excel with the extra
            `table`.
        time : str, optional
            The time column; the first one that has no other role by default.
        names : sequence of str, or mapping, optional
            The measured columns, all others by default; a mapping renames: `{"hare": "Hare pelts"}`, and a list of
            columns is one that is measured several times: `{"OD": ["OD_1", "OD_2"]}`.
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
        missing : sequence of float or str
            What stands for a missing value, such as -999 or `"<LOD"`.
        sheet : str, optional
            Of a spreadsheet; the first by default.

        Returns
        -------
        Dataset
            Its `notes` say what was decided on the way.

        Examples
        --------
        >>> import weakform as wf
        >>> wf.Dataset.from_csv("examples/lynx_hare.csv", noise="lognormal").names
        ('hare', 'lynx')
        """
        if not isinstance(path, str | Path):
            raise DataError(f"The path of a table is needed; received {path!r}.")
        from .column_roles import Roles, dataset
        from .text_reader import read_table

        roles = Roles(time, names, noise, sigma, inputs=inputs, hold=hold, trajectory=trajectory, missing=missing)
        return dataset(read_table(Path(path), sheet), roles)

    def with_doses(self, doses: Any, into: str | None = None) -> Dataset:
        """The same data with doses.

        Parameters
        ----------
        doses : Doses, sequence, mapping, path or data frame
            For every trajectory; by label of the trajectory; or a table with a row for each dose: columns `time` and
            `amount`, and where there are several `id` (the label of the trajectory), `state` and `duration`.
        into : str, optional
            The state that is dosed, where a table does not say.

        Returns
        -------
        Dataset
        """
        from .nonmem import with_doses

        return with_doses(self, doses, into)

    @classmethod
    def from_nonmem(
        cls, source: Any, *, into: str, measured: str, noise: str = "gaussian", sigma: ArrayLike | None = None
    ) -> Dataset:
        """Read a table with doses and measurements one below the other, as NONMEM has it.

        Parameters
        ----------
        source : path or data frame
            Columns `TIME`, `AMT` and `DV`, and where needed `ID`, `EVID` (0 or 1), `MDV` and `RATE`; a dot is nothing.
            A value that stands before the dose of the same time was measured before it.
        into : str
            The state that is dosed.
        measured : str
            What `DV` is: a state, or a named expression of the model.
        noise, sigma : as for `Dataset`
        """
        from .nonmem import from_nonmem

        return from_nonmem(source, into, measured, noise, sigma)

    @classmethod
    def from_frame(cls, frame: Any, **roles: Any) -> Dataset:
        """Take columns of a data frame (pandas, polars); the index is the time where it looks like one.

        Parameters
        ----------
        frame : data frame
        **roles
            The arguments of `from_csv`, but `sheet`.

        Returns
        -------
        Dataset
        """
        from .column_roles import Roles, dataset
        from .pandas_reader import frame_table, plain_frame

        known = [f.name for f in fields(Roles)]
        for name in roles:
            if name not in known:
                raise DataError(f"Unknown argument {name!r}.{suggestion(name, known)} Known: {', '.join(known)}.")
        if roles.get("time") is not None:
            roles["time"] = str(roles["time"])
        names = roles.get("names")
        if names is not None and not isinstance(names, str | Mapping):
            roles["names"] = list(map(str, names))
        return dataset(frame_table(plain_frame(frame), roles.get("time")), Roles(**roles))

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

    def _repr_html_(self) -> str:
        from html import escape

        from ..report.html_report import sparkline

        rows = [f"<p>{escape(repr(self)[1:-1])}</p>"]
        for q in self.trajectories[:5]:
            for d, label in enumerate(self.labels):
                name = f"{q.label}: {label}" if q.label else label
                rows.append(f"<div>{sparkline(q.times, q.values[:, d])} {escape(name)}</div>")
        return "".join(rows)

    def __repr__(self) -> str:
        names = ", ".join(self.names) if self.names else f"{self.D} states"
        spans = "; ".join(
            f"{q.label + ': ' if q.label else ''}t = {q.times[0]:g}..{q.times[-1]:g}, {len(q.times)} samples"
            for q in self.trajectories[:5]
        )
        more = f"; and {len(self.trajectories) - 5} more trajectories" if len(self.trajectories) > 5 else ""
        gaps = self.samples * self.D - int(self.measurements.sum())
        missing = f"; {gaps} value{'s' * (gaps != 1)} missing" if gaps else ""
        given = sum(len(doses.each) for q in self.trajectories for doses in q.doses)
        missing += f"; {given} dose{'s' * (given > 1)}" if given else ""
        return f"<Dataset: {names}; {spans}{more}; noise {', '.join(sorted(set(self.noise)))}{missing}>"
