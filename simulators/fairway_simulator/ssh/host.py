"""One host of a loopback cluster: a real sshd in namespaces of its own.

It has its own host name, processes, /mnt, /dev/shm and folder for temporary files, so that programs
there cannot take it for another host; network and disk are this machine's. Its cgroups are of one
version, although this machine may have two. A `private` host has a network of its own too, to which
no route leads: see `bastion`. Killing its first process ends everything on it, as a power cut
would.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_simulator.machines import cut_sessions, descendants, sshd_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_simulator.machines import People

_PATIENCE = 120.0  # seconds; enough for a host to start on a busy machine

_BOOT = """umount -q /sys/fs/cgroup/unified
set -e
hostname {name}
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /mnt
mkdir -m 1777 /mnt/resource_nvme
{accounts}mount --bind {hosts} /etc/hosts
mount --bind {client} /etc/ssh/ssh_config
{network}exec {sshd} -D -e -f {config}
"""


_ACCOUNTS = """mount --bind {etc} /etc
"""
_NETWORK = """ip link set lo up
ip address add {address}/32 dev lo
"""
_LISTENS = "0A"  # in /proc/net/tcp


@dataclass
class Host:
    """A host by its name, address and port; `folder` is its own, `common` that of the cluster.

    `environment` has the variables of every command on it, in addition to sshd's.
    """

    name: str
    address: str
    port: int
    folder: Path
    common: Path
    environment: Mapping[str, str]
    private: bool = False
    people: People | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Boots it; returns when it accepts connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        temporary.chmod(0o1777)
        config = self.folder / "sshd_config"
        # A separate home, so that no start-up file of this machine's user changes PATH.
        settings = {**self.environment, "TMPDIR": str(temporary), "HOME": str(self.folder)}
        key, keys = str(self.common / "host_key"), str(self.common / "key.pub")
        config.write_text(
            sshd_config(self.address, self.port, key, keys, settings, self.people), encoding="utf-8"
        )
        boot = _BOOT.format(
            name=shlex.quote(self.name),
            accounts=_ACCOUNTS.format(etc=shlex.quote(str(self.people.etc))) if self.people else "",
            hosts=shlex.quote(str(self.common / "hosts")),
            client=shlex.quote(str(self.common / "ssh_config")),
            sshd=sshd_program(),
            config=shlex.quote(str(config)),
            network=_NETWORK.format(address=self.address) if self.private else "",
        )
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child"),
                    *("--mount-proc", *(["--net"] if self.private else []), "sh", "-c", boot),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await_port()

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
            # Waits until the port is closed, so that the host can be started again.
            deadline = time.monotonic() + _PATIENCE
            while self._answers() and time.monotonic() < deadline:
                time.sleep(0.02)

    def cut(self) -> int:
        """Cuts the open connections, and returns how many; new ones are accepted."""
        return cut_sessions(self.process.pid) if self.process else 0

    def pids(self) -> list[int]:
        """Returns the ids of its processes on this machine."""
        return descendants(self.process.pid) if self.process else []

    def _await_port(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            dead = self.process is None or self.process.poll() is not None
            if dead or time.monotonic() > deadline:
                said = (self.folder / "sshd.log").read_text(errors="replace")[-400:]
                raise RuntimeError(f"{self.name} did not start: {said}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        if self.private:
            return any(f":{self.port:04X}" in line for line in self._listeners())
        try:
            socket.create_connection((self.address, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _listeners(self) -> list[str]:
        """Returns the local addresses with listeners in its own network, from the kernel."""
        for pid in self.pids()[:1]:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/net/tcp") as file:  # noqa: PTH123
                lines = [line.split() for line in file.read().splitlines()[1:]]
                return [words[1] for words in lines if words[3] == _LISTENS]
        return []


def sshd_program() -> str:
    """Returns the absolute path of OpenSSH's server, which must be started by it."""
    return "/usr/sbin/sshd"
