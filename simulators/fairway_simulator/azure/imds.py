"""The metadata service of one machine: tokens of its identities, its facts, and scheduled events.

Sources: Azure documentation, "How to use managed identities on an Azure VM to acquire an access
token", "Managed identities FAQ" (a machine with several identities must name one), "Azure Instance
Metadata Service" and "Scheduled Events".
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.additions import id_for
from fairway_simulator.azure.cloud import NOBODY, token_response
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.http import Answer, Request, Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.azure.store import ResourceStore

_SET = "/virtualmachinescalesets/"


class MetadataService(Server):
    """Metadata service of the machine with a resource id, a VM or an instance of a scale set, while
    the context lasts.

    `events` are scheduled for it and its neighbours; `on_start` is called with one that the machine
    has approved, which then happens immediately.
    """

    def __init__(
        self,
        store: ResourceStore,
        machine: str,
        on_start: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._machine, self._on_start = store, machine, on_start
        self.events: list[dict[str, Any]] = []
        super().__init__(self._answer)

    @property
    def name(self) -> str:
        """Name of the machine in events: an instance has its scale set's and its number."""
        owner, inside, number = self._machine.rpartition("/virtualMachines/")
        if inside and _SET in owner.lower():
            return f"{owner.rpartition('/')[2]}_{number}"
        return self._machine.rpartition("/")[2]

    def plan(self, kind: str) -> str:
        """Schedules an event for the machine; returns its id."""
        event = {
            "EventId": str(uuid.uuid4()).upper(),
            "EventType": kind,
            "ResourceType": "VirtualMachine",
            "Resources": [self.name],
            "EventStatus": "Scheduled",
            "NotBefore": "",
            "EventSource": "Platform",
        }
        self.events.append(event)
        return str(event["EventId"])

    def _answer(self, request: Request) -> Answer:
        if request.headers.get("metadata") != "true" or not request.option("api-version"):
            error = "Bad request. Required metadata header not specified"
            return Answer({"error": error}, 400)
        match request.method, request.path:
            case "POST", "/metadata/scheduledevents":
                return self._started(json.loads(request.body or b"{}"))
            case "GET", "/metadata/scheduledevents":
                events = list(self.events)
                return Answer({"DocumentIncarnation": len(events), "Events": events})
            case "GET", "/metadata/instance/compute":
                vm = id_for(self._machine.lower())
                return Answer({"name": self.name, "vmId": vm, "resourceId": self._machine})
            case "GET", "/metadata/identity/oauth2/token":
                return self._token(request)
        return Answer({"error": "Not found"}, 404)

    def _started(self, body: Any) -> Answer:
        known = {each["EventId"] for each in self.events}
        wanted = [each.get("EventId") for each in body.get("StartRequests") or ()]
        if not wanted or set(wanted) - known:
            return Answer({"error": "Bad request. No such event"}, 400)
        self.events = [each for each in self.events if each["EventId"] not in wanted]
        for each in wanted:
            self._on_start(each)
        return Answer({})

    def _token(self, request: Request) -> Answer:
        if not request.option("resource"):
            text = "Required query variable 'resource' is missing"
            return Answer({"error": "invalid_request", "error_description": text}, 400)
        own = self._identities()
        names = ("client_id", "msi_res_id", "mi_res_id")
        asked = next(filter(None, map(request.option, names)), "")
        found = [each for each in own if asked in ("", id_for(f"{each}/client"), each)]
        if len(found) != 1:
            text = "Multiple user assigned identities exist, please specify the clientId"
            text = text if found else "Identity not found"
            return Answer({"error": "invalid_request", "error_description": text}, 400)
        token = token_response(NOBODY, request.option("resource"), id_for(found[0]))
        until = int(time.time()) + int(token["expires_in"])
        return Answer({**token, "expires_on": str(until)})

    def _identities(self) -> list[str]:
        """Returns the identities of the machine, or of its scale set."""
        owner = self._machine.lower()
        if _SET in owner:
            owner = owner.partition("/virtualmachines/")[0]
        resource = self._store.get(ResourcePath(owner)) or {}
        identity = resource.get("identity") or {}
        return [each.lower() for each in identity.get("userAssignedIdentities") or ()]
