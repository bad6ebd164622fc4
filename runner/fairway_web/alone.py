"""The way in for one person: this machine, from pages of our own, with the token of this start.

A server on loopback can be reached by every page that its user opens, and by every user of the
machine. So each request names the host that we are (against DNS rebinding), comes from no page
of somebody else's, and has the token.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from fairway_web.door import Refused
from fairway_web.roles import ALONE

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from fairway_web.roles import Person


class ByToken:
    """`hosts` are the names, with their port or `*` for any, under which this server is reached;
    `cookie` is the name of the cookie that holds the token."""

    audit = None

    def __init__(self, token: str, hosts: Collection[str], cookie: str) -> None:
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._cookie = cookie

    def is_here(self, host: str, path: str) -> bool:
        """Against DNS rebinding."""
        name, _, port = host.partition(":")
        return host in self._hosts or (port.isdecimal() and f"{name}:*" in self._hosts)

    def is_wanted(self, scope: Scope, headers: Headers) -> bool:
        """Of a browser, only from an address that was typed, and from our own pages."""
        return headers.get("sec-fetch-site", "none") in ("none", "same-origin")

    def is_ours(self, headers: Headers) -> bool:
        """A program sends the token itself."""
        origin = headers.get("origin")
        if origin is None:
            return "authorization" in headers
        return origin == f"http://{headers['host']}"

    async def person(self, headers: Headers, path: str) -> Person:
        """The user of this machine, with the token."""
        if path == "/login" or self._has_token(headers):
            return ALONE
        hint = "open the address that `fairway serve` printed"
        raise Refused(401, "no-token", f"the token of this server is missing: {hint}")

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
