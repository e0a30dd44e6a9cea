"""Wording for messages: suggestions for misspelt names, lists of names, and a progress line on a terminal."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

T = TypeVar("T")
LINE_REFRESH_INTERVAL = 0.2
"""Seconds between two updates of the progress line. By judgement."""
MIN_SUGGESTION_SIMILARITY = 0.6
"""Similarity of two names, by difflib's ratio, above which one is suggested for the other. The default of
`difflib.get_close_matches`. A suggestion only adds a question to a message, so it may be generous."""
MIN_MISSPELLING_SIMILARITY = 0.8
"""Similarity of two names, by difflib's ratio, above which one is treated as a misspelling of the other. Above it,
an unknown column of a table is an error rather than a column to leave out. By judgement."""
MIN_TYPO_LENGTH = 4
"""Number of letters, case and underscores apart, from which one wrong letter counts as a typing error; in a shorter
name it is another name, such as x1 and x2. By judgement."""
MAX_LISTED_NAMES = 20
"""Number of names that a message lists before it only counts the rest. By judgement."""


def suggest_name(name: str, candidates: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the most similar candidate, or an empty string if none is similar."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=MIN_SUGGESTION_SIMILARITY)
    return f" Did you mean {close[0]!r}?" if close else ""


def _normalise_name(name: str) -> str:
    """Return a name in lower case, without underscores and spaces."""
    return name.lower().replace("_", "").replace(" ", "")


def is_misspelt(name: str, candidates: Iterable[str]) -> bool:
    """Return True if a name equals a candidate, ignoring case, underscores, spaces and a letter or two."""
    plain = [_normalise_name(candidate) for candidate in candidates]
    return _normalise_name(name) in plain or bool(
        difflib.get_close_matches(_normalise_name(name), plain, n=1, cutoff=MIN_MISSPELLING_SIMILARITY)
    )


def is_typo(a: str, b: str) -> bool:
    """Return True if two names differ by one typing error at most.

    Case, underscores and spaces do not count. A typing error is one letter that is wrong, missing or added, or two
    neighbouring characters that are swapped. The first letter must agree. A digit that is wrong, missing or added makes
    another name: rate1 and rate2 are different.
    """
    plain = [_normalise_name(name) for name in (a, b)]
    if plain[0] == plain[1]:
        return True
    short, long = sorted(plain, key=len)
    if len(short) < MIN_TYPO_LENGTH or short[0] != long[0] or len(long) - len(short) > 1:
        return False
    if len(short) < len(long):
        return any(long[:i] + long[i + 1 :] == short and long[i].isalpha() for i in range(len(long)))
    off = [i for i in range(len(short)) if short[i] != long[i]]
    swapped = len(off) == 2 and off[1] == off[0] + 1 and short[off[0]] == long[off[1]] and short[off[1]] == long[off[0]]
    return swapped or (len(off) == 1 and short[off[0]].isalpha() and long[off[0]].isalpha())


def list_names(names: Iterable[str]) -> str:
    """Join names with commas; of more than `MAX_LISTED_NAMES`, list the first ones and the total number."""
    names = list(names)
    return ", ".join(names[:MAX_LISTED_NAMES]) + (
        f", ... ({len(names)} in all)" if len(names) > MAX_LISTED_NAMES else ""
    )


class ProgressLine:
    """A line on a terminal that is rewritten as the work goes on; nothing is written to a pipe or a file.

    Parameters
    ----------
    line : callable
        Returns the text to show.
    out : file, optional
        Where to write; the standard error stream by default.
    """

    def __init__(self, line: Callable[[], str], out: TextIO | None = None) -> None:
        self.line, self.out = line, sys.stderr if out is None else out
        self.show, self.shown = self.out.isatty(), 0.0

    def update(self) -> None:
        """Rewrite the line, unless it was written less than `LINE_REFRESH_INTERVAL` ago."""
        if self.show and time.monotonic() - self.shown > LINE_REFRESH_INTERVAL:
            self.shown = time.monotonic()
            print(f"\r\033[K{self.line()}", end="", file=self.out, flush=True)

    def close(self) -> None:
        """Write the final text and end the line."""
        if self.show:
            print(f"\r\033[K{self.line()}", file=self.out, flush=True)


def show_progress(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Iterate over items while a line such as `profile: 3 of 8` shows how many are done."""
    count = 0
    bar = ProgressLine(lambda: f"{label}: {count} of {total}")
    for item in items:
        count += 1
        bar.update()
        yield item
    bar.close()
