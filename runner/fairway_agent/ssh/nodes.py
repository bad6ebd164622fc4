"""The nodes of a plain cluster, and whether its main host is fit. Standard library only."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from fairway_agent.allocators.cluster_nodes import known_hosts, queue_of
from fairway_agent.fanout import remote_exec
from fairway_agent.shared import runs
from fairway_agent.shared.reports import Health, NodeReport, NodesReport, NodesRequest
from fairway_boot.cluster import users

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = NodesRequest


def answer(shared: Path, request: NodesRequest, _: object) -> NodesReport:
    """The nodes, with the run on each. With `health` each is connected to."""
    queue = queue_of(request.queue, shared, request.group)
    used, known = users(queue, request.group), known_hosts(queue, request.group)
    has_ssh = shutil.which("ssh") is not None
    asked = [host.address for host in known if host.is_fresh and not host.is_near]
    gone = remote_exec.unreachable(asked) if request.health and has_ssh else []
    nodes = tuple(
        NodeReport(
            name=host.name,
            address=host.address,
            reason=host.trouble,
            run=used.get(host.name, ""),
            age=host.age,
            fresh=host.is_fresh,
            own=host.is_own,
            unreachable=host.address in gone,
        )
        for host in known
    )
    if not request.health:
        return NodesReport(nodes)
    free, fault = runs.probe(shared)
    return NodesReport(nodes, Health(free, time.time(), fault, has_ssh))
