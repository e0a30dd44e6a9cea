"""Description of an uploaded table: its columns with guesses of their roles, sparklines, and suspicious cells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..data.column_roles import find_time_column, make_wide
from ..data.long_format import GROUP_COLUMNS
from ..data.pandas_reader import list_sheet_names
from ..data.text_reader import Table, read_table
from ..support.array_types import FloatArray
from ..support.errors import DataError

SPARKLINE_POINTS = 120
"""Points of a sparkline, which is about 100 pixels wide."""
ROWS_PER_REQUEST = 60
"""Rows that are sent to the page in one answer. By judgement."""
MAX_LISTED_PROBLEMS = 100
"""Suspicious cells that are sent to the page. By judgement."""
MISSING_VALUE_CODES = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
"""Numbers that often stand for a missing value."""


@dataclass(frozen=True)
class _ProblemPolicy:
    """Thresholds above which a cell, or a column, looks wrong; by judgement."""

    word_share: float = 0.5
    """Share of the cells that are words. Above, the column holds words; below, each word is a problem."""

    code_share: float = 0.5
    """Share of the cells with the same code for missing values. From here on it is taken for a value."""

    min_values: int = 8
    """Values of a column. Below, none is called far from the others."""

    distance: float = 20.0
    """Distance from the median, in units of the range between the 5% and the 95% quantile. Above, a value is listed."""

    listed_outliers: int = 3
    """Values far from the others that are listed in a short column; more in a long one."""

    values_per_outlier: int = 100
    """Values of a column for each of its values that is listed as far from the others."""


PROBLEM_POLICY = _ProblemPolicy()
"""The thresholds in use."""


def describe_table(path: Path, sheet: str | None = None) -> dict[str, Any]:
    """Describe a table.

    Parameters
    ----------
    path : Path
    sheet : str, optional
        The first sheet by default.

    Returns
    -------
    dict
        Sheets, number of rows, columns, problems, notes and the first rows.
    """
    table = _read_cached(str(path), sheet)
    names = [name for name in table.columns if name not in table.errors.values()]
    time = _find_time_column(table, names)
    columns: list[dict[str, Any]] = []
    problems: list[dict[str, Any]] = []
    for name in names:
        column = _describe_column(table, name)
        column_problems = column.pop("problems")
        role = _guess_role(name, time, table.group, column)
        columns.append({**column, "role": role})
        problems += column_problems if role != "" else []
    count = table.row_count
    return {
        "sheets": list_sheet_names(path),
        "sheet": sheet,
        "rows": count,
        "columns": columns,
        "problems": sorted(problems, key=lambda problem: problem["row"])[:MAX_LISTED_PROBLEMS],
        "notes": list(table.notes),
        "head": read_rows(path, sheet, 0),
    }


def read_rows(path: Path, sheet: str | None, first: int) -> list[list[str]]:
    """Return some rows as text, `ROWS_PER_REQUEST` from row `first` on, counted from 0."""
    table = _read_cached(str(path), sheet)
    names = [name for name in table.columns if name not in table.errors.values()]
    last = min(first + ROWS_PER_REQUEST, table.row_count)
    return [[_format_cell(table.columns[name][k]) for name in names] for k in range(max(first, 0), last)]


@lru_cache(maxsize=2)
def _read_cached(path: str, sheet: str | None) -> Table:
    """Read a table; the last two are kept, because the page asks for them repeatedly."""
    return make_wide(read_table(Path(path), sheet))


def _format_cell(value: Any) -> str:
    """Format a cell; a missing value is an empty string."""
    if isinstance(value, float) and value != value:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _find_time_column(table: Table, names: list[str]) -> str:
    """Return the column that is named like a time, if it can be read as one; else the first column that can."""
    time_name = find_time_column(names)
    for name in dict.fromkeys([time_name, *names]):
        try:
            times, _ = table.parse_times(name)
        except DataError:
            continue
        if len(times) and np.isfinite(times).all():
            return name
    return time_name


def _describe_column(table: Table, name: str) -> dict[str, Any]:
    """Describe a column: name, unit, kind, missing and distinct values, sparkline and problems."""
    values = table.columns[name]
    unit = re.search(r"[(\[]([^)\]]+)[)\]]\s*$", name)
    description: dict[str, Any] = {"name": name, "unit": unit.group(1).strip() if unit else "", "problems": []}
    try:
        numbers, note = table.parse_times(name)
        kind = "date" if note else "number"
    except DataError:
        numbers, kind = _to_numbers(values), "number"
        words = [k for k, value in enumerate(values) if isinstance(value, str)]
        if len(words) > PROBLEM_POLICY.word_share * sum(isinstance(value, str) or value == value for value in values):
            return {
                **description,
                "kind": "word",
                "different": len({str(v) for v in values}),
                "missing": 0,
                "spark": [],
            }
        description["problems"] = [
            _describe_problem(k, name, values[k], "is not a number") for k in words[:MAX_LISTED_PROBLEMS]
        ]
    missing = np.isnan(numbers)
    description["problems"] += [
        _describe_problem(int(k), name, numbers[k], reason) for k, reason in _find_suspicious_values(numbers)
    ]
    measured = np.flatnonzero(np.isfinite(numbers))
    drawn = measured[:: max(1, -(-len(measured) // SPARKLINE_POINTS))]
    return {
        **description,
        "kind": kind,
        "missing": int(missing.sum()),
        "different": len(np.unique(numbers[measured])),
        "spark": [[int(k) for k in drawn], [float(f"{numbers[k]:.4g}") for k in drawn]],
    }


def _to_numbers(values: Any) -> FloatArray:
    """Return the numbers of a column; NaN for words."""
    return np.array([value if isinstance(value, int | float) else np.nan for value in values], dtype=float)


def _describe_problem(row: int, column: str, value: Any, reason: str) -> dict[str, Any]:
    """Describe a suspicious cell; `value` is what would have to be treated as missing."""
    shown = _format_cell(float(value)) if isinstance(value, float | np.floating) else str(value)
    number = float(value) if isinstance(value, float | np.floating) and np.isfinite(value) else None
    text = f"Row {row + 1}, {column} = {shown.replace('-', '−')} {reason}"
    missing = number if number is not None or not isinstance(value, str) else value.strip()
    return {"row": row, "column": column, "value": missing, "text": text}


def _find_suspicious_values(x: FloatArray) -> list[tuple[int, str]]:
    """Find suspicious values of a column: infinite ones, codes for missing values, and values far from all others.

    Parameters
    ----------
    x : ndarray, (rows,)
        NaN where a value is missing.

    Returns
    -------
    list of tuple of int and str
        Row, counted from 0, and what is wrong with its value.
    """
    doubts = [(int(k), "is infinite") for k in np.flatnonzero(np.isinf(x))]
    finite = np.isfinite(x)
    for number in MISSING_VALUE_CODES:
        is_code = finite & (x == number)
        values = x[finite & ~np.isin(x, MISSING_VALUE_CODES)]
        if is_code.any() and len(values) > 2 and is_code.sum() < PROBLEM_POLICY.code_share * len(x):
            low, high = np.quantile(values, [0.05, 0.95])
            # A code is suspected if it is the only negative number, or outside the range of the others by its length.
            is_lone_negative = number < 0 < float(values.min())
            if is_lone_negative or number < low - (high - low) or number > high + (high - low):
                doubts += [(int(k), "may stand for a missing value") for k in np.flatnonzero(is_code)]
    listed = {row for row, _ in doubts}
    rest = np.array([k for k in np.flatnonzero(finite) if k not in listed], dtype=int)
    if len(rest) >= PROBLEM_POLICY.min_values:
        low, middle, high = np.quantile(x[rest], [0.05, 0.5, 0.95])
        # In an almost constant column rounding errors must not count as large distances.
        spread = max(high - low, 1e-12 * max(abs(low), abs(high), 1e-300))
        outliers = rest[np.abs(x[rest] - middle) > PROBLEM_POLICY.distance * spread]
        most = max(PROBLEM_POLICY.listed_outliers, len(rest) // PROBLEM_POLICY.values_per_outlier)
        doubts += [(int(k), "is far from the other values") for k in outliers[:most]]
    return doubts


def _guess_role(name: str, time: str, group: str | None, column: dict[str, Any]) -> str:
    """Guess what a column is: `"time"`, `"trajectory"`, `"measured"`, or an empty string for anything else."""
    if name == time:
        return "time"
    if name == group or re.sub(r"[\s_]", "", name).lower() in GROUP_COLUMNS:
        return "trajectory"
    return "measured" if column["kind"] == "number" else ""
