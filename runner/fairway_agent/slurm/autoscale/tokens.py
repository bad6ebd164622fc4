"""Tokens of a node's identity for people's jobs, which may not ask Azure's metadata service.

By that service everybody on the machine would get a token with which to read the munge key, so
that a firewall rule keeps people's programs from it. This program, as root, answers in its place:
for blobs and images, and never for vaults.
"""

from __future__ import annotations

import json
import logging
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from fairway_agent.azure.http import Failure
from fairway_agent.slurm.autoscale.settings import begin

if TYPE_CHECKING:
    from fairway_agent.azure.imds import Metadata

# Storage, and Resource Manager, by whose token a registry gives one of its own. Node identities
# have no role there but for images: the secrets of a vault are not among what it shows.
_RESOURCES = frozenset({"https://storage.azure.com", "https://management.azure.com"})
_PATH = "/metadata/identity/oauth2/token"
_log = logging.getLogger(__name__)


class _Handler(BaseHTTPRequestHandler):
    metadata: Metadata

    def do_GET(self) -> None:
        """Answers as Azure's own service does."""
        asked = urlsplit(self.path)
        resource = parse_qs(asked.query).get("resource", [""])[0].rstrip("/")
        if asked.path != _PATH or self.headers.get("Metadata") != "true":
            self._refuse(
                400, "BadRequest", "tokens are all that people's programs can ask for here"
            )
        elif resource not in _RESOURCES:
            self._refuse(
                403, "Forbidden", f"people's jobs get no token for {resource} on this node"
            )
        else:
            self._give(resource)

    def _give(self, resource: str) -> None:
        try:
            token, until = self.metadata.token_until(resource)
        except Failure as failure:
            self._refuse(failure.status or 502, failure.code, failure.message)
            return
        self._answer(200, {"access_token": token, "expires_on": str(int(until))})

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(status, {"error": {"code": code, "message": message}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing of what is asked."""


def server(metadata: Metadata, port: int) -> ThreadingHTTPServer:
    """The service on this port of the loopback address."""
    handler = type("Handler", (_Handler,), {"metadata": metadata})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


def main(port: int) -> int:
    """Answers until it is ended; below 1024 nobody but root can take its place."""
    _, metadata = begin()
    with server(metadata, port) as found:
        _log.info("tokens for people's jobs at port %d", found.server_port)
        found.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
