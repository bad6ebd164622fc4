"""Secrets of the environment's vault for people's jobs, which get no token of the node's identity.

A token that opens one vault opens all that the identity may read, the one of the munge key too. So
this program, as root, reads single secrets in their place, and gives each to those alone whom the
secret itself names: its tag `fairway-users` holds their accounts, or `*` for all. Who asks is told
by the kernel (SO_PEERCRED of unix(7)).
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
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import TYPE_CHECKING, Any

from fairway_agent.azure.http import Failure
from fairway_agent.azure.keyvault import KeyVault
from fairway_agent.slurm.autoscale.settings import begin

if TYPE_CHECKING:
    from collections.abc import Callable

TAG = "fairway-users"
_EVERYBODY = "*"
_NAME = re.compile(r"[0-9A-Za-z-]{1,127}")  # Azure documentation, Key Vault: object names
_PEER = "3i"  # struct ucred: process, user, group
_LONGEST = 256  # bytes of a question
_PATIENCE = 30.0  # seconds for somebody who has connected to ask
_log = logging.getLogger(__name__)


class Refused(Exception):
    """What whoever asks is told."""


def secret_for(person: str, name: str, vault: KeyVault) -> str:
    """The value of a secret; Refused where it is not that person's."""
    if not _NAME.fullmatch(name):
        raise Refused("this is not the name of a secret")
    try:
        secret = vault.look(name)
    except Failure as failure:
        raise Refused(str(failure)) from None
    allowed = secret.tags.get(TAG, "").replace(",", " ").split()
    if person not in allowed and _EVERYBODY not in allowed:
        raise Refused(f"it is not for {person}: its tag `{TAG}` names who may read it")
    return secret.value


def _credentials(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER))


class _Handler(StreamRequestHandler):
    timeout = _PATIENCE
    vault: KeyVault
    name_of: Callable[[int], str]

    def handle(self) -> None:
        """Answers one question, which is a line; so is the answer."""
        uid = struct.unpack(_PEER, _credentials(self.connection))[1]
        try:
            name = self.rfile.readline(_LONGEST).decode("ascii").strip()
            answer: dict[str, Any] = {
                "value": secret_for(type(self).name_of(uid), name, self.vault)
            }
            _log.info("user %d reads %s", uid, name)
        except (Refused, OSError, KeyError, UnicodeDecodeError) as error:
            answer = {"error": str(error) or "there is no such user"}
            _log.info("user %d is refused: %s", uid, answer["error"])
        self.wfile.write(json.dumps(answer).encode() + b"\n")


def server(
    path: Path, vault: KeyVault, name_of: Callable[[int], str] = lambda uid: pwd.getpwuid(uid)[0]
) -> ThreadingUnixStreamServer:
    """The service at a socket, to which everybody may connect."""
    path.unlink(missing_ok=True)
    handler = type("Handler", (_Handler,), {"vault": vault, "name_of": staticmethod(name_of)})
    found = ThreadingUnixStreamServer(str(path), handler)
    found.daemon_threads = True
    os.chmod(path, 0o666)  # noqa: PTH101, S103 - who asks is told by the kernel
    return found


def main(path: Path) -> int:
    """Answers until it is ended."""
    settings, metadata = begin()
    vault = KeyVault(settings.people_vault, metadata, settings.authority)
    with server(path, vault) as found:
        _log.info("secrets for people's jobs at %s", path)
        found.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
