"""What a node of a cluster reads of Azure: its identity's tokens, blobs, secrets of a vault.

A stand-in on loopback, with faults that a test can ask for, and roles as the other stand-ins for
Azure have them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
import urllib.parse
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from fairway_simulator.azure.data_plane import Wanted, blob_action, refusal
from fairway_simulator.azure.vaults import READS_SECRET, forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_simulator.azure.rights import Rights

CONTAINER = "datasets"
NODES = "nodes"
"""The principal of the nodes' identity."""
TENANT, CLIENT = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
"""Of the identity of pods."""
_FORM = {
    "grant_type": "client_credentials",
    "client_id": CLIENT,
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
}
_SCOPE = "/.default"
_GROUP = "/subscriptions/s/resourceGroups/g/providers"
ACCOUNT = f"{_GROUP}/Microsoft.Storage/storageAccounts/lab"
VAULT = f"{_GROUP}/Microsoft.KeyVault/vaults/lab"
_PAGE = 2  # blobs in one answer, so that any listing of more has several


@dataclass
class Services:
    """Blobs of the container CONTAINER and secrets by their names.

    `faults` come first, each once: part of an address with the status that it is answered
    with, or part of a blob's name, or of the address of a list, with the bytes after which the
    connection breaks. With `rights`
    NODES may do nothing but what these allow, on ACCOUNT and VAULT. `federated` are the tokens of
    pods that Entra ID knows, of which each comes with TENANT and CLIENT.
    """

    url: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    faults: list[tuple[str, int]] = field(default_factory=list)
    wrong_md5: bool = False
    requests: list[str] = field(default_factory=list)
    rights: Rights | None = None
    federated: set[str] = field(default_factory=set)

    def refusal(self, path: str) -> int | None:
        """The status by which a request is refused, if one is to be."""
        return self._take(lambda part, fault: part in path and fault >= 400)

    def allows(self, wanted: Wanted) -> bool:
        """Whether the nodes have a role for that."""
        rights = self.rights
        return not rights or rights.allow(NODES, wanted.action, wanted.scope, data=wanted.data)

    def cut(self, name: str) -> int | None:
        """After how many bytes a blob breaks off, if it is to."""
        return self._take(lambda part, fault: part in name and fault < 400)

    def listing(self, prefix: str, begin: int) -> bytes:
        """A page of blobs, as the storage writes it."""
        names = sorted(name for name in self.blobs if name.startswith(prefix))
        items = "".join(self._item(name) for name in names[begin : begin + _PAGE])
        more = str(begin + _PAGE) if begin + _PAGE < len(names) else ""
        return f"<R><Blobs>{items}</Blobs><NextMarker>{more}</NextMarker></R>".encode()

    def _item(self, name: str) -> str:
        data = self.blobs[name]
        digest = hashlib.md5(b"x" if self.wrong_md5 else data, usedforsecurity=False).digest()
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties>"
            f"<Content-Length>{len(data)}</Content-Length><Etag>{etag(data)}</Etag>"
            f"<Content-MD5>{base64.b64encode(digest).decode()}</Content-MD5></Properties></Blob>"
        )

    def _take(self, is_meant: Any) -> int | None:
        for index, fault in enumerate(self.faults):
            if is_meant(*fault):
                return self.faults.pop(index)[1]
        return None


def etag(data: bytes) -> str:
    """The version of a blob with this content."""
    return hashlib.sha256(data).hexdigest()[:8]


@contextmanager
def running(services: Services) -> Iterator[Services]:
    """Answers on loopback for as long as the block lasts."""
    handler = type("Handler", (_Handler,), {"services": services})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    services.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield services
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _wanted(path: str, query: dict[str, str]) -> Wanted:
    parts = [part for part in path.split("/") if part]
    return blob_action(ACCOUNT, "GET", parts, query)


class _Handler(BaseHTTPRequestHandler):
    """A connection of a node."""

    protocol_version = "HTTP/1.1"
    services: Services

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        """Answers, or refuses as it was asked to."""
        self.services.requests.append(self.path)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        if (status := self.services.refusal(self.path)) is not None:
            self._send(status, b"")
        elif url.path.startswith("/metadata/"):
            known = self.headers["Metadata"] == "true"
            # As Azure's: seconds since 1970, as text.
            token = {
                "access_token": f"token for {query['resource']}",
                "expires_on": str(int(time.time()) + 86_400),
            }
            self._send(200 if known else 400, json.dumps(token).encode())
        elif url.path.startswith("/secrets/"):
            self._secret(url.path.removeprefix("/secrets/"))
        elif self.headers["Authorization"] != "Bearer token for https://storage.azure.com/":
            self._send(401, b"")
        elif not self.services.allows(wanted := _wanted(url.path, query)):
            headers, body = refusal(wanted)
            self._send(403, body, headers)
        elif query.get("comp") == "list":
            begin = int(query.get("marker") or 0)
            page = self.services.listing(query["prefix"], begin)
            self._send(200, page, length=self.services.cut(self.path))
        else:
            self._blob(urllib.parse.unquote(url.path.removeprefix(f"/{CONTAINER}/")))

    def do_POST(self) -> None:
        """Exchanges the token of a pod, as Entra ID does: entra/identity-platform,
        v2-oauth2-client-creds-grant-flow."""
        form = dict(urllib.parse.parse_qsl(self._body()))
        self.services.requests.append(self.path)
        if (status := self.services.refusal(self.path)) is not None:
            self._send(status, b"")
        elif self.path != f"/{TENANT}/oauth2/v2.0/token":
            self._send(404, b"")
        elif form.pop("client_assertion", "") not in self.services.federated:
            said = "AADSTS700213: No matching federated identity record found"
            found = {"error": "invalid_client", "error_description": said}
            self._send(401, json.dumps(found).encode())
        elif not (scope := form.pop("scope", "")).endswith(_SCOPE) or form != _FORM:
            self._send(400, json.dumps({"error": "invalid_request"}).encode())
        else:
            resource = scope.removesuffix(_SCOPE)
            resource += "/" if "storage" in resource else ""
            token = {"token_type": "Bearer", "expires_in": 3599}
            token |= {"access_token": f"token for {resource}"}
            self._send(200, json.dumps(token).encode(), length=self.services.cut(self.path))

    def _body(self) -> str:
        return self.rfile.read(int(self.headers["Content-Length"])).decode()

    def _secret(self, name: str) -> None:
        if self.headers["Authorization"] != "Bearer token for https://vault.azure.net":
            self._send(401, b"")
        elif not self.services.allows(Wanted(READS_SECRET, VAULT)):
            status, found = forbidden(READS_SECRET)
            self._send(status, json.dumps(found).encode())
        elif name not in self.services.secrets:
            self._send(404, b"")
        else:
            self._send(200, json.dumps({"value": self.services.secrets[name]}).encode())

    def _blob(self, name: str) -> None:
        data = self.services.blobs[name]
        if self.headers["If-Match"] != f'"{etag(data)}"':
            self._send(412, b"")
            return
        begin, status = 0, 200
        if "Range" in self.headers:
            begin, status = int(self.headers["Range"].removeprefix("bytes=")[:-1]), 206
        length = self.services.cut(name)
        self._send(status, data[begin:], length=length)

    def _send(
        self,
        status: int,
        body: bytes,
        headers: Sequence[tuple[str, str]] = (),
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, text in headers:
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:length])
        self.close_connection = self.close_connection or length is not None
