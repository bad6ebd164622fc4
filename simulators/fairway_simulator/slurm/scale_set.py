"""A stand-in for the part of Azure that nodes of the cloud come from, on a loopback port.

One scale set through Azure Resource Manager, the metadata service of its instances, and the
vault with the cluster's key. Whoever has started it says what an instance is.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/cloud"
_TOKEN = "token"  # noqa: S105 - nothing is kept by it
_SECRET = "0" * 64

_Answer = tuple[int, Any, dict[str, str]]


@dataclass
class ScaleSet:
    """The scale set with at most `room` instances, by their numbers; `start` and `delete` are
    called with one that comes or goes."""

    room: int
    start: Callable[[str], None]
    delete: Callable[[str], None]
    instances: list[str] = field(default_factory=list)
    capacity: int = 0
    failures: dict[str, bool] = field(default_factory=dict)
    _made: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        assert self._server is not None, "it was started"
        return f"http://127.0.0.1:{self._server.server_port}"

    def serve(self) -> None:
        """Answers until `stop`."""
        handler = type("Handler", (_Handler,), {"scale_set": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self) -> None:
        """Answers no more; instances stay."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def resize(self, capacity: int) -> str:
        """Makes instances until there are so many; the operation's name."""
        with self._lock:
            self.capacity = capacity
            missing = min(capacity, self.room) - len(self.instances)
            new = [str(self._made + each) for each in range(max(0, missing))]
            self._made += len(new)
            self.instances += new
            operation = self._operation(failed=len(self.instances) < capacity)
        for instance in new:
            self.start(instance)
        return operation

    def remove(self, instances: list[str]) -> str | None:
        """Deletes these; the operation's name, or None where one of them is not there."""
        with self._lock:
            if set(instances) - set(self.instances):
                return None
            self.instances = [each for each in self.instances if each not in instances]
            self.capacity -= len(instances)
            operation = self._operation(failed=False)
        for instance in instances:
            self.delete(instance)
        return operation

    def _operation(self, *, failed: bool) -> str:
        name = f"op{len(self.failures)}"
        self.failures[name] = failed
        return name


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scale_set: ScaleSet

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        path = self.path.partition("?")[0]
        if metadata := re.fullmatch(r"(?:/as/(\d+))?(/metadata/.*)", path):
            is_metadata = self.headers.get("Metadata") == "true"
            answer = self._metadata(metadata[1], metadata[2]) if is_metadata else _refused(400)
        elif self.headers.get("Authorization") == f"Bearer {_TOKEN}":
            answer = self._resource(path, body)
        else:
            answer = _refused(401)
        self._answer(*answer)

    do_GET = do_PATCH = do_POST = do_PUT = _handle  # noqa: N815

    def _resource(self, path: str, body: dict[str, Any]) -> _Answer:
        scale_set = self.scale_set
        match self.command, path.removeprefix(ID):
            case "GET", "":
                sku = {"name": "Standard_HB176rs_v4", "tier": "Standard"}
                sku_now = {**sku, "capacity": scale_set.capacity}
                return 200, {"sku": sku_now, "properties": {"provisioningState": "Succeeded"}}, {}
            case "GET", "/virtualMachines":
                return 200, {"value": [_row(each) for each in list(scale_set.instances)]}, {}
            case "PATCH", "":
                return self._accepted(scale_set.resize(int(body["sku"]["capacity"])))
            case "POST", "/delete":
                operation = scale_set.remove([str(each) for each in body["instanceIds"]])
                return self._accepted(operation) if operation else _refused(404)
            case _, "/secrets/munge-key":
                return 200, {"value": body.get("value", _SECRET)}, {}
        name = path.removeprefix("/operations/")
        if name not in scale_set.failures:
            return _refused(404)
        if not scale_set.failures[name]:
            return 200, {"status": "Succeeded"}, {}
        error = {"code": "AllocationFailed", "message": "there is no capacity"}
        return 200, {"status": "Failed", "error": error}, {}

    def _metadata(self, instance: str | None, path: str) -> _Answer:
        match path.removeprefix("/metadata"):
            case "/identity/oauth2/token":
                until = str(int(time.time()) + 3600)
                return 200, {"access_token": _TOKEN, "expires_on": until}, {}
            case "/instance/compute" if instance is not None:
                resource = f"{ID}/virtualMachines/{instance}"
                names = {"name": f"cloud_{instance}", "vmId": f"VM-{instance}"}
                return 200, {**names, "resourceId": resource}, {}
            case "/scheduledevents":
                return 200, {"DocumentIncarnation": 1, "Events": []}, {}
        return _refused(404)

    def _accepted(self, operation: str) -> _Answer:
        url = f"{self.scale_set.url}/operations/{operation}"
        return 202, {}, {"Azure-AsyncOperation": url}

    def _answer(self, status: int, body: Any, headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


def _row(instance: str) -> dict[str, Any]:
    facts = {"vmId": f"VM-{instance}", "provisioningState": "Succeeded"}
    return {"instanceId": instance, "properties": facts}


def _refused(status: int) -> _Answer:
    return status, {"error": {"code": f"Refused{status}", "message": "see the status"}}, {}
