"""HTTP/1.1 on loopback, for every stand-in: a thread per connection, which stays open between
requests. A handler returns an `Answer`, a `Stream` or a `Takeover`."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Self, cast
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    import ssl

# Enough for the upload of a blob; each service has its own limit.
_LARGEST_BODY = 1 << 30
_LINE = 1 << 16


@dataclass
class Request:
    """One request. `target` is as it was sent, names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    document: Any = None
    """The body as parsed by the service."""

    @cached_property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @cached_property
    def parts(self) -> list[str]:
        return [unquote(part) for part in self.path.strip("/").split("/")]

    @cached_property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(self.target.partition("?")[2], keep_blank_values=True)

    def option(self, name: str, otherwise: str = "") -> str:
        return self.query.get(name, [otherwise])[0]

    def switch(self, name: str) -> bool:
        """Returns True if a parameter is set to true."""
        return self.option(name) in ("1", "true", "True")

    @property
    def token(self) -> str:
        """Credentials of the scheme Bearer; "" if it has none."""
        scheme, _, value = self.headers.get("authorization", "").partition(" ")
        return value.strip() if scheme.lower() == "bearer" else ""


@dataclass
class Answer:
    """A complete answer: a document as JSON, or bytes."""

    document: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    slowly: float = 0.0
    """Seconds over which the body trickles out."""
    cut: int | None = None
    """Bytes of the body after which the connection ends."""
    torn: bool = False
    """True if the connection is reset after half of the body."""


@dataclass
class Stream:
    """An answer in pieces, until it ends or the client disconnects."""

    pieces: Iterator[bytes]
    content_type: str = "application/json"


@dataclass
class Takeover:
    """Answer that hands over the connection."""

    serve: Callable[[socket.socket], None]


Reply = Answer | Stream | Takeover
Handle = Callable[[Request], Reply]


class CutConnection(Exception):
    """Error that resets the connection, without an answer or in the middle of one."""


class Server:
    """Server on 127.0.0.1 that listens from the start, and passes every request to `handle` once it
    is started, or while the context lasts. Errors of `handle` are printed, and answered with
    500."""

    def __init__(self, handle: Handle, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._handle = handle
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening = [socket.create_server(("127.0.0.1", port), backlog=128)]
        self._threads: list[threading.Thread] = []
        self.port: int = self._listening[0].getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def listen(self, address: str) -> None:
        """Listens on one more address, at the same port."""
        self._listening.append(socket.create_server((address, self.port), backlog=128))
        self._accept_from(self._listening[-1])

    def start(self) -> None:
        self._accept_from(self._listening[0])

    def stop(self) -> None:
        for listening in self._listening:
            _shut(listening)
            listening.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept_from(self, listening: socket.socket) -> None:
        thread = threading.Thread(target=self._accept, args=(listening,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):  # the server was stopped
            while True:
                connection, _ = listening.accept()
                with self._lock:
                    self._open.add(connection)
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, plain: socket.socket) -> None:
        connection = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                with self._lock:  # from here on `plain` is detached
                    self._open.discard(plain)
                    connection = self._tls.wrap_socket(
                        plain, server_side=True, do_handshake_on_connect=False
                    )
                    self._open.add(connection)
            with cast("IO[bytes]", connection.makefile("rb", _LINE)) as reader:
                while (request := _read(reader)) is not None and self._reply(connection, request):
                    continue
        except CutConnection:
            at_once = struct.pack("ii", 1, 0)  # a reset instead of an orderly end
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        except (OSError, ValueError):
            pass  # the client has disconnected, or does not speak HTTP
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _reply(self, connection: socket.socket, request: Request) -> bool:
        """Answers a request; returns True if another may follow."""
        try:
            reply = self._handle(request)
        except CutConnection:
            raise
        except Exception:  # noqa: BLE001 - a server reports it and continues
            sys.stderr.write(said := traceback.format_exc())
            reply = Answer(status=500, body=said.encode(), headers={"Content-Type": "text/plain"})
        if isinstance(reply, Takeover):
            reply.serve(connection)
            return False
        if isinstance(reply, Stream):
            _stream(connection, reply)
            return False
        _send(connection, request.method, reply)
        return reply.cut is None and request.headers.get("connection", "").lower() != "close"


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _read(reader: IO[bytes]) -> Request | None:
    """Returns the next request of a connection, None at its end. Raises ValueError for anything but
    HTTP."""
    line = reader.readline(_LINE)
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := reader.readline(_LINE)) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if "transfer-encoding" in headers:
        return Request(method, target, headers, b"".join(_chunks(reader)))
    length = int(headers.get("content-length") or 0)
    if not 0 <= length <= _LARGEST_BODY:
        raise ValueError("a body of impossible length")
    return Request(method, target, headers, reader.read(length) if length else b"")


def _chunks(reader: IO[bytes]) -> Iterator[bytes]:
    while size := int(reader.readline(_LINE).split(b";")[0], 16):
        yield reader.read(size)
        reader.readline(_LINE)
    reader.readline(_LINE)


def _send(connection: socket.socket, method: str, answer: Answer) -> None:
    body, headers = answer.body, answer.headers
    if answer.document is not None:
        body = json.dumps(answer.document).encode()
        headers = {"Content-Type": "application/json", **headers}
    bare = answer.status in (204, 304)
    if not bare and "content-length" not in map(str.lower, headers):
        headers = {"Content-Length": str(len(body)), **headers}
    head = _head(answer.status, headers)
    if bare or method == "HEAD":
        connection.sendall(head)
    elif answer.torn:
        if body:
            connection.sendall(head + body[: len(body) // 2])
        raise CutConnection
    elif answer.slowly:
        connection.sendall(head)
        step = max(1, len(body) // 10)
        for start in range(0, len(body), step):
            time.sleep(answer.slowly / 10)
            connection.sendall(body[start : start + step])
    else:
        connection.sendall(head + body[: answer.cut])


def _stream(connection: socket.socket, stream: Stream) -> None:
    kind = {"Content-Type": stream.content_type}
    ending = {"Transfer-Encoding": "chunked", "Connection": "close"}
    connection.sendall(_head(200, kind | ending))
    for piece in stream.pieces:
        if piece:
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
    connection.sendall(b"0\r\n\r\n")


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
