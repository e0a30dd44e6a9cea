"""Parsing of table cells: numbers, words and dates, and cells that can be read in two ways."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np

from ..support.array_types import FloatArray
from ..support.errors import DataError

MISSING_WORDS = {"", "na", "n/a", "nan", "null", "none", "-", "?", "."}
"""Cells that stand for a missing value, in lower case."""
TIME_NAMES = (
    *("t", "time", "times", "day", "days", "hour", "hours", "minute", "minutes", "second", "seconds", "year", "years"),
    *("date", "datetime", "timestamp", "zeit", "tag", "tage", "stunde", "stunden", "temps", "jour", "jours", "tiempo"),
)
"""First words, in lower case, of names that mean a time."""
MIN_DATE_NUMBER = 19000101
"""Whole numbers above this one and below `MAX_DATE_NUMBER` look like dates written as YYYYMMDD. By judgement."""
MAX_DATE_NUMBER = 21010101
"""Times at or above this one are taken for plain numbers, without a note. By judgement."""


class NumberWithText(float):
    """A number with the text of its cell, kept because the text may be a name, such as `Na`, `None` or `01`."""

    text: str

    def __new__(cls, value: float, text: str) -> NumberWithText:
        """Create the number `value` of a cell that contains `text`."""
        number = super().__new__(cls, value)
        number.text = text
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return NumberWithText, (float(self), self.text)


def parse_cell(text: str, separator: str) -> float | str:
    """Parse the text of one cell.

    Parameters
    ----------
    text : str
    separator : str
        The sign between columns. Unless it is a comma, a single comma in a cell is a decimal sign.

    Returns
    -------
    float or str
        The number, NaN for a missing value, or the text itself if it is not a number.
    """
    word = text.strip()
    if word.lower() in MISSING_WORDS:
        return NumberWithText(np.nan, word) if word else np.nan
    if separator != "," and word.count(",") == 1 and "." not in word:
        word = word.replace(",", ".")
    if "_" in word:  # Python reads 1_000 as a number; in a table it is a word
        return text
    try:
        # A leading zero is lost in a number, but tells the labels 01 and 1 apart.
        return (
            NumberWithText(float(word), word) if word[:1] == "0" and word.isdigit() and len(word) > 1 else float(word)
        )
    except ValueError:
        return text


def is_time_name(name: str) -> bool:
    """Return True if a column is named like a time: `time`, `day`, `t_hours`, `Zeit (Tage)`."""
    return re.split(r"[_ (]", name.strip(), maxsplit=1)[0].lower() in TIME_NAMES


def note_date_numbers(numbers: FloatArray) -> str:
    """Return a note if all times, `(time,)`, look like dates written as YYYYMMDD; else an empty text."""
    whole = len(numbers) > 0 and bool((numbers == np.floor(numbers)).all() and (numbers > MIN_DATE_NUMBER).all())
    if not whole or not (numbers < MAX_DATE_NUMBER).all():
        return ""
    return f"Times such as {numbers[0]:.0f} look like dates; write {numbers[0] // 10000:.0f}-MM-DD if they are."


def parse_dates(values: Any) -> Any:
    """Parse a column of dates or durations, given as text (ISO format or 1.3.2024) or as objects.

    Parameters
    ----------
    values : sequence, (rows,)

    Returns
    -------
    ndarray of datetime64 or timedelta64, (rows,), or None
        Dates with a time zone are converted to UTC. None if some value is not a date; the first value decides whether
        durations are expected.
    """
    if not len(values) or not isinstance(values[0], str | date | timedelta) or isinstance(values[0], float):
        return None
    if isinstance(values[0], timedelta):
        return np.array(list(values), dtype="timedelta64[us]")
    parsed, lacks_zone = [], set()
    for value in values:
        try:
            moment = _parse_date(value.strip()) if isinstance(value, str) else value
            if not isinstance(moment, datetime):
                moment = datetime.combine(moment, time())
            lacks_zone.add(moment.tzinfo is None)
            parsed.append(moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None))
        except (ValueError, TypeError, OverflowError, AttributeError):
            return None
    if len(lacks_zone) > 1:
        raise DataError("Some of the dates have a time zone and others have none; give it to all, or to none.")
    return np.array(parsed, dtype="datetime64[us]")


def _parse_date(text: str) -> datetime:
    """Parse a date in ISO format, or with dots as in 1.3.2024."""
    dotted = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)", text)
    return datetime.fromisoformat(f"{dotted[3]}-{dotted[2]:0>2}-{dotted[1]:0>2}{dotted[4]}" if dotted else text)
