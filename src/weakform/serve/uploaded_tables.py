"""What a table holds: columns with guesses of what they are, sparklines, and cells that look wrong."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..data.column_roles import time_column, wide
from ..data.long_format import GROUPS
from ..data.pandas_reader import sheet_names
from ..data.text_reader import Table, read_table
from ..support.array_types import FloatArray
from ..support.errors import DataError

POINTS, SHOWN, MOST = 120, 60, 100
"""Points of a sparkline, rows that are sent at once, and problems that are named."""
STAND_INS = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
"""Numbers that people write where nothing was measured."""
FAR = 20.0
"""How far a value lies outside of the others, in units of their spread, to be doubted."""


def look(path: Path, sheet: str | None = None) -> dict[str, Any]:
    """What the page shows of a table."""
    table = _opened(str(path), sheet)
    names = [name for name in table.columns if name not in table.errors.values()]
    time = _time(table, names)
    columns: list[dict[str, Any]] = []
    problems: list[dict[str, Any]] = []
    for name in names:
        column = _column(table, name)
        told = column.pop("problems")
        role = _role(name, time, table.group, column)
        columns.append({**column, "role": role})
        problems += told if role != "" else []
    count = table.rows
    return {
        "sheets": sheet_names(path),
        "sheet": sheet,
        "rows": count,
        "columns": columns,
        "problems": sorted(problems, key=lambda one: one["row"])[:MOST],
        "notes": list(table.notes),
        "head": rows(path, sheet, 0),
    }


def rows(path: Path, sheet: str | None, first: int) -> list[list[str]]:
    """Some rows as text."""
    table = _opened(str(path), sheet)
    names = [name for name in table.columns if name not in table.errors.values()]
    last = min(first + SHOWN, table.rows)
    return [[_shown(table.columns[name][k]) for name in names] for k in range(max(first, 0), last)]


@lru_cache(maxsize=2)
def _opened(path: str, sheet: str | None) -> Table:
    return wide(read_table(Path(path), sheet))


def _shown(value: Any) -> str:
    if isinstance(value, float) and value != value:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _time(table: Table, names: list[str]) -> str:
    """The column that is called like a time; else the first that could be one."""
    named = time_column(names)
    for name in dict.fromkeys([named, *names]):
        try:
            times, _ = table.times(name)
        except DataError:
            continue
        if len(times) and np.isfinite(times).all():
            return name
    return named


def _column(table: Table, name: str) -> dict[str, Any]:
    values = table.columns[name]
    unit = re.search(r"[(\[]([^)\]]+)[)\]]\s*$", name)
    told: dict[str, Any] = {"name": name, "unit": unit.group(1).strip() if unit else "", "problems": []}
    try:
        numbers, note = table.times(name)
        kind = "date" if note else "number"
    except DataError:
        numbers, kind = _numbers(values), "number"
        words = [k for k, value in enumerate(values) if isinstance(value, str)]
        if len(words) > 0.5 * sum(isinstance(value, str) or value == value for value in values):
            return {**told, "kind": "word", "different": len({str(v) for v in values}), "missing": 0, "spark": []}
        told["problems"] = [_problem(k, name, values[k], "is not a number") for k in words[:MOST]]
    missing = np.isnan(numbers)
    told["problems"] += [_problem(int(k), name, numbers[k], why) for k, why in _doubts(numbers)]
    there = np.flatnonzero(np.isfinite(numbers))
    kept = there[:: max(1, -(-len(there) // POINTS))]
    return {
        **told,
        "kind": kind,
        "missing": int(missing.sum()),
        "different": len(np.unique(numbers[there])),
        "spark": [[int(k) for k in kept], [float(f"{numbers[k]:.4g}") for k in kept]],
    }


def _numbers(values: Any) -> FloatArray:
    return np.array([value if isinstance(value, int | float) else np.nan for value in values], dtype=float)


def _problem(row: int, column: str, value: Any, why: str) -> dict[str, Any]:
    shown = _shown(float(value)) if isinstance(value, float | np.floating) else str(value)
    number = float(value) if isinstance(value, float | np.floating) and np.isfinite(value) else None
    said = f"row {row + 1}, {column} = {shown.replace('-', '−')} {why}"
    missing = number if number is not None or not isinstance(value, str) else value.strip()
    return {"row": row, "column": column, "value": missing, "text": said}


def _doubts(x: FloatArray) -> list[tuple[int, str]]:
    """Rows whose values look wrong, and why."""
    found = [(int(k), "is infinite") for k in np.flatnonzero(np.isinf(x))]
    finite = np.isfinite(x)
    for number in STAND_INS:
        here = finite & (x == number)
        others = x[finite & ~np.isin(x, STAND_INS)]
        if here.any() and len(others) > 2 and here.sum() < 0.5 * len(x):
            low, high = np.quantile(others, [0.05, 0.95])
            alone = number < 0 < float(others.min())
            if alone or number < low - (high - low) or number > high + (high - low):
                found += [(int(k), "may stand for a missing value") for k in np.flatnonzero(here)]
    named = {row for row, _ in found}
    rest = np.array([k for k in np.flatnonzero(finite) if k not in named], dtype=int)
    if len(rest) >= 8:
        low, middle, high = np.quantile(x[rest], [0.05, 0.5, 0.95])
        spread = max(high - low, 1e-12 * max(abs(low), abs(high), 1e-300))
        far = rest[np.abs(x[rest] - middle) > FAR * spread]
        found += [(int(k), "lies far from the others") for k in far[: max(3, len(rest) // 100)]]
    return found


def _role(name: str, time: str, group: str | None, column: dict[str, Any]) -> str:
    """What a column is, as far as it can be guessed."""
    if name == time:
        return "time"
    if name == group or re.sub(r"[\s_]", "", name).lower() in GROUPS:
        return "trajectory"
    return "measured" if column["kind"] == "number" else ""
