"""This machine: how many processes a job here has by itself, and which targets lead to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_runner.engines.capabilities import runs_here

if TYPE_CHECKING:
    from fairway_core.target import Target

_PATIENCE = 30.0  # seconds for ssh to say what its configuration has of a host


def processes_per_node() -> int:
    """One for each NVIDIA GPU of this machine, or for each core where it has none."""
    gpus = [each for each in Path("/dev").glob("nvidia[0-9]*") if each.name[6:].isdecimal()]
    return len(gpus) or len(os.sched_getaffinity(0))


def uses_this_machine(target: Target) -> bool:
    """Whether what runs there could read what we can: its tasks are processes of this machine, or
    this machine itself is the host of the cluster, by whatever name or address, and its account is
    ours or root's. On a login node people's runs may have an account of their own."""
    access = target.access
    if access is None or runs_here(target.engine):
        return runs_here(target.engine)
    return any(_leads_here(target, host, access.user) for host in access.all_hosts)


def _leads_here(target: Target, host: str, user: str) -> bool:
    from fairway_runner.engines.remote.connection import is_here

    if is_here(host):
        return True  # without ssh, as ourselves
    if target.reach is not None:
        return False  # its network may have our addresses
    host, user = _as_ssh_has_it(host, user)
    return _is_own_account(user) and _is_own_address(host)


def _as_ssh_has_it(host: str, user: str) -> tuple[str, str]:
    """Host and user by the configuration of ssh, in which any name may be that of any host."""
    import subprocess

    config = os.environ.get("FAIRWAY_SSH_CONFIG", "")
    words = ["ssh", *(["-F", config] if config else []), "-G", *(["-l", user] if user else [])]
    try:
        told = subprocess.run(
            [*words, "--", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return host, user  # without ssh nothing is started there
    facts = dict(line.split(" ", 1) for line in told.splitlines() if " " in line)
    return facts.get("hostname", host), facts.get("user", user)


def _is_own_account(user: str) -> bool:
    """Whether it may read what this process can; one that is not known here may."""
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid in (0, os.geteuid())
    except KeyError:
        return True


def _is_own_address(host: str) -> bool:
    """Whether a name or an address is one of this machine: a program here can listen on it."""
    import socket

    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False
