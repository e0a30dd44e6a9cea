"""Foreign libraries read foreign files in a process of their own.

The libraries that read SBML, Antimony and PEtab are written in C++ and trust their input: a formula nested deep enough
crashes them, a few lines of functions that call one another fill the memory. They run in a child with limits on memory
and time and without a network; text goes in, plain data (JSON) come out, and whatever happens to the child is one
error here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ...support.errors import ModelError

MEGABYTES = 2048
SECONDS = 60


def ask(task: str, text: str, where: str) -> Any:
    """What `translate.TASKS[task]` makes of a text, found in a child process.

    Raises
    ------
    ModelError
        If the text is refused, or the child dies of it.
    """
    # -P: nothing is imported from the folder in which a user happens to work. Its threads would only take memory.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    said = ""
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-m", "weakform.files.formats.subprocess_reader"],
            input=json.dumps([task, text, where]).encode(),
            capture_output=True,
            env=environment,
            timeout=SECONDS + 30,
            check=False,
        )
        said = (child.stderr.decode(errors="replace").strip().splitlines() or [""])[-1][:200]
        answer, found = json.loads(child.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise ModelError(
            f"{where} could not be read: the library for it crashed, or needed more than {MEGABYTES // 1024} GB or "
            f"{SECONDS} seconds. Something in it is nested too deep or repeated too often."
            + (f" It said: {said}" if said else "")
        ) from None
    if answer == "refused":
        raise ModelError(found)
    return found


def _limit() -> None:
    """No more than so much memory and time, and no network."""
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise OSError("files must be on this machine; nothing is fetched from a network")

    socket.socket = socket.create_connection = refuse  # type: ignore[assignment,misc]
    try:
        import resource
    except ImportError:  # not there on Windows; the time limit of the parent remains
        return
    for kind, most in (
        (resource.RLIMIT_AS, MEGABYTES << 20),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))


def main() -> None:
    """The child: a task from standard input, its answer to standard output."""
    from . import translation

    task, text, where = json.load(sys.stdin)
    # What the libraries print is not the answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _limit()
    try:
        answer = ["answer", translation.TASKS[task](text, where)]
    except ModelError as error:
        answer = ["refused", str(error)]
    json.dump(answer, out)
    out.flush()


if __name__ == "__main__":
    main()
