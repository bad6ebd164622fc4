"""A way to Blob storage or Batch that lets through what role assignments allow, and nothing else.

The services' own stand-ins know keys and no roles. What a request asks for is told by its method
and path. Sources: Azure documentation, "Authorize access to blobs using Microsoft Entra ID" and
"Permissions for calling data operations" of Blob storage; "Authenticate Azure Batch services with
Microsoft Entra ID" (pools go by actions, jobs and their schedules by data actions).
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from fairway_simulator.azure.serving import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_simulator.azure.rights import Rights

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers"
_BATCH = "Microsoft.Batch/batchAccounts"
_READS = frozenset({"GET", "HEAD"})
# What concerns one connection, and not the request.
_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host"})


@dataclass(frozen=True)
class Wanted:
    """An action and the scope for which it is asked; with `data` it is a data action."""

    action: str
    scope: str
    data: bool = True


def blob_action(
    account_id: str, method: str, parts: Sequence[str], query: dict[str, str]
) -> Wanted:
    """What a request to Blob storage asks for; `parts` begin with the container.

    >>> blob_action("/a", "GET", ["code", "x.zip"], {}).action.rpartition("/containers/")[2]
    'blobs/read'
    """
    if not parts:
        return Wanted(f"{_BLOBS}/read", account_id, data=False)
    scope = f"{account_id}/blobServices/default/containers/{parts[0]}"
    if len(parts) == 1 and query.get("comp") not in ("list", "batch"):
        verb = {"GET": "read", "HEAD": "read", "DELETE": "delete"}.get(method, "write")
        return Wanted(f"{_BLOBS}/{verb}", scope, data=False)
    verb = "read" if method in _READS else "delete" if _deletes(method, query) else "write"
    return Wanted(f"{_BLOBS}/blobs/{verb}", scope)


def _deletes(method: str, query: dict[str, str]) -> bool:
    return method == "DELETE" or query.get("comp") == "batch"


def batch_action(
    account_id: str, method: str, parts: Sequence[str], _query: dict[str, str]
) -> Wanted:
    """What a request to a Batch account asks for.

    >>> batch_action("/a", "POST", ["jobs"], {}).action
    'Microsoft.Batch/batchAccounts/jobs/write'
    """
    kind = {"jobs": "jobs", "jobschedules": "jobSchedules"}.get(parts[0].lower() if parts else "")
    whole = len(parts) <= 2  # deleting a task changes its job
    verb = "read" if method in _READS else "delete" if method == "DELETE" and whole else "write"
    return Wanted(f"{_BATCH}/{kind or 'pools'}/{verb}", account_id, data=kind is not None)


def refusal(forbidden: Wanted) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of the 403. Source: Azure documentation, troubleshoot 403 errors in Azure
    Blob Storage."""
    why = "This request is not authorized to perform this operation using this permission."
    code = "AuthorizationPermissionMismatch"
    if forbidden.action.startswith(_BATCH):
        # What Batch calls it is not documented.
        code, kind = "Forbidden", "application/json"
        text = json.dumps({"code": code, "message": {"lang": "en-US", "value": why}})
    else:
        kind = "application/xml"
        text = f"<Error><Code>{code}</Code><Message>{why}</Message></Error>"
    return [("x-ms-error-code", code), ("Content-Type", kind)], text.encode()


class DataPlane(Served):
    """Stands before a service on loopback, and refuses `principal` what `rights` do not allow.

    `wanted` tells what a request asks for, from method, path below the service's own, and query.
    `refused` lists what was refused.

    >>> with DataPlane(azurite_url, wanted, rights, principal) as plane:  # doctest: +SKIP
    ...     plane.url
    'http://127.0.0.1:40123/account'
    """

    def __init__(
        self,
        service: str,
        wanted: Callable[[str, Sequence[str], dict[str, str]], Wanted],
        rights: Rights,
        principal: str,
    ) -> None:
        self.service = urlsplit(service)
        self.wanted = wanted
        self.rights = rights
        self.principal = principal
        self.refused: list[Wanted] = []
        server = _Server(self)
        super().__init__(server)
        host = f"127.0.0.1:{server.server_address[1]}"
        self.url = self.service._replace(netloc=host).geturl()

    def forbidden(self, method: str, target: str) -> Wanted | None:
        """What the request asks for, where it may not go on."""
        url = urlsplit(target)
        path = url.path.removeprefix(self.service.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        wanted = self.wanted(method, [part for part in path.split("/") if part], query)
        if self.rights.allow(self.principal, wanted.action, wanted.scope, data=wanted.data):
            return None
        self.refused.append(wanted)
        return wanted


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, plane: DataPlane) -> None:
        self.plane = plane
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        if forbidden := self.server.plane.forbidden(self.command, self.path):
            self._refuse(forbidden)
            return
        service = self.server.plane.service
        connection = http.client.HTTPConnection(service.hostname or "", service.port)
        headers = {name: text for name, text in self.headers.items() if name.lower() not in _HOP}
        # Before the service this is not there: signatures say nothing of the host.
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        self._send(answer.status, answer.getheaders(), answer.read())
        connection.close()

    def _refuse(self, forbidden: Wanted) -> None:
        headers, text = refusal(forbidden)
        self._send(403, headers, text)

    def _send(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        length = len(body)
        for name, text in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = int(text)
            elif name.lower() not in (*_HOP, "content-length"):
                self.send_header(name, text)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""
