"""Remote login: an ssh server on a node for the users that were added to the node.

The server runs in the node's namespaces, without privileges on the rest of the machine. It listens
at the node's address: at port 22 if the node has its own network, forwarded from a port of this
machine. It accepts keys but no passwords, and every user is the one who runs the simulator, under
another name, until the user's expiry time.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.entity import parse_time
from fairway_simulator.batch.wire.bodies import ServiceError
from fairway_simulator.machines import make_key, sshd_config

if TYPE_CHECKING:
    from fairway_simulator.batch.agent.commands import NodeAgent
    from fairway_simulator.batch.model.pool import Node

_START = 120.0  # seconds
_SSH = 22


class Logins:
    """The nodes' ssh servers, each started on first use."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self._servers: dict[str, tuple[int, tuple[str, int]]] = {}

    def endpoint(self, node: Node) -> tuple[str, int]:
        """Returns host and port of the node's ssh server, started if it does not listen yet."""
        with self._lock:
            generation, endpoint = self._servers.get(node.id, (-1, ("", 0)))
            if generation != node.generation:
                endpoint = self._start(node)
                self._servers[node.id] = (node.generation, endpoint)
        return endpoint

    def write(self, node: Node) -> None:
        """Writes the node's users and their keys for the ssh server."""
        folder = node.folder / "logins"
        shutil.rmtree(folder / "keys", ignore_errors=True)
        (folder / "keys").mkdir(parents=True, exist_ok=True)
        lines = [_passwd_line(pwd.getpwuid(os.getuid()).pw_name, "/root")]
        if os.getuid() == 0:
            lines.append("sshd:x:100:65534::/run/sshd:/usr/sbin/nologin")
        for name, user in node.users.items():
            home = node.folder / "home" / name
            home.mkdir(parents=True, exist_ok=True)
            root = self._agent.layout.root(node)
            lines.append(_passwd_line(name, f"{root}/home/{name}"))
            (folder / "keys" / name).write_text(_authorized(user))
        (folder / "passwd").write_text("\n".join(lines) + "\n")

    def _start(self, node: Node) -> tuple[str, int]:
        program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            raise ServiceError(
                409, "NodeNotReady", "No ssh server; on Debian: apt-get install openssh-server"
            )
        self.write(node)
        folder = node.folder / "logins"
        make_key(folder / "host_key")
        port = self._free_port(node)
        seen = f"{self._agent.layout.root(node)}/logins"
        config = folder / "sshd_config"
        keys = f"{seen}/keys/%u"
        config.write_text(sshd_config(node.address, port, f"{seen}/host_key", keys, {}))
        config.chmod(0o600)
        self._serve(node, program, seen)
        network = self._agent.network
        endpoint = (node.address, port)
        if not network.shared:
            endpoint = ("127.0.0.1", network.door(node, port).port)
        _wait(endpoint)
        return endpoint

    def _free_port(self, node: Node) -> int:
        if not self._agent.network.shared:
            return _SSH
        with socket.create_server((node.address, 0)) as probe:
            return int(probe.getsockname()[1])

    def _serve(self, node: Node, program: str, seen: str) -> None:
        passwd = (str(node.folder / "logins" / "passwd"), "/etc/passwd")
        supervisor = self._agent.supervise(node, node.generation, passwd)
        # As root, sshd separates privileges, and needs an empty folder for that.
        folder = "mkdir -p /run/sshd && " if os.getuid() == 0 else ""
        script = f"{folder}exec {program} -D -e -f {seen}/sshd_config"

        def serve() -> None:
            log = f"{seen}/log"
            supervisor.run(["sh", "-c", script], seen, {"PATH": os.environ["PATH"]}, log, log)
            self._agent.dismiss(node, supervisor)

        threading.Thread(target=serve, name=f"sshd-{node.name}", daemon=True).start()


def _passwd_line(name: str, home: str) -> str:
    return f"{name}:*:{os.getuid()}:{os.getgid()}::{home}:/bin/bash"


def _authorized(user: dict[str, Any]) -> str:
    key = str(user.get("sshPublicKey") or "").strip()
    if not key:
        return ""
    until = user.get("expiryTime")
    # The service's default is one day.
    limit = parse_time(until).timestamp() if until else time.time() + 24 * 3600
    stamp = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(limit))
    return f'expiry-time="{stamp}" {key}\n'


def _wait(endpoint: tuple[str, int]) -> None:
    """Waits until an ssh server answers."""
    until = time.monotonic() + _START
    while True:
        with suppress(OSError), socket.create_connection(endpoint, timeout=10) as connection:
            if connection.recv(4) == b"SSH-":
                return
        if time.monotonic() > until:
            raise ServiceError(409, "NodeNotReady", "The ssh server does not start")
        time.sleep(0.02)
