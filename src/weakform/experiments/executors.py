"""Where runs are done: in processes of this machine, or on a Dask cluster. One generator each, with the same contract:

    execute(runs) yields (run, record) for every run, in any order; record is a `Lost` if it could not be had

A worker that dies takes its runs in flight with it; they are done again, and given up after a few deaths, so that a run
that kills its worker does not stop the study.
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
from ..support.optional_imports import extra
from .cell_runner import Record
from .study import Run

MAX_DEATHS = 3
AHEAD = 3
"""Runs queued for each worker."""

J = TypeVar("J")
R = TypeVar("R")
Execute = Callable[[Iterable[Run]], Iterator[tuple[Run, "Record | Lost"]]]


@dataclass(frozen=True)
class Lost:
    """A run that could not be done, and why."""

    reason: str


def _quiet() -> None:
    """In a worker: Ctrl-C is for the process that leads; one thread of linear algebra each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def local(workers: int, do: Callable[[J], R]) -> Callable[[Iterable[J]], Iterator[tuple[J, R | Lost]]]:
    """Processes of this machine, spawned, with one thread each; `do` does one run."""

    def execute(runs: Iterable[J]) -> Iterator[tuple[J, R | Lost]]:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        before = {name: os.environ.get(name) for name in threads}
        os.environ.update(threads)
        try:
            yield from _pool(iter(runs), workers, do)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    return execute


def _pool(waiting: Iterator[J], workers: int, do: Callable[[J], R]) -> Iterator[tuple[J, R | Lost]]:
    while True:
        suspects = yield from _together(waiting, workers, do)
        if not suspects:
            return
        # Which of the runs in flight killed its worker is not known: one at a time, it shows.
        for run in suspects:
            for _ in range(MAX_DEATHS):
                if not (yield from _together(iter([run]), 1, do)):
                    break
            else:
                yield run, Lost(f"its worker died {MAX_DEATHS} times, out of memory or killed")


def _together(waiting: Iterator[J], workers: int, do: Callable[[J], R]) -> Generator[tuple[J, R | Lost], None, list[J]]:
    """Do runs in one pool until they are done or a worker dies; returns the runs in flight when it did."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_quiet)
    flying: dict[Future[R], J] = {}
    try:
        while True:
            for run in islice(waiting, AHEAD * workers - len(flying)):
                try:
                    flying[pool.submit(do, run)] = run
                except BrokenProcessPool:
                    return [run, *flying.values()]
            if not flying:
                return []
            finished, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in finished:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    return list(flying.values())
                yield flying.pop(future), _record(future)
    except BrokenProcessPool:
        return list(flying.values())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _record(future: Any) -> Any | Lost:
    """What a finished future holds; an error in it is a bug of ours or a broken installation, and is shown."""
    error = future.exception()
    return Lost(f"{type(error).__name__}: {error}") if error else future.result()


def dask(address: str, do: Callable[[J], R]) -> Callable[[Iterable[J]], Iterator[tuple[J, R | Lost]]]:
    """The workers of a Dask cluster; `address` is that of its scheduler, `do` does one run."""

    def execute(runs: Iterable[J]) -> Iterator[tuple[J, R | Lost]]:
        try:
            from distributed import Client, as_completed
        except ImportError:
            raise WeakformError(f"Dask is not installed; install it with: {extra('dask')}") from None
        try:
            client = Client(address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise WeakformError(f"No Dask scheduler answers at {address}: {error}.") from None
        with client:
            waiting = iter(runs)
            ahead = AHEAD * max(sum(client.nthreads().values()), 1)

            def send() -> Any:
                run = next(waiting, None)
                if run is None:
                    return None
                # The scheduler does the runs of a lost worker again, up to its allowed-failures.
                future = client.submit(do, run, pure=False, retries=MAX_DEATHS)
                flying[future] = run
                return future

            flying: dict[Any, J] = {}
            queue = as_completed([future for future in (send() for _ in range(ahead)) if future is not None])
            for future in queue:
                yield flying.pop(future), _record(future)
                following = send()
                if following is not None:
                    queue.add(following)

    return execute
