"""Cells of a table: numbers, words, dates; and what may be read in two ways."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np

from ..support.array_types import FloatArray
from ..support.errors import DataError

MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?", "."}
TIMES = (
    *("t", "time", "times", "day", "days", "hour", "hours", "minute", "minutes", "second", "seconds", "year", "years"),
    *("date", "datetime", "timestamp", "zeit", "tag", "tage", "stunde", "stunden", "temps", "jour", "jours", "tiempo"),
)


class Written(float):
    """A number that says how it was written, where that may mean something else: a word for nothing, or `01`."""

    text: str

    def __new__(cls, value: float, text: str) -> Written:
        """The value, with its text."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Written, (float(self), self.text)


def cell(text: str, separator: str) -> float | str:
    """A number, NaN for a missing value, or the text itself."""
    word = text.strip()
    if word.lower() in MISSING:
        return Written(np.nan, word) if word else np.nan
    if separator != "," and word.count(",") == 1 and "." not in word:
        word = word.replace(",", ".")
    if "_" in word:  # Python reads 1_000 as a number; nobody else does
        return text
    try:
        return Written(float(word), word) if word[:1] == "0" and word.isdigit() and len(word) > 1 else float(word)
    except ValueError:
        return text


def is_time(name: str) -> bool:
    """Whether a column is called like a time."""
    return re.split(r"[_ (]", name.strip(), maxsplit=1)[0].lower() in TIMES


def like_dates(numbers: FloatArray) -> str:
    """What to say of times such as 20240301."""
    whole = len(numbers) > 0 and bool((numbers == np.floor(numbers)).all() and (numbers > 19000101).all())
    if not whole or not (numbers < 21010101).all():
        return ""
    return f"Times such as {numbers[0]:.0f} look like dates; write {numbers[0] // 10000:.0f}-MM-DD if they are."


def moments(values: Any) -> Any:
    """Dates and durations in cells, as text (ISO) or as objects; those with a time zone in UTC. None for others."""
    if not len(values) or not isinstance(values[0], str | date | timedelta) or isinstance(values[0], float):
        return None
    if isinstance(values[0], timedelta):
        return np.array(list(values), dtype="timedelta64[us]")
    found, zones = [], set()
    for value in values:
        try:
            moment = _moment(value.strip()) if isinstance(value, str) else value
            if not isinstance(moment, datetime):
                moment = datetime.combine(moment, time())
            zones.add(moment.tzinfo is None)
            found.append(moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None))
        except (ValueError, TypeError, OverflowError, AttributeError):
            return None
    if len(zones) > 1:
        raise DataError("Some of the dates have a time zone and others have none; give it to all, or to none.")
    return np.array(found, dtype="datetime64[us]")


def _moment(text: str) -> datetime:
    """A date in ISO format, or with dots as in 1.3.2024."""
    dotted = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)", text)
    return datetime.fromisoformat(f"{dotted[3]}-{dotted[2]:0>2}-{dotted[1]:0>2}{dotted[4]}" if dotted else text)
