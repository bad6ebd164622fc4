"""The way in for several people: a proxy signs them in, and passes the token of Entra ID, which is
verified here. What else the proxy says of a person is not looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fairway_web.door import OPEN_PATHS, SAFE, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from fairway_web.identity import Verifier
    from fairway_web.roles import Person

# That of oauth2-proxy's --pass-authorization-header and of programs, that of Container Apps and App
# Service, and that of oauth2-proxy's --pass-access-token. The first that is there is taken.
TOKEN_HEADERS = ("authorization", "x-ms-token-aad-id-token", "x-forwarded-access-token")
_NEAR = frozenset({"127.0.0.1", "localhost", "[::1]"})
_MOST = 8  # tokens that are looked at, or wait for keys, at once
_verifying: RunVar[CapacityLimiter] = RunVar("verifying")


@dataclass(frozen=True)
class BehindProxy:
    """`url` is the address that people open, such as https://runs.example.org; `audit` the file in
    which it is recorded who does what."""

    url: str
    verifier: Verifier
    audit: Path | None
    _host: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_host", urlsplit(self.url).netloc)

    def is_here(self, host: str, path: str) -> bool:
        """The proxy itself asks for the health by another name."""
        if path in OPEN_PATHS and not _NEAR.isdisjoint((host, host.rpartition(":")[0])):
            return True
        return host.lower() in (self._host, f"{self._host}:443")

    def is_wanted(self, scope: Scope, headers: Headers) -> bool:
        """Requests of our own pages, and of a link to a page, as after a sign-in."""
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return True
        is_page = not scope["path"].startswith(("/api/", "/metrics"))
        is_followed = headers.get("sec-fetch-mode") == "navigate"
        is_whole = headers.get("sec-fetch-dest") == "document"
        return scope["method"] in SAFE and is_page and is_followed and is_whole

    def is_ours(self, headers: Headers) -> bool:
        """The proxy adds the token to what a browser sends for any page: that it is there tells
        nothing. A browser says where a page is from, and a program has no cookie of the sign-in."""
        origin = headers.get("origin")
        if origin is None:
            return "sec-fetch-site" not in headers and "cookie" not in headers
        return origin == self.url

    async def person(self, headers: Headers, path: str) -> Person:
        """Whose token it is."""
        token = _token(headers)
        limiter = _limiter()
        return await to_thread.run_sync(self.verifier.person, token, limiter=limiter)


def _token(headers: Headers) -> str:
    """The one that came; Refused where there is none, or one beside another."""
    for name in TOKEN_HEADERS:
        given = headers.getlist(name)
        if not given:
            continue
        kind, _, token = given[0].partition(" ")
        if name != "authorization":
            kind, token = "bearer", given[0]
        if len(given) == 1 and kind.lower() == "bearer" and token.strip():
            return token.strip()
        raise Refused(401, "no-token", f"the header {name} holds no token of a sign-in")
    message = "nobody has signed in: the proxy passed no token of Entra ID"
    raise Refused(401, "no-token", message)


def _limiter() -> CapacityLimiter:
    try:
        return _verifying.get()
    except LookupError:
        _verifying.set(limiter := CapacityLimiter(_MOST))
        return limiter
