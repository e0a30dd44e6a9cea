"""A line that shows the progress of a fit in a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .progress import Callback, Progress, Watch

MIN_SECONDS_SHOWN = 2.0
"""Seconds that a fit runs before the line appears; a fit that ends sooner shows none. By judgement."""
MAX_LINE_LENGTH = 100
"""Characters of the line in a terminal; the rest is cut, because a line that wraps cannot be erased. By judgement."""


class ProgressBar:
    """A line with the progress of a fit, shown once the fit has run for `MIN_SECONDS_SHOWN`."""

    def __init__(self) -> None:
        self.notebook = _get_notebook_display()
        self.terminal = self.notebook is None and sys.stderr is not None and sys.stderr.isatty()
        self.shown: Any = None

    def __call__(self, progress: Progress) -> None:
        """Show the progress."""
        if progress.seconds < MIN_SECONDS_SHOWN or not (self.terminal or self.notebook):
            return
        words = f"weakform: {progress}"
        if self.terminal:
            sys.stderr.write(f"\r\x1b[2K{words[:MAX_LINE_LENGTH]}")
            sys.stderr.flush()
            self.shown = True
        elif self.shown is None:
            self.shown = self.notebook({"text/plain": words}, raw=True, display_id=True)
        else:
            self.shown.update({"text/plain": words}, raw=True)

    def close(self) -> None:
        """Erase the line."""
        if self.terminal and self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
        elif self.shown is not None:
            self.shown.update({"text/plain": ""}, raw=True)


@contextmanager
def provide_watch(seconds: float, callback: Callback | Watch | None) -> Iterator[Watch]:
    """Provide the `Watch` of a fit.

    Parameters
    ----------
    seconds : float
        Time limit of the fit.
    callback : callable or Watch, optional
        A function of the progress. A `Watch`, which belongs to a fit that encloses this one, is yielded unchanged. By
        default the progress is shown in a `ProgressBar`.
    """
    if callback is not None:
        yield callback if isinstance(callback, Watch) else Watch(seconds, callback)
        return
    bar = ProgressBar()
    try:
        yield Watch(seconds, bar)
    finally:
        bar.close()


def _get_notebook_display() -> Any:
    """Return IPython's `display` function in a notebook, else None."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython.display import display

    return display
