"""Sign-in with the token of one start of the server, or with a token of Entra ID.

A server on loopback can be reached by every page that its user opens, and by every user of the
machine. So each request names our own host (against DNS rebinding), comes from no foreign page, and
has the token. For several people a proxy signs them in and passes on their token of Entra ID, which
is verified here; nothing else that the proxy says of a person is read.
"""

from __future__ import annotations

import hmac
import secrets
import ssl
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from fairway_core.documents import Document
from fairway_core.findings import UserError
from fairway_core.project import Serve
from fairway_core.yaml_text import parse_yaml
from fairway_runner.live.management import chosen_cloud
from fairway_runner.targets.lookup import find_target, server_settings
from fairway_web.roles import ALONE, Person, Role
from fairway_web.threads import verifying

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.types import Scope

    from fairway_runner.runs.store import RunStore

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = frozenset({"/healthz"})


_SIGNED_IN = '<!doctype html><title>Fairway</title><link rel="icon" href="/static/icon.svg">\n'


class RequestDenied(Exception):
    """Error for a refused request: a status, an id for programs, and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass
class ByToken:
    """Sign-in of one person on this machine, with the token of this start. `hosts` are the names,
    with their port or `*` for any, under which this server is reached; `cookie` is the name of the
    cookie that holds the token; `code` is accepted in its place once, and is empty afterwards."""

    hosts: Collection[str]
    cookie: str
    token: str = field(default_factory=secrets.token_urlsafe, repr=False)
    code: str = field(default_factory=secrets.token_urlsafe, repr=False)
    audit: ClassVar[Path | None] = None

    @property
    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/login", self._login)]

    async def _login(self, request: Request) -> Response:
        query = request.query_params
        answer: Response = RedirectResponse("/", 303)
        if self.code and query.get("code") == self.code:
            self.code = ""
            # After a redirect from the file of `--open` a browser would not send the cookie.
            answer = HTMLResponse(_SIGNED_IN, headers={"Refresh": "0;url=/"})
        elif not self.is_token(query.get("token", "")):
            text = "this is not the token of this start: open the address that was printed\n"
            return PlainTextResponse(text, 401)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
        return answer

    def is_here(self, host: str, path: str) -> bool:
        """Returns True for a name of this server, against DNS rebinding."""
        name, colon, port = host.partition(":")
        port = port if colon else "80"  # clients leave it out
        return f"{name}:{port}" in self.hosts or (port.isdecimal() and f"{name}:*" in self.hosts)

    def is_wanted(self, scope: Scope, headers: Headers) -> bool:
        """Returns True if the answer may go to the page that asked: in a browser only for a typed
        address, and for our own pages. The login shows nothing, and asks for a secret itself."""
        return scope["path"] == "/login" or headers.get("sec-fetch-site", "none") in (
            "none",
            "same-origin",
        )

    def is_ours(self, headers: Headers) -> bool:
        """Returns True if one of our pages sent it, or a program, which sends the token itself."""
        origin = headers.get("origin")
        if origin is None:
            return "authorization" in headers
        return origin == f"http://{headers['host']}"

    async def person(self, headers: Headers, path: str) -> Person:
        """Returns the user of this machine, given the token. Raises RequestDenied for others."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if path == "/login" or (kind.lower() == "bearer" and self.is_token(given.strip())):
            return ALONE
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            found = None
        if found is not None and self.is_token(found.value):
            return ALONE
        hint = "open the address that `fairway serve` printed"
        if given or found is not None:
            message = "this is not the token of this server, which has a new one at each start"
            hint += ", or take `token` of its .fairway/serve.json"
            raise RequestDenied(401, "bad-token", f"{message}: {hint}")
        raise RequestDenied(401, "no-token", f"the token of this server is missing: {hint}")

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


