"""HTTP/1.1 on loopback: a thread for each connection, which stays open between requests."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import parse_qs, unquote

from fairway_simulator.batch.wire.errors import ServiceError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_LARGEST_BODY = 16 << 20


@dataclass
class Request:
    """One request. `path` is as it was written, `parts` are its segments without their quoting."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    parts: list[str] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """The body as an object."""
        try:
            document = json.loads(self.body)
        except ValueError:
            raise ServiceError(400, "InvalidRequestBody") from None
        if not isinstance(document, dict):
            raise ServiceError(400, "InvalidRequestBody")
        return document


@dataclass
class Response:
    """One answer. `file` is sent from `offset` on for `length` bytes, in place of `body`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: BinaryIO | None = None
    offset: int = 0
    length: int = 0
    slowly: float = 0.0
    """Seconds over which the body trickles out."""
    torn: bool = False
    """Half of the body is sent, and the connection reset."""


class CutConnection(Exception):
    """The connection ends here, without an answer."""


class HttpServer:
    """Listens on `address` and gives every request to `handle`."""

    def __init__(
        self,
        handle: Callable[[Request], Response],
        address: tuple[str, int],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._handle = handle
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._socket = socket.create_server(address, backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="batch-http", daemon=True)

    def start(self) -> None:
        """Accepts connections from now on."""
        self._thread.start()

    def close(self) -> None:
        """Gives the port back, of a server that was never started."""
        self._socket.close()

    def stop(self) -> None:
        """Stops listening and ends every connection."""
        _shut(self._socket)
        self._socket.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        connection = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection = self._tls.wrap_socket(plain, server_side=True)
            with cast("IO[bytes]", connection.makefile("rb", 1 << 16)) as reader:
                while (request := _read(reader)) is not None:
                    _write(connection, request.method, self._handle(request))
        except (OSError, CutConnection, ValueError):
            pass  # the other side has gone, or is to be left without an answer
        finally:
            with self._lock:
                self._open.discard(plain)
            connection.close()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _read(reader: IO[bytes]) -> Request | None:
    """The next request of a connection, None at its end; ValueError for what is not HTTP."""
    line = reader.readline(1 << 16)
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := reader.readline(1 << 16)) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length") or 0)
    if not 0 <= length <= _LARGEST_BODY or "transfer-encoding" in headers:
        raise ValueError("a body of unknown or impossible length")
    body = reader.read(length) if length else b""
    path, _, query = target.partition("?")
    first = {name: values[0] for name, values in parse_qs(query).items()}
    parts = [unquote(part) for part in path.strip("/").split("/")]
    return Request(method, path, first, headers, body, parts)


def _write(connection: socket.socket, method: str, response: Response) -> None:
    length = response.length if response.file else len(response.body)
    head = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    head += [f"{name}: {value}" for name, value in response.headers.items()]
    # An answer to HEAD has the length of what GET would send.
    head.append(f"Content-Length: {response.headers.pop('x-length', length)}")
    start = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n"
    if response.torn:
        _tear(connection, start, response)
    elif method == "HEAD" or response.status in {204, 304}:
        connection.sendall(start)
    elif response.file:
        with response.file as file:  # closed also where the other side has gone
            connection.sendall(start)
            connection.sendfile(file, response.offset, response.length)
    elif response.slowly:
        connection.sendall(start)
        _trickle(connection, response.body, response.slowly)
    else:
        connection.sendall(start + response.body)


def _tear(connection: socket.socket, start: bytes, response: Response) -> None:
    body = response.body
    if response.file:
        with response.file as file:
            file.seek(response.offset)
            body = file.read(response.length)
    if body:
        connection.sendall(start + body[: len(body) // 2])
    at_once = struct.pack("ii", 1, 0)  # a reset in place of an orderly end
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    raise CutConnection


def _trickle(connection: socket.socket, body: bytes, duration: float) -> None:
    step = max(1, len(body) // 10)
    for start in range(0, len(body), step):
        time.sleep(duration / 10)
        connection.sendall(body[start : start + step])
