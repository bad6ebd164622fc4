"""What can be wrong with a plain cluster, told from one look at its main host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.target import Target

_MOST_SKEW = 30.0  # seconds between two clocks, beyond which times in logs mislead
_LEAST_FREE = 1 << 30  # bytes


def findings_of(
    found: Mapping[str, Any], target: Target, began: float, ended: float
) -> list[Finding]:
    """The faults, from what the main host said between two moments of this machine's clock."""
    return [
        *_of_shared_folder(found, target),
        *_of_clock(found, began, ended),
        *_of_nodes(found, target),
    ]


def _of_shared_folder(found: Mapping[str, Any], target: Target) -> Iterator[Finding]:
    assert target.ssh is not None, "a target of this engine"
    shared = target.ssh.shared
    if found["fault"]:
        message = f"the shared folder {shared} cannot be used: {found['fault']}"
        hint = f"look at its mount on {target.ssh.host}: findmnt -T {shared}"
        yield Finding("unwritable-folder", message, hint)
    elif found["free"] < _LEAST_FREE:
        message = f"the shared folder {shared} has {found['free'] >> 20} MiB left"
        yield Finding("full-disk", message, "remove old runs: fairway clean")


def _of_clock(found: Mapping[str, Any], began: float, ended: float) -> Iterator[Finding]:
    off = max(began - found["time"], found["time"] - ended, 0.0)
    if off > _MOST_SKEW:
        message = f"the main host's clock is {off:.0f} s away from this machine's"
        hint = "compare the two with: timedatectl"
        yield Finding("skewed-clock", message, hint, severity=Severity.WARNING)


def _of_nodes(found: Mapping[str, Any], target: Target) -> Iterator[Finding]:
    fresh = [host for host in found["hosts"] if host["fresh"] and not host["unreachable"]]
    for host in found["hosts"]:
        if not host["fresh"]:
            message = f"the node {host['name']} has been silent for {host['age'] / 60:.0f} min"
            hint = f"is it up? on it: systemctl status fairway-node ({host['address']})"
            yield Finding("silent-node", message, hint, severity=Severity.WARNING)
        elif host["unreachable"]:
            message = f"the node {host['name']} takes no connection from the main host"
            hint = f"has it just died? on the main host: ssh {host['address']}"
            yield Finding("silent-node", message, hint, severity=Severity.WARNING)
    if len(fresh) < target.nodes.min:
        message = f"{len(fresh)} of {target.nodes.min} nodes are there"
        yield Finding("missing-nodes", message, "see which: fairway nodes list " + target.name)
    if len(found["hosts"]) > 1 and not found["has_ssh"]:
        yield Finding("missing-tool", "the main host has no ssh", "install openssh-client there")
