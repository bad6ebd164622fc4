"""Azure as a cluster's node sees it: its identity's tokens, blobs, secrets of a vault.

A stand-in on loopback, with faults that a test can order, and roles as the other stand-ins for
Azure have them.
"""

from __future__ import annotations

import base64
import hashlib
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from fairway_simulator.azure.control_plane import READS_SECRET, forbidden
from fairway_simulator.azure.data_plane import RequestedAction, blob_action, refusal
from fairway_simulator.http import Answer, Request, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.azure.rights import Rights

CONTAINER = "datasets"
NODES = "nodes"
"""The principal of the nodes' identity."""
TENANT, CLIENT = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
"""The tenant and client ids of the pods' identity."""
_FORM = {
    "grant_type": "client_credentials",
    "client_id": CLIENT,
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
}
_SCOPE = "/.default"
_GROUP = "/subscriptions/s/resourceGroups/g/providers"
ACCOUNT = f"{_GROUP}/Microsoft.Storage/storageAccounts/lab"
VAULT = f"{_GROUP}/Microsoft.KeyVault/vaults/lab"
_PAGE = 2  # blobs per answer, so that longer listings have several pages


@dataclass
class Services:
    """Blobs of the container CONTAINER and secrets by their names.

    `faults` come first, each once: a part of an address with the status to answer with, or a part
    of a blob's name, or of the address of a list, with the bytes after which the connection breaks.
    With `rights` NODES may do only what these allow, on ACCOUNT and VAULT. `federated` are the
    tokens of pods that Entra ID knows, each of which comes with TENANT and CLIENT.
    """

    url: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    faults: list[tuple[str, int]] = field(default_factory=list)
    wrong_md5: bool = False
    requests: list[str] = field(default_factory=list)
    rights: Rights | None = None
    federated: set[str] = field(default_factory=set)

    def answer(self, request: Request) -> Answer:
        """The answer, or the refusal that was asked for."""
        self.requests.append(request.target)
        for fault in self.faults:
            if fault[0] in request.target and fault[1] >= 400:
                self.faults.remove(fault)
                return Answer(status=fault[1])
        if request.method == "POST":
            return self._exchange(request)
        if request.parts[0] == "metadata":
            # As in Azure, a POSIX time as a string.
            token = {
                "access_token": f"token for {request.option('resource')}",
                "expires_on": str(int(time.time()) + 86_400),
            }
            return Answer(token, 200 if request.headers.get("metadata") == "true" else 400)
        if request.parts[0] == "secrets":
            return self._secret(request)
        if request.headers.get("authorization") != "Bearer token for https://storage.azure.com/":
            return Answer(status=401)
        parts = [*filter(None, request.path.split("/"))]
        if not self._allows(wanted := blob_action(ACCOUNT, "GET", parts, request.option("comp"))):
            return refusal(wanted)
        if request.option("comp") == "list":
            return self._list(request)
        return self._blob(request, unquote(request.path.removeprefix(f"/{CONTAINER}/")))

    def _exchange(self, request: Request) -> Answer:
        """Exchanges the token of a pod, as Entra ID does: entra/identity-platform,
        v2-oauth2-client-creds-grant-flow."""
        form = dict(parse_qsl(request.body.decode()))
        if request.target != f"/{TENANT}/oauth2/v2.0/token":
            return Answer(status=404)
        if form.pop("client_assertion", "") not in self.federated:
            said = "AADSTS700213: No matching federated identity record found"
            return Answer({"error": "invalid_client", "error_description": said}, 401)
        if not (scope := form.pop("scope", "")).endswith(_SCOPE) or form != _FORM:
            return Answer({"error": "invalid_request"}, 400)
        resource = scope.removesuffix(_SCOPE)
        resource += "/" if "storage" in resource else ""
        token = {"token_type": "Bearer", "expires_in": 3599}
        token |= {"access_token": f"token for {resource}"}
        return Answer(token, cut=self._cut(request.target))

    def _secret(self, request: Request) -> Answer:
        name = request.path.removeprefix("/secrets/")
        if request.headers.get("authorization") != "Bearer token for https://vault.azure.net":
            return Answer(status=401)
        if not self._allows(RequestedAction(READS_SECRET, VAULT)):
            status, found = forbidden(READS_SECRET)
            return Answer(found, status)
        if name not in self.secrets:
            return Answer(status=404)
        return Answer({"value": self.secrets[name]})

    def _list(self, request: Request) -> Answer:
        """A page of blobs, as the storage writes it."""
        prefix, begin = request.option("prefix"), int(request.option("marker") or 0)
        names = sorted(name for name in self.blobs if name.startswith(prefix))
        items = "".join(self._item(name) for name in names[begin : begin + _PAGE])
        more = str(begin + _PAGE) if begin + _PAGE < len(names) else ""
        page = f"<R><Blobs>{items}</Blobs><NextMarker>{more}</NextMarker></R>"
        return Answer(body=page.encode(), cut=self._cut(request.target))

    def _blob(self, request: Request, name: str) -> Answer:
        data = self.blobs[name]
        if request.headers.get("if-match") != f'"{etag(data)}"':
            return Answer(status=412)
        begin, status = 0, 200
        if span := request.headers.get("range"):
            begin, status = int(span.removeprefix("bytes=")[:-1]), 206
        return Answer(status=status, body=data[begin:], cut=self._cut(name))

    def _allows(self, wanted: RequestedAction) -> bool:
        """True if the nodes have a role for that."""
        rights = self.rights
        return not rights or rights.allow(NODES, wanted.action, wanted.scope, data=wanted.data)

    def _item(self, name: str) -> str:
        data = self.blobs[name]
        digest = hashlib.md5(b"x" if self.wrong_md5 else data, usedforsecurity=False).digest()
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties>"
            f"<Content-Length>{len(data)}</Content-Length><Etag>{etag(data)}</Etag>"
            f"<Content-MD5>{base64.b64encode(digest).decode()}</Content-MD5></Properties></Blob>"
        )

    def _cut(self, name: str) -> int | None:
        """After how many bytes an answer breaks off, if it is to."""
        for fault in self.faults:
            if fault[0] in name and fault[1] < 400:
                self.faults.remove(fault)
                return fault[1]
        return None


def etag(data: bytes) -> str:
    """The version of a blob with this content."""
    return hashlib.sha256(data).hexdigest()[:8]


@contextmanager
def running(services: Services) -> Iterator[Services]:
    """Answers on loopback for as long as the block lasts."""
    with Server(services.answer) as server:
        services.url = server.url
        yield services
