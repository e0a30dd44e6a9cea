"""The server: a thin layer of HTTP over the office.

Only this machine is answered (`Host`), only the page itself (`Origin`, a token in each request); bodies are bounded.
Nothing of the machine can be read: files are those that were uploaded, by names that the server made.
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
from .jobs import Office

UPLOAD, BODY, PROJECT = 200_000_000, 2_000_000, 400_000_000
"""Bytes of a table, of another request, and of a project, in which a table is written as text."""
ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".gz", ".xlsx", ".xls", ".ods", ".parquet", ".pq")
MODELS = (".toml", ".txt", ".xml", ".sbml", ".ant")
LONGEST_NAME = 100
LONG = 300.0
"""Seconds to read a large table, or a project."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
}


class Guard:
    """Refuses what does not come from the page: other hosts, other origins, requests without the token."""

    def __init__(self, app: ASGIApp, hosts: set[str], token: str) -> None:
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)
        if refusal:
            await Response(refusal, 403, headers=HEADERS, media_type="text/plain")(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        await self.app(scope, receive, with_headers)

    def _refusal(self, request: Request) -> str:
        if request.headers.get("host", "") not in self.hosts:
            return "This server answers to this machine only."
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return "This request comes from another page."
        if request.url.path.startswith("/page/"):
            return ""
        given = request.headers.get("x-token") or request.query_params.get("token", "")
        if request.url.path.startswith("/api/"):
            given = request.headers.get("x-token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "The address lacks its token, or has an old one: open the address that weakform serve has printed."
        return ""


def _file(folder: str, name: str) -> Response:
    data = (resources.files("weakform") / folder / name).read_bytes()
    return Response(data, media_type=STATIC[Path(name).suffix])


async def _body(request: Request, most: int) -> bytes:
    """The body of a request, no longer than it may be."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise WeakformError(f"This is larger than {most // 1_000_000} MB.")
        parts.append(part)
    return b"".join(parts)


async def _asked(request: Request) -> dict[str, Any]:
    body = await _body(request, BODY)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WeakformError("A request must be a JSON object.")
    return found


def answered(act: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers with JSON, and with one clear error where there is one."""

    async def endpoint(request: Request) -> Response:
        try:
            found = await act(request)
            return found if isinstance(found, Response) else JSONResponse(_finite(found))
        except WeakformError as error:
            return JSONResponse({"error": _finite(str(error))}, 422)
        except Exception as error:  # a mistake of ours: said, and the page goes on
            return JSONResponse({"error": f"This should not happen: {type(error).__name__}."}, 422)

    return endpoint


def _finite(value: Any) -> Any:
    """What JSON can hold: no infinite numbers, no halves of letters."""
    if isinstance(value, dict):
        return {_finite(str(key)): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _named(name: str, endings: tuple[str, ...], what: str) -> str:
    """A harmless name of an upload, with the ending that it had."""
    plain = Path(name.replace("\\", "/")).name
    suffix = Path(plain).suffix.lower()
    if suffix not in endings:
        raise WeakformError(f"{plain[:80]!r} is no {what} that can be read; these can: {', '.join(endings)}.")
    stem = "".join(c if c.isalnum() or c in "-_. ()" else "_" for c in plain[: -len(suffix)])
    while len(stem.encode()) > LONGEST_NAME:
        stem = stem[:-1]
    return stem + suffix


class Endpoints:
    """What the page may ask."""

    def __init__(self, office: Office) -> None:
        self.office = office

    def routes(self) -> list[Route]:
        """All of them."""
        posts = {
            "/api/words": self.words,
            "/api/table": self.table,
            "/api/sheet": self.sheet,
            "/api/rows": self.rows,
            "/api/model": self.model,
            "/api/model-file": self.model_file,
            "/api/check": self.check,
            "/api/solve": self.solve,
            "/api/guess": self.guess,
            "/api/fit": self.fit,
            "/api/fit/{name}/stop": self.stop,
            "/api/export": self.export,
            "/api/compare": self.compare,
            "/api/gallery": self.gallery,
            "/api/open": self.open,
        }
        return [
            Route("/", lambda _: _file("serve/page", "index.html")),
            Route("/page/{name}", self.static),
            *(Route(path, answered(act), methods=["POST"]) for path, act in posts.items()),
            Route("/api/fit/{name}", answered(self.progress), methods=["GET"]),
        ]

    async def static(self, request: Request) -> Response:
        """Scripts and styles: those of the page, and those that it shares with the report."""
        name = request.path_params["name"]
        for folder in ("serve/page", "report"):
            known = [one.name for one in (resources.files("weakform") / folder).iterdir()]
            if name in known and Path(name).suffix in STATIC:
                return _file(folder, name)
        return Response("There is no such file.", 404, media_type="text/plain")

    async def ask(self, name: str, seconds: float = 60.0, **arguments: Any) -> Any:
        """A task for a worker; what it says names files as the user knows them."""
        try:
            return await run_in_threadpool(lambda: self.office.ask(name, seconds, **arguments))
        except WeakformError as error:
            raise WeakformError(self.office.plain(str(error))) from None

    async def words(self, _: Request) -> Any:
        """Names of functions, and the gallery."""
        return await self.ask("words")

    async def table(self, request: Request) -> Any:
        """A table that was dropped."""
        name = _named(request.query_params.get("name", "data.csv"), ENDINGS, "table")
        body = await _body(request, UPLOAD)
        return await self._kept(name, body)

    async def _kept(self, name: str, body: bytes) -> dict[str, Any]:
        table, folder = self.office.room()
        path = folder / name
        path.write_bytes(body)
        try:
            found = await self.ask("look_table", LONG, path=str(path))
        except WeakformError:
            self.office.drop(folder)
            raise
        self.office.keep_table(table, path)
        return {"table": table, "file": name, **found}

    async def sheet(self, request: Request) -> Any:
        """Another sheet of a table."""
        asked = await _asked(request)
        path = self.office.table(asked.get("table"))
        return await self.ask("look_table", LONG, path=str(path), sheet=asked.get("sheet"))

    async def rows(self, request: Request) -> Any:
        """Some rows of a table."""
        asked = await _asked(request)
        path, first = self.office.table(asked.get("table")), asked.get("first", 0)
        if not isinstance(first, int):
            raise WeakformError("The first row must be a whole number.")
        return {"rows": await self.ask("rows", LONG, path=str(path), sheet=asked.get("sheet"), first=first)}

    async def model(self, request: Request) -> Any:
        """What equations say."""
        asked = await _asked(request)
        text, inputs = asked.get("equations", ""), asked.get("inputs", [])
        if not isinstance(text, str) or not isinstance(inputs, list):
            raise WeakformError("Equations are text, and inputs a list of names.")
        return await self.ask("look_model", 20.0, text=text, inputs=inputs)

    async def model_file(self, request: Request) -> Any:
        """A model file that was dropped."""
        name = _named(request.query_params.get("name", "model.toml"), MODELS, "model file")
        _, folder = self.office.room()
        (folder / name).write_bytes(await _body(request, BODY))
        return await self.ask("open_model", path=str(folder / name))

    async def check(self, request: Request) -> Any:
        """What is wrong or doubtful before a fit."""
        asked = await _asked(request)
        path = self.office.table(asked.get("table"))
        found = await self.ask("check", setup=asked.get("setup"), path=str(path))
        return {kind: [self.office.plain(line) for line in lines] for kind, lines in found.items()}

    async def solve(self, request: Request) -> Any:
        """The model with the values of the sliders."""
        asked = await _asked(request)
        path = str(self.office.table(asked["table"])) if asked.get("table") else ""
        return await self.ask(
            "solve",
            20.0,
            setup=asked.get("setup") or {},
            path=path,
            values=asked.get("values") or {},
            initial=asked.get("initial") or {},
        )

    async def guess(self, request: Request) -> Any:
        """Rough values of the parameters."""
        asked = await _asked(request)
        path = self.office.table(asked.get("table"))
        return await self.ask("guess", 30.0, setup=asked.get("setup"), path=str(path))

    async def fit(self, request: Request) -> Any:
        """Begin a fit."""
        asked = await _asked(request)
        setup, table = asked.get("setup"), self.office.table(asked.get("table"))
        if not isinstance(setup, dict):
            raise WeakformError("A setup must be a JSON object.")
        limit = setup.get("time_limit", 60.0)
        limit = float(limit) if isinstance(limit, int | float) and 0 < limit <= 3600 else 60.0
        return {"fit": await run_in_threadpool(self.office.fit, setup, table, limit)}

    async def progress(self, request: Request) -> Any:
        """How far a fit is; what was found, once it is there."""
        job = self.office.job(request.path_params["name"])
        error = self.office.plain(job.error)
        return {"state": job.state, "progress": job.progress, "result": job.result, "error": error}

    async def stop(self, request: Request) -> Any:
        """Stop a fit."""
        await run_in_threadpool(self.office.job(request.path_params["name"]).stop)
        return {}

    async def export(self, request: Request) -> Any:
        """A file to take along."""
        asked = await _asked(request)
        path = str(self.office.table(asked["table"])) if asked.get("table") else ""
        saved = str(self.office.fitted(asked["fit"])) if asked.get("fit") else ""
        text = await self.ask("export", kind=asked.get("kind"), setup=asked.get("setup"), path=path, saved=saved)
        return Response(text, media_type="text/plain; charset=utf-8")

    async def compare(self, request: Request) -> Any:
        """Fits side by side."""
        asked = await _asked(request)
        fits = asked.get("fits")
        if not isinstance(fits, list) or len(fits) < 2 or not all(isinstance(one, dict) for one in fits):
            raise WeakformError("Choose two fits or more to compare.")
        paths = [(str(one.get("name")), str(self.office.fitted(one.get("fit")))) for one in fits]
        return await self.ask("side_by_side", 120.0, fits=paths)

    async def gallery(self, request: Request) -> Any:
        """A model to begin with, and its table."""
        asked = await _asked(request)
        found = await self.ask("take", entry=str(asked.get("name")))
        return {**found, "table": await self._kept(found["file"], found["text"].encode())}

    async def open(self, request: Request) -> Any:
        """A project: its table, and its fits, each in a place of its own."""
        _, folder = self.office.room()
        (folder / "project.json").write_bytes(await _body(request, PROJECT))
        try:
            found = await self.ask("open_project", LONG, folder=str(folder))
        except WeakformError:
            self.office.drop(folder)
            raise
        (folder / "project.json").unlink()
        table = None
        if found["table"] is not None:
            name = _named(found["table"], ENDINGS, "table")
            table = await self._kept(name, (folder / "table").read_bytes())
        for one, path in zip(found["fits"], found.pop("saved"), strict=True):
            one["fit"], _ = self.office.room()
            self.office.saved[one["fit"]] = Path(path)
        return {**found, "table": table}


def application(office: Office, hosts: set[str], token: str) -> ASGIApp:
    """The server, guarded."""
    return Guard(Starlette(routes=Endpoints(office).routes()), hosts, token)
