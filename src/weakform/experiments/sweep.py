"""Do all runs of a study that its store lacks."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..support.wording import Progress
from .cell_runner import perform
from .executors import Execute, Lost, local
from .store import Store
from .study import Run, Study


@dataclass(frozen=True)
class Done:
    """What a sweep has done.

    Attributes
    ----------
    total, before, done, failed : int
        Runs of the study, those that were there, those that were added, and how many of these failed.
    lost : tuple of str
        Runs that could not be done, and why; they are tried again by the next sweep.
    """

    total: int
    before: int
    done: int
    failed: int
    lost: tuple[str, ...]


def sweep(study: Study, path: str | Path, execute: Execute | None = None) -> Done:
    """Run a study into a store; runs that are there already are not done again.

    Parameters
    ----------
    study : Study
    path : str or Path
        The store, made if it is not there.
    execute : callable, optional
        See `executors`; by default processes of this machine, one for each core.
    """
    execute = execute or local(os.cpu_count() or 1, perform)
    with Store.writing(path, study) as store:
        there = store.done()
        todo = [run for run in study.runs if run.key not in there]
        tally = Tally(study.runs, todo)
        bar = Progress(tally.line)
        lost: list[str] = []
        try:
            for run, record in execute(todo):
                if isinstance(record, Lost):
                    lost.append(f"{'/'.join(map(str, run.key))}: {record.reason}")
                    tally.add(run, True)
                else:
                    store.add(run, record)
                    tally.add(run, bool(record["failed"]))
                bar.update()
        finally:
            bar.close()
        return Done(len(study.runs), len(study.runs) - len(todo), tally.done, tally.failed, tuple(lost))


class Tally:
    """Runs done, failed and left, in all and of each problem."""

    def __init__(self, runs: tuple[Run, ...], todo: list[Run]) -> None:
        self.total = Counter(run.cell.problem for run in runs)
        self.there = self.total - Counter(run.cell.problem for run in todo)
        self.left, self.done, self.failed = len(todo), 0, 0
        self.begin = time.monotonic()

    def add(self, run: Run, failed: bool) -> None:
        """Count one run."""
        self.there[run.cell.problem] += 1
        self.done, self.failed, self.left = self.done + 1, self.failed + failed, self.left - 1

    def line(self) -> str:
        """What is shown: done, failed, rate, time left, and the share of each problem."""
        rate = self.done / max(time.monotonic() - self.begin, 1e-9)
        shares = "  ".join(f"{name} {self.there[name]}/{count}" for name, count in self.total.items())
        left = duration(self.left / rate) if rate > 0 else "?"
        return f"{sum(self.there.values())} done, {self.failed} failed, {rate:.2g}/s, {left} left | {shares}"


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
