"""The server: metadata of its cloud, tokens, and Azure Resource Manager, all at one address."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from fairway_simulator.azure.answers import Answer, answer, failure
from fairway_simulator.azure.certificate import serve_as_localhost
from fairway_simulator.azure.cloud import metadata
from fairway_simulator.azure.identity import NOBODY, openid_configuration, token_response
from fairway_simulator.azure.impacts import Impacts
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.azure.store import ResourceStore

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


# How often, in seconds, the thread looks whether it is to end.
_POLL = 0.02


class ControlPlane:
    """The stand-in, served from a thread of its own while the context lasts.

    `folder` gets the file of the authority whose certificate it shows, which is worthless
    afterwards. `requests` holds every request with its answer's status, in order, and `impacts`
    the Guest Health Reports.

    >>> with ControlPlane(folder) as plane:  # doctest: +SKIP
    ...     plane.host
    'localhost:40123'
    """

    def __init__(self, folder: Path) -> None:
        context, self.authority = serve_as_localhost(folder)
        self._server = _Server(self)
        self.host = f"localhost:{self._server.server_address[1]}"
        self._server.socket = context.wrap_socket(
            # The handshake is made in the connection's own thread, not where all are accepted.
            self._server.socket,
            server_side=True,
            do_handshake_on_connect=False,
        )
        self.store = ResourceStore(self.host)
        self.requests: list[tuple[str, str, int]] = []
        self.impacts = Impacts()
        self._given: dict[tuple[str, str], Answer] = {}
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self) -> dict[str, str]:
        """The variables by which Terraform's azurerm provider takes this for Azure."""
        return {
            "ARM_METADATA_HOSTNAME": self.host,
            "ARM_CLIENT_ID": NOBODY,
            "ARM_CLIENT_SECRET": "none",
            "ARM_TENANT_ID": NOBODY,
            "ARM_SUBSCRIPTION_ID": NOBODY,
            "SSL_CERT_FILE": str(self.authority),
            "CHECKPOINT_DISABLE": "1",
        }

    @property
    def operation(self) -> str:
        """Where what goes on after an answer is looked at; nothing is there unless it is given."""
        return (
            f"https://{self.host}/subscriptions/{NOBODY}/providers/Microsoft.Compute/operations/1"
        )

    def give(self, path: str, body: Any, *, status: int = 200, method: str = "GET") -> None:
        """Answers requests for that path, whatever their query, with this from now on."""
        self._given[method, ResourcePath(path).key] = status, body

    def handle(self, method: str, target: str, body: bytes, *, signed_in: bool) -> Answer:
        """The answer to a request; a body that is no JSON gets 400."""
        url = urlsplit(target)
        path = ResourcePath(unquote(url.path))
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        status, found = self._answer(method, path, query, body, signed_in=signed_in)
        self.requests.append((method, target, status))
        return status, found

    def _answer(
        self,
        method: str,
        path: ResourcePath,
        query: dict[str, str],
        body: bytes,
        *,
        signed_in: bool,
    ) -> Answer:
        if path.key == "/metadata/endpoints":
            return 200, metadata(self.host)
        tenant, _, rest = path.key.lstrip("/").partition("/")
        if rest == "v2.0/.well-known/openid-configuration":
            return 200, openid_configuration(f"https://{self.host}", tenant)
        if rest in ("oauth2/v2.0/token", "oauth2/token") and method == "POST":
            form = parse_qs(body.decode(errors="replace"))
            scope = (form.get("scope") or form.get("resource") or [""])[-1]
            return 200, token_response(tenant, scope)
        given = self._given.get((method, path.key))
        if given:
            return given
        if not path.key.startswith(("/subscriptions", "/providers", "/tenants")):
            return failure(404, "NotFound", f"Nothing is at {path.text}.")
        if not signed_in:
            return failure(401, "AuthenticationFailed", "The request has no bearer token.")
        try:
            document = json.loads(body) if body else None
        except ValueError as error:
            return failure(400, "InvalidRequestContent", f"The body is no JSON: {error}")
        impact = self.impacts.answer(method, path, document)
        return impact or answer(self.store, method, path, query, document)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plane = plane

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or does not trust the certificate, is no news."""


class _Handler(BaseHTTPRequestHandler):
    """Reads a request, asks the control plane, writes its answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        signed_in = self.headers.get("Authorization", "").startswith("Bearer ")
        status, found = self.server.plane.handle(self.command, self.path, body, signed_in=signed_in)
        content = b"" if found is None else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        if status == 202:
            # It is looked at there; its path is known nowhere else.
            self.send_header("Azure-AsyncOperation", self.server.plane.operation)
            self.send_header("Retry-After", "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_PATCH = do_POST = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing: `requests` holds what came."""
