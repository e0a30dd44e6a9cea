"""Conversion of long tables, with one measured value per row (`id, time, name, value[, sd]`), into wide ones.

A wide table has a column for each name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..support.array_types import FloatArray, IntArray
from ..support.errors import DataError
from .text_reader import Table

NAME_COLUMNS = ("name", "variable", "observable", "observableid", "quantity", "analyte", "species", "state", "measure")
"""Columns that say what each value is, most explicit first; lower case, without underscores."""
EXPLICIT_NAME_COLUMNS = NAME_COLUMNS[:6]
"""Columns that contain names even if these look like numbers, such as 101."""
VALUE_COLUMNS = ("value", "measurement", "val", "conc", "concentration", "reading")
"""Columns of measured values."""
ERROR_COLUMNS = ("sd", "sigma", "se", "stdev", "std", "error", "uncertainty")
"""Columns of standard deviations of the values."""
MAX_SEARCHED_CELLS = 50
"""Number of cells at the top of a column that are searched for a word, to recognise a column of names. By judgement."""
GROUP_COLUMNS = (
    "id",
    "subject",
    "trajectory",
    "experiment",
    "replicate",
    "run",
    "condition",
    "group",
    "animal",
    "patient",
)
"""Columns that tell trajectories apart."""
MAX_DISTINCT_NAMES = 1000
"""Largest number of different names; a column with more of them is taken to be something else, which is an error. By
judgement."""


def is_long(table: Table) -> bool:
    """Return True if a table has a column of names and a column of their values."""
    return _find_name_column(table) is not None and _find_column(table, VALUE_COLUMNS) is not None


def pivot_to_wide(table: Table, time: str, trajectory: str | None = None) -> Table:
    """Convert a long table to a wide one.

    Parameters
    ----------
    table : Table
        A long table; see `is_long`.
    time : str
        Its time column.
    trajectory : str, optional
        The column that tells trajectories apart. By default all columns that are named like one
        (`GROUP_COLUMNS`), joined to one column.

    Returns
    -------
    Table
        A column for each name, in the order in which the names appear, and columns of their standard deviations. Rows
        are sorted by trajectory and time; several values of the same name, time and trajectory are in separate rows.
    """
    names, values, error = (
        _find_name_column(table),
        _find_column(table, VALUE_COLUMNS),
        _find_column(table, ERROR_COLUMNS),
    )
    assert names is not None
    assert values is not None
    group_columns = (
        [trajectory] if trajectory is not None else [c for c in table.columns if _normalise_name(c) in GROUP_COLUMNS]
    )
    group_columns = [
        name for name in group_columns if name in table.columns and name not in (time, names, values, error)
    ]
    labels = [_read_name(word, table, names) for word in table.columns[names]]
    distinct = list(dict.fromkeys(labels))
    if len(distinct) > MAX_DISTINCT_NAMES:
        raise DataError(
            f"{table.location}: the column {names!r} has {len(distinct):,} different names; at most "
            f"{MAX_DISTINCT_NAMES:,} are allowed."
        )
    clash = [name for name in distinct if name in (time, *group_columns)]
    if clash:
        raise DataError(
            f"{table.location}: {clash[0]!r} is a name in the column {names!r}, but also a column itself; rename one."
        )
    numbers = table.parse_numbers(values)
    times, _ = table.parse_times(time)
    groups = [" ".join(_format_cell(table.columns[name][k]) for name in group_columns) for k in range(len(labels))]
    of_group = {label: k for k, label in enumerate(dict.fromkeys(groups))}
    of_name = {name: k for k, name in enumerate(distinct)}
    g, d = np.array([of_group[label] for label in groups]), np.array([of_name[label] for label in labels])
    place, first = _assign_rows(g, times, d)
    # A name without a value in some row of the wide table is missing there.
    wide = np.full((len(distinct), len(first)), np.nan)
    wide[d, place] = numbers
    group = " ".join(group_columns) if group_columns else None
    columns: dict[str, Any] = {} if group is None else {group: [groups[k] for k in first]}
    columns[time] = _take_rows(table.columns[time], first)
    columns |= {name: wide[k] for name, k in of_name.items()}
    errors: dict[str, str] = {}
    if error is not None:
        spread = np.full_like(wide, np.nan)
        spread[d, place] = table.parse_numbers(error)
        errors = _name_error_columns(table, spread, wide, distinct, error)
        columns |= {errors[name]: spread[of_name[name]] for name in errors}
    note = f"The table is long, with one value per row: {len(distinct)} names in the column {names!r}."
    return replace(table, columns=columns, lines=None, errors=errors, group=group, notes=(*table.notes, note))


def _assign_rows(group: IntArray, times: FloatArray, name: IntArray) -> tuple[IntArray, IntArray]:
    """Find the row of each value in the wide table.

    Parameters
    ----------
    group, times, name : ndarray, (values,)
        Trajectory, time and name of each value in the long table.

    Returns
    -------
    place : ndarray of int, (values,)
        Row in the wide table. The k-th repeat of a name at one time shares a row with the k-th repeats of other names.
    first : ndarray of int, (rows,)
        Position in the long table of one value of each row.
    """
    # By trajectory, then by time, then in the order of the table: the last key of `lexsort` counts first.
    order = np.lexsort((np.arange(len(times)), times, group))
    rows: dict[tuple[int, float, int], int] = {}
    repeats: dict[tuple[int, float, int], int] = {}
    place = np.empty(len(times), dtype=int)
    first: list[int] = []
    for k in order:
        key = (int(group[k]), float(times[k]), int(name[k]))
        repeats[key] = count = repeats.get(key, -1) + 1
        row = (key[0], key[1], count)
        if row not in rows:
            rows[row] = len(first)
            first.append(int(k))
        place[k] = rows[row]
    return place, np.array(first)


def _name_error_columns(
    table: Table, spread: FloatArray, wide: FloatArray, names: list[str], error: str
) -> dict[str, str]:
    """Name the columns of standard deviations; check that all values have one, or none.

    Parameters
    ----------
    table : Table
    spread, wide : ndarray, (names, rows)
        Standard deviations and values.
    names : list of str
    error : str
        The column of standard deviations in the long table.

    Returns
    -------
    dict of str to str
        Name of the column of standard deviations, by the name of its values; empty if the column is empty.
    """
    has_value, has_error = np.isfinite(wide), np.isfinite(spread)
    if not has_error.any():
        return {}
    for k, name in enumerate(names):
        lacking = int((has_value[k] & ~has_error[k]).sum())
        if lacking:
            raise DataError(
                f"{table.location}: {lacking} values of {name!r} have nothing in the column {error!r}. Fill it for all "
                "values, or leave the column out."
            )
    return {name: f"{error} of {name}" for name in names}


def _read_name(cell: Any, table: Table, names: str) -> str:
    """Return the name of a value as written, even if it looks like a missing value, as Na (sodium) does.

    Parameters
    ----------
    cell : object
        A cell of the column of names.
    table : Table
    names : str
        The column of names, for the error message.
    """
    text = getattr(cell, "text", None)
    if text is None:
        text = "" if cell is None or cell != cell else _format_cell(cell)
    if not text.strip():
        raise DataError(
            f"{table.location}: the column {names!r} is empty in some row; it must say what each value is. Fill it, or "
            "leave the row out."
        )
    return str(text).strip()


def _format_cell(cell: Any) -> str:
    """Return a cell as the label of a trajectory."""
    from .column_roles import format_label

    return format_label(cell)


def _take_rows(values: Any, rows: IntArray) -> Any:
    """Return the entries of a list or an array at the given positions."""
    return [values[k] for k in rows] if isinstance(values, list) else values[rows]


def _normalise_name(name: str) -> str:
    """Return the name of a column in lower case, without underscores."""
    return name.strip().lower().replace("_", "")


def _find_name_column(table: Table) -> str | None:
    """Find the column of names: one that contains words, or whose own name leaves no doubt; None if there is none."""
    for wanted in NAME_COLUMNS:
        for name, values in table.columns.items():
            if _normalise_name(name) == wanted and len(values):
                words = any(isinstance(v, str) or getattr(v, "text", "") for v in values[:MAX_SEARCHED_CELLS])
                if words or wanted in EXPLICIT_NAME_COLUMNS:
                    return name
    return None


def _find_column(table: Table, candidates: tuple[str, ...]) -> str | None:
    """Return the first column whose name is one of the candidates, which are tried in their order; None without one."""
    return next((name for wanted in candidates for name in table.columns if _normalise_name(name) == wanted), None)
