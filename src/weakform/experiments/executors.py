"""Executors of runs: processes of this machine, or the workers of a Dask cluster.

An executor is a generator with one contract:

    execute(runs) yields (run, record) for every run, in any order

The record is a `LostRun` if the run could not be done.

A worker that dies takes its runs in flight with it. They are repeated, and given up after `MAX_DEATHS` deaths, so that
a run that kills its worker does not stop the study.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

from ..support.errors import WeakformError
from ..support.optional_imports import format_install_hint
from .cell_runner import Record
from .study import Run

MAX_DEATHS = 3
"""Number of dead workers after which a run is reported as lost. With fewer, a run that shared a machine short of memory
would be given up; with more, a run that always kills its worker costs more restarts. By judgement."""
QUEUED_RUNS_PER_WORKER = 3
"""Runs submitted for each worker, the one in progress included. With one, a worker waits for the main process after
every run; with more, a dead worker takes more runs with it, and all of them are repeated. By judgement."""
DASK_CONNECTION_TIMEOUT = "10s"
"""Time in which a Dask scheduler must answer, in Dask's notation; a slower one is reported as not answering. By
judgement."""

JobT = TypeVar("JobT")
"""What is executed: a run of a study, or a batch of datasets."""
ResultT = TypeVar("ResultT")
"""What a job returns."""
Execute = Callable[[Iterable[Run]], Iterator[tuple[Run, "Record | LostRun"]]]
"""An executor of runs of a study."""


@dataclass(frozen=True)
class LostRun:
    """Reason why a run could not be done, in place of its record."""

    reason: str


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker: the main process alone decides how to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def make_local_executor(
    workers: int, process_job: Callable[[JobT], ResultT]
) -> Callable[[Iterable[JobT]], Iterator[tuple[JobT, ResultT | LostRun]]]:
    """Return an executor that calls `process_job` on each run, in `workers` new processes of this machine."""

    def execute(runs: Iterable[JobT]) -> Iterator[tuple[JobT, ResultT | LostRun]]:
        # BLAS reads these variables when it is loaded, so they must be set before a worker starts.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        before = {name: os.environ.get(name) for name in threads}
        os.environ.update(threads)
        try:
            yield from _run_with_retries(iter(runs), workers, process_job)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    return execute


def _run_with_retries(
    pending: Iterator[JobT], workers: int, process_job: Callable[[JobT], ResultT]
) -> Iterator[tuple[JobT, ResultT | LostRun]]:
    """Do all runs, and repeat those that were in flight when a worker died."""
    while True:
        suspects = yield from _run_in_one_pool(pending, workers, process_job)
        if not suspects:
            return
        # The pool does not report which of the runs in flight killed its worker, so each is repeated alone.
        for run in suspects:
            for _ in range(MAX_DEATHS):
                if not (yield from _run_in_one_pool(iter([run]), 1, process_job)):
                    break
            else:
                yield run, LostRun(f"its worker died {MAX_DEATHS} times (out of memory, or killed)")


def _run_in_one_pool(
    pending: Iterator[JobT], workers: int, process_job: Callable[[JobT], ResultT]
) -> Generator[tuple[JobT, ResultT | LostRun], None, list[JobT]]:
    """Do runs in one pool until none is left or a worker dies; return the runs that were in flight when it died."""
    # Forking would copy the BLAS threads and locks of this process; spawned workers start clean.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_ignore_interrupts)
    in_flight: dict[Future[ResultT], JobT] = {}
    try:
        while True:
            for run in islice(pending, QUEUED_RUNS_PER_WORKER * workers - len(in_flight)):
                try:
                    in_flight[pool.submit(process_job, run)] = run
                except BrokenProcessPool:
                    # This run has left the iterator and is in no future yet: without it here, it would be lost.
                    return [run, *in_flight.values()]
            if not in_flight:
                return []
            finished, _ = wait(in_flight, return_when=FIRST_COMPLETED)
            for future in finished:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    return list(in_flight.values())
                yield in_flight.pop(future), _unwrap_future(future)
    except BrokenProcessPool:
        return list(in_flight.values())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _unwrap_future(future: Any) -> Any | LostRun:
    """Return the result of a finished future, or a `LostRun` that names its error.

    `perform_run` turns every refused fit into a record, so an error here is a bug or a broken installation.
    """
    error = future.exception()
    return LostRun(f"{type(error).__name__}: {error}") if error else future.result()


def make_dask_executor(
    address: str, process_job: Callable[[JobT], ResultT]
) -> Callable[[Iterable[JobT]], Iterator[tuple[JobT, ResultT | LostRun]]]:
    """Return an executor that calls `process_job` on each run, on the Dask cluster with its scheduler at `address`."""

    def execute(runs: Iterable[JobT]) -> Iterator[tuple[JobT, ResultT | LostRun]]:
        try:
            from distributed import Client, as_completed
        except ImportError:
            raise WeakformError(f"Dask is not installed; install it with: {format_install_hint('dask')}") from None
        try:
            client = Client(address, timeout=DASK_CONNECTION_TIMEOUT)
        except (OSError, TimeoutError, ValueError) as error:
            raise WeakformError(
                f"No Dask scheduler answers at {address}: {error}. Check the address and that the scheduler is running."
            ) from None
        with client:
            waiting = iter(runs)
            ahead = QUEUED_RUNS_PER_WORKER * max(sum(client.nthreads().values()), 1)

            def submit_next() -> Any:
                run = next(waiting, None)
                if run is None:
                    return None
                # The scheduler itself repeats the runs of a lost worker, up to its setting allowed-failures; `retries`
                # repeats a run that raised.
                future = client.submit(process_job, run, pure=False, retries=MAX_DEATHS)
                in_flight[future] = run
                return future

            in_flight: dict[Any, JobT] = {}
            queue = as_completed([future for future in (submit_next() for _ in range(ahead)) if future is not None])
            for future in queue:
                yield in_flight.pop(future), _unwrap_future(future)
                following = submit_next()
                if following is not None:
                    queue.add(following)

    return execute
