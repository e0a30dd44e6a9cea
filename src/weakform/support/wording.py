"""Words for people: suggestions, lists of names, and a line of progress on a terminal."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO, TypeVar

T = TypeVar("T")
REFRESH = 0.2
"""Seconds between two states of the line."""
CLOSE, LEAST = 0.8, 4
"""Likeness of two names above which one is taken for a misspelling of the other; and letters of a name in which one may
be wrong by a slip."""


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "")


def misspelt(name: str, candidates: Iterable[str]) -> bool:
    """Whether a name is that of a candidate, but for its case or a letter or two."""
    plain = [_plain(other) for other in candidates]
    return _plain(name) in plain or bool(difflib.get_close_matches(_plain(name), plain, n=1, cutoff=CLOSE))


def slip(a: str, b: str) -> bool:
    """Whether two names differ by their case or underscores only, or by one letter, swapped letters among them."""
    plain = [_plain(name) for name in (a, b)]
    if plain[0] == plain[1]:
        return True
    short, long = sorted(plain, key=len)
    if len(short) < LEAST or short[0] != long[0] or len(long) - len(short) > 1:
        return False
    if len(short) < len(long):
        return any(long[:i] + long[i + 1 :] == short and long[i].isalpha() for i in range(len(long)))
    off = [i for i in range(len(short)) if short[i] != long[i]]
    swapped = len(off) == 2 and off[1] == off[0] + 1 and short[off[0]] == long[off[1]] and short[off[1]] == long[off[0]]
    return swapped or (len(off) == 1 and short[off[0]].isalpha() and long[off[0]].isalpha())


def listed(names: Iterable[str]) -> str:
    """Names in a row, not too many."""
    names = list(names)
    return ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")


class Progress:
    """A line on a terminal that is written again as the work goes on; nothing in a pipe.

    Parameters
    ----------
    line : callable
        Returns what is shown.
    out : file, optional
        The standard error stream by default.
    """

    def __init__(self, line: Callable[[], str], out: TextIO | None = None) -> None:
        self.line, self.out = line, sys.stderr if out is None else out
        self.show, self.shown = self.out.isatty(), 0.0

    def update(self) -> None:
        """Write the line, unless it was written a moment ago."""
        if self.show and time.monotonic() - self.shown > REFRESH:
            self.shown = time.monotonic()
            print(f"\r\033[K{self.line()}", end="", file=self.out, flush=True)

    def close(self) -> None:
        """Leave the last state on its line."""
        if self.show:
            print(f"\r\033[K{self.line()}", file=self.out, flush=True)


def counted(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """The items, with a line such as `profile: 3 of 8`."""
    count = 0
    bar = Progress(lambda: f"{label}: {count} of {total}")
    for item in items:
        count += 1
        bar.update()
        yield item
    bar.close()