# From oauth2-proxy's --pass-authorization-header and from programs; from Container Apps and App
# Service; and from oauth2-proxy's --pass-access-token. The first existing one is used.
TOKEN_HEADERS = ("authorization", "x-ms-token-aad-id-token", "x-forwarded-access-token")
_NEAR = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True)
class BehindProxy:
    """Sign-in of several people at a proxy. `url` is the public address, such as
    https://runs.example.org; `audit` the file that records everybody's actions."""

    url: str
    verifier: Verifier
    audit: Path | None
    routes: ClassVar[Sequence[BaseRoute]] = ()

    def is_here(self, host: str, path: str) -> bool:
        """Returns True for the public name; the proxy itself checks the health under a near one."""
        if path in OPEN_PATHS and not _NEAR.isdisjoint((host, host.rpartition(":")[0])):
            return True
        own = urlsplit(self.url).netloc
        return host in (own, f"{own}:443")

    def is_wanted(self, scope: Scope, headers: Headers) -> bool:
        """Returns True for our own pages, and for a link to a page, as after a sign-in."""
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return True
        is_page = not scope["path"].startswith(("/api/", "/metrics"))
        is_followed = headers.get("sec-fetch-mode") == "navigate"
        is_document = headers.get("sec-fetch-dest") == "document"
        return scope["method"] in SAFE and is_page and is_followed and is_document

    def is_ours(self, headers: Headers) -> bool:
        """Returns True if one of our pages sent it, or a program. The token proves nothing here, as
        the proxy adds it to requests of any page in the browser; but a browser says where a page is
        from, and a program has no cookie of the sign-in."""
        origin = headers.get("origin")
        if origin is None:
            return "sec-fetch-site" not in headers and "cookie" not in headers
        return origin == self.url

    async def person(self, headers: Headers, path: str) -> Person:
        """Returns the owner of the token. Raises RequestDenied if there is none, or more than
        one."""
        name = next((each for each in TOKEN_HEADERS if each in headers), None)
        if name is None:
            message = "nobody has signed in: the proxy passed no token of Entra ID"
            raise RequestDenied(401, "no-token", message)
        given = headers.getlist(name)
        kind, _, token = given[0].partition(" ")
        if name != "authorization":
            kind, token = "bearer", given[0]
        if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
            raise RequestDenied(401, "no-token", f"the header {name} holds no token of a sign-in")
        return await verifying(self.verifier.person, token.strip())


SignIn = ByToken | BehindProxy


_FRESH = 3600.0  # seconds until the keys of a tenant are fetched again
_COOL_DOWN = 60.0  # seconds between two fetches, however many tokens have unknown keys
_TIMEOUT = 10.0
_LEAST_BITS = 2048


class SigningKeys(jwt.PyJWKClient):
    """Public keys with which an Entra ID tenant signs tokens, fetched over HTTPS. `authorities` is
    a file of certificate authorities that replace the usual ones."""

    def __init__(self, login: str, tenant: str, authorities: str | None = None) -> None:
        super().__init__(
            f"{login}/{tenant}/v2.0/.well-known/openid-configuration",
            lifespan=_FRESH,
            timeout=_TIMEOUT,
            ssl_context=ssl.create_default_context(cafile=authorities),
            cooldown_duration=_COOL_DOWN,
        )
        self.issuer = ""
        self._tenant = tenant
        self._missed = float("-inf")
        self._why = ""
        self._looking = threading.Lock()

    def find(self, kid: str) -> jwt.PyJWK | None:
        """Returns the key of that id, if the tenant has one. Raises RequestDenied if the keys
        cannot be fetched. A known key never waits for a fetch that somebody else's token needs."""
        assert self.jwk_set_cache is not None
        known = self.jwk_set_cache.get()
        if known is not None and (key := self.match_kid(known.keys, kid)) is not None:
            return key
        if not self._looking.acquire(blocking=known is None):
            return None
        try:
            if time.monotonic() >= self._missed + _COOL_DOWN:
                return self.get_signing_key(kid)
        except (
            *(jwt.PyJWTError, OSError, ValueError, KeyError),
            *(TypeError, AttributeError, RecursionError),
        ) as error:
            self._missed, self._why = time.monotonic(), str(error)
        finally:
            self._looking.release()
        if self.jwk_set_cache.get() is not None:
            return None
        raise RequestDenied(
            503, "no-keys", f"the keys of the sign-in cannot be fetched: {self._why}"
        )

    def fetch_data(self) -> dict[str, Any]:
        """Returns the keys that sign tokens of this tenant, without those of other issuers."""
        about = self.document(self.uri)
        issuer, keys_url = str(about.get("issuer")), str(about.get("jwks_uri"))
        ends = issuer.endswith(f"/{self._tenant}/v2.0")
        if not (ends and issuer.startswith("https://") and keys_url.startswith("https://")):
            raise ValueError(f"{self.uri} names another issuer")
        keys = [
            each
            for each in self.document(keys_url)["keys"]
            if each.get("use", "sig") == "sig"
            and str(each.get("issuer", issuer)).replace("{tenantid}", self._tenant) == issuer
        ]
        self.issuer = issuer
        return {"keys": keys}

    def document(self, url: str) -> dict[str, Any]:
        """Returns the JSON object at an address, without following redirects."""
        reader = jwt.PyJWKClient(
            url, cache_jwk_set=False, timeout=self.timeout, ssl_context=self.ssl_context
        )
        found: dict[str, Any] = reader.fetch_data()
        return found


