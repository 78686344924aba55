"""The server: who may ask, and which address answers what."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from pam_retriever.__about__ import __version__
from pam_retriever.errors import IndexLocked, InvalidInput, PAMError, ReadOnlyIndex, UnknownId
from pam_retriever.explore import answers, pictures, report
from pam_retriever.explore.protocol import Method, Source

STATIC = Path(__file__).parent / "static"
LONGEST_BODY = 1_000_000  # bytes
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
STATUS: tuple[tuple[type[PAMError], int], ...] = ((UnknownId, 404), (ReadOnlyIndex, 403), (IndexLocked, 409))


class Guard:
    """Lets through only who has the token and speaks to this host from this page.

    Args:
        app: what is guarded.
        token: that every request but those for scripts and styles has to bring.
        hosts: what the header Host may be: another one would be a name that somebody else gave this machine.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._problem(Request(scope))
        if problem is not None:
            await PlainTextResponse(problem, 403, HEADERS)(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in message["headers"]}
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in named)]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _problem(self, request: Request) -> str | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._hosts:
            return "This page is for this machine only."
        if origin is not None and origin not in {f"http://{name}" for name in self._hosts}:
            return "Another page asked."
        # a link in another page may lead to the page; what it finds, the other page cannot read
        elsewhere = request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        if elsewhere and request.url.path != "/":
            return "Another page asked."
        if request.url.path.startswith("/static/"):
            return None
        if request.url.path == "/":
            given = request.query_params.get("token", "")
        else:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return "The token is wrong. Open the address that the command printed."
        return None


def make_app(source: Source, token: str, hosts: frozenset[str]) -> ASGIApp:
    """The explorer as an ASGI application.

    Args:
        source: the index.
        token: a secret.
        hosts: as ``Guard``.
    """
    api = Api(source)
    gets = {
        "health": api.health,
        "memory": api.memory,
        "times": api.times,
        "sessions": api.sessions,
        "session": api.session,
        "map": api.map,
        "map/point": api.point,
    }
    posts = {
        "ask": api.ask,
        "neighbourhood": api.neighbourhood,
        "export": api.export,
        "feedback": api.feedback,
        "refresh": api.refresh,
        "check": api.check,
    }
    routes = [
        Route("/", page),
        *(Route(f"/api/{name}", answering(make)) for name, make in gets.items()),
        *(Route(f"/api/{name}", answering(make), methods=["POST"]) for name, make in posts.items()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes), token, hosts)


async def page(_: Request) -> Response:
    """The page itself, which holds nothing of the index."""
    return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")


def answering(make: Callable[[Asked], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An address whose answer is made in a thread: an index may take its time."""

    async def answer(request: Request) -> Response:
        asked = Asked(dict(request.query_params), await _body(request) if request.method == "POST" else {})
        try:
            return await run_in_threadpool(make, asked)
        except PAMError as error:
            status = next((status for kind, status in STATUS if isinstance(error, kind)), 400)
            return JSONResponse(answers.problem_of(error), status)

    return answer


@dataclass(frozen=True)
class Asked:
    """What a request brings.

    Attributes:
        query: of its address.
        body: the JSON object that was sent; empty for anything else, which every question refuses.
    """

    query: dict[str, str]
    body: dict[str, Any]

    def text(self, name: str) -> str:
        """A value of the address; empty where it has none."""
        return self.query.get(name, "")

    @property
    def offset(self) -> int:
        """How many to skip."""
        given = self.text("offset")
        return int(given) if given.isascii() and given.isdigit() and len(given) < 12 else 0


class Api:
    """What each address answers.

    Args:
        source: the index.
    """

    def __init__(self, source: Source) -> None:
        self._source, self._maps = source, pictures.Maps()

    def health(self, _: Asked) -> Response:
        """What the index holds, and what this page may do with it."""
        source = self._source
        able = {"writes": source.writes, "texts": source.texts, "checks": source.check is not None}
        able["umap"] = find_spec("umap") is not None
        return JSONResponse({**answers.health(source.index), **able, "version": __version__})

    def times(self, _: Asked) -> Response:
        """How many memories there were when."""
        return JSONResponse({"times": answers.times(self._source.index)})

    def memory(self, asked: Asked) -> Response:
        """A memory."""
        return JSONResponse(answers.whole_memory(self._source.index, asked.text("id")))

    def sessions(self, asked: Asked) -> Response:
        """A page of sessions."""
        return JSONResponse(answers.sessions(self._source.index, asked.text("q"), asked.offset, self._source.texts))

    def session(self, asked: Asked) -> Response:
        """Steps of a session."""
        return JSONResponse(answers.session(self._source.index, asked.text("id"), asked.offset))

    def map(self, asked: Asked) -> Response:
        """All memories in the plane."""
        source = self._source
        method: Method = "umap" if asked.text("method") == "umap" else "pca"
        drawn = self._maps.drawn(source.index, asked.text("by") or None, source.refreshed, method)
        return Response(drawn, media_type="application/octet-stream")

    def point(self, asked: Asked) -> Response:
        """The memory behind a point."""
        return JSONResponse(self._maps.point(self._source.index, asked.text("by") or None, asked.offset))

    def ask(self, asked: Asked) -> Response:
        """Both columns of an answer."""
        return JSONResponse(answers.ask(self._source.index, asked.body))

    def neighbourhood(self, asked: Asked) -> Response:
        """A graph around a question."""
        return JSONResponse(pictures.neighbourhood(self._source.index, asked.body))

    def export(self, asked: Asked) -> Response:
        """One question as a file."""
        return HTMLResponse(report.write(self._source.index, asked.body))

    def feedback(self, asked: Asked) -> Response:
        """Stores what helped; the folder is locked for that moment."""
        with self._source.writing() as writable:
            done = answers.helped(writable, asked.body)
        self._source.refresh()
        return JSONResponse(done)

    def refresh(self, asked: Asked) -> Response:
        """Sees what a writer wrote."""
        self._source.refresh()
        return self.health(asked)

    def check(self, _: Asked) -> Response:
        """Reads everything, and says what is damaged."""
        if self._source.check is None:
            raise InvalidInput("Got check of an index without a folder.", "a folder", "Save it first.")
        return JSONResponse({"wrong": self._source.check()})


async def _body(request: Request) -> dict[str, Any]:
    sent = b""
    async for part in request.stream():
        sent += part
        if len(sent) > LONGEST_BODY:
            return {}
    try:
        given = json.loads(sent)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}
