"""The metadata service of one machine: which it is, and tokens of its identities.

Sources: Azure documentation, "How to use managed identities on an Azure VM to acquire an access
token" and "Managed identities FAQ" (a machine with several identities must name one).
"""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from fairway_simulator.azure.additions import id_for
from fairway_simulator.azure.identity import NOBODY, token_response
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.azure.serving import Served

if TYPE_CHECKING:
    from fairway_simulator.azure.store import ResourceStore

_INSTANCE = "/virtualmachines/"


class MetadataService(Served):
    """That of the machine with a resource id, a VM or an instance of a scale set, while the
    context lasts."""

    def __init__(self, store: ResourceStore, machine: str) -> None:
        self._store, self._machine = store, machine
        handler = type("Handler", (_Handler,), {"service": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """The status and the body for a path below /metadata."""
        if path == "/metadata/instance/compute":
            mine = ResourcePath(self._machine)
            facts = {"name": mine.name, "vmId": id_for(mine.key), "resourceId": self._machine}
            return 200, facts
        if path != "/metadata/identity/oauth2/token":
            return 404, {"error": "Not found"}
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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: MetadataService

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        status, found = 400, {"error": "Bad request. Required metadata header not specified"}
        if self.headers.get("Metadata") == "true" and "api-version" in query:
            status, found = self.service.answer(url.path, query)
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""
