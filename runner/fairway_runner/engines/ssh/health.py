"""What can be wrong with a plain cluster, told from one look at its main host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity
from fairway_runner.engines.remote.health import of_clock, of_shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_agent.ssh.reports import NodesReport
    from fairway_core.target import Target


def findings_of(found: NodesReport, target: Target, began: float, ended: float) -> list[Finding]:
    """The faults, from what the main host said between two moments of this machine's clock."""
    assert target.ssh is not None, "a target of this engine"
    return [
        *of_shared_folder(found.fault, found.free, target.ssh.shared, target.ssh.host),
        *of_clock(found.time, "main host", began, ended),
        *_of_nodes(found, target),
    ]


def _of_nodes(found: NodesReport, target: Target) -> Iterator[Finding]:
    for node in found.nodes:
        if not node.fresh:
            message = f"the node {node.name} has been silent for {node.age / 60:.0f} min"
            hint = f"is it up? on it: systemctl status fairway-node ({node.address})"
            yield Finding("silent-node", message, hint, severity=Severity.WARNING)
        elif node.unreachable:
            message = f"the node {node.name} takes no connection from the main host"
            hint = f"has it just failed? on the main host: ssh {node.address}"
            yield Finding("silent-node", message, hint, severity=Severity.WARNING)
        elif node.trouble:
            message = f"the node {node.name} is unhealthy, and gets no tasks: {node.trouble}"
            hint = f"restart it, or have Azure replace it; on it: nvidia-smi ({node.address})"
            yield Finding("unwell-node", message, hint, severity=Severity.WARNING)
    fit = [n for n in found.nodes if n.fresh and not n.unreachable and not n.trouble]
    if len(fit) < target.nodes.min:
        message = f"{len(fit)} of {target.nodes.min} nodes are up"
        yield Finding("missing-nodes", message, "see which: fairway nodes list " + target.name)
    if len(found.nodes) > 1 and not found.has_ssh:
        yield Finding("missing-tool", "the main host has no ssh", "install openssh-client there")
