"""A process of its own for what the page asks: bounded in memory and time, and killed where it goes too far."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from ..support.errors import WeakformError

MEMORY, LARGE = 4 * 2**30, 2**30
"""Bytes that a worker may take, and above which it makes room for another after its task."""


class Lost(WeakformError):
    """A worker that is gone, or was stopped for taking too long.

    Attributes
    ----------
    died : bool
        Whether it has ended on its own, or by another hand.
    """

    died = False


def run(pipe: Connection, memory: int) -> None:
    """The life of a worker: one task after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its workers
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    from . import page_tasks

    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            name, arguments = pipe.recv()
            try:
                if name == "run_fit":
                    stop = _Stop(pipe)
                    page_tasks.run_fit(**arguments, tell=lambda kind, what: pipe.send((kind, what)), stopped=stop)
                    pipe.send(("done", None))
                else:
                    pipe.send(("done", page_tasks.TASKS[name](**arguments)))
            except WeakformError as error:
                pipe.send(("refused", str(error)))
            except MemoryError:
                pipe.send(("refused", f"This takes more than {memory / 2**30:.0f} GB of memory; use fewer rows."))
            except OSError as error:
                pipe.send(("refused", error.strerror or str(error)))
            except (BrokenPipeError, EOFError):
                raise
            except Exception as error:  # a mistake of ours: said, and the page goes on
                pipe.send(("refused", f"This should not happen: {type(error).__name__}: {error}"))
            if _taken() > LARGE:
                return


def _taken() -> int:
    """Bytes of memory at most so far."""
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


class _Stop:
    """Whether the server has asked to stop."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.asked = pipe, False

    def __call__(self) -> bool:
        while self.pipe.poll():
            self.asked = self.pipe.recv() == "stop" or self.asked
        return self.asked


class Worker:
    """A process, seen from the server."""

    def __init__(self, memory: int = MEMORY) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=run, args=(other, memory), daemon=True)
        self.process.start()
        other.close()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self.process.is_alive()

    def send(self, name: str, arguments: dict[str, Any]) -> None:
        """Give it a task."""
        try:
            self.pipe.send((name, arguments))
        except (BrokenPipeError, OSError):
            raise self._gone() from None

    def stop(self) -> None:
        """Ask it to stop with the best so far."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self.pipe.send("stop")

    def receive(self, seconds: float) -> tuple[str, Any]:
        """What it says next."""
        try:
            if not self.pipe.poll(max(seconds, 0.0)):
                self.kill()
                raise Lost("This took too long, and was stopped.")
            return self.pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            raise self._gone() from None

    def ask(self, name: str, arguments: dict[str, Any], seconds: float) -> Any:
        """A task that has one answer."""
        self.send(name, arguments)
        kind, what = self.receive(seconds)
        if kind == "refused":
            raise WeakformError(what)
        return what

    def kill(self) -> None:
        """End it at once."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        self.process.join(5.0)
        self.pipe.close()

    def _gone(self) -> Lost:
        self.process.join(1.0)
        code = self.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        lost = Lost(f"The process that worked on this has ended ({how}), perhaps for lack of memory. Try it again.")
        lost.died = True
        return lost
