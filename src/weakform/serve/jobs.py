"""Tasks of the page: a few workers for short tasks, one worker for each fit, and the files of all of them.

The server imports this module, and none of those that compute: it starts fast and stays small.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ..support.errors import WeakformError
from .task_process import MAX_WORKER_BYTES, Worker, WorkerLost

MAX_TIME_LIMIT = 3600.0
"""Seconds. A larger time limit of a fit is refused. By judgement."""
SHORT_TASK_WORKERS = 2
"""Workers for short tasks. By judgement: one that reads a large table does not block the sliders."""
MAX_RUNNING_FITS = 3
"""Fits at the same time. One more is refused. By judgement: each has its own process."""
MAX_KEPT_FITS = 200
"""Fits whose state can be asked for; older ones are forgotten. By judgement."""
MAX_KEPT_TABLES = 30
"""Tables that no running fit reads and that are kept; older ones are removed. By judgement."""
SHORT_TASK_SECONDS = 60.0
"""Seconds of a short task without its own limit, before its worker is stopped. By judgement."""


@dataclass(frozen=True)
class _Overtime:
    """Time after which the worker of a fit is killed; by judgement."""

    share: float = 1.2
    """Factor of the time limit of the fit, which the search may overrun a little."""

    after_search: float = 60.0
    """Seconds on top of it, for everything that follows the search: covariance, tests, profiles."""

    after_stop: float = 20.0
    """Seconds from a request to stop until the worker is killed."""


OVERTIME = _Overtime()
"""The times in use."""


class FitJob:
    """A fit that is running or has ended.

    Attributes
    ----------
    state : str
        `"running"`, `"profiles"` (there is a result; profiles are being computed), `"done"` or `"failed"`.
    progress : dict, or None
        The last report of the worker.
    result : dict, or None
        As `page_tasks.describe_fit` returns it.
    error : str
        Why the fit failed; empty if it did not.

    Parameters
    ----------
    setup : dict
        Settings of the fit, as the page sent them.
    table : Path
        Where the table is.
    saved : Path
        Where to save the fit.
    limit : float
        Time limit of the fit in seconds.
    memory : int
        Bytes that the worker may use.
    """

    def __init__(self, setup: dict[str, Any], table: Path, saved: Path, limit: float, memory: int) -> None:
        self.setup, self.table, self.saved = setup, table, saved
        self.state, self.error = "running", ""
        self.progress: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.end = time.monotonic() + OVERTIME.share * limit + OVERTIME.after_search
        self.worker = Worker(memory)
        self.thread = threading.Thread(target=self._follow_worker, daemon=True)
        self.thread.start()

    @property
    def is_running(self) -> bool:
        """True until the fit has ended."""
        return self.state in ("running", "profiles")

    def _follow_worker(self) -> None:
        """Give the fit to the worker and record its reports until it has ended; runs in its own thread."""
        try:
            self.worker.send("run_fit", {"setup": self.setup, "path": str(self.table), "saved": str(self.saved)})
            while True:
                kind, content = self.worker.receive(self.end - time.monotonic())
                if kind == "progress":
                    self.progress = content
                elif kind == "fitted":
                    self.result, self.state = content, "profiles"
                elif kind == "refused":
                    self._record_failure(content)
                    return
                else:
                    break
            self.state = "done"
        except WeakformError as error:
            self._record_failure(str(error))
        except Exception as error:  # a bug: it is reported, and the server goes on
            self._record_failure(f"Internal error: {type(error).__name__}: {error}")
        finally:
            _kill_worker(self.worker)

    def _record_failure(self, reason: str) -> None:
        """Record a failure; a fit that has a result, of which only the profiles are incomplete, is done."""
        self.state, self.error = ("done", "") if self.result is not None else ("failed", reason)

    def stop(self) -> None:
        """Stop the search, which then returns the best estimate so far, or end the computation of profiles."""
        if self.state == "profiles":
            self.worker.kill()
        else:
            self.end = min(self.end, time.monotonic() + OVERTIME.after_stop)
            self.worker.stop()


def _kill_worker(worker: Worker | None) -> None:
    """Kill a worker, whatever its state."""
    if worker is not None:
        with contextlib.suppress(OSError, ValueError):
            worker.kill()


class JobManager:
    """Runs the tasks of the page, and keeps its files in a temporary folder until `close`.

    Attributes
    ----------
    folder : Path
        Of all files.
    tables : dict of str to Path
        Uploaded tables by their names.
    jobs : dict of str to FitJob
        Fits by their names.
    saved : dict of str to Path
        Saved fits by their names.

    Parameters
    ----------
    memory : int
        Bytes that each worker may use.
    """

    def __init__(self, memory: int = MAX_WORKER_BYTES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weakform-"))
        self.memory = memory
        self.tables: dict[str, Path] = {}
        self.jobs: dict[str, FitJob] = {}
        self.saved: dict[str, Path] = {}
        self._idle_workers: SimpleQueue[Worker | None] = SimpleQueue()
        for _ in range(SHORT_TASK_WORKERS):
            self._idle_workers.put(None)  # a worker is started with its first task
        self._lock = threading.Lock()
        self._started_workers: list[Worker] = []

    def ask_worker(self, name: str, seconds: float = SHORT_TASK_SECONDS, **arguments: Any) -> Any:
        """Let a worker do a short task.

        Parameters
        ----------
        name : str
            A key of `page_tasks.TASKS`.
        seconds : float
            Time after which the worker is stopped.
        **arguments
            Of the task.

        Returns
        -------
        Any
            What the task returns.
        """
        try:
            return self._ask_once(name, seconds, arguments)
        except WorkerLost as lost:
            if not lost.has_died:
                raise
            # The worker was killed from outside: the task is repeated once by a new one.
            return self._ask_once(name, seconds, arguments)

    def _ask_once(self, name: str, seconds: float, arguments: dict[str, Any]) -> Any:
        """Wait for a free worker, starting one if need be, and let it do a task; a lost worker is replaced later."""
        try:
            worker = self._idle_workers.get(timeout=seconds)
        except Empty:
            raise WorkerLost("All workers are busy. Try again in a moment.") from None
        try:
            if worker is None or not worker.is_alive:
                worker = self._start_worker()
            return worker.ask(name, arguments, seconds)
        except WorkerLost:
            _kill_worker(worker)
            worker = None
            raise
        finally:
            self._idle_workers.put(worker)

    def _start_worker(self) -> Worker:
        """Start a worker and remember it for `close`."""
        worker = Worker(self.memory)
        with self._lock:
            self._started_workers = [started for started in self._started_workers if started.is_alive] + [worker]
        return worker

    def strip_folders(self, text: str) -> str:
        """Return a message without the temporary folders in it."""
        return re.sub(re.escape(str(self.folder)) + r"/[^/]+/", "", text)

    def make_folder(self) -> tuple[str, Path]:
        """Make a folder for files; returns its unguessable name and its path."""
        name = secrets.token_urlsafe(9)
        folder = self.folder / name
        folder.mkdir()
        return name, folder

    def keep_table(self, name: str, path: Path) -> None:
        """Remember where a table is; the oldest ones that no running fit reads are removed."""
        self.tables[name] = path
        busy = {job.table for job in self.jobs.values() if job.is_running}
        for oldest in [name for name, location in self.tables.items() if location not in busy][:-MAX_KEPT_TABLES]:
            self.remove_folder(self.tables.pop(oldest).parent)

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder that is no longer needed."""
        shutil.rmtree(folder, ignore_errors=True)

    def find_table(self, name: object) -> Path:
        """Return where a table is."""
        if not isinstance(name, str) or name not in self.tables:
            raise WeakformError("The server no longer has this table. Drop it on the page again.")
        return self.tables[name]

    def start_fit(self, setup: dict[str, Any], table: Path, limit: float) -> str:
        """Start a fit.

        Parameters
        ----------
        setup : dict
            Settings of the fit, as the page sent them.
        table : Path
            Where the table is.
        limit : float
            Time limit of the fit in seconds.

        Returns
        -------
        str
            Name of the fit, for `find_job` and `find_saved_fit`.
        """
        with self._lock:
            if sum(job.is_running for job in self.jobs.values()) >= MAX_RUNNING_FITS:
                raise WeakformError(
                    f"{MAX_RUNNING_FITS} fits are running already, the most at a time. Stop one, or wait for it."
                )
            name, folder = self.make_folder()
            self.jobs[name] = FitJob(setup, table, folder / "fit.json", limit, self.memory)
            self.saved[name] = folder / "fit.json"
            for oldest in list(self.jobs)[:-MAX_KEPT_FITS]:
                del self.jobs[oldest]
        return name

    def find_job(self, name: str) -> FitJob:
        """Return a fit by its name."""
        if name not in self.jobs:
            raise WeakformError("The server does not know this fit; perhaps the server was restarted. Fit again.")
        return self.jobs[name]

    def find_saved_fit(self, name: object) -> Path:
        """Return where a fit is saved."""
        if not isinstance(name, str) or name not in self.saved or not self.saved[name].exists():
            raise WeakformError("The server no longer has this fit. Fit again.")
        return self.saved[name]

    def close(self) -> None:
        """Kill all workers and remove all files."""
        for job in self.jobs.values():
            if job.is_running:
                _kill_worker(job.worker)
        for worker in self._started_workers:  # including those with a task
            _kill_worker(worker)
        shutil.rmtree(self.folder, ignore_errors=True)
