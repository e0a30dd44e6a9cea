"""Doses from tables: one row for each dose, or the format of NONMEM with doses and measurements in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import DataError
from ..support.wording import list_names, suggest_name
from .column_roles import format_label
from .dataset import Dataset
from .doses import Doses, validate_doses
from .pandas_reader import convert_frame
from .text_reader import Table, read_table

DOSE_COLUMNS = ("id", "time", "amount", "state", "duration", "rate", "lag")
"""Columns that a table of doses may have, in lower case; others are refused."""
UNSUPPORTED_COLUMNS = ("ADDL", "SS", "II", "CENS", "LIMIT", "BLQ")
"""Columns of NONMEM that change the meaning of doses or values and are not supported; they are refused if not zero."""
DOSE_DELAY_SHARE = 1e-9
"""Delay of a dose in a row below a measurement of the same time, as a share of the duration of the whole table. A
measurement at the time of a dose is taken after it, so that a dose without delay would change the value before it. By
judgement."""


def read_any_table(source: Any) -> Table:
    """Read a table from a path or a data frame."""
    if isinstance(source, str | Path):
        return read_table(Path(source))
    if hasattr(source, "columns"):
        return convert_frame(source)
    raise DataError(f"The path of a table or a data frame is needed; received a {type(source).__name__}.")


def add_doses(data: Dataset, doses: Any, into: str | None = None) -> Dataset:
    """Add doses to the trajectories of a dataset; see `Dataset.with_doses`."""
    labels = [q.label for q in data.trajectories]
    if isinstance(doses, Doses) or (isinstance(doses, Sequence) and not isinstance(doses, str)):
        by_label: dict[str, tuple[Doses, ...]] = dict.fromkeys(labels, validate_doses(doses))
    elif isinstance(doses, Mapping):
        by_label = {str(label): validate_doses(value) for label, value in doses.items()}
    else:
        by_label = _read_dose_rows(read_any_table(doses), labels, into)
    unknown = [label for label in by_label if label not in labels]
    if unknown:
        guess = suggest_name(unknown[0], labels)
        raise DataError(
            f"Doses are given for {unknown[0]!r}, which is not a trajectory; the trajectories are: "
            f"{list_names(labels)}.{guess}"
        )
    parts = tuple(replace(q, doses=(*q.doses, *by_label.get(q.label, ()))) for q in data.trajectories)
    return data.replace_attributes(trajectories=parts)


def _read_dose_rows(table: Table, labels: list[str], into: str | None) -> dict[str, tuple[Doses, ...]]:
    """Read doses from a table with one row for each dose.

    Parameters
    ----------
    table : Table
    labels : list of str
        Labels of all trajectories.
    into : str, or None
        The state that is dosed, if the table has no column `state`.

    Returns
    -------
    dict of str to tuple of Doses
        The doses of each trajectory, by its label.
    """
    names = {name.strip().lower(): name for name in table.columns}
    for needed in ("time", "amount"):
        if needed not in names:
            raise DataError(
                "A table of doses needs the columns time and amount, and may have id, state, duration, rate and lag; "
                f"the columns of {table.location} are: {list_names(table.columns)}."
            )
    if "id" not in names and len(labels) > 1:
        raise DataError(
            f"{table.location} needs a column id with the trajectory of each dose; the trajectories are: "
            f"{list_names(labels)}."
        )
    if "state" not in names and into is None:
        raise DataError(f"{table.location} has no column state; name the state that receives the doses with into=....")
    unknown = [name for name in names if name not in DOSE_COLUMNS]
    if unknown:
        raise DataError(
            f"{table.location} has the column {unknown[0]!r}, which is not supported; a table of doses may have id, "
            "time, amount, state, duration, rate and lag. Leave it out."
        )
    times, amounts = table.parse_numbers(names["time"]), table.parse_numbers(names["amount"])
    durations = table.parse_numbers(names["duration"]) if "duration" in names else np.zeros(len(times))
    if "rate" in names:
        rates = np.nan_to_num(table.parse_numbers(names["rate"]))
        # An infusion lasts for its amount over its rate; the rate replaces a duration in the same row.
        durations = np.where(rates > 0, amounts / np.where(rates > 0, rates, 1.0), durations)
    times = times + (np.nan_to_num(table.parse_numbers(names["lag"])) if "lag" in names else 0.0)
    subjects = [format_label(v) for v in table.columns[names["id"]]] if "id" in names else [labels[0]] * len(times)
    states = [str(v) for v in table.columns[names["state"]]] if "state" in names else [str(into)] * len(times)
    by_label: dict[str, tuple[Doses, ...]] = {}
    for label, state, t, amount, duration in zip(subjects, states, times, amounts, durations, strict=True):
        infusion_time = float(duration) if np.isfinite(duration) and duration > 0 else None
        by_label[label] = (*by_label.get(label, ()), Doses(state, float(t), float(amount), infusion_time))
    return by_label


def read_nonmem(source: Any, into: str, measured: str, noise: str, sigma: Any) -> Dataset:
    """Read a table in the format of NONMEM; see `Dataset.from_nonmem` for the arguments."""
    table = read_any_table(source)
    names = {name.strip().upper().lstrip("#"): name for name in table.columns}
    for needed in ("TIME", "AMT", "DV"):
        if needed not in names:
            raise DataError(
                "A NONMEM table needs the columns TIME, AMT and DV, and may have ID, EVID, MDV and RATE; the columns "
                f"of {table.location} are: {list_names(table.columns)}."
            )
    n = len(table.columns[names["TIME"]])

    def column(name: str, default: float = 0.0) -> FloatArray:
        """Return a column as numbers, `(rows,)`; the default in all rows if the table has no such column."""
        if name not in names:
            return np.full(n, default)
        return _fill_column(table, names[name], default)

    subjects = [format_label(v) for v in table.columns[names["ID"]]] if "ID" in names else ["1"] * n
    times, amounts, rates = column("TIME", np.nan), column("AMT"), column("RATE")
    events, missing = column("EVID", np.nan), column("MDV")
    values = column("DV", np.nan)
    dosed = np.where(np.isnan(events), amounts > 0, events == 1)
    unsupported = ~np.isnan(events) & ~np.isin(events, (0, 1, 2))
    if unsupported.any():
        raise DataError(
            f"{table.location} has events of EVID {events[unsupported][0]:g}; only 0 (a measurement) and 1 (a dose) "
            "are supported. Write resets into the model: at t = ...: x = 0."
        )
    for name in UNSUPPORTED_COLUMNS:
        if column(name).any():
            raise DataError(
                f"{table.location} uses the column {name}, which is not supported; write a row for each dose or value."
            )
    for name, rows, what in (("CMT", dosed, "doses go"), ("DVID", ~dosed, "values belong")):
        if name in names and len(np.unique(column(name)[rows])) > 1:
            raise DataError(
                f"By the column {name} of {table.location} {what} to more than one compartment, which is not "
                "supported; build Dataset(...) with doses=[Doses(...), ...], one for each compartment."
            )
    if (rates < 0).any():
        raise DataError(
            f"{table.location} has a RATE below zero, which asks NONMEM to estimate it; give rates as positive numbers."
        )
    # A row of EVID 2 is neither a dose nor a measurement: it is ignored.
    used = ~dosed & (missing == 0) & np.isfinite(values) & (np.isnan(events) | (events == 0))
    parts = []
    labels = list(dict.fromkeys(subjects))
    group = np.array(subjects)
    for label in labels:
        own_rows = group == label
        rows = own_rows & used
        if not rows.any():
            raise DataError(f"{label} has no measurement; leave out its rows.")
        try:
            parts.append(
                Dataset(
                    times[rows],
                    values[rows],
                    noise,
                    sigma,
                    names=[measured],
                    doses=_build_doses(
                        np.flatnonzero(own_rows & dosed), times, amounts, rates, used & own_rows, into=into
                    ),
                )
            )
        except DataError as error:
            raise DataError(f"{label}: {error}") from None
    return parts[0] if len(parts) == 1 else Dataset.join(parts, labels)


def _build_doses(
    rows: Any, times: FloatArray, amounts: FloatArray, rates: FloatArray, measured: BoolArray, *, into: str
) -> list[Doses]:
    """Build the doses of one subject; a dose in a row below a measurement of the same time is slightly delayed.

    Parameters
    ----------
    rows : ndarray of int
        The rows of its doses.
    times, amounts, rates : ndarray, (table rows,)
    measured : ndarray of bool, (table rows,)
        Rows with a measurement of this subject.
    into : str
        The state that is dosed.

    Returns
    -------
    list of Doses
        One for each row.
    """
    doses = []
    span = float(np.ptp(times[np.isfinite(times)])) or 1.0
    for row in rows:
        earlier = measured[:row] & (times[:row] == times[row])
        t = float(times[row]) + (DOSE_DELAY_SHARE * span if earlier.any() else 0.0)
        rate = float(rates[row])
        doses.append(Doses(into, t, float(amounts[row]), float(amounts[row]) / rate if rate > 0 else None))
    return doses


def _fill_column(table: Table, name: str, default: float) -> FloatArray:
    """Return a column as numbers, `(rows,)`; an empty cell or a dot becomes the default."""
    values = table.columns[name]
    cells = [default if str(v).strip() in (".", "", "nan", "None", "NA") else v for v in values]
    parsed = Table(table.location, {name: cells}, table.lines).parse_numbers(name)
    return np.where(np.isnan(parsed), default, parsed)
