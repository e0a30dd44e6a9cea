"""Reading tables of numbers: text here, Parquet and Excel in `sheets`; nothing in them is ever evaluated.

A text table has a header row; its separator (comma, semicolon or tab) is the one most frequent there. Where it is not a
comma, a comma may be the decimal sign. Lines that start with # are comments; an empty cell, NA and the like are missing
values.
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
from .cell_parsing import cell, like_dates, moments

MAX_COLUMNS = 10_000
LARGEST = 1_000_000_000
"""Bytes of a text that was packed."""
SHEETS = (".xlsx", ".xls", ".ods")
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

    def stacked(self, repeats: Mapping[str, Sequence[str]], shared: Iterable[str]) -> Table:
        """With a row for each of the columns that repeat the same measurement, which then have one name.

        Parameters
        ----------
        repeats : mapping
            The columns of each name; where one has fewer of them than another the rest is missing.
        shared : iterable of str
            Columns that belong to each of them, such as the time; all others are told once.
        """
        count = max(map(len, repeats.values()))
        gone, again = {column for columns in repeats.values() for column in columns}, set(shared)
        nothing = [np.nan] * self.rows

        def below(parts: list[Any]) -> Any:
            parts = [*parts, *[nothing] * (count - len(parts))]
            if isinstance(parts[0], list):
                return [value for row in zip(*parts, strict=True) for value in row]
            return np.stack([np.asarray(part) for part in parts], axis=1).ravel()

        columns = {
            name: below([values] * (count if name in again else 1))
            for name, values in self.columns.items()
            if name not in gone and name not in repeats
        }
        columns |= {name: below([self.columns[c] for c in parts]) for name, parts in repeats.items()}
        errors = {c: e for c, e in self.errors.items() if c not in gone}
        for name, parts in repeats.items():
            if all(c in self.errors for c in parts):
                errors[name] = f"{name} error"
                columns[errors[name]] = below([self.columns[self.errors[c]] for c in parts])
        return replace(self, columns=columns, lines=self.lines and below([self.lines] * count), errors=errors)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def times(self, name: str) -> tuple[FloatArray, str]:
        """The time column as numbers; dates become days since the first, and the second value says so."""
        values = self.columns[name]
        kind = getattr(getattr(values, "dtype", None), "kind", "")
        if kind in "Mm" and kind:
            instants = np.asarray(values)
        else:
            found = moments(values)
            if found is None:
                numbers = self.numbers(name)
                return numbers, like_dates(numbers)
            instants = found
        if np.isnat(instants).any():
            raise DataError(f"{self.where}, column {name!r} has times that are missing; every row needs its time.")
        if instants.dtype.kind == "m":
            return (instants / np.timedelta64(1, "D")).astype(float), "Time is counted in days."
        instants = instants.astype("datetime64[us]")
        if not len(instants):
            return np.empty(0), ""
        days = (instants - instants.min()) / np.timedelta64(1, "D")
        return days.astype(float), f"Time is counted in days since {instants.min().astype('datetime64[s]')}."


def _hint(value: str) -> str:
    text = value.strip()
    if len(text) >= 8 and sum(text.count(mark) for mark in "-/.:") >= 2 and any(c.isdigit() for c in text):
        return " If it is a date, write it as 2024-03-01 in the time column, or convert it to days."
    if "," in text and text.replace(",", "", 1).replace("-", "", 1).replace(".", "").isdigit():
        return " If the comma is a decimal sign, separate the columns by semicolons."
    return ""


def _array(values: Any, name: str, where: str) -> FloatArray:
    from .data_validation import numbers

    try:
        return numbers(values, f"column {name!r}")
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def read_table(path: Path, sheet: str | None = None) -> Table:
    """A table from a file; the kind is told by the ending of its name.

    Parameters
    ----------
    path : Path
    sheet : str, optional
        Of a spreadsheet; the first by default.
    """
    refuse_devices(path, DataError)
    if not isinstance(sheet, str | None):
        raise DataError(f"sheet must be the name of a sheet; received {sheet!r}.")
    ending = path.suffix.lower()
    if ending in (".parquet", ".pq", *SHEETS):
        from .pandas_reader import with_pandas

        return with_pandas(path, ending, sheet)
    if sheet is not None:
        raise DataError(f"{path} has no sheets; leave out sheet = {sheet!r}.")
    return _text(path)


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
        found = "it has one row only" if rows else "it is empty"
        raise DataError(f"{path} needs a header row and rows of numbers; {found}.")
    line, names = rows[0][0], [name.strip() for name in rows[0][1]]
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{path} has {len(names):,} columns; at most {MAX_COLUMNS:,} are read.")
    if all(isinstance(cell(name, separator), float) for name in names):
        raise DataError(f"{path}, line {line}: the first row must be a header with the names of the columns.")
    if len(set(names)) < len(names) or "" in names:
        twice = next(name for name in names if not name or names.count(name) > 1)
        raise DataError(
            f"{path}, line {line}: column names must be there and differ; "
            + (f"{twice!r} is there twice." if twice else f"column {names.index(twice) + 1} has none.")
        )
    columns: dict[str, list[float | str]] = {name: [] for name in names}
    marks: dict[str, set[str]] = {name: set() for name in names}
    for line, row in rows[1:]:
        if len(row) != len(names):
            hint = " If commas are decimal signs, separate the columns by semicolons." if separator == "," else ""
            raise DataError(f"{path}, line {line}: {len(row)} values for {len(names)} columns.{hint}")
        for name, word in zip(names, row, strict=True):
            columns[name].append(cell(word, separator))
            marks[name] |= {sign for sign in ".," if sign in word and isinstance(columns[name][-1], float)}
            if len(marks[name]) > 1:
                raise DataError(
                    f"{path}, line {line}, column {name!r}: {word!r} has another decimal sign than the rows before; "
                    "write all numbers with a point, or all with a comma, and none between thousands."
                )
    return Table(str(path), dict(columns), [line for line, _ in rows[1:]], notes=notes)


def _decoded(raw: bytes, path: Path) -> tuple[str, tuple[str, ...]]:
    """Bytes as text: UTF-8 or UTF-16, or what spreadsheets in the West write by default."""
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        notes: tuple[str, ...] = ()
    except UnicodeDecodeError:
        text, notes = raw.decode("cp1252", errors="replace"), ("The file is not UTF-8; it was read as Windows-1252.",)
    if "\0" in text or sum(not c.isprintable() and c not in "\r\n\t" for c in text[:10_000]) > 10:
        raise DataError(
            f"{path} is not a text table: it has zero bytes or others that are no letters; export it as CSV."
        )
    return text, notes
