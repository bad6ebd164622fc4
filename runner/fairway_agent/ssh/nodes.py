"""The nodes of a plain cluster, and whether its main host is fit. Standard library only."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any

from fairway_agent.allocators.hosts import known_hosts
from fairway_agent.allocators.queue import users
from fairway_agent.fanout import shell

if TYPE_CHECKING:
    from pathlib import Path


def answer(
    shared: Path,
    request: dict[str, Any],
    payload: IO[bytes],  # noqa: ARG001
) -> dict[str, Any]:
    """The nodes of `cluster`, with the run on each; of the main host its time, what is wrong
    with the shared folder, its Python, and how many bytes are free there.

    With `health` each node is connected to, and those that cannot be are `unreachable`.
    """
    cluster = str(request["cluster"])
    used, known = users(shared, cluster), known_hosts(shared, cluster)
    has_ssh = shutil.which("ssh") is not None
    asked = [host.address for host in known if host.is_fresh and not host.is_near]
    gone = shell.unreachable(asked) if request.get("health") and has_ssh else []
    hosts = [
        {
            "name": host.name,
            "address": host.address,
            "own": host.is_own,
            "age": host.age,
            "fresh": host.is_fresh,
            "trouble": host.trouble,
            "run": used.get(host.name, ""),
            "unreachable": host.address in gone,
        }
        for host in known
    ]
    return {
        "hosts": hosts,
        "time": time.time(),
        "fault": _fault(shared),
        "python": platform.python_version(),
        "free": shutil.disk_usage(shared).free,
        "has_ssh": has_ssh,
    }


def _fault(shared: Path) -> str:
    """Why the shared folder cannot be used; "" where it can."""
    if not os.access(shared, os.W_OK):
        return "it is not writable"
    try:
        with tempfile.TemporaryFile(dir=shared) as probe:
            probe.write(b"x" * 4096)
            probe.flush()
    except OSError as error:
        return str(error.strerror)
    return ""
