"""The nodes of a partition and how they are, and what is done with one."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from fairway_agent.shared import runs
from fairway_agent.shared.reports import Health, HeldJob, NodeReport, NodesReport, NodesRequest
from fairway_agent.slurm.jobs import HELD
from fairway_boot.files import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from pathlib import Path


_FIELDS = "%N|%T|%o|%c|%f|%E"

_COMMENT = re.compile(r"^NodeName=(\S+) .* Comment=(\S+)", re.MULTILINE)

REQUEST = NodesRequest


def answer(shared: Path, request: NodesRequest, _: object) -> NodesReport:
    """The nodes of a partition, each with what runs there."""
    if request.action:
        _act(request.action, request.node)
    nodes = tuple(_nodes(request.group))
    return NodesReport(nodes, _health(shared, request.group) if request.health else None)


def _nodes(partition: str) -> list[NodeReport]:
    listed = commands.run(["sinfo", "-h", "-N", "-p", partition, "-o", _FIELDS])
    # sinfo does not list the scheduler's comments.
    described = commands.run(["scontrol", "-o", "show", "node"])
    runs, machines = _runs(partition), dict(_COMMENT.findall(described))
    found = []
    for line in listed.splitlines():
        name, state, address, cores, features, reason = line.split("|", _FIELDS.count("|"))
        node = NodeReport(
            name,
            state,
            address,
            reason="" if reason == "none" else reason,
            run=", ".join(runs.get(name, ())),
            cores=cores,
            features=features,
            machine=machines.get(name, ""),
        )
        found.append(node)
    return found


def _runs(partition: str) -> dict[str, list[str]]:
    """The runs, or the names of others' jobs, on each node."""
    found: dict[str, list[str]] = {}
    listed = commands.run(["squeue", "-h", "-t", "R,CF,CG", "-p", partition, "-o", "%j|%N"])
    for line in listed.splitlines():
        name, _, nodes = line.rpartition("|")
        for node in commands.run(["scontrol", "show", "hostnames", nodes]).split() if nodes else ():
            found.setdefault(node, []).append(name)
    return found


def _act(action: str, node: str) -> None:
    """Drains, resumes or reboots; Fault where Slurm does not let this user, or has no such node."""
    user = os.environ.get("USER", "somebody")
    changes = {
        "reboot": ("reboot", "ASAP", "nextstate=RESUME", f"reason=rebooted by {user}", node),
        "drain": ("update", f"nodename={node}", "state=drain", f"reason=drained by {user}"),
        "resume": ("update", f"nodename={node}", "state=resume"),
    }
    try:
        commands.run(["scontrol", *changes[action]])
    except commands.Refused as refused:
        said = re.sub(r"^\S+: error: ", "", str(refused).strip().splitlines()[-1])
        hint = "it is for Slurm's operators: try it with sudo on the scheduler"
        if "permission" not in said.lower() and "denied" not in said.lower():
            hint = f"see what it is doing: scontrol show node {node}"
        raise Fault("refused-action", f"Slurm does not {action} {node}: {said}", hint, 5) from None


def _health(shared: Path, partition: str) -> Health:
    listed = commands.run(["sinfo", "-h", "-p", partition, "-o", "%a"]).split()
    held = commands.run(
        ["squeue", "-h", "-p", partition, "-t", "PD,SPECIAL_EXIT", "-o", "%i|%j|%r"]
    )
    free, fault = runs.probe(shared)
    jobs = [HeldJob(*line.split("|", 2)) for line in held.splitlines()]
    return Health(
        free,
        time.time(),
        fault,
        available=listed[0] if listed else "missing",
        held=tuple(job for job in jobs if job.reason.startswith(HELD)),
    )
