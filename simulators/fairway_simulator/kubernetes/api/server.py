"""HTTPS on loopback: a thread for each connection, answers as a whole, as streams or taken over."""

from __future__ import annotations

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from fairway_simulator.kubernetes.api.requests import Answer, Request, Stream, Takeover

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    Handle = Callable[[Request], Answer | Stream | Takeover]

_LARGEST_BODY = 16 << 20


class CutConnection(Exception):
    """The connection is reset here, without an answer."""


class Server:
    """Listens on 127.0.0.1 and gives every request to `handle`; more addresses can be added."""

    def __init__(self, handle: Handle, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._handle = handle
        self._tls = tls
        self._servers = [_Listener(("127.0.0.1", port), handle, tls)]
        self.port: int = self._servers[0].server_address[1]

    def listen(self, address: str) -> None:
        """Listens on one more address, at the same port."""
        self._servers.append(_Listener((address, self.port), self._handle, self._tls))
        self._start(self._servers[-1])

    def start(self) -> None:
        """Answers from now on."""
        self._start(self._servers[0])

    def stop(self) -> None:
        """Ends listening, and every connection."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
            server.end_connections()

    @staticmethod
    def _start(server: _Listener) -> None:
        work = {"poll_interval": 0.1}
        threading.Thread(target=server.serve_forever, kwargs=work, daemon=True).start()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handle: Handle, tls: ssl.SSLContext | None
    ) -> None:
        self.handle_one = handle
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        """A connection, whose greeting of TLS takes place in its own thread."""
        plain, address = super().get_request()
        found = plain
        if self._tls:
            found = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(found)
        return found, address

    def shutdown_request(self, request: Any) -> None:
        """A connection has ended."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients go when they like."""

    def end_connections(self) -> None:
        """Ends those that are open."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        """Answers a request of any method."""
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= _LARGEST_BODY:
            self.send_error(413)
            return
        body = self._chunked() if self.headers.get("Transfer-Encoding") else self.rfile.read(length)
        path, _, query = self.path.partition("?")
        parts = [unquote(part) for part in path.strip("/").split("/")]
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(
            self.command, path, parts, parse_qs(query, True), headers, body, self.path
        )
        try:
            answer = self.server.handle_one(request)
            self._send(answer)
        except CutConnection:
            self._reset()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815 - names of http.server

    def log_message(self, *words: Any) -> None:
        """Says nothing."""

    def _send(self, answer: Answer | Stream | Takeover) -> None:
        if isinstance(answer, Takeover):
            self.close_connection = True
            answer.serve(self.connection)
        elif isinstance(answer, Stream):
            self._stream(answer)
        else:
            self._whole(answer)

    def _whole(self, answer: Answer) -> None:
        body, kind = answer.text, "text/plain"
        if body is None:
            body, kind = json.dumps(answer.document).encode(), "application/json"
        self.send_response(answer.code)
        for name, value in {"Content-Type": kind, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, answer: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for piece in answer.pieces:
            if piece:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _chunked(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _reset(self) -> None:
        self.close_connection = True
        at_once = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
