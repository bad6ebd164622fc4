"""Machines of a cluster, all of them this one: login, accounts, and settings for MPI."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.fanout.sshd_mesh import KEYS_ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


_MATCH = """\
Match User {names}
    AuthorizedKeysFile .ssh/authorized_keys
    SetEnv {environment}
"""
_SSHD = f"""\
Port {{port}}
ListenAddress {{address}}
HostKey {{key}}
AuthorizedKeysFile {{keys}}
{KEYS_ALONE}Subsystem sftp internal-sftp
"""
_INSIDE = 'mount --bind "$1" /etc && shift && exec "$@"'


@dataclass(frozen=True)
class People:
    """Accounts of a cluster. `etc` replaces /etc on its machines; `names` are the accounts, which
    log in with ~/.ssh/authorized_keys."""

    etc: Path
    names: Sequence[str]

    def inside(self, words: Sequence[str]) -> list[str]:
        """Returns the command line that runs a command where these accounts exist."""
        unshare = shutil.which("unshare") or "unshare"
        return [unshare, "--mount", "sh", "-c", _INSIDE, "sh", str(self.etc), *words]

    def sshd_lines(self, environment: Mapping[str, str]) -> str:
        """Returns lines of sshd_config for these people: sessions get a home and programs they may
        run."""
        own = {**environment, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        del own["HOME"]
        return _MATCH.format(names=",".join(self.names), environment=_words(own))


def sshd_config(
    address: str,
    port: int,
    key: str,
    keys: str,
    environment: Mapping[str, str],
    people: People | None = None,
) -> str:
    """Returns the configuration of an sshd that accepts only keys; `keys` is the file of accepted
    ones, `key` its own, and `environment` the variables of sessions."""
    text = _SSHD.format(port=port, address=address, key=key, keys=keys)
    text += f"SetEnv {_words(environment)}\n" if environment else ""
    return text + (people.sshd_lines(environment) if people else "")


def make_key(file: Path) -> None:
    if not file.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
        subprocess.run(words, check=True)


def _words(environment: Mapping[str, str]) -> str:
    return " ".join(f'"{name}={value}"' for name, value in environment.items())


# Processes are not bound to cores, and yield while they wait. Unless `pml` is set, Open MPI's wheel
# searches for fabrics for a second.
SHARED_CORES = {
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
}


def descendants(pid: int) -> list[int]:
    found, left = [], [pid]
    while left:
        try:
            path = f"/proc/{left[0]}/task/{left.pop(0)}/children"
            with open(path, encoding="ascii") as file:  # noqa: PTH123
                children = [int(word) for word in file.read().split()]
        except OSError:
            continue
        found += children
        left += children
    return found


def cut_sessions(pid: int) -> int:
    """Cuts the connections of sshds below the process, and returns how many; their commands may
    continue."""
    ended = 0
    for each in descendants(pid):
        # The process may have ended by now.
        with suppress(OSError), open(f"/proc/{each}/cmdline", "rb") as file:  # noqa: PTH123
            title = file.read()
            if title.startswith(b"sshd") and b"[listener]" not in title:
                os.kill(each, signal.SIGKILL)
                ended += 1
    return ended
