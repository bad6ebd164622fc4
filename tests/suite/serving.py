"""A web server on loopback for a test, and a handler with short methods to respond."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer


class Handler(BaseHTTPRequestHandler):
    """A handler that logs nothing; subclasses define `do_GET` and others."""

    def body(self) -> bytes:
        """Returns the body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, body: bytes = b"", status: int = 200, **headers: object) -> None:
        """Sends a complete response."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, found: object, status: int = 200) -> None:
        """Sends an object as JSON, with status 404 if it is empty."""
        kind = "application/json"
        self.answer(json.dumps(found).encode(), status if found else 404, Content_Type=kind)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def in_thread(server: BaseServer) -> Iterator[None]:
    """Runs the server in a thread, and closes it at the end."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Runs a server and yields its address; with TLS, under the name localhost."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with in_thread(server):
        host = "https://localhost" if tls else "http://127.0.0.1"
        yield f"{host}:{server.server_port}"
