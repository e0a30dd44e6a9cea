"""Tables read with pandas (Parquet, spreadsheets), and data frames."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import DataError
from ..support.optional_imports import format_install_hint
from ..support.wording import list_names, suggest_name
from .cell_parsing import is_time_name, parse_cell, parse_dates
from .text_reader import MAX_COLUMN_COUNT, SHEET_ENDINGS, Table


@dataclass(frozen=True)
class _SheetPolicy:
    """How large a spreadsheet may be. A file of few bytes may expand to millions of empty cells."""

    max_cells: int = 5_000_000
    """Cells between the first and the last cell of a sheet; more are refused. Tested in tests/serve/test_server.py. By
    judgement."""
    small_bytes: int = 20_000_000
    """Expanded size in bytes up to which the ratio does not matter. By judgement."""
    max_ratio: int = 100
    """Expanded size over the size of the file; more is refused. By judgement."""


_SHEET_POLICY = _SheetPolicy()


def check_frame(frame: Any) -> Any:
    """Return a frame of pandas or polars unchanged, or a table of Arrow as a frame of pandas; refuse anything else."""
    if hasattr(frame, "column_names") and hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    columns = getattr(frame, "columns", None)
    if columns is None or hasattr(frame, "collect") or len(set(map(str, columns))) < len(columns):
        hint = " Call collect() first." if hasattr(frame, "collect") else ""
        raise DataError(
            f"A data frame with columns of different names is needed; received a {type(frame).__name__}.{hint}"
        )
    if not len(frame):
        raise DataError("The frame has no rows; at least one sample is needed.")
    return frame


def convert_frame(frame: Any, time: str | None = None) -> Table:
    """Convert a data frame (pandas, polars) to a table.

    Parameters
    ----------
    frame : data frame
    time : str, optional
        The time column, if it was named.

    Returns
    -------
    Table
        The columns of the frame, and its index as well if that is the time or has several levels.
    """
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    index = getattr(frame, "index", None)
    if index is None or not hasattr(index, "dtype"):
        return Table("the frame", columns)
    names = getattr(index, "names", [index.name])
    if len(names) > 1:
        if None in names:
            raise DataError("The frame has an index of several levels without names; name them, or reset_index().")
        return Table("the frame", {**{str(n): index.get_level_values(n).to_numpy() for n in names}, **columns})
    name = "time" if index.name is None else str(index.name)
    dates = "time" in str(index.dtype) or (
        len(index) > 0 and isinstance(index[0], str) and parse_dates(index) is not None
    )
    is_surely_time = dates or name == time or (index.name is not None and is_time_name(name))
    has_time_column = time is not None or any(map(is_time_name, columns))
    if name not in columns and (is_surely_time or (not has_time_column and index.dtype.kind == "f")):
        return Table("the frame", {name: index.to_numpy(), **columns})
    # An index that is neither the time nor a count of rows is never ignored silently.
    if not has_time_column and not _is_row_count(index):
        raise DataError(
            "The frame has an index and no column that is named like a time: say which is the time with time='...', "
            "after reset_index() if it is the index."
        )
    return Table("the frame", columns)


def _is_row_count(index: Any) -> bool:
    """Return True if an index is the number of each row."""
    return bool(index.dtype.kind in "iu" and len(index) and (np.asarray(index) == np.arange(len(index))).all())


def list_sheet_names(path: Path) -> list[str]:
    """Return the names of the sheets of a spreadsheet; an empty list for other files."""
    if path.suffix.lower() not in SHEET_ENDINGS:
        return []
    return list(_call_pandas(path, lambda pd: pd.ExcelFile(_check_sheet_size(path)).sheet_names))


def read_with_pandas(path: Path, ending: str, sheet: str | None) -> Table:
    """Read a Parquet file or a sheet of a spreadsheet.

    Parameters
    ----------
    path : Path
    ending : str
        Its ending in lower case, such as `.xlsx`.
    sheet : str, or None
        Name of the sheet; the first by default.
    """

    def read_frame(pd: Any) -> tuple[Any, tuple[str, ...]]:
        """Return the frame and the notes."""
        if ending not in SHEET_ENDINGS:
            if sheet is not None:
                raise DataError(f"{path} has no sheets; leave out sheet = {sheet!r}.")
            return pd.read_parquet(path), ()
        with pd.ExcelFile(_check_sheet_size(path)) as book:
            names = list(map(str, book.sheet_names))
            chosen = names[0] if sheet is None else sheet
            if chosen not in names:
                raise DataError(
                    f"{path} has no sheet {chosen!r}.{suggest_name(chosen, names)} It has: {list_names(names)}."
                )
            note = f"The sheet {chosen!r} was read; there are {len(names)}: {list_names(names)}."
            return pd.read_excel(book, sheet_name=chosen), (note,) if sheet is None and len(names) > 1 else ()

    frame, notes = _call_pandas(path, read_frame)
    if frame.shape[1] > MAX_COLUMN_COUNT:
        raise DataError(f"{path} has {frame.shape[1]:,} columns; at most {MAX_COLUMN_COUNT:,} are read.")
    if len(set(map(str, frame.columns))) < frame.shape[1]:
        raise DataError(f"{path}: column names must differ; received {list(frame.columns)}.")
    if ending in SHEET_ENDINGS:
        frame = frame.dropna(how="all")
        columns = {str(name): _parse_sheet_cells(frame[name].to_numpy()) for name in frame.columns}
        return Table(str(path), columns, [int(k) + 2 for k in frame.index], notes=notes)
    return replace(convert_frame(frame), location=str(path), notes=notes)


def _parse_sheet_cells(values: Any) -> Any:
    """Parse a column of a spreadsheet; words that stand for a missing value become NaN, as in text tables."""
    if values.dtype.kind != "O":
        return values
    cells = [np.nan if v is None else parse_cell(v, ",") if isinstance(v, str) else v for v in values]
    numbers = all(isinstance(v, int | float) for v in cells)
    return np.array(cells, dtype=float) if numbers else cells


def _call_pandas(path: Path, read: Callable[[Any], Any]) -> Any:
    """Apply `read(pandas)` to a file; turn every failure into one error that gives the reason."""
    try:
        import pandas as pd
    except ImportError:
        raise DataError(f"{path} needs pandas to be read; install it with: {format_install_hint('table')}") from None
    try:
        return read(pd)
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"Cannot read {path}: No such file or directory.") from None
    except ImportError as error:
        raise DataError(f"{path} cannot be read: {error}. Try: {format_install_hint('table')}") from None
    except Exception as error:  # the parsers of these libraries raise many kinds of errors on broken files
        raise DataError(f"{path} cannot be read as a table: {type(error).__name__}: {error}") from None


def _check_sheet_size(path: Path) -> Path:
    """Check that a spreadsheet does not expand to far more than its file, and return its path; see `_SheetPolicy`."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as packed:
        whole, size = sum(entry.file_size for entry in packed.infolist()), path.stat().st_size
        if whole > max(_SHEET_POLICY.small_bytes, _SHEET_POLICY.max_ratio * size):
            raise DataError(
                f"{path} expands to {whole / 1e6:.0f} MB, {whole // size} times its size; export it as CSV."
            )
        for entry in packed.infolist():
            if entry.filename.startswith("xl/worksheets/") and entry.filename.endswith(".xml"):
                cells = _count_sheet_cells(packed, entry.filename)
                if cells > _SHEET_POLICY.max_cells:
                    raise DataError(
                        f"{path} has a sheet that extends over {cells:,} cells, most of them empty; delete the distant "
                        "cells, or export it as CSV."
                    )
    return path


def _count_sheet_cells(packed: zipfile.ZipFile, name: str) -> int:
    """Count the cells between the first and the last of a sheet, from the addresses in its XML."""
    # The XML is read in blocks and never parsed as a whole; `rest` completes an address cut by the end of a block.
    rows, columns, rest = 0, 0, b""
    with packed.open(name) as sheet:
        while block := sheet.read(1 << 20):
            for letters, number in re.findall(rb"""\br\s*=\s*["']([A-Z]{1,3})(\d{1,7})["']""", rest + block):
                column = 0
                for letter in letters:
                    column = 26 * column + letter - 64  # A is the byte 65 and the first column
                rows, columns = max(rows, int(number)), max(columns, column)
            rest = block[-32:]  # longer than any address, such as r="XFD1048576"
    return rows * columns
