"""What can be wrong with a plain cluster, told from one look at its main host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding, Severity
from fairway_runner.engines.remote.health import of_clock, of_shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.target import Target


def findings_of(
    found: Mapping[str, Any], target: Target, began: float, ended: float
) -> list[Finding]:
    """The faults, from what the main host said between two moments of this machine's clock."""
    assert target.ssh is not None, "a target of this engine"
    return [
        *of_shared_folder(found, target.ssh.shared, target.ssh.host),
        *of_clock(found, "main host", began, ended),
        *_of_nodes(found, target),
    ]


def _of_nodes(found: Mapping[str, Any], target: Target) -> Iterator[Finding]:
    fresh = [
        host
        for host in found["hosts"]
        if host["fresh"] and not host["unreachable"] and not host["trouble"]
    ]
    for host in found["hosts"]:
        if not host["fresh"]:
            message = f"the node {host['name']} has been silent for {host['age'] / 60:.0f} min"
            hint = f"is it up? on it: systemctl status fairway-node ({host['address']})"
            yield Finding("silent-node", message, hint, severity=Severity.WARNING)
        elif host["unreachable"]:
            message = f"the node {host['name']} takes no connection from the main host"
            hint = f"has it just died? on the main host: ssh {host['address']}"
            yield Finding("silent-node", message, hint, severity=Severity.WARNING)
        elif host["trouble"]:
            message = f"the node {host['name']} is unwell, and gets no tasks: {host['trouble']}"
            hint = f"restart it, or have Azure replace it; on it: nvidia-smi ({host['address']})"
            yield Finding("unwell-node", message, hint, severity=Severity.WARNING)
    if len(fresh) < target.nodes.min:
        message = f"{len(fresh)} of {target.nodes.min} nodes are there"
        yield Finding("missing-nodes", message, "see which: fairway nodes list " + target.name)
    if len(found["hosts"]) > 1 and not found["has_ssh"]:
        yield Finding("missing-tool", "the main host has no ssh", "install openssh-client there")
