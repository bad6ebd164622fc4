"""The identity that reads a job's data and secrets, once for the entire process: its pod's if that
has one, and otherwise this node's own.

A pod's is its service account, vouched for by Kubernetes and exchanged for tokens; the variables
are those that AKS's workload identity gives to pods. Sources:
https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html,
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow (third case).
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from fairway_boot.files import AgentError
from fairway_boot.http import Answer, Failure, send
from fairway_boot.imds import Metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FILE, _AUTHORITY = "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"
_CLIENT, _TENANT = "AZURE_CLIENT_ID", "AZURE_TENANT_ID"
_PUBLIC = "https://login.microsoftonline.com"
_KIND = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ASSERTION = re.compile(r"[\x21-\x7e]+")
_TOKEN = re.compile(r"[\x20-\x7e]+")  # allowed in a header
_MOST = 1 << 17  # bytes of a token, and of an answer that contains one
_LONGEST = 86_400.0 * 7  # seconds of a token's lifetime
_MARGIN = 300.0  # seconds before its end from which a token is no longer used


@dataclass
class Workload:
    """The identity of the service account whose token is in a file, which Kubernetes renews."""

    file: Path
    client: str
    tenant: str
    authority: str = _PUBLIC
    _kept: dict[str, tuple[str, float]] = field(default_factory=dict)

    def bearer(self, resource: str) -> dict[str, str]:
        """Returns the authorization header for a resource. Raises Failure if Entra ID gives no
        token."""
        token, until = self._kept.get(resource, ("", 0.0))
        if time.time() > until - _MARGIN:
            token, until = self._ask(resource)
            self._kept[resource] = token, until
        return {"Authorization": f"Bearer {token}"}

    def _ask(self, resource: str) -> tuple[str, float]:
        try:
            with self.file.open("rb") as file:
                text = file.read(_MOST + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(0, "NoToken", f"{_FILE} {self.file}: {error}") from None
        if not _ASSERTION.fullmatch(text) or len(text) > _MOST:
            raise Failure(0, "NoToken", f"{_FILE} {self.file}: this is no token")
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client,
            "scope": f"{resource.rstrip('/')}/.default",
            "client_assertion_type": _KIND,
            "client_assertion": text,
        }
        url = f"{self.authority}/{self.tenant}/oauth2/v2.0/token"
        asked = time.time()
        body = send("POST", url, form=form, most=_MOST).body
        return _token(body), asked + _span(body)


@cache
def _of_pod() -> Workload | None:
    """Returns this pod's identity; None if it has none. Raises Failure if a variable is missing."""
    file = os.environ.get(_FILE)
    if not file:
        return None
    for name in (_CLIENT, _TENANT):
        if not _NAME.fullmatch(os.environ.get(name, "")):
            raise Failure(0, "NoIdentity", f"{_FILE} is set, and {name} names nothing")
    authority = (os.environ.get(_AUTHORITY) or _PUBLIC).rstrip("/")
    url = urlsplit(authority)
    # The assertion that is sent there gives access to everything that the identity may read.
    if url.scheme != "https" and url.hostname not in ("127.0.0.1", "localhost"):
        raise Failure(0, "NoIdentity", f"{_AUTHORITY} {authority!r} is no address with https://")
    return Workload(Path(file), os.environ[_CLIENT], os.environ[_TENANT], authority)


def _token(body: Any) -> str:
    found = body.get("access_token") if isinstance(body, dict) else None
    if not isinstance(found, str) or not _TOKEN.fullmatch(found):
        raise Failure(0, "BadAnswer", "the answer holds no token")
    if str(body.get("token_type", "")).lower() != "bearer":
        raise Failure(0, "BadAnswer", "the answer holds a token of another type")
    return found


def _span(body: Any) -> float:
    """Parses a lifetime in seconds: a number, or one as text."""
    found = body.get("expires_in")
    if not isinstance(found, bool) and isinstance(found, (int, str)):
        text = str(found)
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return min(float(text), _LONGEST)
    raise Failure(0, "BadAnswer", "the answer does not say how long its token lasts")


_CHOSEN = Path("/etc/fairway/identity")


def _own() -> dict[str, str]:
    """Selects the jobs' identity on a machine that has several."""
    with suppress(OSError):
        return {"msi_res_id": _CHOSEN.read_text(encoding="ascii").strip()}
    return {}


METADATA = Metadata(identity=_own())

_ROLES = "check that the nodes' identity has a role that may read it"
_HINTS = {401: _ROLES, 403: _ROLES, 404: "is it there, under this name?"}


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises a AgentError that names what is read if reading it in the block fails."""
    try:
        yield
    except Failure as failure:
        hint = _HINTS.get(failure.status, "")
        raise AgentError("no-access", f"{what} cannot be read: {failure}", hint) from None


_FEDERATED = (
    "its identity needs a federated credential for the pod's service account, and the account the "
    "annotation azure.workload.identity/client-id: kubectl describe serviceaccount"
)


def own_bearer(resource: str) -> dict[str, str]:
    """Returns the authorization header for a kind of service: with the pod's identity if it has its
    own, and then never with the node's, which all pods share. Raises AgentError or Failure if there
    is none."""
    try:
        if (pod := _of_pod()) is not None:
            return pod.bearer(resource)
    except Failure as failure:
        message = f"the pod's identity opens nothing: {failure}"
        raise AgentError("no-access", message, _FEDERATED) from None
    return METADATA.bearer(resource)


def bearer(resource: str) -> dict[str, str]:
    """Returns the header of `own_bearer`. Raises AgentError if there is no identity."""
    with reading("the node's identity"):
        return own_bearer(resource)


_API = "7.4"
_RESOURCE = "https://vault.azure.net"


@dataclass(frozen=True)
class Secret:
    """The value of a secret, and its tags."""

    value: str
    tags: dict[str, str]


@dataclass(frozen=True)
class KeyVault:
    """A vault by its address; `bearer` returns the authorization header for a resource, and
    `authority` is a file of certificates to trust."""

    address: str
    bearer: Callable[[str], dict[str, str]]
    authority: str = ""

    def read(self, name: str) -> str:
        """Returns a secret's value. Raises Failure if the vault gives none."""
        return self.look(name).value

    def look(self, name: str) -> Secret:
        """Returns a secret with its tags. Raises Failure if the vault gives none."""
        answer = self._send("GET", name)
        try:
            tags = answer.body.get("tags") or {}
            return Secret(str(answer.body["value"]), {key: str(tags[key]) for key in tags})
        except (AttributeError, KeyError, TypeError):
            raise Failure(0, "BadAnswer", f"the vault has no value for {name}") from None

    def write(self, name: str, value: str, kind: str) -> None:
        """Writes a secret; `kind` is its content type."""
        self._send("PUT", name, {"value": value, "contentType": kind})

    def _send(self, method: str, name: str, body: object = None) -> Answer:
        url = f"{self.address.rstrip('/')}/secrets/{quote(name)}?api-version={_API}"
        headers = self.bearer(_RESOURCE)
        return send(method, url, headers=headers, body=body, authority=self.authority)
