"""Reading of tables of numbers from text; Parquet and spreadsheets are read by `pandas_reader`.

A text table has a header row. Its separator (comma, semicolon or tab) is the most frequent one in the header; unless it
is a comma, a comma may be the decimal sign. Lines that start with # are comments; an empty cell, NA and the like are
missing values. Nothing in a table is ever evaluated as code.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.array_types import FloatArray
from ..support.errors import DataError
from ..support.whole_numbers import refuse_devices
from .cell_parsing import note_date_numbers, parse_cell, parse_dates

MAX_COLUMN_COUNT = 10_000
"""Largest number of columns of a table; more are refused. By judgement."""
MAX_EXPANDED_BYTES = 1_000_000_000
"""Largest size, in bytes, of the text in a compressed file; a larger one is refused. By judgement."""
MAX_CELL_CHARACTERS = 1_000_000
"""Largest number of characters in a cell of a text table; more are refused. By judgement."""
BINARY_PROBE_CHARACTERS = 10_000
"""Number of characters at the beginning of a text that are searched for control characters. By judgement."""
MAX_CONTROL_CHARACTERS = 10
"""Largest number of control characters in that part of a text; a file with more is refused as binary. By judgement."""
SHEET_ENDINGS = (".xlsx", ".xls", ".ods")
"""Endings of spreadsheets."""
csv.field_size_limit(MAX_CELL_CHARACTERS)


@dataclass(frozen=True)
class Table:
    """A table: its columns by name.

    Attributes
    ----------
    location : str
        Path or description of the table, for error messages.
    columns : dict
        Arrays, or lists of numbers with text in cells that are not numbers.
    lines : list of int, or None
        Line of each row in the file.
    errors : dict of str to str
        Name of the column of standard deviations of another column, if the table itself provides one.
    group : str, or None
        The column that tells trajectories apart, if the table itself provides one.
    notes : tuple of str
        What was decided when the table was read.
    """

    location: str
    columns: dict[str, Any]
    lines: list[int] | None = None
    errors: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    notes: tuple[str, ...] = ()

    def parse_numbers(self, name: str) -> FloatArray:
        """Return a column as numbers, `(rows,)`; the error names the line of a cell that is not a number."""
        values = self.columns[name]
        if not isinstance(values, list):
            return _convert_array(values, name, self.location)
        for k, value in enumerate(values):
            if isinstance(value, str):
                place = f"{self.location}, line {self.lines[k]}" if self.lines else self.location
                raise DataError(
                    f"{place}, column {name!r}: {value!r} is not a number.{_suggest_format(value)} Columns are "
                    "separated by commas, semicolons or tabs; a missing value is an empty cell; a column of words "
                    "may be the trajectory."
                )
        return np.array(values, dtype=float)

    def blank_words(self, words: Iterable[str]) -> Table:
        """Return the table with NaN in all cells that contain one of the words."""
        missing = {word.strip() for word in words}
        if not missing:
            return self
        columns = {
            name: [np.nan if isinstance(v, str) and v.strip() in missing else v for v in values]
            if isinstance(values, list) or getattr(getattr(values, "dtype", None), "kind", "") == "O"
            else values
            for name, values in self.columns.items()
        }
        return replace(self, columns=columns)

    def stack_repeats(self, repeats: Mapping[str, Sequence[str]], shared: Iterable[str]) -> Table:
        """Return the table with repeated measurements in rows below each other, in place of columns side by side.

        Parameters
        ----------
        repeats : mapping of str to sequence of str
            New name and columns of each repeated measurement. If a name has fewer columns than another one, its
            remaining repeats are missing.
        shared : iterable of str
            Columns whose values belong to every repeat, such as the time. The values of all other columns occur once;
            they are missing in the rows of further repeats.
        """
        count = max(map(len, repeats.values()))
        removed, shared_names = {column for columns in repeats.values() for column in columns}, set(shared)
        blank = [np.nan] * self.row_count

        def interleave(parts: list[Any]) -> Any:
            """Return the values of all parts row by row, filled up to `count` parts with missing values."""
            parts = [*parts, *[blank] * (count - len(parts))]
            if isinstance(parts[0], list):
                return [value for row in zip(*parts, strict=True) for value in row]
            return np.stack([np.asarray(part) for part in parts], axis=1).ravel()

        columns = {
            name: interleave([values] * (count if name in shared_names else 1))
            for name, values in self.columns.items()
            if name not in removed and name not in repeats
        }
        columns |= {name: interleave([self.columns[c] for c in parts]) for name, parts in repeats.items()}
        errors = {c: e for c, e in self.errors.items() if c not in removed}
        for name, parts in repeats.items():
            if all(c in self.errors for c in parts):
                errors[name] = f"{name} error"
                columns[errors[name]] = interleave([self.columns[self.errors[c]] for c in parts])
        return replace(self, columns=columns, lines=self.lines and interleave([self.lines] * count), errors=errors)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def parse_times(self, name: str) -> tuple[FloatArray, str]:
        """Return the time column as numbers, `(rows,)`, and a note on how it was read, or an empty text.

        Dates become days since the first one, durations become days.
        """
        values = self.columns[name]
        kind = getattr(getattr(values, "dtype", None), "kind", "")
        if kind in ("M", "m"):
            instants = np.asarray(values)
        else:
            dates = parse_dates(values)
            if dates is None:
                numbers = self.parse_numbers(name)
                return numbers, note_date_numbers(numbers)
            instants = dates
        if np.isnat(instants).any():
            raise DataError(f"{self.location}, column {name!r} has missing times; every row needs its time.")
        if instants.dtype.kind == "m":
            return (instants / np.timedelta64(1, "D")).astype(float), "Time is counted in days."
        instants = instants.astype("datetime64[us]")
        if not len(instants):
            return np.empty(0), ""
        days = (instants - instants.min()) / np.timedelta64(1, "D")
        return days.astype(float), f"Time is counted in days since {instants.min().astype('datetime64[s]')}."


def _suggest_format(value: str) -> str:
    """Return a hint on a cell that is not a number: a date, or a comma as the decimal sign; else an empty text."""
    text = value.strip()
    if len(text) >= 8 and sum(text.count(mark) for mark in "-/.:") >= 2 and any(c.isdigit() for c in text):
        return " If it is a date, write it as 2024-03-01 in the time column, or convert it to days."
    if "," in text and text.replace(",", "", 1).replace("-", "", 1).replace(".", "").isdigit():
        return " If the comma is a decimal sign, separate the columns by semicolons."
    return ""


def _convert_array(values: Any, name: str, location: str) -> FloatArray:
    """Convert an array to numbers; the error names the column and the table."""
    from .data_validation import convert_numbers

    try:
        return convert_numbers(values, f"column {name!r}")
    except DataError as error:
        raise DataError(f"{location}: {error}") from None


def read_table(path: Path, sheet: str | None = None) -> Table:
    """Read a table from a file; its format follows from the ending of its name.

    Parameters
    ----------
    path : Path
    sheet : str, optional
        Name of the sheet of a spreadsheet; the first by default.

    Returns
    -------
    Table
    """
    refuse_devices(path, DataError)
    if not isinstance(sheet, str | None):
        raise DataError(f"sheet must be the name of a sheet; received {sheet!r}.")
    ending = path.suffix.lower()
    if ending in (".parquet", ".pq", *SHEET_ENDINGS):
        from .pandas_reader import read_with_pandas

        return read_with_pandas(path, ending, sheet)
    if sheet is not None:
        raise DataError(f"{path} has no sheets; leave out sheet = {sheet!r}.")
    return _read_text(path)


def _read_compressed(path: Path) -> bytes:
    """Expand a compressed text (`.gz`), up to `MAX_EXPANDED_BYTES`."""
    try:
        with gzip.open(path) as packed:
            raw = packed.read(MAX_EXPANDED_BYTES + 1)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked: {error}.") from None
    if len(raw) > MAX_EXPANDED_BYTES:
        raise DataError(f"{path} expands to more than {MAX_EXPANDED_BYTES / 1e6:.0f} MB; split it.")
    return raw


def split_rows(path: Path, keep_empty: bool = False) -> tuple[list[tuple[int, list[str]]], str, tuple[str, ...]]:
    """Read the cells of a text table, compressed or not.

    Parameters
    ----------
    path : Path
    keep_empty : bool
        Whether a row of empty cells counts, because each row is a dataset; a line without any cell never does.

    Returns
    -------
    rows : list of (int, list of str)
        Line and cells of each row; the first one is the header. There are at least two.
    separator : str
    notes : tuple of str
    """
    try:
        raw = _read_compressed(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None
    text, notes = _decode_bytes(raw, path)
    blank = " \r\n" if keep_empty else None  # a line of tabs is a row of empty cells
    kept = [(n, line) for n, line in enumerate(io.StringIO(text), 1) if line.strip(blank) and not line.startswith("#")]
    header = kept[0][1] if kept else ""
    separator = max(",;\t", key=header.count)
    reader = csv.reader((line for _, line in kept), delimiter=separator)
    try:
        # A quoted cell may extend over several lines: `line_num` is the last line of the row.
        rows = [(kept[reader.line_num - 1][0], row) for row in reader if keep_empty or any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{path}, line {kept[reader.line_num - 1][0]}: {error}.") from None
    if len(rows) < 2:
        received = "it has only one row" if rows else "it is empty"
        raise DataError(f"{path} needs a header row and rows of numbers; {received}.")
    return rows, separator, notes


def _read_text(path: Path) -> Table:
    """Read a text table, compressed or not."""
    rows, separator, notes = split_rows(path)
    line, names = rows[0][0], [name.strip() for name in rows[0][1]]
    if len(names) > MAX_COLUMN_COUNT:
        raise DataError(f"{path} has {len(names):,} columns; at most {MAX_COLUMN_COUNT:,} are read.")
    # Without this check the first row of numbers would silently be lost as the header.
    if all(isinstance(parse_cell(name, separator), float) for name in names):
        raise DataError(f"{path}, line {line}: the first row must be a header with the names of the columns.")
    check_names(path, line, names)
    columns: dict[str, list[float | str]] = {name: [] for name in names}
    marks: dict[str, set[str]] = {name: set() for name in names}
    for line, row in rows[1:]:
        check_width(path, line, row, names, separator)
        for name, word in zip(names, row, strict=True):
            columns[name].append(parse_cell(word, separator))
            # Both signs in one column mean a separator of thousands or a typing error: 1,500 may be 1500 or 1.5.
            marks[name] |= {sign for sign in ".," if sign in word and isinstance(columns[name][-1], float)}
            if len(marks[name]) > 1:
                raise DataError(
                    f"{path}, line {line}, column {name!r}: {word!r} has another decimal sign than the rows above; "
                    "write all numbers with a point, or all with a comma, and without a separator of thousands."
                )
    return Table(str(path), dict(columns), [line for line, _ in rows[1:]], notes=notes)


def check_names(path: Path, line: int, names: Sequence[str]) -> None:
    """Raise an error unless every column has a name, and all names differ; `line` is that of the header."""
    if len(set(names)) < len(names) or "" in names:
        bad_name = next(name for name in names if not name or names.count(name) > 1)
        raise DataError(
            f"{path}, line {line}: every column needs a name, and all names must differ; "
            + (f"{bad_name!r} occurs twice." if bad_name else f"column {names.index(bad_name) + 1} has none.")
        )


def check_width(path: Path, line: int, row: Sequence[str], names: Sequence[str], separator: str) -> None:
    """Raise an error unless a row has a cell for each column."""
    if len(row) != len(names):
        hint = " If commas are decimal signs, separate the columns by semicolons." if separator == "," else ""
        raise DataError(f"{path}, line {line}: {len(row)} values for {len(names)} columns.{hint}")


def _decode_bytes(raw: bytes, path: Path) -> tuple[str, tuple[str, ...]]:
    """Decode bytes as UTF-8 or UTF-16, else as Windows-1252, the default of western spreadsheets.

    Returns
    -------
    str
    tuple of str
        A note if the text is neither UTF-8 nor UTF-16.
    """
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        notes: tuple[str, ...] = ()
    except UnicodeDecodeError:
        text, notes = raw.decode("cp1252", errors="replace"), ("The file is not UTF-8; it was read as Windows-1252.",)
    beginning = text[:BINARY_PROBE_CHARACTERS]
    if "\0" in text or sum(not c.isprintable() and c not in "\r\n\t" for c in beginning) > MAX_CONTROL_CHARACTERS:
        raise DataError(f"{path} is not a text table: it contains zero bytes or control characters; export it as CSV.")
    return text, notes
