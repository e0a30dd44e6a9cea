"""Start of the server: print its address, open the browser, clean up at the end."""

from __future__ import annotations

import secrets
import signal
import socket
import webbrowser

from ..support.errors import WeakformError
from ..support.optional_imports import format_install_hint

HOST = "127.0.0.1"
"""Address of the server: only this machine can reach it."""
LISTEN_BACKLOG = 64
"""Connections that wait to be accepted; the system refuses more. By judgement."""
SHUTDOWN_SECONDS = 1
"""Seconds that open requests get to end after Ctrl-C. By judgement."""


def _exit_on_signal(*_: object) -> None:
    """End the process, so that `finally` clauses run."""
    raise SystemExit(0)


def serve(port: int | None = None, browser: bool = True) -> None:
    """Serve the page on this machine until Ctrl-C.

    Parameters
    ----------
    port : int, optional
        Port to use; a free one by default.
    browser : bool
        If True, open the page in a browser. In any case the address is printed first, on its own line.
    """
    try:
        import uvicorn

        from .app import build_application
    except ImportError:
        raise WeakformError(
            "The page needs Starlette and uvicorn, which are not installed. Install them with: "
            f"{format_install_hint('serve')}"
        ) from None
    from .jobs import JobManager

    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, 0 if port is None else port))
        except (OSError, OverflowError):
            raise WeakformError(f"Port {port} cannot be used. Give another port, or none to use a free one.") from None
        listening.listen(LISTEN_BACKLOG)
        port = int(listening.getsockname()[1])
        address = f"http://{HOST}:{port}/?token={token}"
        print(address, flush=True)
        jobs = JobManager()
        hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        config = uvicorn.Config(build_application(jobs, hosts, token), log_level="critical", access_log=False)
        config.timeout_graceful_shutdown = SHUTDOWN_SECONDS
        if browser:
            webbrowser.open(address)
        print("Press Ctrl-C to stop the server.", flush=True)
        # SIGTERM and SIGHUP would end the process before the workers and files are removed.
        for number in (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
            signal.signal(number, _exit_on_signal)
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            jobs.close()
