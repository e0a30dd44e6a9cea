"""The HTTP server of the page: a thin layer over `jobs`, which runs the tasks.

The server answers requests from this machine only (`Host`) and from its own page only (`Origin`, and a token in each
request). The size of requests is limited. No file of the machine can be read: the only files are uploads, under names
that the server generates.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..support.errors import WeakformError
from .jobs import MAX_TIME_LIMIT, SHORT_TASK_SECONDS, JobManager

MAX_UPLOAD_BYTES = 200_000_000
"""Bytes of a table. Larger uploads are refused. By judgement."""
MAX_REQUEST_BYTES = 2_000_000
"""Bytes of a model file or of a request in JSON. Larger ones are refused. By judgement."""
MAX_PROJECT_BYTES = 400_000_000
"""Bytes of a project. Larger ones are refused. By judgement: twice a table, which a project holds as base64 text."""
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".gz", ".xlsx", ".xls", ".ods", ".parquet", ".pq")
"""Suffixes of files that can be uploaded as tables."""
MODEL_SUFFIXES = (".toml", ".txt", ".xml", ".sbml", ".ant")
"""Suffixes of files that can be uploaded as models."""
MAX_NAME_BYTES = 100
"""Bytes of the stem of an uploaded file's name; the rest is cut off. By judgement: file systems allow 255."""
READING_SECONDS = 300.0
"""Seconds to read a large table or a project, before the worker is stopped. By judgement."""
MODEL_SECONDS = 20.0
"""Seconds to parse equations or to solve the model for the sliders: both follow typing and dragging. By judgement."""
GUESS_SECONDS = 30.0
"""Seconds of a rough guess, before the worker is stopped. By judgement: well above `page_tasks.GUESS_TIME_LIMIT`."""
COMPARISON_SECONDS = 120.0
"""Seconds of a comparison of fits, before the worker is stopped. By judgement."""
DEFAULT_TIME_LIMIT = 60.0
"""Seconds of a fit whose settings have no valid limit: the worker refuses such settings anyway."""
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own scripts, and nothing from another server."""
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
}
"""Media types of the files of the page; files with other suffixes are not served."""


class RequestGuard:
    """Middleware that refuses requests which do not come from the page: other hosts or origins, or a wrong token.

    Attributes
    ----------
    app : ASGI application
    hosts : set of str
        Values of the header `Host` that are accepted.
    token : str
        Secret that each request must carry.
    """

    def __init__(self, app: ASGIApp, hosts: set[str], token: str) -> None:
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with security headers added to its answer, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._find_refusal(request)
        if refusal:
            await Response(refusal, 403, headers=SECURITY_HEADERS, media_type="text/plain")(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in SECURITY_HEADERS.items()),
                ]
            await send(message)

        await self.app(scope, receive, with_headers)

    def _find_refusal(self, request: Request) -> str:
        """Return why a request is refused; empty if it is accepted."""
        if request.headers.get("host", "") not in self.hosts:
            return "This server only answers requests from this machine."
        # Browsers name the origin of a request by a page: those of other pages must not reach the server.
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return "This request comes from a page of another origin."
        # Scripts and styles hold no data, and the tags that load them cannot send a token.
        if request.url.path.startswith("/page/"):
            return ""
        token = request.headers.get("x-token") or request.query_params.get("token", "")
        # Tasks need the token in a header, which a link or a form of another page cannot set.
        if request.url.path.startswith("/api/"):
            token = request.headers.get("x-token", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return "The token in the address is missing or out of date. Open the address that weakform serve printed."
        return ""


def _serve_file(folder: str, name: str) -> Response:
    """Answer with a file of the package."""
    data = (resources.files("weakform") / folder / name).read_bytes()
    return Response(data, media_type=MEDIA_TYPES[Path(name).suffix])


async def _read_body(request: Request, max_bytes: int) -> bytes:
    """Read the body of a request; raises an error if it is longer than `max_bytes`."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise WeakformError(f"The request is too large: at most {max_bytes // 1_000_000} MB are accepted.")
        parts.append(part)
    return b"".join(parts)


async def _read_json(request: Request) -> dict[str, Any]:
    """Read the JSON object in the body of a request."""
    body = await _read_body(request, MAX_REQUEST_BYTES)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        content = None
    if not isinstance(content, dict):
        raise WeakformError("The body of a request must be a JSON object.")
    return content


def answer_as_json(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint: its result is sent as JSON, an error as `{"error": text}` with status 422."""

    async def endpoint(request: Request) -> Response:
        try:
            result = await handler(request)
            return result if isinstance(result, Response) else JSONResponse(_replace_non_finite(result))
        except WeakformError as error:
            return JSONResponse({"error": _replace_non_finite(str(error))}, 422)
        except Exception as error:  # a bug: it is reported, and the server goes on
            return JSONResponse({"error": f"Internal error: {type(error).__name__}."}, 422)

    return endpoint


def _replace_non_finite(value: Any) -> Any:
    """Convert a value to what JSON can hold: None for numbers that are not finite, no unpaired surrogates in text."""
    if isinstance(value, dict):
        return {_replace_non_finite(str(key)): _replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _clean_file_name(name: str, suffixes: tuple[str, ...], kind: str) -> str:
    """Return a harmless name for an uploaded file, with its suffix.

    Parameters
    ----------
    name : str
        The name that the browser sent.
    suffixes : tuple of str
        Accepted suffixes, in lower case and with their dots.
    kind : str
        What the file should be, for the error.

    Returns
    -------
    str
    """
    file_name = Path(name.replace("\\", "/")).name
    suffix = Path(file_name).suffix.lower()
    if suffix not in suffixes:
        raise WeakformError(
            f"{file_name[:80]!r} cannot be read as a {kind}: its name must end in one of {', '.join(suffixes)}."
        )
    stem = "".join(c if c.isalnum() or c in "-_. ()" else "_" for c in file_name[: -len(suffix)])
    # Whole characters are cut off, because a cut within the bytes of one would not be valid UTF-8.
    while len(stem.encode()) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return stem + suffix


class Endpoints:
    """The requests that the page can make; each method answers one of them.

    Attributes
    ----------
    jobs : JobManager
        Runs the tasks and keeps the files.
    """

    def __init__(self, jobs: JobManager) -> None:
        self.jobs = jobs

    def build_routes(self) -> list[Route]:
        """Return all routes."""
        posts = {
            "/api/words": self.list_words,
            "/api/table": self.upload_table,
            "/api/sheet": self.describe_sheet,
            "/api/rows": self.read_rows,
            "/api/model": self.parse_equations,
            "/api/model-file": self.upload_model_file,
            "/api/check": self.check_settings,
            "/api/solve": self.solve_model,
            "/api/guess": self.guess_parameters,
            "/api/fit": self.start_fit,
            "/api/fit/{name}/stop": self.stop_fit,
            "/api/export": self.export_file,
            "/api/compare": self.compare_fits,
            "/api/gallery": self.open_example,
            "/api/open": self.open_project,
        }
        return [
            Route("/", lambda _: _serve_file("serve/page", "index.html")),
            Route("/page/{name}", self.serve_static),
            *(Route(path, answer_as_json(act), methods=["POST"]) for path, act in posts.items()),
            Route("/api/fit/{name}", answer_as_json(self.report_progress), methods=["GET"]),
        ]

    async def serve_static(self, request: Request) -> Response:
        """Answer with a script or style sheet, of the page or of the report."""
        name = request.path_params["name"]
        for folder in ("serve/page", "report"):
            available = [file.name for file in (resources.files("weakform") / folder).iterdir()]
            if name in available and Path(name).suffix in MEDIA_TYPES:
                return _serve_file(folder, name)
        return Response("No such file.", 404, media_type="text/plain")

    async def ask_worker(self, name: str, seconds: float = SHORT_TASK_SECONDS, **arguments: Any) -> Any:
        """Let a worker do a task; errors name uploaded files as the user knows them.

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
            return await run_in_threadpool(lambda: self.jobs.ask_worker(name, seconds, **arguments))
        except WeakformError as error:
            raise WeakformError(self.jobs.strip_folders(str(error))) from None

    async def list_words(self, _: Request) -> Any:
        """Return the names of functions for the editor, and the list of examples."""
        return await self.ask_worker("words")

    async def upload_table(self, request: Request) -> Any:
        """Receive an uploaded table."""
        name = _clean_file_name(request.query_params.get("name", "data.csv"), TABLE_SUFFIXES, "table")
        body = await _read_body(request, MAX_UPLOAD_BYTES)
        return await self._store_table(name, body)

    async def _store_table(self, name: str, body: bytes) -> dict[str, Any]:
        """Store a table and describe it; it is removed again if it cannot be read."""
        table, folder = self.jobs.make_folder()
        path = folder / name
        path.write_bytes(body)
        try:
            description = await self.ask_worker("look_table", READING_SECONDS, path=str(path))
        except WeakformError:
            self.jobs.remove_folder(folder)
            raise
        self.jobs.keep_table(table, path)
        return {"table": table, "file": name, **description}

    async def describe_sheet(self, request: Request) -> Any:
        """Describe another sheet of a table."""
        content = await _read_json(request)
        path = self.jobs.find_table(content.get("table"))
        return await self.ask_worker("look_table", READING_SECONDS, path=str(path), sheet=content.get("sheet"))

    async def read_rows(self, request: Request) -> Any:
        """Return some rows of a table."""
        content = await _read_json(request)
        path, first = self.jobs.find_table(content.get("table")), content.get("first", 0)
        if not isinstance(first, int):
            raise WeakformError("The first row must be a whole number.")
        return {
            "rows": await self.ask_worker(
                "rows", READING_SECONDS, path=str(path), sheet=content.get("sheet"), first=first
            )
        }

    async def parse_equations(self, request: Request) -> Any:
        """Parse equations."""
        content = await _read_json(request)
        text, inputs = content.get("equations", ""), content.get("inputs", [])
        if not isinstance(text, str) or not isinstance(inputs, list):
            raise WeakformError("The equations must be text, and the inputs a list of names.")
        return await self.ask_worker("look_model", MODEL_SECONDS, text=text, inputs=inputs)

    async def upload_model_file(self, request: Request) -> Any:
        """Receive an uploaded model file."""
        name = _clean_file_name(request.query_params.get("name", "model.toml"), MODEL_SUFFIXES, "model file")
        _, folder = self.jobs.make_folder()
        (folder / name).write_bytes(await _read_body(request, MAX_REQUEST_BYTES))
        return await self.ask_worker("open_model", path=str(folder / name))

    async def check_settings(self, request: Request) -> Any:
        """Check model and data before a fit."""
        content = await _read_json(request)
        path = self.jobs.find_table(content.get("table"))
        findings = await self.ask_worker("check", setup=content.get("setup"), path=str(path))
        return {kind: [self.jobs.strip_folders(line) for line in lines] for kind, lines in findings.items()}

    async def solve_model(self, request: Request) -> Any:
        """Solve the model with the values of the sliders."""
        content = await _read_json(request)
        path = str(self.jobs.find_table(content["table"])) if content.get("table") else ""
        return await self.ask_worker(
            "solve",
            MODEL_SECONDS,
            setup=content.get("setup") or {},
            path=path,
            values=content.get("values") or {},
            initial=content.get("initial") or {},
        )

    async def guess_parameters(self, request: Request) -> Any:
        """Estimate the parameters roughly."""
        content = await _read_json(request)
        path = self.jobs.find_table(content.get("table"))
        return await self.ask_worker("guess", GUESS_SECONDS, setup=content.get("setup"), path=str(path))

    async def start_fit(self, request: Request) -> Any:
        """Start a fit; returns its name."""
        content = await _read_json(request)
        setup, table = content.get("setup"), self.jobs.find_table(content.get("table"))
        if not isinstance(setup, dict):
            raise WeakformError("The settings of a fit must be a JSON object.")
        limit = setup.get("time_limit", DEFAULT_TIME_LIMIT)
        is_valid = isinstance(limit, int | float) and 0 < limit <= MAX_TIME_LIMIT
        limit = float(limit) if is_valid else DEFAULT_TIME_LIMIT
        return {"fit": await run_in_threadpool(self.jobs.start_fit, setup, table, limit)}

    async def report_progress(self, request: Request) -> Any:
        """Report the state of a fit, and its result once it exists."""
        job = self.jobs.find_job(request.path_params["name"])
        error = self.jobs.strip_folders(job.error)
        return {"state": job.state, "progress": job.progress, "result": job.result, "error": error}

    async def stop_fit(self, request: Request) -> Any:
        """Stop a fit."""
        await run_in_threadpool(self.jobs.find_job(request.path_params["name"]).stop)
        return {}

    async def export_file(self, request: Request) -> Any:
        """Return a file to download."""
        content = await _read_json(request)
        path = str(self.jobs.find_table(content["table"])) if content.get("table") else ""
        saved = str(self.jobs.find_saved_fit(content["fit"])) if content.get("fit") else ""
        text = await self.ask_worker(
            "export", kind=content.get("kind"), setup=content.get("setup"), path=path, saved=saved
        )
        return Response(text, media_type="text/plain; charset=utf-8")

    async def compare_fits(self, request: Request) -> Any:
        """Compare fits."""
        content = await _read_json(request)
        fits = content.get("fits")
        if not isinstance(fits, list) or len(fits) < 2 or not all(isinstance(entry, dict) for entry in fits):
            raise WeakformError("A comparison needs at least two fits. Select two or more.")
        paths = [(str(entry.get("name")), str(self.jobs.find_saved_fit(entry.get("fit")))) for entry in fits]
        return await self.ask_worker("side_by_side", COMPARISON_SECONDS, fits=paths)

    async def open_example(self, request: Request) -> Any:
        """Return an example: its settings and its table."""
        content = await _read_json(request)
        example = await self.ask_worker("take", entry=str(content.get("name")))
        return {**example, "table": await self._store_table(example["file"], example["text"].encode())}

    async def open_project(self, request: Request) -> Any:
        """Open a project: store its table and its fits, each in its own folder."""
        _, folder = self.jobs.make_folder()
        (folder / "project.json").write_bytes(await _read_body(request, MAX_PROJECT_BYTES))
        try:
            project = await self.ask_worker("open_project", READING_SECONDS, folder=str(folder))
        except WeakformError:
            self.jobs.remove_folder(folder)
            raise
        (folder / "project.json").unlink()  # its parts are in separate files now
        table = None
        if project["table"] is not None:
            name = _clean_file_name(project["table"], TABLE_SUFFIXES, "table")
            table = await self._store_table(name, (folder / "table").read_bytes())
        for entry, path in zip(project["fits"], project.pop("saved"), strict=True):
            entry["fit"], _ = self.jobs.make_folder()
            self.jobs.saved[entry["fit"]] = Path(path)
        return {**project, "table": table}


def build_application(jobs: JobManager, hosts: set[str], token: str) -> ASGIApp:
    """Build the application of the server: all routes behind the guard.

    Parameters
    ----------
    jobs : JobManager
    hosts : set of str
        Values of the header `Host` that are accepted.
    token : str
        Secret that each request must carry.

    Returns
    -------
    ASGI application
    """
    return RequestGuard(Starlette(routes=Endpoints(jobs).build_routes()), hosts, token)
