"""The cluster's login host: a real sshd on loopback with keys of its own."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.fanout.launchers import free_port
from fairway_simulator.machines import cut_sessions, make_key, sshd_config
from fairway_simulator.slurm.daemon import SEARCH_PATH, Daemon, find

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_simulator.machines import People

_SSH = """\
Host {alias}
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
"""


@dataclass
class Login:
    """An sshd with keys and configuration in `folder`; ssh reaches it as `alias`.

    `environment` has the variables of sessions; `people` log in with keys and homes of their own.
    """

    folder: Path
    alias: str
    environment: Mapping[str, str]
    people: People | None = None
    daemon: Daemon | None = None
    port: int = 0

    @property
    def ssh_config(self) -> Path:
        """File for `ssh -F`."""
        return self.folder / "ssh_config"

    @property
    def user(self) -> str:
        return getpass.getuser()

    def start(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.port = self.port or free_port(1)
        for name in ("host", "user"):
            make_key(self.folder / name)
        self._write()
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # noqa: PTH103
        words = [find("sshd"), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        words = self.people.inside(words) if self.people else words
        log = self.folder / "sshd.log"
        self.daemon = Daemon.start("sshd", words, log, {"PATH": SEARCH_PATH})
        self.daemon.await_ready(self._answers)

    def stop(self) -> None:
        """Ends the daemon; sessions end by themselves, or with `cut`."""
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon = None

    def cut(self) -> None:
        """Cuts every connection immediately and accepts no new ones, until `start`."""
        assert self.daemon is not None, "it was started"
        cut_sessions(self.daemon.process.pid)
        self.daemon.kill()
        self.daemon = None

    def _write(self) -> None:
        key, keys = str(self.folder / "host"), str(self.folder / "user.pub")
        # Sets the PATH and other variables that a real user's session has from the profile.
        text = sshd_config("127.0.0.1", self.port, key, keys, self.environment, self.people)
        (self.folder / "sshd_config").write_text(text)
        facts = {"alias": self.alias, "port": self.port, "user": self.user}
        self.ssh_config.write_text(_SSH.format(folder=self.folder, **facts))
        key = (self.folder / "host.pub").read_text().strip()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}\n")

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
