"""`port-forward`: each connection of the client becomes one to a port within the pod."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_simulator.kubernetes.kubelet.spdy import Session, Stream

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.kubelet.websocket import WebSocket

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_NEW_NETWORK = 0x40000000
_PIECE = 1 << 16
_PATIENCE = 30.0  # seconds for a connection within a pod


class Forwarding:
    """The connections of one client to the ports of a pod, whose process 1 is `pid`."""

    def __init__(self, web: WebSocket, name: str, pid: int, address: str, *, private: bool) -> None:
        self._session = Session(web, self._opened)
        self._name = name
        self._pid = pid
        self._hosts = ("127.0.0.1",) if private else (address, "127.0.0.1")
        self._private = private
        self._errors: dict[str, Stream] = {}

    def serve(self) -> None:
        """Until the client goes."""
        self._session.serve()

    def _opened(self, stream: Stream) -> None:
        request = stream.headers.get("requestid", "")
        if stream.headers.get("streamtype") == "error":
            self._errors[request] = stream
            return
        port = int(stream.headers.get("port", "0"))
        error = self._errors.pop(request, None)
        try:
            # A thread of its own, whose network is another from then on.
            with ThreadPoolExecutor(1) as alone:
                found = alone.submit(self._connect, port).result()
        except OSError as why:
            said = f"error forwarding port {port} to pod {self._name}: failed to connect to "
            said += f"localhost:{port} inside namespace: {why.strerror or why}"
            stream.send(b"", last=True)
            if error:
                error.send(said.encode(), last=True)
            return
        stream.received = lambda data: _write(found, data)
        threading.Thread(target=_relay, args=(found, stream, error), daemon=True).start()

    def _connect(self, port: int) -> socket.socket:
        if self._private:
            enter(self._pid)
        for host in self._hosts[:-1]:
            with suppress(OSError):
                return socket.create_connection((host, port), _PATIENCE)
        return socket.create_connection((self._hosts[-1], port), _PATIENCE)


def enter(pid: int) -> None:
    """Lets this thread make its connections in the network of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net", "rb") as file:  # noqa: PTH123
        if libc.setns(file.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _relay(connection: socket.socket, stream: Stream, error: Stream | None) -> None:
    connection.settimeout(None)
    with connection:
        while piece := _read(connection):
            stream.send(piece)
        stream.send(b"", last=True)
        if error:
            error.send(b"", last=True)


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_PIECE)
    except OSError:
        return b""


def _write(connection: socket.socket, data: bytes) -> None:
    """Passes data on; none mean that the client has said all."""
    with suppress(OSError):
        if data:
            connection.sendall(data)
        else:
            connection.shutdown(socket.SHUT_WR)
