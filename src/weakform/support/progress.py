"""Progress of a fit, its time limit, and requests to stop it.

One `Watch` goes with a fit through all its stages. Every iterative algorithm calls it to ask whether to stop, and each
call may also report the progress to the user's callback. Stages are logged under the name `weakform`.
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
CALLBACK_INTERVAL = 0.1
"""Seconds between two calls of the callback within one stage. Longer makes the display jerky, shorter makes a callback
that draws something slow the fit down. By judgement."""


@dataclass(frozen=True)
class Progress:
    """The progress of a fit.

    Attributes
    ----------
    stage : str
        The stage and the method, in a word or two: `"search (wendy)"`, `"refine (wendy)"`, `"judge"`.
    start, starts : int
        The current start, counted from one, and the number of starts; 0 in stages without starts.
    objective : float
        The current value of the objective; smaller is better. NaN before the first value.
    seconds : float
        Seconds since the fit began.

    Examples
    --------
    >>> import weakform as wf
    >>> problem, steps = wf.problems.get("logistic"), []
    >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1), callback=steps.append)
    >>> print(steps[0].stage)
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


SEARCH_TIME_SHARE = 0.9
"""Share of the time limit after which the search for an estimate stops; the rest is for judging the estimate. With a
larger share the whole fit overruns its limit; `test_the_time_limit_covers_the_whole_fit` in tests/test_progress.py
bounds the overrun."""
Callback = Callable[[Progress], object]
"""A function that is called with the progress; if it returns True, the fit stops with the best estimate so far."""


class Watch:
    """The time limit of a fit, the user's request to stop it, and its progress.

    Parameters
    ----------
    seconds : float
        The time limit of the whole fit.
    callback : callable, optional
        Called with the `Progress`; the fit stops if it returns True.
    forbids_fallback : bool
        See the attribute.

    Attributes
    ----------
    stop_requested : bool
        True once the user has requested a stop.
    forbids_fallback : bool
        True if no fallback method may be tried when the chosen one does not succeed. Set for each of many fits of which
        most are expected to fail, such as those that test candidate terms.
    """

    def __init__(self, seconds: float, callback: Callback | None = None, forbids_fallback: bool = False) -> None:
        if callback is not None and not callable(callback):
            raise FitError(f"callback must be a function of the progress; received {callback!r}.")
        self.begin, self.forbids_fallback = time.monotonic(), forbids_fallback
        self.end, self.stop_requested, self.callback = self.begin + SEARCH_TIME_SHARE * seconds, False, callback
        self.progress, self._last_report = Progress(), -math.inf

    def __call__(self, objective: float = math.nan) -> bool:
        """Return True if the search must stop now; `objective` is its current value, for the callback."""
        now = time.monotonic()
        if self.callback is not None and now - self._last_report >= CALLBACK_INTERVAL:
            if math.isfinite(objective):
                self.progress = replace(self.progress, objective=float(objective))
            self._report_progress(now)
        return self.stop_requested or now > self.end

    def begin_stage(self, stage: str, start: int = 0, starts: int = 0, objective: float = math.nan) -> None:
        """Begin another stage, or another start within a stage; log it and report it to the callback."""
        now = time.monotonic()
        is_new_stage = stage != self.progress.stage or self._last_report == -math.inf
        self.progress = Progress(stage, start, starts, float(objective), now - self.begin)
        LOGGER.log(logging.INFO if is_new_stage else logging.DEBUG, "%s", self.progress)
        if self.callback is not None:
            self._report_progress(now)

    def _report_progress(self, now: float) -> None:
        """Call the callback, and note if it asks for a stop."""
        assert self.callback is not None
        self._last_report = now
        self.progress = replace(self.progress, seconds=now - self.begin)
        # Only True stops the fit: a callback may return anything else without meaning to, such as a number or a figure.
        if isinstance(answer := self.callback(self.progress), bool | np.bool_) and answer:
            self.stop_requested = True

    def compute_seconds_left(self) -> float:
        """Return the seconds left for the search; 0 once the time is over or the user has requested a stop."""
        return 0.0 if self() else self.end - time.monotonic()

    @contextmanager
    def handle_interrupts(self) -> Iterator[None]:
        """Let the first Ctrl-C stop the search with the best estimate so far, and a second raise KeyboardInterrupt."""
        # Python allows signal handlers only in the main thread, and a handler that the caller has set is not replaced.
        is_main_thread = threading.current_thread() is threading.main_thread()
        if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def request_stop(*_: object) -> None:
            if self.stop_requested:
                raise KeyboardInterrupt
            self.stop_requested = True

        signal.signal(signal.SIGINT, request_stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
