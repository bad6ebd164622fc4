"""Proxy for Blob storage or Batch that permits only what role assignments allow.

The services' own stand-ins know keys and no roles. A request's method and path determine its
action. Sources: Azure documentation, "Authorize access to blobs using Microsoft Entra ID" and
"Permissions for calling data operations" of Blob storage; "Authenticate Azure Batch services with
Microsoft Entra ID" (pools go by actions, jobs and their schedules by data actions).
"""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairway_simulator.http import Answer, Request, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_simulator.azure.rights import Rights

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers"
_BATCH = "Microsoft.Batch/batchAccounts"
_READS = frozenset({"GET", "HEAD"})
# Headers that concern one connection, and not the request.
_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host"})


@dataclass(frozen=True)
class RequestedAction:
    """A requested action and its scope; with `data` it is a data action."""

    action: str
    scope: str
    data: bool = True


def blob_action(account_id: str, method: str, parts: Sequence[str], comp: str) -> RequestedAction:
    """Returns the action of a request to Blob storage; `parts` begin with the container, `comp` is
    the parameter that distinguishes operations.

    >>> blob_action("/a", "GET", ["code", "x.zip"], "").action.rpartition("/containers/")[2]
    'blobs/read'
    """
    if not parts:
        return RequestedAction(f"{_BLOBS}/read", account_id, data=False)
    scope = f"{account_id}/blobServices/default/containers/{parts[0]}"
    if len(parts) == 1 and comp not in ("list", "batch"):
        verb = {"GET": "read", "HEAD": "read", "DELETE": "delete"}.get(method, "write")
        return RequestedAction(f"{_BLOBS}/{verb}", scope, data=False)
    deletes = method == "DELETE" or comp == "batch"
    verb = "read" if method in _READS else "delete" if deletes else "write"
    return RequestedAction(f"{_BLOBS}/blobs/{verb}", scope)


def batch_action(account_id: str, method: str, parts: Sequence[str], _comp: str) -> RequestedAction:
    """Returns the action of a request to a Batch account.

    >>> batch_action("/a", "POST", ["jobs"], "").action
    'Microsoft.Batch/batchAccounts/jobs/write'
    """
    kind = {"jobs": "jobs", "jobschedules": "jobSchedules"}.get(parts[0].lower() if parts else "")
    whole = len(parts) <= 2  # deleting a task changes its job
    verb = "read" if method in _READS else "delete" if method == "DELETE" and whole else "write"
    return RequestedAction(f"{_BATCH}/{kind or 'pools'}/{verb}", account_id, data=kind is not None)


def refusal(forbidden: RequestedAction) -> Answer:
    """Returns the 403. Source: Azure documentation, troubleshoot 403 errors in Azure Blob
    Storage."""
    why = "This request is not authorized to perform this operation using this permission."
    if forbidden.action.startswith(_BATCH):
        # Batch's error code is not documented.
        found = {"code": "Forbidden", "message": {"lang": "en-US", "value": why}}
        return Answer(found, 403, {"x-ms-error-code": "Forbidden"})
    code = "AuthorizationPermissionMismatch"
    text = f"<Error><Code>{code}</Code><Message>{why}</Message></Error>"
    headers = {"x-ms-error-code": code, "Content-Type": "application/xml"}
    return Answer(status=403, headers=headers, body=text.encode())


class DataPlane(Server):
    """Proxy for a service on loopback that refuses `principal` what `rights` do not allow.

    `wanted` determines a request's action from its method, its path below the service's own, and
    `comp`. `refused` lists refusals.

    >>> with DataPlane(azurite_url, wanted, rights, principal) as plane:  # doctest: +SKIP
    ...     plane.url
    'http://127.0.0.1:40123/account'
    """

    def __init__(
        self,
        service: str,
        wanted: Callable[[str, Sequence[str], str], RequestedAction],
        rights: Rights,
        principal: str,
    ) -> None:
        self.service = urlsplit(service)
        self.wanted = wanted
        self.rights = rights
        self.principal = principal
        self.refused: list[RequestedAction] = []
        super().__init__(self._pass_on)
        self.url = self.service._replace(netloc=f"127.0.0.1:{self.port}").geturl()

    def _pass_on(self, request: Request) -> Answer:
        parts = request.path.removeprefix(self.service.path).split("/")
        wanted = self.wanted(request.method, [*filter(None, parts)], request.option("comp"))
        if not self.rights.allow(self.principal, wanted.action, wanted.scope, data=wanted.data):
            self.refused.append(wanted)
            return refusal(wanted)
        headers = {name: text for name, text in request.headers.items() if name not in _HOP}
        connection = http.client.HTTPConnection(self.service.hostname or "", self.service.port)
        # The service need not know of this proxy: signatures do not cover the host.
        connection.request(request.method, request.target, request.body or None, headers)
        found = connection.getresponse()
        body = found.read()
        connection.close()
        own = {name: text for name, text in found.getheaders() if name.lower() not in _HOP}
        return Answer(status=found.status, headers=own, body=body)