_ALGORITHM = "RS256"  # Entra ID's algorithm; a token cannot choose another
_LEEWAY = 60  # seconds of clock skew
_LONGEST = 1 << 14  # bytes of a token
_NEEDED = ("exp", "iat", "iss", "aud", "sub")
_ROLES = {role.title: role for role in Role}
_LONGEST_NAME = 200
_WRONG: Mapping[type[Exception], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it is for another application",
    jwt.InvalidIssuerError: "another tenant has issued it",
    jwt.InvalidSignatureError: "its signature is wrong",
    jwt.MissingRequiredClaimError: "it lacks a required claim",
}


@dataclass(frozen=True)
class Verifier:
    """Checks tokens for `audience`, the application under which people sign in."""

    keys: SigningKeys
    audience: str

    def person(self, token: str) -> Person:
        """Returns the owner of the token with their highest role. Raises RequestDenied for an
        invalid token, and for somebody without a role."""
        if len(token) > _LONGEST:
            raise _not_good("it is too long")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") != _ALGORITHM or "crit" in header:
                raise _not_good(f"it is not signed with {_ALGORITHM}")
            found = self.keys.find(str(header.get("kid")))
            key = found.key if found is not None else None
            if not isinstance(key, RSAPublicKey) or key.key_size < _LEAST_BITS:
                raise _not_good("its key is not one of the tenant's")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[_ALGORITHM],
                audience=self.audience,
                issuer=self.keys.issuer,
                leeway=_LEEWAY,
                options={"require": list(_NEEDED), "strict_aud": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError) as error:
            why = next((why for kind, why in _WRONG.items() if isinstance(error, kind)), "")
            raise _not_good(why or "it is damaged") from None
        # The directory's ID, or this application's: it stays the same when a person is renamed.
        known = claims.get("oid", claims["sub"])
        is_text = isinstance(known, str) and known.isprintable()
        if not known or not is_text or len(known) > _LONGEST_NAME:
            raise _not_good("it does not name its owner")
        given = claims.get("roles")
        given = map(str, given) if isinstance(given, list) else ()
        role = max((_ROLES[each] for each in given if each in _ROLES), default=None)
        if role is None:
            message = "you have signed in, but have no role here"
            hint = f"ask for one of the app roles {', '.join(_ROLES)} in Entra ID"
            raise RequestDenied(403, "no-role", f"{message}: {hint}")
        names = map(claims.get, ("preferred_username", "upn", "name", "azp", "appid"))
        legible = (each for each in names if isinstance(each, str) and each and each.isprintable())
        name = next(legible, known)
        return Person(known, name[:_LONGEST_NAME], role, float(claims["exp"]) + _LEEWAY)


def _not_good(why: str) -> RequestDenied:
    return RequestDenied(401, "bad-token", f"the token of the sign-in is not accepted: {why}")


AUDIT = "audit.jsonl"
_OPTIONS = {"url": "--public-url", "tenant": "--tenant", "audience": "--audience"}


def behind_proxy(store: RunStore, given: Mapping[str, str | None]) -> BehindProxy:
    """Returns the sign-in from the `given` options, and from `serve:` of fairway.yaml for the rest.
    Raises UserError if something is missing or wrong."""
    own = {name: value for name, value in given.items() if value is not None}
    try:
        said = Document(parse_yaml("{}", "options"), own).validate(Serve)
    except UserError as error:
        first = error.findings[0]
        option = _OPTIONS.get(first.path, first.path)
        why = first.message.removeprefix(f"`{first.path}`: ")
        raise UserError.of("bad-value", f"{option}: {why}", first.hint) from None
    known = server_settings().model_copy(update=said.model_dump(exclude_unset=True))
    missing = [option for name, option in _OPTIONS.items() if getattr(known, name) is None]
    if missing:
        message = f"--behind-proxy needs {', '.join(missing)}"
        hint = "give them, or write url, tenant and audience below `serve:` in fairway.yaml"
        raise UserError.of("bad-value", message, hint)
    for name in known.targets:
        find_target(name)
    cloud = chosen_cloud()
    keys = SigningKeys(cloud.login, str(known.tenant), cloud.authorities)
    return BehindProxy(str(known.url), Verifier(keys, str(known.audience)), store.base / AUDIT)
