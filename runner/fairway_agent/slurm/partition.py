"""What a partition's nodes are, as the job asks for them. Standard library only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_agent.slurm.sbatch import Node, Resources
from fairway_boot.faults import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from fairway_agent.slurm.reports import SubmitRequest


def resources(request: SubmitRequest) -> Resources:
    """What a run asks of its partition; Fault where there is none of that name.

    What the target says of a node is asked for where the partition's nodes have such a feature,
    and GPUs that Slurm knows of.
    """
    nodes = _nodes(request.partition)
    # As Fairway's own clusters call it: nd96isr_h100_v5 for Standard_ND96isr_H100_v5.
    size = request.vm_size.lower().removeprefix("standard_")
    has_feature = size and any(size in node.features for node in nodes)
    largest = max(nodes, key=lambda node: (node.gpus, node.cpus))  # has what the others have
    gpus = largest.gpus
    return Resources(
        partition=request.partition,
        feature=size if has_feature else "",
        gpus=min(request.gpus, gpus),
        cpus=max(node.cpus for node in nodes),
        node=largest,
        nice=request.nice,
        account=request.account,
        qos=request.qos,
    )


def _nodes(name: str) -> list[Node]:
    """Each kind of node."""
    listed = commands.run(["sinfo", "-h", "-p", name, "-o", "%f|%G|%c|%m"]).split()
    if not listed:
        known = commands.run(["sinfo", "-h", "-o", "%R"]).split()
        hint = f"it has: {', '.join(sorted(set(known)))}" if known else ""
        raise Fault("no-partition", f"Slurm has no partition `{name}`", hint, 2)
    found = []
    for line in listed:
        features, gres, cpus, memory = line.split("|")
        gpus = sum(int(count) for count in re.findall(r"gpu(?::[^:,(]+)?:(\d+)", gres))
        size = int(cpus.rstrip("+")), int(memory.rstrip("+"))
        found.append(Node(tuple(features.split(",")), gpus, *size))
    return found
