"""What the runs of everybody have held of a partition, by Slurm's accounting.

Jobs of Fairway's are told by their comment, which a cluster keeps that has
`AccountingStoreFlags=job_comment`. Source: SchedMD, sacct(1). Standard library only.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from fairway_agent.slurm import commands
from fairway_agent.slurm.partition import largest_node
from fairway_agent.slurm.reports import Account, AccountsReport, AccountsRequest
from fairway_agent.slurm.task_state import seconds

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.slurm.sbatch import Node

_FIELDS = ("User", "Submit", "NNodes", "ElapsedRaw", "AllocTRES", "Comment")
_OWN = re.compile(r"fairway ([a-z][a-z0-9-]{0,62}) (?:tasks|finally) \d+ \d+")
_FIRST = "2000-01-01T00:00:00"
_DEADLINE = 120.0  # seconds for the history of years

REQUEST = AccountsRequest


def answer(_: Path, request: AccountsRequest, __: object) -> AccountsReport:
    """What the runs of a partition have held."""
    since = request.since
    first = _FIRST if since is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since))
    words = ["sacct", "-n", "-P", "-X", "-D", "-a", "-r", request.partition, "-S", first]
    try:
        # -D: of a job that was requeued each start has a row.
        listed = commands.run([*words, "-E", "now", "-o", ",".join(_FIELDS)], timeout=_DEADLINE)
    except commands.Refused as refused:
        return AccountsReport(None, str(refused))
    return AccountsReport(accounts(listed, largest_node(request.partition)))


def accounts(listed: str, node: Node) -> dict[str, Account]:
    """What sacct prints, by the run; a `node` has so many CPUs and GPUs."""
    found: dict[str, Account] = {}
    for line in listed.splitlines():
        fields = line.split("|", len(_FIELDS) - 1)
        if len(fields) < len(_FIELDS) or (own := _OWN.fullmatch(fields[-1])) is None:
            continue
        user, submitted, nodes, elapsed, allocated = fields[:-1]
        if not (nodes.isdigit() and elapsed.isdigit()):
            continue
        known = found.get(own[1]) or Account(user, seconds(submitted), 0.0)
        held = int(elapsed) * _share(allocated, int(nodes), node)
        found[own[1]] = Account(
            known.user,
            min(known.submitted, seconds(submitted)),
            known.node_seconds + held,
        )
    return found


def _share(allocated: str, nodes: int, node: Node) -> float:
    """How many nodes a job had, or which part of one: by what it had most of.

    An exclusive job has all CPUs. Where accounting keeps no number of them it had whole nodes.
    """
    pairs = dict(each.split("=", 1) for each in allocated.split(",") if "=" in each)
    cpus, gpus = (_count(pairs.get(name, "")) for name in ("cpu", "gres/gpu"))
    if not cpus or not node.cpus:
        return float(nodes)
    parts = (cpus / node.cpus, gpus / node.gpus if node.gpus else 0.0)
    return min(float(nodes), max(parts))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0
