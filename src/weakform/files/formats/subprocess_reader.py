"""A separate process in which foreign libraries read foreign files.

The libraries that read SBML and Antimony are written in C++ and trust their input: a deeply nested formula crashes
them, and a few lines of functions that call one another fill the memory. They run in a child process with limits on
memory and time and without a network. It receives text and returns plain data (JSON), and the parent turns any failure
of it into a `ModelError`. PEtab problems, which contain an SBML model, are read in the same way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ...support.errors import ModelError

MAX_MEMORY_MB = 2048
"""Address space of the child in megabytes; beyond it an allocation fails and the file is refused. By judgement;
`tests/files/test_subprocess_reader.py` has files that need more."""
MAX_CPU_SECONDS = 60
"""CPU time of the child in seconds, after which the system ends it and the file is refused. By judgement;
`tests/files/test_subprocess_reader.py` has files that need more."""
EXTRA_WALL_SECONDS = 30
"""Seconds of wall time, beyond `MAX_CPU_SECONDS`, for which the parent waits for a child that does not run. It is the
only limit on Windows. By judgement."""


def run_in_subprocess(task: str, text: str, where: str) -> Any:
    """Run a task of `translation.TASKS` on a text in a child process.

    Parameters
    ----------
    task : str
        A key of `translation.TASKS`.
    text : str
        The document, or for PEtab the path of the problem.
    where : str
        Name of the document in errors.

    Returns
    -------
    object
        Plain data, as the task returns them.

    Raises
    ------
    ModelError
        If the task refuses the text, or the child crashes or exceeds its limits.
    """
    # -P: nothing is imported from the current folder of the user. One thread: each thread of a BLAS library reserves
    # address space, which counts against the limit.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    last_line = ""
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-m", "weakform.files.formats.subprocess_reader"],
            input=json.dumps([task, text, where]).encode(),
            capture_output=True,
            env=environment,
            timeout=MAX_CPU_SECONDS + EXTRA_WALL_SECONDS,
            check=False,
        )
        last_line = (child.stderr.decode(errors="replace").strip().splitlines() or [""])[-1][:200]
        answer, result = json.loads(child.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise ModelError(
            f"{where} could not be read: the library for it crashed, or needed more than {MAX_MEMORY_MB // 1024} GB or "
            f"{MAX_CPU_SECONDS} seconds. Something in it is nested too deep or repeated too often."
            + (f" Its last line of output: {last_line}" if last_line else "")
        ) from None
    if answer == "refused":
        raise ModelError(result)
    return result


def _limit_resources() -> None:
    """Limit memory and CPU time of this process, and disable its network."""
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise OSError("files must be on this machine; nothing is fetched from a network")

    socket.socket = socket.create_connection = refuse  # type: ignore[assignment,misc]
    try:
        import resource
    except ImportError:  # not available on Windows; the time limit of the parent remains
        return
    for kind, maximum in (
        (resource.RLIMIT_AS, MAX_MEMORY_MB << 20),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(kind, (limit, limit))


def main() -> None:
    """Run one task in the child: its input from standard input, its answer to standard output."""
    from . import translation

    task, text, where = json.load(sys.stdin)
    # The libraries may print to standard output: it is redirected to standard error, and the answer goes to a copy.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _limit_resources()
    try:
        answer = ["answer", translation.TASKS[task](text, where)]
    except ModelError as error:
        answer = ["refused", str(error)]
    json.dump(answer, out)
    out.flush()


if __name__ == "__main__":
    main()
