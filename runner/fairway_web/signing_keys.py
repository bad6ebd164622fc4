"""The public keys with which Entra ID signs tokens: fetched when needed, kept, and not fetched more
often than they change."""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from fairway_web.door import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPMessage
    from typing import IO

_FRESH = 3600.0  # seconds after which they are looked at again
_LIFETIME = 24 * 3600.0  # for which they are good where nobody answers
_PAUSE = 60.0  # between two looks, however many tokens have an unknown key
_PATIENCE = 10.0
_LARGEST = 1 << 20
_MOST = 100
_LEAST_BITS = 2048


@dataclass(frozen=True)
class Published:
    """What a tenant publishes: who it says that it is, and its keys by their ids."""

    issuer: str
    keys: Mapping[str, RSAPublicKey]


@dataclass
class SigningKeys:
    """Those of one tenant, from `fetch`, which raises OSError or ValueError where there are none;
    `clock` counts seconds."""

    fetch: Callable[[], Published]
    clock: Callable[[], float] = time.monotonic
    _known: Published | None = None
    _since: float = 0.0
    _next: float = float("-inf")
    _why: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key: str) -> tuple[str, RSAPublicKey | None]:
        """The issuer, and its key of that id, if there is one; Refused where no keys are known.

        While keys are known, nobody waits for a look that another's token has made necessary."""
        known = self._known
        if known is None or key not in known.keys or self._age > _FRESH:
            self._look(waits=known is None or self._age > _LIFETIME)
        known = self._known
        if known is None or self._age > _LIFETIME:
            message = f"the keys of the sign-in cannot be fetched: {self._why}"
            raise Refused(503, "no-keys", message)
        return known.issuer, known.keys.get(key)

    @property
    def _age(self) -> float:
        return self.clock() - self._since

    def _look(self, *, waits: bool) -> None:
        if self.clock() < self._next or not self._lock.acquire(blocking=waits):
            return
        try:
            if self.clock() >= self._next:  # else another has looked meanwhile
                self._fetch()
        finally:
            self._lock.release()

    def _fetch(self) -> None:
        try:
            found = self.fetch()
            self._since = self.clock()
            self._known = found
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            self._why = str(error) or type(error).__name__
        self._next = self.clock() + _PAUSE


def fetched(login: str, tenant: str, authorities: str | None) -> Published:
    """What the tenant publishes at the address of the sign-in, over HTTPS; OSError or ValueError
    where that cannot be had. `authorities` is a file of those that are trusted in place of the
    usual ones."""
    context = ssl.create_default_context(cafile=authorities)
    about = _get(f"{login}/{tenant}/v2.0/.well-known/openid-configuration", context)
    issuer, keys_url = about.get("issuer"), about.get("jwks_uri")
    if not isinstance(issuer, str) or not _is_https(issuer, f"/{tenant}/v2.0"):
        raise ValueError(f"{login} names another issuer")
    if not isinstance(keys_url, str) or not _is_https(keys_url):
        raise ValueError(f"{login} names no address of keys")
    keys = _keys(_get(keys_url, context), issuer, tenant)
    if not keys:
        raise ValueError(f"{keys_url} has no key")
    return Published(issuer, keys)


def _is_https(address: str, end: str = "") -> bool:
    return address.startswith("https://") and address.endswith(end)


def _keys(document: Mapping[str, Any], issuer: str, tenant: str) -> dict[str, RSAPublicKey]:
    """Those that sign tokens of this issuer; the others are for somebody else."""
    found: dict[str, RSAPublicKey] = {}
    listed = document.get("keys")
    for each in listed[:_MOST] if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("kty") != "RSA":
            continue
        of = each.get("issuer", issuer)
        name = each.get("kid")
        if each.get("use", "sig") != "sig" or not isinstance(name, str) or not isinstance(of, str):
            continue
        if of.replace("{tenantid}", tenant) != issuer:
            continue
        try:
            key = jwt.PyJWK(each, algorithm="RS256").key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, RSAPublicKey) and key.key_size >= _LEAST_BITS:
            found[name] = key
    return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is signed by is read where it is, and not where somebody points to."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def _get(address: str, context: ssl.SSLContext) -> dict[str, Any]:
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context), _NoRedirect()
    )
    try:
        with opener.open(address, timeout=_PATIENCE) as answer:
            text = answer.read(_LARGEST + 1)
    except urllib.error.URLError as error:
        raise OSError(f"{address}: {getattr(error, 'reason', error)}") from None
    if len(text) > _LARGEST:
        raise ValueError(f"{address}: the answer is too large")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{address}: the answer is not the expected document")
    return found
