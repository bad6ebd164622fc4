"""The metadata service of one machine: tokens of its identities, what it is, what Azure plans.

Sources: Azure documentation, "How to use managed identities on an Azure VM to acquire an access
token", "Managed identities FAQ" (a machine with several identities must name one), "Azure Instance
Metadata Service" and "Scheduled Events".
"""

from __future__ import annotations

import json
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from fairway_simulator.azure.additions import id_for
from fairway_simulator.azure.identity import NOBODY, token_response
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.azure.serving import Served

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.azure.store import ResourceStore

_INSTANCE = "/virtualmachines/"


class MetadataService(Served):
    """That of the machine with a resource id, a VM or an instance of a scale set, while the
    context lasts.

    `events` are what Azure plans for it and its neighbours; `on_start` is told of one that the
    machine says it is ready for, which then happens at once.
    """

    def __init__(
        self,
        store: ResourceStore,
        machine: str,
        on_start: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._machine, self._on_start = store, machine, on_start
        self.events: list[dict[str, Any]] = []
        handler = type("Handler", (_Handler,), {"service": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}"

    @property
    def name(self) -> str:
        """The machine's name, as events call it: an instance has its scale set's and its number."""
        owner, inside, number = self._machine.rpartition("/virtualMachines/")
        whole = f"{owner.rpartition('/')[2]}_{number}" if inside and _in_a_set(owner) else ""
        return whole or self._machine.rpartition("/")[2]

    def plan(self, kind: str, not_before: str = "") -> str:
        """Announces an event for the machine; answers with its id."""
        event = {
            "EventId": str(uuid.uuid4()).upper(),
            "EventType": kind,
            "ResourceType": "VirtualMachine",
            "Resources": [self.name],
            "EventStatus": "Scheduled",
            "NotBefore": not_before,
            "EventSource": "Platform",
        }
        self.events.append(event)
        return str(event["EventId"])

    def answer(self, path: str, query: dict[str, str], body: Any = None) -> tuple[int, Any]:
        """The status and the body for a path below /metadata; what is posted has a body."""
        if path == "/metadata/scheduledevents" and body is not None:
            return self._started(body)
        if path == "/metadata/scheduledevents":
            return 200, {"DocumentIncarnation": len(self.events), "Events": list(self.events)}
        if path == "/metadata/instance/compute" and body is None:
            vm = id_for(self._machine.lower())
            return 200, {"name": self.name, "vmId": vm, "resourceId": self._machine}
        if path == "/metadata/identity/oauth2/token" and body is None:
            return self._token(query)
        return 404, {"error": "Not found"}

    def _started(self, body: Any) -> tuple[int, Any]:
        known = {each["EventId"] for each in self.events}
        wanted = [each.get("EventId") for each in body.get("StartRequests") or ()]
        if not wanted or set(wanted) - known:
            return 400, {"error": "Bad request. No such event"}
        self.events = [each for each in self.events if each["EventId"] not in wanted]
        for each in wanted:
            self._on_start(each)
        return 200, {}

    def _token(self, query: dict[str, str]) -> tuple[int, Any]:
        own = self._identities()
        asked = query.get("client_id") or query.get("msi_res_id") or query.get("mi_res_id")
        found = [each for each in own if asked in (None, id_for(f"{each}/client"), each)]
        if not found:
            return 400, {"error": "invalid_request", "error_description": "Identity not found"}
        if len(found) > 1:
            text = "Multiple user assigned identities exist, please specify the clientId"
            return 400, {"error": "invalid_request", "error_description": text}
        token = token_response(NOBODY, query["resource"], id_for(found[0]))
        until = int(time.time()) + int(token["expires_in"])
        return 200, {**token, "expires_on": str(until)}

    def _identities(self) -> list[str]:
        """The identities of the machine, those of its scale set where it is in one."""
        owner = self._machine.lower()
        if "/virtualmachinescalesets/" in owner:
            owner = owner.partition(_INSTANCE)[0]
        resource = self._store.get(ResourcePath(owner)) or {}
        identity = resource.get("identity") or {}
        return [each.lower() for each in identity.get("userAssignedIdentities") or ()]


def _in_a_set(owner: str) -> bool:
    return "/virtualmachinescalesets/" in owner.lower()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: MetadataService

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        status, found = 400, {"error": "Bad request. Required metadata header not specified"}
        if self.headers.get("Metadata") == "true" and "api-version" in query:
            body = json.loads(text or b"{}") if self.command == "POST" else None
            status, found = self.service.answer(url.path, query, body)
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""
