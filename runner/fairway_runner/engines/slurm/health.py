"""What can be wrong with a Slurm cluster, told from one look at its login host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.target import SlurmAccess

_MOST_SKEW = 30.0  # seconds between two clocks, beyond which times in logs mislead
_LEAST_FREE = 1 << 30  # bytes
# With what the scheduler of a Fairway environment begins the reasons that it gives.
_OURS = ("fairway:", "Azure:")
_UNFIT = ("down", "drain", "fail", "unknown", "inval")


def findings_of(
    found: Mapping[str, Any], access: SlurmAccess, began: float, ended: float
) -> list[Finding]:
    """The faults, from what the login host said between two moments of this machine's clock."""
    return [
        *_of_shared_folder(found, access),
        *_of_clock(found, began, ended),
        *_of_partition(found, access),
        *_of_nodes(found),
    ]


def is_unfit(state: str) -> bool:
    """Whether a node takes no jobs, by Slurm's word for its state."""
    return any(word in state.lower() for word in _UNFIT) or state.endswith("*")


def _of_shared_folder(found: Mapping[str, Any], access: SlurmAccess) -> Iterator[Finding]:
    if found["fault"]:
        message = f"the shared folder {access.shared} cannot be used: {found['fault']}"
        hint = f"look at its mount on {access.host}: findmnt -T {access.shared}"
        yield Finding("unwritable-folder", message, hint)
    elif found["free"] < _LEAST_FREE:
        message = f"the shared folder {access.shared} has {found['free'] >> 20} MiB left"
        yield Finding("full-disk", message, "remove old runs: fairway clean")


def _of_clock(found: Mapping[str, Any], began: float, ended: float) -> Iterator[Finding]:
    off = max(began - found["time"], found["time"] - ended, 0.0)
    if off > _MOST_SKEW:
        message = f"the login host's clock is {off:.0f} s away from this machine's"
        hint = "compare the two with: timedatectl"
        yield Finding("skewed-clock", message, hint, severity=Severity.WARNING)


def _of_partition(found: Mapping[str, Any], access: SlurmAccess) -> Iterator[Finding]:
    state = found["available"]
    if state != "up":
        why = next((n["reason"] for n in found["nodes"] if n["reason"].startswith(_OURS)), "")
        message = f"Slurm's partition `{access.partition}` is {state}{why and f': {why}'}"
        hint = f"on the scheduler: scontrol update partitionname={access.partition} state=up"
        yield Finding("no-partition", message, "" if state == "missing" else hint)
    for job, name, reason in found["held"]:
        message = f"Slurm holds the job {job} ({name}): {reason}"
        hint = f"once that is fixed: scontrol release {job}"
        yield Finding("held-job", message, hint, severity=Severity.WARNING)


def _of_nodes(found: Mapping[str, Any]) -> Iterator[Finding]:
    for node in found["nodes"]:
        if is_unfit(node["state"]):
            why = f": {node['reason']}" if node["reason"] else ""
            message = f"the node {node['name']} is {node['state']}{why}"
            resume = f"scontrol update nodename={node['name']} state=resume"
            hint = f"once that is fixed, on the scheduler: {resume}"
            yield Finding("unfit-node", message, hint, severity=Severity.WARNING)
