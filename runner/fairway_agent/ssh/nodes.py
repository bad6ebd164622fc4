"""The nodes of a plain cluster, and whether its main host is fit. Standard library only."""

from __future__ import annotations

import platform
import shutil
import time
from typing import TYPE_CHECKING

from fairway_agent.allocators.cluster_nodes import known_hosts, queue_of
from fairway_agent.fanout import remote_exec
from fairway_agent.shared import runs
from fairway_agent.ssh.reports import NodeReport, NodesReport, NodesRequest
from fairway_boot.cluster import users

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = NodesRequest


def answer(shared: Path, request: NodesRequest, _: object) -> NodesReport:
    """The nodes of `cluster`, with the run on each; of the main host its time, what is wrong
    with the shared folder, its Python, and how many bytes are free there.

    With `health` each node is connected to, and those that cannot be are `unreachable`.
    """
    queue = queue_of(request.queue, shared, request.cluster)
    used, known = users(queue, request.cluster), known_hosts(queue, request.cluster)
    has_ssh = shutil.which("ssh") is not None
    asked = [host.address for host in known if host.is_fresh and not host.is_near]
    gone = remote_exec.unreachable(asked) if request.health and has_ssh else []
    nodes = [
        NodeReport(
            name=host.name,
            address=host.address,
            fresh=host.is_fresh,
            age=host.age,
            own=host.is_own,
            trouble=host.trouble,
            run=used.get(host.name, ""),
            unreachable=host.address in gone,
        )
        for host in known
    ]
    free, fault = runs.probe(shared)
    return NodesReport(
        nodes=tuple(nodes),
        time=time.time(),
        python=platform.python_version(),
        free=free,
        has_ssh=has_ssh,
        fault=fault,
    )
