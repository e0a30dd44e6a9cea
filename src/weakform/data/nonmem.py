"""Doses from tables: one row for each dose, or NONMEM's way, doses and measurements in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import DataError
from ..support.wording import listed, suggestion
from .column_roles import label_of
from .dataset import Dataset
from .doses import Doses, checked_doses
from .pandas_reader import frame_table
from .text_reader import Table, read_table

ID, TIME, AMOUNT, STATE, DURATION, RATE, LAG = "id", "time", "amount", "state", "duration", "rate", "lag"
UNREAD = ("ADDL", "SS", "II", "CENS", "LIMIT", "BLQ")
"""Columns of NONMEM that change what doses or values mean, and are not read."""
BEFORE = 1e-9
"""How long after a sample of the same time a dose is given that stands behind it, relative to the time that passes."""


def table_of(source: Any) -> Table:
    """A table from a path or a data frame."""
    if isinstance(source, str | Path):
        return read_table(Path(source))
    if hasattr(source, "columns"):
        return frame_table(source)
    raise DataError(f"The path of a table or a data frame is needed; received a {type(source).__name__}.")


def with_doses(data: Dataset, doses: Any, into: str | None = None) -> Dataset:
    """See `Dataset.with_doses`."""
    labels = [q.label for q in data.trajectories]
    if isinstance(doses, Doses) or (isinstance(doses, Sequence) and not isinstance(doses, str)):
        given: dict[str, tuple[Doses, ...]] = dict.fromkeys(labels, checked_doses(doses))
    elif isinstance(doses, Mapping):
        given = {str(label): checked_doses(one) for label, one in doses.items()}
    else:
        given = _from_rows(table_of(doses), labels, into)
    unknown = [label for label in given if label not in labels]
    if unknown:
        guess = suggestion(unknown[0], labels)
        raise DataError(f"There are doses of {unknown[0]!r}, which is no trajectory: {listed(labels)}.{guess}")
    parts = tuple(replace(q, doses=(*q.doses, *given.get(q.label, ()))) for q in data.trajectories)
    return data.replaced(trajectories=parts)


def _from_rows(table: Table, labels: list[str], into: str | None) -> dict[str, tuple[Doses, ...]]:
    """Doses by trajectory from a table with a row for each."""
    names = {name.strip().lower(): name for name in table.columns}
    for needed in (TIME, AMOUNT):
        if needed not in names:
            raise DataError(
                f"A table of doses needs the columns time and amount, and may have id, state and duration; those of "
                f"{table.where} are: {listed(table.columns)}."
            )
    if ID not in names and len(labels) > 1:
        raise DataError(f"{table.where} needs a column id, which tells whose dose each is: {listed(labels)}.")
    if STATE not in names and into is None:
        raise DataError(f"{table.where} has no column state; say with into=... which state the doses go into.")
    odd = [name for name in names if name not in (ID, TIME, AMOUNT, STATE, DURATION, RATE, LAG)]
    if odd:
        raise DataError(
            f"{table.where} has the column {odd[0]!r}, which means nothing here: doses have id, time, amount, state, "
            "duration, rate and lag. Leave it out."
        )
    times, amounts = table.numbers(names[TIME]), table.numbers(names[AMOUNT])
    durations = table.numbers(names[DURATION]) if DURATION in names else np.zeros(len(times))
    if RATE in names:
        rates = np.nan_to_num(table.numbers(names[RATE]))
        durations = np.where(rates > 0, amounts / np.where(rates > 0, rates, 1.0), durations)
    times = times + (np.nan_to_num(table.numbers(names[LAG])) if LAG in names else 0.0)
    who = [label_of(v) for v in table.columns[names[ID]]] if ID in names else [labels[0]] * len(times)
    states = [str(v) for v in table.columns[names[STATE]]] if STATE in names else [str(into)] * len(times)
    found: dict[str, tuple[Doses, ...]] = {}
    for label, state, t, amount, duration in zip(who, states, times, amounts, durations, strict=True):
        lasting = float(duration) if np.isfinite(duration) and duration > 0 else None
        found[label] = (*found.get(label, ()), Doses(state, float(t), float(amount), lasting))
    return found


def from_nonmem(source: Any, into: str, measured: str, noise: str, sigma: Any) -> Dataset:
    """See `Dataset.from_nonmem`."""
    table = table_of(source)
    names = {name.strip().upper().lstrip("#"): name for name in table.columns}
    for needed in ("TIME", "AMT", "DV"):
        if needed not in names:
            raise DataError(
                f"A NONMEM table needs the columns TIME, AMT and DV, and may have ID, EVID, MDV and RATE; those of "
                f"{table.where} are: {listed(table.columns)}."
            )
    n = len(table.columns[names["TIME"]])

    def column(name: str, default: float = 0.0) -> FloatArray:
        if name not in names:
            return np.full(n, default)
        return _numbers(table, names[name], default)

    who = [label_of(v) for v in table.columns[names["ID"]]] if "ID" in names else ["1"] * n
    times, amounts, rates = column("TIME", np.nan), column("AMT"), column("RATE")
    events, missing = column("EVID", np.nan), column("MDV")
    values = column("DV", np.nan)
    dosed = np.where(np.isnan(events), amounts > 0, np.isin(events, (1, 4)))
    other = ~np.isnan(events) & ~np.isin(events, (0, 1, 2))
    if other.any():
        raise DataError(
            f"{table.where} has events of EVID {events[other][0]:g}; only 0 (a measurement) and 1 (a dose) are read. "
            "Write resets into the model: at t = ...: x = 0."
        )
    for name in UNREAD:
        if column(name).any():
            raise DataError(
                f"{table.where} uses the column {name}, which is not read; write a row for each dose or value."
            )
    for name, rows, what in (("CMT", dosed, "doses go"), ("DVID", ~dosed, "values belong")):
        if name in names and len(np.unique(column(name)[rows])) > 1:
            raise DataError(
                f"By the column {name} of {table.where} {what} to more than one compartment, which is not read; make "
                "Dataset(...) and doses=[Doses(...), ...] yourself, one for each."
            )
    if (rates < 0).any():
        raise DataError(f"{table.where} has a RATE below zero, which NONMEM estimates; give rates as numbers.")
    seen = ~dosed & (missing == 0) & np.isfinite(values) & (np.isnan(events) | (events == 0))
    parts = []
    labels = list(dict.fromkeys(who))
    group = np.array(who)
    for label in labels:
        mine = group == label
        rows = mine & seen
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
                    doses=_doses(np.flatnonzero(mine & dosed), times, amounts, rates, seen & mine, into=into),
                )
            )
        except DataError as error:
            raise DataError(f"{label}: {error}") from None
    return parts[0] if len(parts) == 1 else Dataset.join(parts, labels)


def _doses(
    rows: Any, times: FloatArray, amounts: FloatArray, rates: FloatArray, seen: BoolArray, *, into: str
) -> list[Doses]:
    """Doses of one subject; one that stands behind a measurement of the same time is given a moment later."""
    found = []
    span = float(np.ptp(times[np.isfinite(times)])) or 1.0
    for row in rows:
        before = seen[:row] & (times[:row] == times[row])
        t = float(times[row]) + (BEFORE * span if before.any() else 0.0)
        rate = float(rates[row])
        found.append(Doses(into, t, float(amounts[row]), float(amounts[row]) / rate if rate > 0 else None))
    return found


def _numbers(table: Table, name: str, default: float) -> FloatArray:
    """A column in which a dot, or nothing, means the default."""
    values = table.columns[name]
    cells = [default if str(v).strip() in (".", "", "nan", "None", "NA") else v for v in values]
    found = Table(table.where, {name: cells}, table.lines).numbers(name)
    return np.where(np.isnan(found), default, found)
