"""A line that says how far a fit is, for whoever sits before a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .progress import Callback, Progress, Watch

AFTER = 2.0
"""Seconds of silence: what is done by then needs no words."""


class Bar:
    """Shows the progress of a fit that takes longer than two seconds, in one line."""

    def __init__(self) -> None:
        self.notebook = _notebook()
        self.terminal = self.notebook is None and sys.stderr is not None and sys.stderr.isatty()
        self.shown: Any = None

    def __call__(self, progress: Progress) -> None:
        """Say how far it is."""
        if progress.seconds < AFTER or not (self.terminal or self.notebook):
            return
        words = f"weakform: {progress}"
        if self.terminal:
            sys.stderr.write(f"\r\x1b[2K{words[:100]}")
            sys.stderr.flush()
            self.shown = True
        elif self.shown is None:
            self.shown = self.notebook({"text/plain": words}, raw=True, display_id=True)
        else:
            self.shown.update({"text/plain": words}, raw=True)

    def close(self) -> None:
        """Take the line away."""
        if self.terminal and self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
        elif self.shown is not None:
            self.shown.update({"text/plain": ""}, raw=True)


@contextmanager
def watching(seconds: float, callback: Callback | Watch | None) -> Iterator[Watch]:
    """A watch that tells a callback, or whoever sits before the screen; one that there is already is passed on."""
    if callback is not None:
        yield callback if isinstance(callback, Watch) else Watch(seconds, callback)
        return
    bar = Bar()
    try:
        yield Watch(seconds, bar)
    finally:
        bar.close()


def _notebook() -> Any:
    """IPython's `display`, where this is a notebook."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython.display import display

    return display
