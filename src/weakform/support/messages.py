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


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


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
