"""The programs that the simulated cluster is made of, and where this machine has them."""

from __future__ import annotations

import os
import shutil

# By package, as Debian and Ubuntu name them.
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

# Daemons are there, and not on every user's PATH.
SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def find(program: str) -> str:
    """Its full path."""
    path = shutil.which(program, path=SEARCH_PATH)
    assert path is not None, f"{program}: see missing()"
    return path


def missing() -> str:
    """What is to be done before a cluster can be started here; "" where all is there."""
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
