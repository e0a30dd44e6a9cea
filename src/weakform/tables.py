"""Reading tables of numbers from text files; nothing in them is ever evaluated."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from .errors import DataError


def read_table(path: Path) -> dict[str, list[float]]:
    """Columns by name, from a header row and rows of numbers separated by commas, semicolons or tabs."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a text table in UTF-8; export it as CSV.") from None
    lines = text.splitlines()
    header = lines[0] if lines else ""
    separator = max(",;\t", key=header.count)
    rows = [(n, row) for n, row in enumerate(csv.reader(lines, delimiter=separator), 1) if any(map(str.strip, row))]
    if len(rows) < 2:
        raise DataError(f"{path} needs a header row and rows of numbers; it has {len(rows)} rows in all.")
    names = [name.strip() for name in rows[0][1]]
    if all(_is_number(name) for name in names):
        raise DataError(f"{path}, line {rows[0][0]}: the first row must be a header with the names of the columns.")
    if len(set(names)) < len(names) or "" in names:
        raise DataError(f"{path}, line {rows[0][0]}: column names must be there and differ; received {names}.")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise DataError(f"{path}, line {line}: {len(row)} values for {len(names)} columns.")
        for name, cell in zip(names, row, strict=True):
            try:
                columns[name].append(float(cell) if cell.strip() else np.nan)
            except ValueError:
                raise DataError(
                    f"{path}, line {line}, column {name!r}: {cell!r} is not a number. Columns are separated by commas, "
                    "semicolons or tabs; a missing value is an empty cell."
                ) from None
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
