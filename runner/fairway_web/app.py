"""The application: its routes and errors, and access control."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from fairway_core.findings import UserError
from fairway_web.actions import metrics
from fairway_web.api import api, problem
from fairway_web.auth import OPEN_PATHS, SAFE, RequestDenied, SignIn
from fairway_web.pages import PAGES, problem_page
from fairway_web.roles import ALONE, OPEN, RequestContext, in_context, requiring, route
from fairway_web.runs import Runs, query_error
from fairway_web.submit_page import SUBMIT_PAGES
from fairway_web.threads import Follower, Site, file_error, reading, site_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from fairway_runner.runs.store import RunStore
    from fairway_web.api import Handler

LARGEST_BODY = 1 << 20  # bytes of a request's body
_PATIENCE = 60.0  # seconds to receive the entire body
_MOST_REQUESTS = 64  # at once per user, if there are several; includes live logs
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer` browsers would send `Origin: null` with this site's forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Middleware that passes permitted requests to `app`, and sets the headers of all answers."""

    def __init__(self, app: ASGIApp, sign_in: SignIn) -> None:
        self._app = app
        self._sign_in = sign_in
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # no websockets: the app closes them
            await self._app(scope, receive, send)
            return
        receive, send = _bounded(receive), _with_headers(send)
        try:
            context = await self._context(scope)
        except RequestDenied as refused:
            answer = _refuse(scope, refused.status, refused.code, refused.message)
            await answer(scope, receive, send)
            return
        self._open[context.person.id] += 1
        try:
            with in_context(context):
                await _until(context.person.ends, self._app, scope, receive, send)
        finally:
            self._open[context.person.id] -= 1

    async def _context(self, scope: Scope) -> RequestContext:
        headers, path, sign_in = Headers(scope=scope), scope["path"], self._sign_in
        if not sign_in.is_here(headers.get("host", "").lower(), path):
            raise RequestDenied(421, "wrong-host", "this server has another name")
        if not sign_in.is_wanted(scope, headers):
            raise RequestDenied(403, "foreign-page", "a page of another site asked for this")
        if scope["method"] not in SAFE and not sign_in.is_ours(headers):
            raise RequestDenied(403, "foreign-page", "a page of another site sent this")
        if path in OPEN_PATHS:
            return RequestContext(ALONE)
        person = await sign_in.person(headers, path)
        if person.is_named and self._open[person.id] >= _MOST_REQUESTS:
            message = (
                f"{_MOST_REQUESTS} of your requests are answered at once: wait for one of them"
            )
            raise RequestDenied(429, "too-many-requests", message)
        return RequestContext(person, sign_in.audit)


async def _until(ends: float, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers the request. A stream that outlasts the token ends with it, and the reader reconnects
    with another. Requests that change something always complete."""
    if ends == float("inf") or scope["method"] not in SAFE:
        await app(scope, receive, send)
        return
    begun = False

    async def noted(message: Message) -> None:
        nonlocal begun
        begun = begun or message["type"] == "http.response.start"
        await send(message)

    with anyio.move_on_after(max(0.0, ends - time.time())) as limit:
        await app(scope, receive, noted)
    if limit.cancelled_caught and begun:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    elif limit.cancelled_caught:
        answer = _refuse(scope, 401, "bad-token", "the token of the sign-in has expired meanwhile")
        await answer(scope, receive, send)


def _refuse(scope: Scope, status: int, code: str, message: str) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"findings": [{"id": code, "message": message}]}, status)
    return PlainTextResponse(message + "\n", status)


def _bounded(receive: Receive) -> Receive:
    left, end = LARGEST_BODY, anyio.current_time() + _PATIENCE

    async def bounded() -> Message:
        nonlocal left, end
        with anyio.move_on_after(end - anyio.current_time()) as limit:
            message = await receive()
        if limit.cancelled_caught:
            return {"type": "http.disconnect"}
        if not message.get("more_body", False):
            end = float("inf")  # the next message is the caller's disconnect
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return bounded


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers


def application(store: RunStore, sign_in: SignIn, follower: Follower | None = None) -> Guard:
    """Returns the server of one project's runs, with this kind of sign-in."""
    site = Site(Runs(store.base), follower)
    static = StaticFiles(packages=[("fairway_web", "static")])
    app = Starlette(
        routes=[
            *sign_in.routes,
            *PAGES,
            *SUBMIT_PAGES,
            route(OPEN, "/healthz", _healthy),
            route("look", "/metrics", _metrics),
            Mount("/static", requiring("look", "GET /static", static)),
            Mount("/api/v1", api(site, _HANDLERS)),
        ],
        exception_handlers=_HANDLERS,
        lifespan=_refreshing,
    )
    app.state.site = site
    # Behind a proxy, which alone speaks TLS, a redirect would lead to http://.
    app.router.redirect_slashes = False
    return Guard(app, sign_in)


@asynccontextmanager
async def _refreshing(app: Starlette) -> AsyncIterator[None]:
    refresher = app.state.site.refresher
    refresher.start()
    try:
        yield
    finally:
        refresher.end()


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _metrics(request: Request) -> Response:
    site = site_of(request)
    site.refresher.watch()
    text = await reading(metrics, site.runs)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _problem(request: Request, error: Exception) -> Response:
    status: int | None = None
    headers: Mapping[str, str] = {}
    match error:
        case ClientDisconnect():  # if the caller has disconnected, nobody reads the answer
            message = f"more than {LARGEST_BODY:,} bytes, or sent for longer than {_PATIENCE:g} s"
            return _refuse(request.scope, 413, "too-large", message)
        case HTTPException():
            status, headers = error.status_code, error.headers or {}
            id_, hint = "no-such-page", "the first page is /"
            if status == 405:  # another route of this path may take another method
                near = (each for each in request.app.routes if each.matches(request.scope)[0].value)
                known = {name for each in near for name in getattr(each, "methods", ())}
                allowed = ", ".join(sorted(known)) or "GET, HEAD"  # without: a file
                headers = {"Allow": allowed}
                id_, hint = "wrong-method", f"this path takes {allowed}"
            error = UserError.of(id_, str(error.detail), hint)
        case RequestValidationError():
            error = query_error(error.errors())
        case OSError():
            error = file_error(error)
    assert isinstance(error, UserError)
    answer: Response = problem(error, status)
    if not request.url.path.startswith("/api/"):
        answer = problem_page(error, answer.status_code)
    answer.headers.update(headers)
    return answer


_HANDLERS: Mapping[Any, Handler] = dict.fromkeys(
    (UserError, OSError, HTTPException, RequestValidationError, ClientDisconnect), _problem
)
