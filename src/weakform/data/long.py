"""Long tables, one measured value a row (`id, time, name, value[, sd]`), into wide ones: a column for each name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..support.errors import DataError
from .tables import Table

NAMES = ("name", "variable", "observable", "observableid", "quantity", "species", "state", "analyte", "measure")
VALUES = ("value", "measurement", "val", "conc", "concentration", "reading")
ERRORS = ("sd", "sigma", "se", "stdev", "std", "error", "uncertainty")
GROUPS = ("id", "subject", "trajectory", "experiment", "replicate", "run", "condition", "group", "animal", "patient")
MOST = 1000
"""Different names at most: a column with more of them is something else."""


def is_long(table: Table) -> bool:
    """Whether a table has a column of names and a column of their values."""
    return _column(table, NAMES, words=True) is not None and _column(table, VALUES) is not None


def widened(table: Table, time: str) -> Table:
    """The same with a column for each name, in the order in which they appear, and what the values' errors are.

    Values of the same name, time and trajectory stand in rows of their own.
    """
    names, values = _column(table, NAMES, words=True), _column(table, VALUES)
    assert names is not None
    assert values is not None
    error, group = _column(table, ERRORS), _column(table, GROUPS)
    group = None if group in (time, names, values, error) else group
    labels = [str(word).strip() for word in table.columns[names]]
    known = list(dict.fromkeys(labels))
    if len(known) > MOST:
        raise DataError(f"{table.where}: the column {names!r} has {len(known):,} different names; at most {MOST:,}.")
    clash = [name for name in known if name in (time, group)]
    if clash or "" in known:
        raise DataError(
            f"{table.where}: the column {names!r} says what each value is; "
            + (f"{clash[0]!r} is a column of its own already." if clash else "in some row it is empty.")
        )
    numbers = table.numbers(values)
    errors = None if error is None else table.numbers(error)
    moments = list(np.asarray(table.columns[time]).tolist())
    groups = moments if group is None else list(np.asarray(table.columns[group]).tolist())
    rows: dict[tuple[Any, ...], int] = {}
    seen: dict[tuple[Any, ...], int] = {}
    place, at = np.empty(len(labels), dtype=int), {name: k for k, name in enumerate(known)}
    for k, key in enumerate(zip(groups, moments, labels, strict=True)):
        count = seen[key] = seen.get(key, -1) + 1
        place[k] = rows.setdefault((*key[:2], count), len(rows))
    column = np.array([at[label] for label in labels])
    wide = np.full((len(known), len(rows)), np.nan)
    wide[column, place] = numbers
    first = np.empty(len(rows), dtype=int)
    first[place[::-1]] = np.arange(len(labels))[::-1]
    columns: dict[str, Any] = {name: _picked(table.columns[name], first) for name in (group, time) if name is not None}
    columns |= {name: wide[k] for name, k in at.items()}
    told: dict[str, str] = {}
    if errors is not None and np.isfinite(errors).any():
        spread = np.full_like(wide, np.nan)
        spread[column, place] = errors
        told = {name: f"{error} of {name}" for name in known}
        columns |= {told[name]: spread[k] for name, k in at.items()}
    note = f"The table is long, with one value a row: {len(known)} names in the column {names!r}."
    return replace(table, columns=columns, lines=None, errors=told, group=group, notes=(note,))


def _picked(values: Any, rows: Any) -> Any:
    return [values[k] for k in rows] if isinstance(values, list) else values[rows]


def _column(table: Table, known: tuple[str, ...], words: bool = False) -> str | None:
    """The column of one of these names; with `words`, one that has words in it."""
    for wanted in known:
        for name, values in table.columns.items():
            if name.strip().lower().replace("_", "") == wanted and len(values):
                first = values[0]
                if not words or isinstance(first, str):
                    return name
    return None
