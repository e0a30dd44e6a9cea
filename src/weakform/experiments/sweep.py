"""The sweep of a study: do the runs that its store does not have yet."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..support.wording import ProgressLine
from .cell_runner import perform_run
from .executors import Execute, LostRun, make_local_executor
from .store import Store
from .study import Run, Study


@dataclass(frozen=True)
class SweepOutcome:
    """Counts of a sweep.

    Attributes
    ----------
    total : int
        Runs of the study.
    already_done : int
        Runs that were in the store before this sweep.
    done : int
        Runs that this sweep did, lost ones included.
    failed : int
        Those of `done` that failed or were lost.
    lost : tuple of str
        Key of each run that could not be done, with the reason. The next sweep tries it again.
    """

    total: int
    already_done: int
    done: int
    failed: int
    lost: tuple[str, ...]


def sweep(study: Study, path: str | Path, execute: Execute | None = None) -> SweepOutcome:
    """Do the runs of a study that its store does not have yet.

    A sweep that was interrupted continues where it stopped.

    Parameters
    ----------
    study : Study
    path : str or Path
        The store; created if it does not exist.
    execute : callable, optional
        Executor of the runs; see `executors`. By default one process for each core of this machine.

    Returns
    -------
    SweepOutcome
        Counts of the runs, and the runs that were lost.

    Raises
    ------
    StoreError
        If the store cannot be written, or belongs to another study.
    """
    execute = execute or make_local_executor(os.cpu_count() or 1, perform_run)
    with Store.writing(path, study) as store:
        stored = store.done()
        todo = [run for run in study.runs if run.key not in stored]
        tally = Tally(study.runs, todo)
        bar = ProgressLine(tally.format_line)
        lost: list[str] = []
        try:
            for run, record in execute(todo):
                if isinstance(record, LostRun):
                    lost.append(f"{'/'.join(map(str, run.key))}: {record.reason}")
                    tally.add_run(run, True)
                else:
                    store.add(run, record)
                    tally.add_run(run, bool(record["failed"]))
                bar.update()
        finally:
            bar.close()
        return SweepOutcome(len(study.runs), len(study.runs) - len(todo), tally.done, tally.failed, tuple(lost))


class Tally:
    """Counts of runs during a sweep, in total and for each problem.

    Parameters
    ----------
    runs : tuple of Run
        All runs of the study.
    todo : list of Run
        Those that the sweep has to do.
    """

    def __init__(self, runs: tuple[Run, ...], todo: list[Run]) -> None:
        self.total = Counter(run.cell.problem for run in runs)
        self.finished = self.total - Counter(run.cell.problem for run in todo)
        self.remaining, self.done, self.failed = len(todo), 0, 0
        self.begin = time.monotonic()

    def add_run(self, run: Run, failed: bool) -> None:
        """Count a run that is done, lost ones included."""
        self.finished[run.cell.problem] += 1
        self.done, self.failed, self.remaining = self.done + 1, self.failed + failed, self.remaining - 1

    def format_line(self) -> str:
        """Return the line of progress: runs done and failed, rate, time left, and the counts of each problem."""
        # The clock may not have advanced yet.
        rate = self.done / max(time.monotonic() - self.begin, 1e-9)
        shares = "  ".join(f"{name} {self.finished[name]}/{count}" for name, count in self.total.items())
        time_left = format_duration(self.remaining / rate) if rate > 0 else "?"
        return f"{sum(self.finished.values())} done, {self.failed} failed, {rate:.2g}/s, {time_left} left | {shares}"


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours: minutes from 90 s on, hours from 90 min on."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
