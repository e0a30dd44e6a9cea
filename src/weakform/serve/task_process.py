"""Worker processes for the tasks of the page, with limits on memory and time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from ..support.errors import WeakformError

MAX_WORKER_BYTES = 4 * 2**30
"""Bytes of address space of a worker. A task that needs more is refused. By judgement."""
MAX_IDLE_BYTES = 2**30
"""Bytes. A worker that has used more ends after its task, and a new one replaces it, so that the memory is freed. By
judgement."""
JOIN_SECONDS = 5.0
"""Seconds to wait for a killed process. By judgement."""
EXIT_CODE_SECONDS = 1.0
"""Seconds to wait for the exit code of a process that closed its pipe. By judgement."""


class WorkerLost(WeakformError):
    """Error for a worker that has ended, or was stopped because it took too long.

    Attributes
    ----------
    has_died : bool
        True if it ended itself or was killed from outside.
    """

    has_died = False


def run_worker(pipe: Connection, memory: int) -> None:
    """Do one task after the other, until the pipe is closed; this is what a worker process runs.

    Parameters
    ----------
    pipe : Connection
        Tasks arrive as pairs of a name and its arguments. Answers are pairs of a kind and a content: `"done"` with
        the result, or `"refused"` with an error text; a fit sends `"progress"` and `"fitted"` before.
    memory : int
        Bytes of address space.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the server ends its workers
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(ValueError, OSError):  # not every system allows the limit
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    from . import page_tasks

    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            name, arguments = pipe.recv()
            try:
                if name == "run_fit":
                    stop = _StopRequest(pipe)
                    page_tasks.run_fit(
                        **arguments, send=lambda kind, content: pipe.send((kind, content)), should_stop=stop
                    )
                    pipe.send(("done", None))
                else:
                    pipe.send(("done", page_tasks.TASKS[name](**arguments)))
            except WeakformError as error:
                pipe.send(("refused", str(error)))
            except MemoryError:
                pipe.send(("refused", f"This needs more than {memory / 2**30:.0f} GB of memory. Use fewer rows."))
            except OSError as error:
                pipe.send(("refused", error.strerror or str(error)))
            except (BrokenPipeError, EOFError):
                raise
            except Exception as error:  # a bug: it is reported, and the worker goes on
                pipe.send(("refused", f"Internal error: {type(error).__name__}: {error}"))
            # Python rarely returns memory to the system: only the end of the process frees it.
            if _measure_peak_memory() > MAX_IDLE_BYTES:
                return


def _measure_peak_memory() -> int:
    """Return the largest number of bytes that this process has used so far; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # Linux counts kilobytes


class _StopRequest:
    """Callable that returns True once the server has asked to stop."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.is_requested = pipe, False

    def __call__(self) -> bool:
        while self.pipe.poll():
            self.is_requested = self.pipe.recv() == "stop" or self.is_requested
        return self.is_requested


class Worker:
    """A worker process, seen from the server.

    Parameters
    ----------
    memory : int
        Bytes of address space.
    """

    def __init__(self, memory: int = MAX_WORKER_BYTES) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child = context.Pipe()
        self.process = context.Process(target=run_worker, args=(child, memory), daemon=True)
        self.process.start()
        child.close()

    @property
    def is_alive(self) -> bool:
        """True if the process runs."""
        return self.process.is_alive()

    def send(self, name: str, arguments: dict[str, Any]) -> None:
        """Send it a task; raises `WorkerLost` if it has ended."""
        try:
            self.pipe.send((name, arguments))
        except (BrokenPipeError, OSError):
            raise self._build_lost_error() from None

    def stop(self) -> None:
        """Ask it to stop its fit and return the best estimate so far."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self.pipe.send("stop")

    def receive(self, seconds: float) -> tuple[str, Any]:
        """Wait for its next message; it is killed if that takes too long.

        Parameters
        ----------
        seconds : float

        Returns
        -------
        tuple of str and Any
            Kind and content, see `run_worker`.
        """
        try:
            if not self.pipe.poll(max(seconds, 0.0)):
                self.kill()
                raise WorkerLost("The task took too long and was stopped.")
            return self.pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            raise self._build_lost_error() from None

    def ask(self, name: str, arguments: dict[str, Any], seconds: float) -> Any:
        """Give it a task and wait for the answer; raises an error if it is refused."""
        self.send(name, arguments)
        kind, content = self.receive(seconds)
        if kind == "refused":
            raise WeakformError(content)
        return content

    def kill(self) -> None:
        """End it without waiting for its task."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        self.process.join(JOIN_SECONDS)
        self.pipe.close()

    def _build_lost_error(self) -> WorkerLost:
        """Build the error that says how the process ended."""
        self.process.join(EXIT_CODE_SECONDS)
        code = self.process.exitcode
        # multiprocessing reports a process that a signal ended by the negative number of the signal.
        cause = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        lost = WorkerLost(f"The worker process has ended ({cause}), perhaps for lack of memory. Try again.")
        lost.has_died = True
        return lost
