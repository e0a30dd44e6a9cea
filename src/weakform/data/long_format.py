"""Long tables, one measured value a row (`id, time, name, value[, sd]`), into wide ones: a column for each name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..support.array_types import FloatArray, IntArray
from ..support.errors import DataError
from .text_reader import Table

NAMES = ("name", "variable", "observable", "observableid", "quantity", "analyte", "species", "state", "measure")
ALWAYS = NAMES[:6]
"""Columns that hold names even where these look like numbers."""
VALUES = ("value", "measurement", "val", "conc", "concentration", "reading")
ERRORS = ("sd", "sigma", "se", "stdev", "std", "error", "uncertainty")
GROUPS = ("id", "subject", "trajectory", "experiment", "replicate", "run", "condition", "group", "animal", "patient")
MOST = 1000
"""Different names at most: a column with more of them is something else."""


def is_long(table: Table) -> bool:
    """Whether a table has a column of names and a column of their values."""
    return _names(table) is not None and _column(table, VALUES) is not None


def widened(table: Table, time: str, trajectory: str | None = None) -> Table:
    """The same with a column for each name, in the order in which they appear, and what the values' errors are.

    Rows are those of one trajectory after the other, by time; values of the same name, time and trajectory stand in
    rows of their own. Several columns that tell trajectories apart are joined to one.
    """
    names, values, error = _names(table), _column(table, VALUES), _column(table, ERRORS)
    assert names is not None
    assert values is not None
    apart = [trajectory] if trajectory is not None else [c for c in table.columns if _plain(c) in GROUPS]
    apart = [name for name in apart if name in table.columns and name not in (time, names, values, error)]
    labels = [_label(word, table, names) for word in table.columns[names]]
    known = list(dict.fromkeys(labels))
    if len(known) > MOST:
        raise DataError(f"{table.where}: the column {names!r} has {len(known):,} different names; at most {MOST:,}.")
    clash = [name for name in known if name in (time, *apart)]
    if clash:
        raise DataError(
            f"{table.where}: the column {names!r} says what each value is, yet {clash[0]!r} is a column of its own."
        )
    numbers = table.numbers(values)
    moments, _ = table.times(time)
    groups = [" ".join(_text(table.columns[name][k]) for name in apart) for k in range(len(labels))]
    of_group = {label: k for k, label in enumerate(dict.fromkeys(groups))}
    of_name = {name: k for k, name in enumerate(known)}
    g, d = np.array([of_group[label] for label in groups]), np.array([of_name[label] for label in labels])
    place, first = _placed(g, moments, d)
    wide = np.full((len(known), len(first)), np.nan)
    wide[d, place] = numbers
    group = " ".join(apart) if apart else None
    columns: dict[str, Any] = {} if group is None else {group: [groups[k] for k in first]}
    columns[time] = _picked(table.columns[time], first)
    columns |= {name: wide[k] for name, k in of_name.items()}
    told: dict[str, str] = {}
    if error is not None:
        spread = np.full_like(wide, np.nan)
        spread[d, place] = table.numbers(error)
        told = _errors(table, spread, wide, known, error)
        columns |= {told[name]: spread[of_name[name]] for name in told}
    note = f"The table is long, with one value a row: {len(known)} names in the column {names!r}."
    return replace(table, columns=columns, lines=None, errors=told, group=group, notes=(*table.notes, note))


def _placed(group: IntArray, times: FloatArray, name: IntArray) -> tuple[IntArray, IntArray]:
    """The row of each value in the wide table, and one value of each row."""
    order = np.lexsort((np.arange(len(times)), times, group))
    rows: dict[tuple[int, float, int], int] = {}
    seen: dict[tuple[int, float, int], int] = {}
    place = np.empty(len(times), dtype=int)
    first: list[int] = []
    for k in order:
        key = (int(group[k]), float(times[k]), int(name[k]))
        seen[key] = count = seen.get(key, -1) + 1
        row = (key[0], key[1], count)
        if row not in rows:
            rows[row] = len(first)
            first.append(int(k))
        place[k] = rows[row]
    return place, np.array(first)


def _errors(table: Table, spread: FloatArray, wide: FloatArray, known: list[str], error: str) -> dict[str, str]:
    """The columns of standard deviations; none where there are none at all, and no half of them."""
    there, given = np.isfinite(wide), np.isfinite(spread)
    if not given.any():
        return {}
    for k, name in enumerate(known):
        lacking = int((there[k] & ~given[k]).sum())
        if lacking:
            raise DataError(
                f"{table.where}: {lacking} values of {name!r} have nothing in the column {error!r}. Fill it for all "
                "values, or leave the column out."
            )
    return {name: f"{error} of {name}" for name in known}


def _label(cell: Any, table: Table, names: str) -> str:
    """What a value is called; also where the word looks like a missing value, as Na does."""
    text = getattr(cell, "text", None)
    if text is None:
        text = "" if cell is None or cell != cell else _text(cell)
    if not text.strip():
        raise DataError(f"{table.where}: the column {names!r} says what each value is; in some row it is empty.")
    return str(text).strip()


def _text(cell: Any) -> str:
    from .column_roles import label_of

    return label_of(cell)


def _picked(values: Any, rows: IntArray) -> Any:
    return [values[k] for k in rows] if isinstance(values, list) else values[rows]


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "")


def _names(table: Table) -> str | None:
    """The column of names: of words, or called so beyond doubt."""
    for wanted in NAMES:
        for name, values in table.columns.items():
            if _plain(name) == wanted and len(values):
                words = any(isinstance(v, str) or getattr(v, "text", "") for v in values[:50])
                if words or wanted in ALWAYS:
                    return name
    return None


def _column(table: Table, known: tuple[str, ...]) -> str | None:
    """The column that is called like one of these."""
    return next((name for wanted in known for name in table.columns if _plain(name) == wanted), None)
