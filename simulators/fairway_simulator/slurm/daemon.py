"""A daemon in the foreground under this process: started, watched, and ended with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


# The packages of programs in Debian and Ubuntu.
_PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}

# With the folders of daemons, which not every user has on PATH.
SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def find(program: str) -> str:
    path = shutil.which(program, path=SEARCH_PATH)
    assert path is not None, f"{program}: see missing()"
    return path


def missing() -> str:
    """The obstacle to starting a cluster here, with a remedy; "" if there is none."""
    wanted = [
        package
        for program, package in _PROGRAMS.items()
        if shutil.which(program, path=SEARCH_PATH) is None
    ]
    if wanted:
        packages = " ".join(sorted(set(wanted)))
        return f"not found; on Debian: sudo apt-get install --no-install-recommends {packages}"
    if os.geteuid() != 0:
        return "nodes are namespaces of their own, which takes root: use sudo, or a container"
    return ""


_PATIENCE = 120.0  # seconds; enough even on a busy machine
_PAUSE = 0.02
_AGAIN = 5.0  # seconds after which a daemon that still runs is asked to end again


class DaemonFailed(Exception):
    """Error of a daemon that ended, or was not ready in time; the message has the end of its
    log."""


@dataclass
class Daemon:
    """A running program; its output is in `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(
        cls, name: str, words: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> Daemon:
        """Starts it in a session of its own, which Ctrl-C at the terminal does not reach.

        It ends with the thread that starts it, even if that is killed.
        """
        with log.open("ab") as out:
            process = subprocess.Popen(
                [find("setpriv"), "--pdeathsig", "TERM", "--", *words],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return cls(name, process, log)

    def await_ready(self, is_ready: Callable[[], bool]) -> None:
        """Waits until it is ready. Raises DaemonFailed if it ended, or takes too long."""
        deadline = time.monotonic() + _PATIENCE
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace").splitlines()[-5:]
                raise DaemonFailed(f"{self.name} did not start:\n" + "\n".join(said))
            time.sleep(_PAUSE)

    def stop(self) -> None:
        """Asks it to end until it has.

        slurmd checks if it was asked, then waits for a connection: it misses a signal between the
        two.
        """
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_AGAIN)
                return
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
