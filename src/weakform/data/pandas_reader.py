"""Tables that pandas reads, and data frames."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import DataError
from ..support.optional_imports import extra
from ..support.wording import listed, suggestion
from .cell_parsing import cell, is_time, moments
from .text_reader import MAX_COLUMNS, SHEETS, Table

MAX_CELLS, LARGE_SHEET, PACKED = 5_000_000, 20_000_000, 100
"""Cells of a spreadsheet, and the bytes that it may unpack to: so many, or so many times its own."""


def plain_frame(frame: Any) -> Any:
    """A frame of pandas or polars as it is, a table of Arrow as one of pandas; others are refused."""
    if hasattr(frame, "column_names") and hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    columns = getattr(frame, "columns", None)
    if columns is None or hasattr(frame, "collect") or len(set(map(str, columns))) < len(columns):
        hint = " Call collect() first." if hasattr(frame, "collect") else ""
        raise DataError(
            f"A data frame with columns of different names is needed; received a {type(frame).__name__}.{hint}"
        )
    if not len(frame):
        raise DataError("The frame has no rows.")
    return frame


def frame_table(frame: Any, time: str | None = None) -> Table:
    """The columns of a data frame (pandas, polars and the like), and its index where that is the time."""
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
    dates = "time" in str(index.dtype) or (len(index) > 0 and isinstance(index[0], str) and moments(index) is not None)
    told = dates or name == time or (index.name is not None and is_time(name))
    named = time is not None or any(map(is_time, columns))
    if name not in columns and (told or (not named and index.dtype.kind == "f")):
        return Table("the frame", {name: index.to_numpy(), **columns})
    if not named and not _counts_rows(index):
        raise DataError(
            "The frame has an index, and no column that is called like a time: say which is the time, time='...', "
            "and use reset_index() first if it is the index."
        )
    return Table("the frame", columns)


def _counts_rows(index: Any) -> bool:
    """Whether an index is the number of each row."""
    return bool(index.dtype.kind in "iu" and len(index) and (np.asarray(index) == np.arange(len(index))).all())


def sheet_names(path: Path) -> list[str]:
    """The sheets of a spreadsheet; none of other files."""
    if path.suffix.lower() not in SHEETS:
        return []
    return list(_opened(path, lambda pd: pd.ExcelFile(_checked_sheet(path)).sheet_names))


def with_pandas(path: Path, ending: str, sheet: str | None) -> Table:
    """A Parquet file or a sheet."""

    def read(pd: Any) -> tuple[Any, tuple[str, ...]]:
        if ending not in SHEETS:
            if sheet is not None:
                raise DataError(f"{path} has no sheets; leave out sheet = {sheet!r}.")
            return pd.read_parquet(path), ()
        with pd.ExcelFile(_checked_sheet(path)) as book:
            names = list(map(str, book.sheet_names))
            chosen = names[0] if sheet is None else sheet
            if chosen not in names:
                raise DataError(f"{path} has no sheet {chosen!r}.{suggestion(chosen, names)} It has: {listed(names)}.")
            note = f"The sheet {chosen!r} was read; there are {len(names)}: {listed(names)}."
            return pd.read_excel(book, sheet_name=chosen), (note,) if sheet is None and len(names) > 1 else ()

    frame, notes = _opened(path, read)
    if frame.shape[1] > MAX_COLUMNS:
        raise DataError(f"{path} has {frame.shape[1]:,} columns; at most {MAX_COLUMNS:,} are read.")
    if len(set(map(str, frame.columns))) < frame.shape[1]:
        raise DataError(f"{path}: column names must differ; received {list(frame.columns)}.")
    if ending in SHEETS:
        frame = frame.dropna(how="all")
        columns = {str(name): _sheet_cells(frame[name].to_numpy()) for name in frame.columns}
        return Table(str(path), columns, [int(k) + 2 for k in frame.index], notes=notes)
    return replace(frame_table(frame), where=str(path), notes=notes)


def _sheet_cells(values: Any) -> Any:
    """Cells of a spreadsheet; words for nothing are nothing."""
    if values.dtype.kind != "O":
        return values
    cells = [np.nan if v is None else cell(v, ",") if isinstance(v, str) else v for v in values]
    numbers = all(isinstance(v, int | float) for v in cells)
    return np.array(cells, dtype=float) if numbers else cells


def _opened(path: Path, read: Callable[[Any], Any]) -> Any:
    """What pandas reads of a file, or one error that says why not."""
    try:
        import pandas as pd
    except ImportError:
        raise DataError(f"{path} needs pandas to be read; install it with: {extra('table')}") from None
    try:
        return read(pd)
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"Cannot read {path}: No such file or directory.") from None
    except ImportError as error:
        raise DataError(f"{path} cannot be read: {error}. Try: {extra('table')}") from None
    except Exception as error:  # whatever these libraries make of a broken file
        raise DataError(f"{path} cannot be read as a table: {type(error).__name__}: {error}") from None


def _checked_sheet(path: Path) -> Path:
    """A spreadsheet that is not many times as large as its file: few bytes may stand for millions of empty cells."""
    if not zipfile.is_zipfile(path):
        return path
    with zipfile.ZipFile(path) as packed:
        whole, size = sum(entry.file_size for entry in packed.infolist()), path.stat().st_size
        if whole > max(LARGE_SHEET, PACKED * size):
            raise DataError(
                f"{path} unpacks to {whole / 1e6:.0f} MB, {whole // size} times its size; export it as CSV."
            )
        for entry in packed.infolist():
            if entry.filename.startswith("xl/worksheets/") and entry.filename.endswith(".xml"):
                cells = _extent(packed, entry.filename)
                if cells > MAX_CELLS:
                    raise DataError(
                        f"{path} has a sheet that reaches over {cells:,} cells, most of them empty; delete what lies "
                        "far out, or export it as CSV."
                    )
    return path


def _extent(packed: zipfile.ZipFile, name: str) -> int:
    """Cells between the first and the last of a sheet, from the places that its cells name."""
    rows, columns, rest = 0, 0, b""
    with packed.open(name) as sheet:
        while block := sheet.read(1 << 20):
            for letters, number in re.findall(rb"""\br\s*=\s*["']([A-Z]{1,3})(\d{1,7})["']""", rest + block):
                place = 0
                for letter in letters:
                    place = 26 * place + letter - 64
                rows, columns = max(rows, int(number)), max(columns, place)
            rest = block[-32:]
    return rows * columns
