"""What a partition's nodes are, as the job asks for them. Standard library only."""

from __future__ import annotations

import re
from typing import Any

from fairway_agent.faults import Fault
from fairway_agent.slurm import commands
from fairway_agent.slurm.sbatch import Node, Resources


def resources(request: dict[str, Any]) -> Resources:
    """What a run asks of `partition`; Fault where there is none of that name.

    `vm_size` and `gpus` are what the target says of a node: they are asked for where the
    partition's nodes have such a feature, and GPUs that Slurm knows of.
    """
    name = str(request["partition"])
    nodes = _nodes(name)
    # As Fairway's own clusters call it: nd96isr_h100_v5 for Standard_ND96isr_H100_v5.
    size = str(request["vm_size"]).lower().removeprefix("standard_")
    has_feature = size and any(size in node.features for node in nodes)
    # One that has what the others have.
    largest = max(nodes, key=lambda node: (node.gpus, node.cpus))
    gpus = largest.gpus
    return Resources(
        partition=name,
        feature=size if has_feature else "",
        gpus=min(int(request["gpus"]), gpus),
        cpus=max(node.cpus for node in nodes),
        node=largest,
        nice=int(request["nice"]),
        account=str(request.get("account", "")),
        qos=str(request.get("qos", "")),
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
