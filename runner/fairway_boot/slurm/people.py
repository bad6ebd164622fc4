"""Tokens and secrets for people's jobs, which may not use the node's identity.

From Azure's metadata service everybody on the machine would get a token that can read the munge
key, so a firewall rule keeps people's programs from it. A token for one vault opens all vaults that
the identity may read. So two programs answer as root in its place:

    people tokens PORT      tokens for blobs and images, and never for vaults
    people secrets SOCKET   single secrets of the environment's vault, each only for the people whom
                            the secret names: its tag `fairway-users` holds their accounts, or `*`
                            for all. The kernel says who asks (SO_PEERCRED of unix(7)).
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import re
import socket
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from fairway_boot.http import Failure
from fairway_boot.identity import KeyVault
from fairway_boot.slurm.settings import begin

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_boot.imds import Metadata

# Storage, and Resource Manager, whose token a registry exchanges for its own. There, node
# identities have only roles for images, and a vault's secrets are not visible.
_RESOURCES = frozenset({"https://storage.azure.com", "https://management.azure.com"})
_PATH = "/metadata/identity/oauth2/token"

TAG = "fairway-users"
_EVERYBODY = "*"
_NAME = re.compile(r"[0-9A-Za-z-]{1,127}")  # Azure documentation, Key Vault: object names
_PEER = "3i"  # struct ucred: process, user, group
_LONGEST = 256  # bytes of a request
_PATIENCE = 30.0  # seconds for a client to send its request
_log = logging.getLogger(__name__)


class _TokenHandler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    metadata: Metadata

    def do_GET(self) -> None:
        """Answers as Azure's own service does."""
        asked = urlsplit(self.path)
        resource = parse_qs(asked.query).get("resource", [""])[0].rstrip("/")
        if asked.path != _PATH or self.headers.get("Metadata") != "true":
            self._deny(400, "BadRequest", "tokens are all that people's programs can ask for here")
        elif resource not in _RESOURCES:
            self._deny(403, "Forbidden", f"people's jobs get no token for {resource} on this node")
        else:
            try:
                token, until = self.metadata.token(resource)
            except Failure as failure:
                self._deny(failure.status or 502, failure.code, failure.message)
                return
            self._answer(200, {"access_token": token, "expires_on": str(int(until))})

    def _deny(self, status: int, code: str, message: str) -> None:
        self._answer(status, {"error": {"code": code, "message": message}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing about requests."""


def token_server(metadata: Metadata, port: int) -> ThreadingHTTPServer:
    """Returns the service on this port of the loopback address."""
    handler = type("Handler", (_TokenHandler,), {"metadata": metadata})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


class SecretDenied(Exception):
    """Error whose text is the reason for the program that asks."""


def secret_for(person: str, name: str, vault: KeyVault) -> str:
    """Returns a secret's value. Raises SecretDenied if that person may not read it."""
    if not _NAME.fullmatch(name):
        raise SecretDenied("this is not the name of a secret")
    try:
        secret = vault.look(name)
    except Failure as failure:
        raise SecretDenied(str(failure)) from None
    allowed = secret.tags.get(TAG, "").replace(",", " ").split()
    if person not in allowed and _EVERYBODY not in allowed:
        raise SecretDenied(f"it is not for {person}: its tag `{TAG}` names who may read it")
    return secret.value


def _credentials(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER))


class _SecretHandler(StreamRequestHandler):
    timeout = _PATIENCE
    vault: KeyVault
    name_of: Callable[[int], str]

    def handle(self) -> None:
        """Answers one request; both are a line."""
        uid = struct.unpack(_PEER, _credentials(self.connection))[1]
        try:
            name = self.rfile.readline(_LONGEST).decode("ascii").strip()
            reply: dict[str, Any] = {"value": secret_for(type(self).name_of(uid), name, self.vault)}
            _log.info("user %d reads %s", uid, name)
        except (SecretDenied, OSError, KeyError, UnicodeDecodeError) as error:
            reply = {"error": str(error) or "there is no such user"}
            _log.info("user %d is refused: %s", uid, reply["error"])
        self.wfile.write(json.dumps(reply).encode() + b"\n")


def secret_server(
    path: Path, vault: KeyVault, name_of: Callable[[int], str] = lambda uid: pwd.getpwuid(uid)[0]
) -> ThreadingUnixStreamServer:
    """Returns the service at a socket, to which everybody may connect."""
    path.unlink(missing_ok=True)
    handler = type("Handler", (_SecretHandler,), {"vault": vault, "name_of": staticmethod(name_of)})
    found = ThreadingUnixStreamServer(str(path), handler)
    found.daemon_threads = True
    os.chmod(path, 0o666)  # noqa: PTH101, S103 - who asks is told by the kernel
    return found


def main(service: str, where: str) -> int:
    """Serves until it is ended; at a port below 1024 nobody but root can take its place."""
    settings, metadata = begin()
    server: ThreadingHTTPServer | ThreadingUnixStreamServer
    if service == "tokens":
        server = token_server(metadata, int(where))
    else:
        vault = KeyVault(settings.people_vault, metadata.bearer, settings.authority)
        server = secret_server(Path(where), vault)
    with server:
        _log.info("%s for people's jobs at %s", service, where)
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
