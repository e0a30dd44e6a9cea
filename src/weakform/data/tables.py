"""Reading tables of numbers: text, Parquet, Excel; nothing in them is ever evaluated.

A text table has a header row; its separator (comma, semicolon or tab) is the one most frequent there. Where it is not a
comma, a comma may be the decimal sign. Lines that start with # are comments; an empty cell, NA and the like are missing
values.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ..support.checks import refuse_devices
from ..support.errors import DataError
from ..support.messages import listed, suggestion
from ..support.typing import FloatArray

MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?", "."}
MAX_COLUMNS = 10_000
LARGEST = 1_000_000_000
"""Bytes of a text that was packed."""
SHEETS = (".xlsx", ".xls", ".ods")
TIMES = (
    *("t", "time", "times", "day", "days", "hour", "hours", "minute", "minutes", "second", "seconds", "year", "years"),
    *("date", "datetime", "timestamp", "zeit", "tag", "tage", "stunde", "stunden", "temps", "jour", "jours", "tiempo"),
)
MAX_CELLS, LARGE_SHEET, PACKED = 5_000_000, 20_000_000, 100
"""Cells of a spreadsheet, and the bytes that it may unpack to: so many, or so many times its own."""
csv.field_size_limit(1_000_000)


@dataclass(frozen=True)
class Table:
    """Columns by name.

    Attributes
    ----------
    where : str
        What it is, for error messages.
    columns : dict
        Lists of numbers, with text where a cell is not a number; or arrays.
    lines : list of int, or None
        Line of each row in its file.
    errors : dict of str to str
        Columns that hold the standard deviations of other columns, where the table itself says so.
    group : str, or None
        The column that tells trajectories apart, where the table itself says so.
    notes : tuple of str
        What was decided in reading it.
    """

    where: str
    columns: dict[str, Any]
    lines: list[int] | None = None
    errors: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    notes: tuple[str, ...] = ()

    def numbers(self, name: str) -> FloatArray:
        """A column as numbers, with the line of what is not one."""
        values = self.columns[name]
        if not isinstance(values, list):
            return _array(values, name, self.where)
        for k, value in enumerate(values):
            if isinstance(value, str):
                place = f"{self.where}, line {self.lines[k]}" if self.lines else self.where
                raise DataError(
                    f"{place}, column {name!r}: {value!r} is not a number.{_hint(value)} Columns are separated by "
                    "commas, semicolons or tabs; a missing value is an empty cell; a column of words may be the "
                    "trajectory."
                )
        return np.array(values, dtype=float)

    def without(self, words: Iterable[str]) -> Table:
        """The same with nothing in cells that hold one of these words."""
        known = {word.strip() for word in words}
        if not known:
            return self
        columns = {
            name: [np.nan if isinstance(v, str) and v.strip() in known else v for v in values]
            if isinstance(values, list) or getattr(getattr(values, "dtype", None), "kind", "") == "O"
            else values
            for name, values in self.columns.items()
        }
        return replace(self, columns=columns)

    def times(self, name: str) -> tuple[FloatArray, str]:
        """The time column as numbers; dates become days since the first, and the second value says so."""
        values = self.columns[name]
        kind = getattr(getattr(values, "dtype", None), "kind", "")
        if kind in "Mm" and kind:
            moments = np.asarray(values)
        else:
            found = _moments(values)
            if found is None:
                return self.numbers(name), ""
            moments = found
        if np.isnat(moments).any():
            raise DataError(f"{self.where}, column {name!r} has times that are missing; every row needs its time.")
        if moments.dtype.kind == "m":
            return (moments / np.timedelta64(1, "D")).astype(float), "Time is counted in days."
        moments = moments.astype("datetime64[us]")
        days = (moments - moments.min()) / np.timedelta64(1, "D")
        return days.astype(float), f"Time is counted in days since {moments.min().astype('datetime64[s]')}."


def _moments(values: Any) -> Any:
    """Dates and durations in cells, as text (ISO) or as objects; those with a time zone in UTC. None for others."""
    if not len(values) or not isinstance(values[0], str | date | timedelta) or isinstance(values[0], float):
        return None
    if isinstance(values[0], timedelta):
        return np.array(list(values), dtype="timedelta64[us]")
    found = []
    for value in values:
        try:
            moment = _moment(value.strip()) if isinstance(value, str) else value
            if not isinstance(moment, datetime):
                moment = datetime.combine(moment, time())
            found.append(moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None))
        except (ValueError, TypeError, OverflowError, AttributeError):
            return None
    return np.array(found, dtype="datetime64[us]")


def _moment(text: str) -> datetime:
    """A date in ISO format, or with dots as in 1.3.2024."""
    dotted = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)", text)
    return datetime.fromisoformat(f"{dotted[3]}-{dotted[2]:0>2}-{dotted[1]:0>2}{dotted[4]}" if dotted else text)


def _hint(value: str) -> str:
    text = value.strip()
    if len(text) >= 8 and sum(text.count(mark) for mark in "-/.:") >= 2 and any(c.isdigit() for c in text):
        return " If it is a date, write it as 2024-03-01 in the time column, or convert it to days."
    if "," in text and text.replace(",", "", 1).replace("-", "", 1).replace(".", "").isdigit():
        return " If the comma is a decimal sign, separate the columns by semicolons."
    return ""


def _array(values: Any, name: str, where: str) -> FloatArray:
    from .checks import numbers

    try:
        return numbers(values, f"column {name!r}")
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def frame_table(frame: Any, time: str | None = None) -> Table:
    """The columns of a data frame (pandas, polars and the like), and its index where that is the time."""
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    index = getattr(frame, "index", None)
    if index is None or not hasattr(index, "dtype"):
        return Table("the frame", columns)
    name = "time" if index.name is None else str(index.name)
    told = "time" in str(index.dtype) or name == time or (index.name is not None and is_time(name))
    numbers = index.name is None and index.dtype.kind == "f" and time is None and not any(map(is_time, columns))
    if name not in columns and (told or numbers):
        columns = {name: index.to_numpy(), **columns}
    return Table("the frame", columns)


def is_time(name: str) -> bool:
    """Whether a column is called like a time."""
    return re.split(r"[_ (]", name.strip(), maxsplit=1)[0].lower() in TIMES


def read_table(path: Path, sheet: str | None = None) -> Table:
    """A table from a file; the kind is told by the ending of its name.

    Parameters
    ----------
    path : Path
    sheet : str, optional
        Of a spreadsheet; the first by default.
    """
    refuse_devices(path, DataError)
    ending = path.suffix.lower()
    if ending in (".parquet", ".pq", *SHEETS):
        return _with_pandas(path, ending, sheet)
    if sheet is not None:
        raise DataError(f"{path} has no sheets; leave out sheet = {sheet!r}.")
    return _text(path)


def sheet_names(path: Path) -> list[str]:
    """The sheets of a spreadsheet; none of other files."""
    if path.suffix.lower() not in SHEETS:
        return []
    return list(_opened(path, lambda pd: pd.ExcelFile(_checked_sheet(path)).sheet_names))


def _with_pandas(path: Path, ending: str, sheet: str | None) -> Table:
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
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    if len(columns) < frame.shape[1]:
        raise DataError(f"{path}: column names must differ; received {list(frame.columns)}.")
    return Table(str(path), columns, notes=notes)


def _opened(path: Path, read: Callable[[Any], Any]) -> Any:
    """What pandas reads of a file, or one error that says why not."""
    try:
        import pandas as pd
    except ImportError:
        raise DataError(f"{path} needs pandas to be read; install it with: pip install 'weakform[table]'") from None
    try:
        return read(pd)
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"Cannot read {path}: No such file or directory.") from None
    except ImportError as error:
        raise DataError(f"{path} cannot be read: {error}. Try: pip install 'weakform[table]'") from None
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
            for letters, number in re.findall(rb'\br="([A-Z]{1,3})(\d{1,7})"', rest + block):
                place = 0
                for letter in letters:
                    place = 26 * place + letter - 64
                rows, columns = max(rows, int(number)), max(columns, place)
            rest = block[-32:]
    return rows * columns


def _unpacked(path: Path) -> bytes:
    """A text that is packed, unless it is far larger than its file."""
    try:
        with gzip.open(path) as packed:
            raw = packed.read(LARGEST + 1)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked: {error}.") from None
    if len(raw) > LARGEST:
        raise DataError(f"{path} unpacks to more than {LARGEST / 1e6:.0f} MB; split it.")
    return raw


def _text(path: Path) -> Table:
    try:
        raw = _unpacked(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
    text, notes = _decoded(raw, path)
    kept = [(n, line) for n, line in enumerate(io.StringIO(text), 1) if line.strip() and not line.startswith("#")]
    header = kept[0][1] if kept else ""
    separator = max(",;\t", key=header.count)
    reader = csv.reader((line for _, line in kept), delimiter=separator)
    try:
        # A quoted cell may go over several lines: the reader tells at which of them a row ends.
        rows = [(kept[reader.line_num - 1][0], row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{path}, line {kept[reader.line_num - 1][0]}: {error}.") from None
    if len(rows) < 2:
        raise DataError(f"{path} needs a header row and rows of numbers; it has {len(rows)} rows in all.")
    line, names = rows[0][0], [name.strip() for name in rows[0][1]]
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{path} has {len(names):,} columns; at most {MAX_COLUMNS:,} are read.")
    if all(isinstance(_cell(name, separator), float) for name in names):
        raise DataError(f"{path}, line {line}: the first row must be a header with the names of the columns.")
    if len(set(names)) < len(names) or "" in names:
        twice = next(name for name in names if not name or names.count(name) > 1)
        raise DataError(
            f"{path}, line {line}: column names must be there and differ; "
            + (f"{twice!r} is there twice." if twice else f"column {names.index(twice) + 1} has none.")
        )
    columns: dict[str, list[float | str]] = {name: [] for name in names}
    for line, row in rows[1:]:
        if len(row) != len(names):
            hint = " If commas are decimal signs, separate the columns by semicolons." if separator == "," else ""
            raise DataError(f"{path}, line {line}: {len(row)} values for {len(names)} columns.{hint}")
        for name, cell in zip(names, row, strict=True):
            columns[name].append(_cell(cell, separator))
    return Table(str(path), dict(columns), [line for line, _ in rows[1:]], notes=notes)


def _decoded(raw: bytes, path: Path) -> tuple[str, tuple[str, ...]]:
    """Bytes as text: UTF-8 or UTF-16, or what spreadsheets in the West write by default."""
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        notes: tuple[str, ...] = ()
    except UnicodeDecodeError:
        text, notes = raw.decode("cp1252", errors="replace"), ("The file is not UTF-8; it was read as Windows-1252.",)
    if "\0" in text or sum(not c.isprintable() and c not in "\r\n\t" for c in text[:10_000]) > 10:
        raise DataError(f"{path} is not a text table: it has bytes that are no letters; export it as CSV.")
    return text, notes


def _cell(text: str, separator: str) -> float | str:
    """A number, NaN for a missing value, or the text itself."""
    word = text.strip()
    if word.lower() in MISSING:
        return np.nan
    if separator != "," and word.count(",") == 1 and "." not in word:
        word = word.replace(",", ".")
    if "_" in word:  # Python reads 1_000 as a number; nobody else does
        return text
    try:
        return float(word)
    except ValueError:
        return text
