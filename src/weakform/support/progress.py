"""Watching a fit: how far it is, and whether to stop.

One `Watch` goes with a fit through all its stages. Whoever iterates asks it whether to stop; that is also when it tells
its callback how far things are. Stages are logged under the name `weakform`.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from .errors import FitError

LOGGER = logging.getLogger("weakform")
LOGGER.addHandler(logging.NullHandler())
EVERY = 0.1
"""Seconds between two calls of a callback in the same stage."""


@dataclass(frozen=True)
class Progress:
    """How far a fit is.

    Attributes
    ----------
    stage : str
        In a word or two: `"search"`, `"refine"`, with the method; `"judge"`.
    start, starts : int
        The start that is followed, counted from one, and how many there are; none where there are none.
    objective : float
        Where it stands; smaller is better. NaN before anything is known.
    seconds : float
        Since the fit began.

    Examples
    --------
    >>> import weakform as wf
    >>> problem, seen = wf.problems.get("logistic"), []
    >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1), callback=seen.append)
    >>> print(seen[0].stage)
    search (wendy)
    """

    stage: str = ""
    start: int = 0
    starts: int = 0
    objective: float = math.nan
    seconds: float = 0.0

    def __str__(self) -> str:
        words = [self.stage]
        if self.starts > 1:
            words.append(f"start {self.start} of {self.starts}")
        if math.isfinite(self.objective):
            words.append(f"objective {self.objective:.6g}")
        return ", ".join([*words, f"{self.seconds:.0f} s"])


SEARCH = 0.9
"""Share of the time for finding an estimate; judging it takes the rest."""
Callback = Callable[[Progress], object]
"""What is called with the progress; if it returns True, the fit stops with the best so far."""


class Watch:
    """Whether to stop: when a time is over, or when the user asks for it; and how far things are.

    Attributes
    ----------
    asked : bool
        Whether the user has asked to stop.
    alone : bool
        Whether no other way may come to the help of the method: one of many fits, of which most are in vain.
    """

    def __init__(self, seconds: float, callback: Callback | None = None, alone: bool = False) -> None:
        if callback is not None and not callable(callback):
            raise FitError(f"callback must be a function of the progress; received {callback!r}.")
        self.begin, self.alone = time.monotonic(), alone
        self.end, self.asked, self.callback = self.begin + SEARCH * seconds, False, callback
        self.progress, self._told = Progress(), -math.inf

    def __call__(self, objective: float = math.nan) -> bool:
        """Whether to stop now; `objective` is where the search stands."""
        now = time.monotonic()
        if self.callback is not None and now - self._told >= EVERY:
            if math.isfinite(objective):
                self.progress = replace(self.progress, objective=float(objective))
            self._tell(now)
        return self.asked or now > self.end

    def tell(self, stage: str, start: int = 0, starts: int = 0, objective: float = math.nan) -> None:
        """Begin another stage, or another start in it."""
        now = time.monotonic()
        new = stage != self.progress.stage or self._told == -math.inf
        self.progress = Progress(stage, start, starts, float(objective), now - self.begin)
        LOGGER.log(logging.INFO if new else logging.DEBUG, "%s", self.progress)
        if self.callback is not None:
            self._tell(now)

    def _tell(self, now: float) -> None:
        assert self.callback is not None
        self._told = now
        self.progress = replace(self.progress, seconds=now - self.begin)
        if isinstance(asked := self.callback(self.progress), bool | np.bool_) and asked:
            self.asked = True

    def left(self) -> float:
        """Seconds that are left; none once the user has asked to stop."""
        return 0.0 if self() else self.end - time.monotonic()

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Let the first Ctrl-C stop the search with the best so far, and the second one everything."""
        ours = threading.current_thread() is threading.main_thread()
        if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def ask(*_: object) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
