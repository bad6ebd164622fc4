"""Who is let in: this machine, from pages of our own, with the token of this start.

A server on loopback can be reached by every page that its user opens, and by every user of the
machine. So each request names the host that we are (against DNS rebinding), comes from no page
of somebody else's, and has the token.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1 << 20  # bytes of a request
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = frozenset({"/healthz"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer` browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets through to `app` what may be answered, and puts the headers on all answers.

    `hosts` are the names, with their port or `*` for any, under which this server is reached;
    `cookie` is the name of the cookie that holds the token.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str], cookie: str) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no websockets here: the server closes them
        answer = self._refusal(scope) or self._app
        await answer(scope, _bounded(receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._is_here(headers.get("host", "")):
            return _refuse(scope, 421, "wrong-host", "this server has another name")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refuse(scope, 403, "foreign-page", "a page of another site asked for this")
        if scope["method"] not in _SAFE and not self._is_ours(headers):
            return _refuse(scope, 403, "foreign-page", "a page of another site sent this")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return too_large(scope)
        if path in _OPEN or path == "/login" or self._has_token(headers):
            return None
        hint = "open the address that `fairway serve` printed"
        return _refuse(scope, 401, "no-token", f"the token of this server is missing: {hint}")

    def _is_here(self, host: str) -> bool:
        name, _, port = host.partition(":")
        return host in self._hosts or (port.isdecimal() and f"{name}:*" in self._hosts)

    def _is_ours(self, headers: Headers) -> bool:
        """Whether a page of ours sent it, or a program that is no browser."""
        origin = headers.get("origin")
        if origin is None:
            return "authorization" in headers
        return origin == f"http://{headers['host']}"

    def _has_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and self.is_token(found.value)

    def is_token(self, given: str) -> bool:
        """Whether this is the token of this start."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)


def too_large(scope: Scope) -> Response:
    """What is said to a request that is too long."""
    return _refuse(scope, 413, "too-large", f"more than {LARGEST_BODY:,} bytes")


def _refuse(scope: Scope, status: int, code: str, message: str) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"findings": [{"id": code, "message": message}]}, status)
    return PlainTextResponse(message + "\n", status)


def _bounded(receive: Receive) -> Receive:
    """The body of a request, of which no more is read than is allowed."""
    left = LARGEST_BODY

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
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
