"""Requests for the subresources of a pod: eviction, logs and exec.

One thread copies bytes between two connections, as TLS connections allow no more.
"""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from fairway_simulator.faults import ENDLESS
from fairway_simulator.http import Answer, Takeover
from fairway_simulator.kubernetes.api import objects
from fairway_simulator.kubernetes.api.requests import ApiError, bad_request, unknown_resource
from fairway_simulator.kubernetes.api.resources import NODES, PODS
from fairway_simulator.kubernetes.events import with_condition

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.api.requests import ApiRequest, ObjectPath
    from fairway_simulator.kubernetes.api.store import Object, Store


_PIECE = 1 << 16
_MOST = 1 << 20
"""Bytes that are buffered for a side that does not read."""
_PATIENCE = 60.0


class _Side:
    """One of two connections, and the bytes still to be sent to it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.pending = b""


def both_ways(left: socket.socket, right: socket.socket) -> None:
    """Copies bytes in both directions until one side has ended or disconnected."""
    sides = _Side(left), _Side(right)
    over = False
    with right:
        while not over or any(side.pending for side in sides):
            moved = False
            for side, other in (sides, sides[::-1]):
                if not over and len(other.pending) < _MOST:
                    piece = _read(side.connection)
                    over = piece == b""
                    moved = moved or bool(piece)
                    other.pending += piece or b""
                sent = _write(side.connection, side.pending) if side.pending else 0
                if sent < 0:
                    return
                moved = moved or sent > 0
                side.pending = side.pending[sent:]
            if not moved:
                _wait(*sides, over)


def _wait(left: _Side, right: _Side, over: bool) -> None:
    """Waits until a side can be read, unless reading is over, or written."""
    ways = () if over else ((left, right), (right, left))
    readers = [source.connection for source, other in ways if len(other.pending) < _MOST]
    writers = [side.connection for side in (left, right) if side.pending]
    with suppress(OSError, ValueError):
        select.select(readers, writers, [], _PATIENCE)


def _read(side: socket.socket) -> bytes | None:
    """Returns the bytes available on a socket: None if there are none yet, b"" at the end."""
    try:
        return side.recv(_PIECE)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except OSError:
        return b""


def _write(side: socket.socket, piece: bytes) -> int:
    """Returns the number of bytes sent; -1 if the other side has disconnected."""
    try:
        return side.send(piece[:_PIECE])
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0
    except OSError:
        return -1


_OF_NODES = {"stdin": "input", "stdout": "output", "stderr": "error"}
"""Nodes' parameters for the streams of an `exec`: `ExecStdinParam` and its neighbors in
k8s.io/api/core/v1/types.go."""


class PodRequests:
    """Requests for the subresources of pods; `kubelet_token` authenticates the server to nodes."""

    def __init__(self, store: Store, kubelet_token: str) -> None:
        self._store = store
        self._token = kubelet_token

    def answer(self, request: ApiRequest, object_path: ObjectPath) -> Answer | Takeover:
        match object_path.subresource, request.method:
            case "eviction", "POST":
                return self._evict(request, object_path)
            case "log", "GET":
                return self._proxied(request, object_path)
            case "exec", "GET" | "POST":
                return self._upgraded(request, object_path)
        raise unknown_resource()

    def _evict(self, request: ApiRequest, object_path: ObjectPath) -> Answer:
        body = request.object() if request.body.strip() else {}
        grace = (body.get("deleteOptions") or {}).get("gracePeriodSeconds")
        with self._store.changed:
            pod = self._store.get(PODS, object_path.namespace, object_path.name)
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                status = with_condition(
                    pod["status"],
                    "DisruptionTarget",
                    "EvictionByEvictionAPI",
                    "Eviction API: evicting",
                )
                pod = self._store.replace(PODS, {**pod, "status": status})
            objects.delete(self._store, PODS, pod, objects.Options(grace=grace))
        return _success(201)

    def _proxied(self, request: ApiRequest, object_path: ObjectPath) -> Takeover:
        """Answers with a log, as the pod's node sends it."""
        if others := sorted(set(request.query) - {"container"}):
            raise bad_request(f"{others[0]}: the stand-in sends logs whole")
        pod = self._store.get(PODS, object_path.namespace, object_path.name)
        container = self._container(pod, request)
        _require_started(pod, container)
        node = self._connect(pod)
        path = f"/containerLogs/{object_path.namespace}/{object_path.name}/{quote(container)}"
        return self._takeover(node, path, {"Connection": "close"})

    def _upgraded(self, request: ApiRequest, object_path: ObjectPath) -> Takeover:
        """Connects the client to the pod's node, which answers the handshake."""
        pod = self._store.get(PODS, object_path.namespace, object_path.name)
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            message = "cannot exec into a container in a completed pod; current phase is "
            raise ApiError(400, f"{message}{pod['status']['phase']}")
        if request.headers.get("upgrade", "").lower() != "websocket":
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        container = quote(self._container(pod, request))
        path = f"/exec/{object_path.namespace}/{object_path.name}/{container}"
        query = [(_OF_NODES.get(name, name), each) for name, each in request.query.items()]
        node = self._connect(pod)
        passed = {
            name: value
            for name, value in request.headers.items()
            if name.startswith("sec-websocket") or name in ("upgrade", "connection", ENDLESS)
        }
        return self._takeover(node, f"{path}?{urlencode(query, doseq=True)}", passed)

    def _takeover(self, node: socket.socket, path: str, headers: dict[str, str]) -> Takeover:
        lines = [f"GET {path} HTTP/1.1", "Host: node", f"Authorization: Bearer {self._token}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        node.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return Takeover(lambda client: both_ways(client, node))

    def _connect(self, pod: Object) -> socket.socket:
        name = pod["spec"].get("nodeName")
        node = self._store.find(NODES, "", name or "")
        if node is None:
            raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        addresses = [
            each["address"]
            for each in node["status"].get("addresses") or ()
            if each["type"] == "InternalIP"
        ]
        port = node["status"].get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
        try:
            return socket.create_connection((addresses[0], port), timeout=_PATIENCE)
        except (OSError, IndexError) as error:
            message = f"error dialing backend: dial tcp {addresses}:{port}: {error}"
            raise ApiError(500, f"Internal error occurred: {message}") from None

    @staticmethod
    def _container(pod: Object, request: ApiRequest) -> str:
        """Returns the pod's container. Raises ApiError (400) if the request names another."""
        name = str(pod["spec"]["containers"][0]["name"])
        asked = request.option("container", name)
        if asked != name:
            pod_name = pod["metadata"]["name"]
            raise bad_request(f"container {asked} is not valid for pod {pod_name}")
        return name


def bind(store: Store, namespace: str, name: str, node: str) -> None:
    """Assigns a node to a pod. Raises ApiError (409) if the pod has one."""
    with store.changed:
        pod = store.get(PODS, namespace, name)
        if pod["spec"].get("nodeName"):
            taken = f"pod {name} is already assigned to node {pod['spec']['nodeName']!r}"
            raise ApiError(409, taken, "Conflict")
        status = with_condition(pod["status"], "PodScheduled")
        store.replace(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})


def _require_started(pod: Object, container: str) -> None:
    """Raises ApiError (400) with the real server's message if a container has no log yet."""
    for each in pod["status"].get("containerStatuses") or ():
        waits = "waiting" in (each.get("state") or {})
        if each["name"] == container and (each.get("restartCount") or not waits):
            return
    name = pod["metadata"]["name"]
    raise bad_request(f'container "{container}" in pod "{name}" is waiting to start')


def _success(code: int) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Answer({**body, "code": code}, code)
