"""Who works for the page: a few workers for short tasks, one for each fit, and the files of all of them."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ..support.errors import WeakformError
from .task_process import MEMORY, Lost, Worker

DESKS, FITS, KEPT, TABLES = 2, 3, 200, 30
"""Workers for short tasks, fits at a time, and fits and tables that are remembered."""
SHORT = 60.0
"""Seconds for a short task."""
AFTER, STOPPED = 60.0, 20.0
"""Seconds that a fit may take longer than its limit for all that comes after the search, and after it was stopped."""


class Job:
    """A fit that runs, or has run.

    Attributes
    ----------
    state : str
        `"running"`, `"profiles"` (fitted, and going on), `"done"` or `"failed"`.
    progress, result : dict, or None
    error : str
    """

    def __init__(self, setup: dict[str, Any], table: Path, saved: Path, limit: float, memory: int) -> None:
        self.setup, self.table, self.saved = setup, table, saved
        self.state, self.error = "running", ""
        self.progress: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.end = time.monotonic() + 1.2 * limit + AFTER
        self.worker = Worker(memory)
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("running", "profiles")

    def _follow(self) -> None:
        try:
            self.worker.send("run_fit", {"setup": self.setup, "path": str(self.table), "saved": str(self.saved)})
            while True:
                kind, what = self.worker.receive(self.end - time.monotonic())
                if kind == "progress":
                    self.progress = what
                elif kind == "fitted":
                    self.result, self.state = what, "profiles"
                elif kind == "refused":
                    self._failed(what)
                    return
                else:
                    break
            self.state = "done"
        except WeakformError as error:
            self._failed(str(error))
        except Exception as error:  # a mistake of ours: said, and the page goes on
            self._failed(f"This should not happen: {type(error).__name__}: {error}")
        finally:
            _let_go(self.worker)

    def _failed(self, why: str) -> None:
        # What was found before is kept: a fit whose profiles were cut off is a fit.
        self.state, self.error = ("done", "") if self.result is not None else ("failed", why)

    def stop(self) -> None:
        """End it with the best so far; profiles are cut off."""
        if self.state == "profiles":
            self.worker.kill()
        else:
            self.end = min(self.end, time.monotonic() + STOPPED)
            self.worker.stop()


def _let_go(worker: Worker | None) -> None:
    """End a worker, whatever state it is in."""
    if worker is not None:
        with contextlib.suppress(OSError, ValueError):
            worker.kill()


class Office:
    """Workers and files; everything is gone when it is closed."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weakform-"))
        self.memory = memory
        self.tables: dict[str, Path] = {}
        self.jobs: dict[str, Job] = {}
        self.saved: dict[str, Path] = {}
        self._desks: SimpleQueue[Worker | None] = SimpleQueue()
        for _ in range(DESKS):
            self._desks.put(None)  # hired when there is work
        self._lock = threading.Lock()
        self._hired: list[Worker] = []

    def ask(self, name: str, seconds: float = SHORT, **arguments: Any) -> Any:
        """A short task; whoever is lost over it is replaced."""
        try:
            return self._asked(name, seconds, arguments)
        except Lost as lost:
            if not lost.died:
                raise
            return self._asked(name, seconds, arguments)  # whoever was killed: another one does it

    def _asked(self, name: str, seconds: float, arguments: dict[str, Any]) -> Any:
        try:
            desk = self._desks.get(timeout=seconds)
        except Empty:
            raise Lost("All workers are busy; try it again in a moment.") from None
        try:
            if desk is None or not desk.alive:
                desk = self._hire()
            return desk.ask(name, arguments, seconds)
        except Lost:
            _let_go(desk)
            desk = None
            raise
        finally:
            self._desks.put(desk)

    def _hire(self) -> Worker:
        worker = Worker(self.memory)
        with self._lock:
            self._hired = [one for one in self._hired if one.alive] + [worker]
        return worker

    def plain(self, text: str) -> str:
        """A message without the folders of this office."""
        return re.sub(re.escape(str(self.folder)) + r"/[^/]+/", "", text)

    def room(self) -> tuple[str, Path]:
        """A new name, and a folder for its files."""
        name = secrets.token_urlsafe(9)
        folder = self.folder / name
        folder.mkdir()
        return name, folder

    def keep_table(self, name: str, path: Path) -> None:
        """Remember where a table is; the oldest of many are forgotten."""
        self.tables[name] = path
        busy = {job.table for job in self.jobs.values() if job.running}
        for old in [name for name, other in self.tables.items() if other not in busy][:-TABLES]:
            self.drop(self.tables.pop(old).parent)

    def drop(self, folder: Path) -> None:
        """Remove a folder that nobody needs."""
        shutil.rmtree(folder, ignore_errors=True)

    def table(self, name: object) -> Path:
        """Where a table is."""
        if not isinstance(name, str) or name not in self.tables:
            raise WeakformError("The table is not here any more; drop it once more.")
        return self.tables[name]

    def fit(self, setup: dict[str, Any], table: Path, limit: float) -> str:
        """Begin a fit; returns its name."""
        with self._lock:
            if sum(job.running for job in self.jobs.values()) >= FITS:
                raise WeakformError(f"{FITS} fits are running; stop one, or wait for it.")
            name, folder = self.room()
            self.jobs[name] = Job(setup, table, folder / "fit.json", limit, self.memory)
            self.saved[name] = folder / "fit.json"
            for old in list(self.jobs)[:-KEPT]:
                del self.jobs[old]
        return name

    def job(self, name: str) -> Job:
        """A fit by its name."""
        if name not in self.jobs:
            raise WeakformError("The server does not know this fit; it may have been started again.")
        return self.jobs[name]

    def fitted(self, name: object) -> Path:
        """Where a fit is saved."""
        if not isinstance(name, str) or name not in self.saved or not self.saved[name].exists():
            raise WeakformError("The server does not have this fit; fit once more.")
        return self.saved[name]

    def close(self) -> None:
        """End all workers, and remove all files."""
        for job in self.jobs.values():
            if job.running:
                _let_go(job.worker)
        for worker in self._hired:  # the busy ones, too
            _let_go(worker)
        shutil.rmtree(self.folder, ignore_errors=True)
