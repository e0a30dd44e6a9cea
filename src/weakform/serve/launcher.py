"""Start the server, say where it is, open the browser."""

from __future__ import annotations

import secrets
import signal
import socket
import webbrowser

from ..support.errors import WeakformError
from ..support.optional_imports import extra

HOST = "127.0.0.1"


def _end(*_: object) -> None:
    raise SystemExit(0)


def serve(port: int | None = None, browser: bool = True) -> None:
    """Serve the page on this machine until Ctrl-C.

    Parameters
    ----------
    port : int, optional
        A free one by default.
    browser : bool
        Whether to open the page; the address is printed in any case, first of all.
    """
    try:
        import uvicorn

        from .app import application
    except ImportError:
        raise WeakformError(f"The page needs Starlette and uvicorn: {extra('serve')}") from None
    from .jobs import Office

    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, 0 if port is None else port))
        except (OSError, OverflowError):
            raise WeakformError(f"Port {port} cannot be used; give another one, or none for a free one.") from None
        listening.listen(64)
        port = int(listening.getsockname()[1])
        address = f"http://{HOST}:{port}/?token={token}"
        print(address, flush=True)
        office = Office()
        hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        config = uvicorn.Config(application(office, hosts, token), log_level="critical", access_log=False)
        config.timeout_graceful_shutdown = 1
        if browser:
            webbrowser.open(address)
        print("Ctrl-C ends it.", flush=True)
        for one in (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
            signal.signal(one, _end)
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            office.close()
