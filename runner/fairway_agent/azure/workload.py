"""The identity of a pod: what Kubernetes vouches for its service account, exchanged for tokens.

The variables are those that AKS's workload identity gives to pods. Sources:
https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html,
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow (third case).
Standard library only.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairway_agent.azure.http import Failure, send

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE, _CLIENT, _TENANT, _AUTHORITY = (
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_AUTHORITY_HOST",
)
_PUBLIC = "https://login.microsoftonline.com"
_KIND = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ASSERTION = re.compile(r"[\x21-\x7e]+")
_TOKEN = re.compile(r"[\x20-\x7e]+")  # what a header can hold
_MOST = 1 << 17  # bytes of a token, and of an answer with one
_LONGEST = 86_400.0 * 7  # seconds that one lasts
_MARGIN = 300.0  # in which one that ends is used no more


@dataclass
class Workload:
    """That of the service account whose token is in the file, which Kubernetes renews."""

    file: Path
    client: str
    tenant: str
    authority: str = _PUBLIC
    _kept: dict[str, tuple[str, float]] = field(default_factory=dict)

    def bearer(self, resource: str) -> dict[str, str]:
        """The header that opens a resource; Failure where Entra ID gives no token for it."""
        token, until = self._kept.get(resource, ("", 0.0))
        if time.time() > until - _MARGIN:
            token, until = self._ask(resource)
            self._kept[resource] = token, until
        return {"Authorization": f"Bearer {token}"}

    def _ask(self, resource: str) -> tuple[str, float]:
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client,
            "scope": f"{resource.rstrip('/')}/.default",
            "client_assertion_type": _KIND,
            "client_assertion": self._assertion(),
        }
        url = f"{self.authority}/{self.tenant}/oauth2/v2.0/token"
        asked = time.time()
        body = send("POST", url, form=form, most=_MOST).body
        return _token(body), asked + _span(body)

    def _assertion(self) -> str:
        try:
            with self.file.open("rb") as file:
                text = file.read(_MOST + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(0, "NoToken", f"{_FILE} {self.file}: {error}") from None
        if not _ASSERTION.fullmatch(text) or len(text) > _MOST:
            raise Failure(0, "NoToken", f"{_FILE} {self.file}: this is no token")
        return text


def of(variables: Mapping[str, str] = os.environ) -> Workload | None:
    """The pod's; None where there is none, and Failure where its variables are not whole."""
    file = variables.get(_FILE)
    if not file:
        return None
    for name in (_CLIENT, _TENANT):
        if not _NAME.fullmatch(variables.get(name, "")):
            raise Failure(0, "NoIdentity", f"{_FILE} is set, and {name} names nothing")
    authority = (variables.get(_AUTHORITY) or _PUBLIC).rstrip("/")
    url = urlsplit(authority)
    # What is sent there opens all that the identity may read.
    if url.scheme != "https" and url.hostname not in ("127.0.0.1", "localhost"):
        raise Failure(0, "NoIdentity", f"{_AUTHORITY} {authority!r} is no address with https://")
    return Workload(Path(file), variables[_CLIENT], variables[_TENANT], authority)


def _token(body: Any) -> str:
    found = body.get("access_token") if isinstance(body, dict) else None
    if not isinstance(found, str) or not _TOKEN.fullmatch(found):
        raise Failure(0, "BadAnswer", "the answer holds no token")
    if str(body.get("token_type", "")).lower() != "bearer":
        raise Failure(0, "BadAnswer", "the answer holds a token of another type")
    return found


def _span(body: Any) -> float:
    """For how many seconds it lasts: a number, or one as text."""
    found = body.get("expires_in")
    if not isinstance(found, bool) and isinstance(found, (int, str)):
        text = str(found)
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return min(float(text), _LONGEST)
    raise Failure(0, "BadAnswer", "the answer does not say how long its token lasts")
