"""What can be wrong with a Slurm cluster, told from one look at its login host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity
from fairway_runner.engines.remote.health import of_clock, of_shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_agent.slurm.reports import Health, NodeReport, NodesReport
    from fairway_core.target import SlurmAccess

# With what the scheduler of a Fairway environment begins the reasons that it gives.
_OURS = ("fairway:", "Azure:")
_UNFIT = ("down", "drain", "fail", "unknown", "inval")


def findings_of(
    found: NodesReport, access: SlurmAccess, began: float, ended: float
) -> list[Finding]:
    """The faults, from what the login host said between two moments of this machine's clock."""
    if (health := found.health) is None:
        return list(_of_nodes(found.nodes))
    return [
        *of_shared_folder(health.fault, health.free, access.shared, access.host),
        *of_clock(health.time, "login host", began, ended),
        *_of_partition(health, found.nodes, access),
        *_of_nodes(found.nodes),
    ]


def is_unfit(state: str) -> bool:
    """Whether a node takes no jobs, by Slurm's word for its state."""
    return any(word in state.lower() for word in _UNFIT) or state.endswith("*")


def _of_partition(
    health: Health, nodes: Sequence[NodeReport], access: SlurmAccess
) -> Iterator[Finding]:
    if (state := health.available) != "up":
        why = next((node.reason for node in nodes if node.reason.startswith(_OURS)), "")
        message = f"Slurm's partition `{access.partition}` is {state}{why and f': {why}'}"
        hint = f"on the scheduler: scontrol update partitionname={access.partition} state=up"
        if state == "missing":
            hint = "set the target's `partition:` to an existing one; list them: sinfo"
        yield Finding("no-partition", message, hint)
    for held in health.held:
        message = f"Slurm holds the job {held.job} ({held.name}): {held.reason}"
        hint = f"once that is fixed: scontrol release {held.job}"
        yield Finding("held-job", message, hint, severity=Severity.WARNING)


def _of_nodes(nodes: Sequence[NodeReport]) -> Iterator[Finding]:
    for node in nodes:
        if is_unfit(node.state):
            why = f": {node.reason}" if node.reason else ""
            message = f"the node {node.name} is {node.state}{why}"
            resume = f"scontrol update nodename={node.name} state=resume"
            hint = f"once that is fixed, on the scheduler: {resume}"
            yield Finding("unfit-node", message, hint, severity=Severity.WARNING)
