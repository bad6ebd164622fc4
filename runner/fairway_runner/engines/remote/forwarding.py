"""Ports of hosts that a cluster's network alone knows, as sockets in a private folder here.

Each is `ssh -L SOCKET:HOST:PORT` over the connection that commands use anyway. The name is looked
up on the far side, as with a SOCKS proxy (`ssh -D`). A SOCKS port would let everybody on this
machine into that network; these sockets only its owner can open.
"""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot.files import NO_CONNECTION
from fairway_core.findings import UserError
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.engines.remote.ssh import private_folder_prefix, shared

if TYPE_CHECKING:
    from fairway_core.target import Gateway, Target
    from fairway_runner.engines.remote.ssh import Ssh

_FAILED = "open failed: "  # what OpenSSH says of a connection that the far side could not make
_PROHIBITED = "administratively prohibited"

_forwardings: dict[int, Forwarding] = {}


def through_gateway(target: Target, gateway: Gateway, deadline: float) -> Forwarding:
    """Returns the port forwarding through the target's gateway, one per process."""
    ssh = shared(gateway.host, gateway.user, target.reach)
    key = id(ssh)  # which lives as long as the process
    if key not in _forwardings:
        _forwardings[key] = Forwarding(ssh, deadline)
        atexit.register(_forwardings[key].close)  # runs before the connection itself is closed
    return _forwardings[key]


_ALLOW = "its sshd needs `AllowTcpForwarding yes`, the default; or name another gateway"


class Forwarding:
    """The ports that one host forwards, opened as they are needed; several threads may ask."""

    def __init__(self, ssh: Ssh, deadline: float) -> None:
        self._ssh = ssh
        self._deadline = deadline
        self._lock = threading.Lock()
        self._sockets: dict[tuple[str, int], Path] = {}
        self._folder: Path | None = None
        self._count = 0

    @property
    def name(self) -> str:
        """The host that forwards, as one would write it for ssh."""
        return self._ssh.name

    def open(self, host: str, port: int) -> Path:
        """A socket that leads to a port of a host; UserError where the gateway is not reached."""
        with self._lock:
            return self._sockets.get((host, port)) or self._forward(host, port)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a port of a host; OSError where it cannot be made."""
        path = self.open(host, port)
        try:
            return _connected(path)
        except OSError:
            with self._lock:  # the connection has ended, and what it forwarded with it
                if self._sockets.get((host, port)) == path:
                    del self._sockets[host, port]
            return _connected(self.open(host, port))

    def mark(self) -> int:
        """A point in time, for `failure_since`."""
        return len(self._ssh.said)

    def failure_since(self, mark: int) -> str:
        """Why the far side made no connection lately, in OpenSSH's words; "" where it did.

        UserError where it forwards nothing at all.
        """
        lines = [line for line in self._ssh.said[mark:].splitlines() if _FAILED in line]
        why = lines[-1].rpartition(_FAILED)[2] if lines else ""
        if _PROHIBITED in "".join(lines):
            message = f"{self.name} does not forward connections ({lines[-1].strip()})"
            raise UserError.of("no-forwarding", message, _ALLOW, exit_code=5)
        return why.removeprefix("connect failed: ")

    def close(self) -> None:
        """Ends what is forwarded over a connection that the user keeps open."""
        if self._ssh.socket is None:
            for (host, port), path in self._sockets.items():
                words = self._words("cancel", path, host, port)
                subprocess.run(words, capture_output=True, timeout=10, check=False)
        self._sockets.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _forward(self, host: str, port: int) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=private_folder_prefix()))
        self._count += 1
        path = self._folder / str(self._count)
        done = self._ssh.run_with_retry(
            lambda: self._words("forward", path, host, port), b"", deadline=self._deadline
        )
        if done.code:
            message = f"{self.name} forwards nothing to {host}: {done.err.strip()}"
            raise TargetUnavailable.of(NO_CONNECTION, message, _ALLOW, exit_code=5)
        self._sockets[host, port] = path
        return path

    def _words(self, action: str, path: Path, host: str, port: int) -> list[str]:
        there = f"[{host}]" if ":" in host else host
        spec = f"{path}:{there}:{port}"
        return [*self._ssh.command(), "-O", action, "-L", spec, "--", self._ssh.name]


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection
