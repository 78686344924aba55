"""The server: access control, and the answer of each address."""

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
from pam_retriever.explore.source import Method, Source

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
    """Refuses requests without the token, to another host name, or from another page.

    Args:
        app: the guarded application.
        token: required of every request except those for scripts and styles.
        hosts: allowed values of the header Host. Another value would be a name that an attacker gave to this machine.
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
        # another page may link to this one; it cannot read the response
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
    """Returns the explorer as an ASGI application.

    Args:
        source: the index.
        token: a secret.
        hosts: see ``Guard``.
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
    """Returns the page itself, which holds no data of the index."""
    return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")


def answering(make: Callable[[RequestContent], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Returns an endpoint that computes its answer in a thread, because the computation may take long."""

    async def answer(request: Request) -> Response:
        content = RequestContent(dict(request.query_params), await _body(request) if request.method == "POST" else {})
        try:
            return await run_in_threadpool(make, content)
        except PAMError as error:
            status = next((status for kind, status in STATUS if isinstance(error, kind)), 400)
            return JSONResponse(answers.problem_of(error), status)

    return answer


@dataclass(frozen=True)
class RequestContent:
    """The content of a request.

    Attributes:
        query: the query part of its address.
        body: the JSON object that was sent; empty if something else was sent. Every question refuses an empty object.
    """

    query: dict[str, str]
    body: dict[str, Any]

    def text(self, name: str) -> str:
        """Returns a value of the query; empty if it is missing."""
        return self.query.get(name, "")

    @property
    def offset(self) -> int:
        """The number of items to skip."""
        given = self.text("offset")
        return int(given) if given.isascii() and given.isdigit() and len(given) < 12 else 0


class Api:
    """The answer of each address.

    Args:
        source: the index.
    """

    def __init__(self, source: Source) -> None:
        self._source, self._maps = source, pictures.Maps()

    def health(self, _: RequestContent) -> Response:
        """Returns the contents of the index, and the changes that this page may make."""
        source = self._source
        able = {"writes": source.writes, "texts": source.texts, "checks": source.check is not None}
        able["umap"] = find_spec("umap") is not None
        return JSONResponse({**answers.health(source.index), **able, "version": __version__})

    def times(self, _: RequestContent) -> Response:
        """Returns the number of memories per interval of time."""
        return JSONResponse({"times": answers.times(self._source.index)})

    def memory(self, content: RequestContent) -> Response:
        """Returns a memory."""
        return JSONResponse(answers.whole_memory(self._source.index, content.text("id")))

    def sessions(self, content: RequestContent) -> Response:
        """Returns a page of sessions."""
        return JSONResponse(answers.sessions(self._source.index, content.text("q"), content.offset, self._source.texts))

    def session(self, content: RequestContent) -> Response:
        """Returns steps of a session."""
        return JSONResponse(answers.session(self._source.index, content.text("id"), content.offset))

    def map(self, content: RequestContent) -> Response:
        """Returns a map of all memories."""
        source = self._source
        method: Method = "umap" if content.text("method") == "umap" else "pca"
        drawn = self._maps.drawn(source.index, content.text("by") or None, source.refreshed, method)
        return Response(drawn, media_type="application/octet-stream")

    def point(self, content: RequestContent) -> Response:
        """Returns the memory of a point of the map."""
        return JSONResponse(self._maps.point(self._source.index, content.text("by") or None, content.offset))

    def ask(self, content: RequestContent) -> Response:
        """Returns both columns of an answer."""
        return JSONResponse(answers.ask(self._source.index, content.body))

    def neighbourhood(self, content: RequestContent) -> Response:
        """Returns the graph around a question."""
        return JSONResponse(pictures.neighbourhood(self._source.index, content.body))

    def export(self, content: RequestContent) -> Response:
        """Returns one question as a file."""
        return HTMLResponse(report.write(self._source.index, content.body))

    def feedback(self, content: RequestContent) -> Response:
        """Stores which hits helped. Locks the folder only for this call."""
        with self._source.writing() as writable:
            done = answers.helped(writable, content.body)
        self._source.refresh()
        return JSONResponse(done)

    def refresh(self, content: RequestContent) -> Response:
        """Updates the index to the writes of others."""
        self._source.refresh()
        return self.health(content)

    def check(self, _: RequestContent) -> Response:
        """Reads everything, and lists the damage."""
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
