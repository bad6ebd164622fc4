"""Runs on a cluster that Slurm schedules."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent.quick import dataclass
from fairway_agent.shared.reports import Health, NodeReport, NodesRequest, SubmitRequest
from fairway_boot.slurm.commands import DOWN
from fairway_core import archives
from fairway_core.findings import Finding, Severity
from fairway_core.target import SlurmAccess
from fairway_runner.engines.remote.engine import ScheduledEngine
from fairway_runner.runs.records import read_job

if TYPE_CHECKING:
    from fairway_runner.engines.remote.submission_state import SubmissionRecord
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder

# Prefixes of the reasons that the scheduler of a Fairway environment gives.
_OURS = ("fairway:", "Azure:")
_UNFIT = ("down", "drain", "fail", "unknown", "inval")


def is_unfit(state: str) -> bool:
    """Returns True if a node takes no jobs, according to Slurm's name for its state."""
    return any(word in state.lower() for word in _UNFIT) or state.endswith("*")


_MOST_PRIORITY = 1000


@dataclass
class SlurmEngine(ScheduledEngine[SlurmAccess]):
    """A cluster with a scheduler; `engines.engine.Engine` documents the methods."""

    NODE: ClassVar[str] = "fairway_agent.slurm"
    ROLE: ClassVar[str] = "login host"
    COLUMNS: ClassVar = ("cores", "features")
    HINTS: ClassVar = {
        "act_on_node": "delete its instance: Slurm starts another when a job needs it",
        "resize": "Slurm scales it between the limits of `nodes:` in the environment file",
    }
    # Findings of a submission that was refused before anything started.
    REFUSALS: ClassVar = frozenset(
        {"refused-job", "no-share", "no-partition", "failed-predecessor"}
    )
    DOWN: ClassVar = DOWN

    def no_capacity(self, job: Job) -> str:
        """Returns that the partition starts no jobs, or has too few fit nodes; "" otherwise."""
        found = self.look(health=True)
        state = "up" if found.health is None else found.health.available
        if state != "up":
            return f"the partition is {state}"
        fit = sum(not is_unfit(node.state) for node in found.nodes)
        return f"the job needs {job.nodes} nodes, and {fit} are fit" if fit < job.nodes else ""

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """Opens a shell on the login host, or on a node through the user's own job there."""
        connection = self.remote_host.connection
        if node is None:
            return connection.interactive(command, forward=forward)
        # ssh starts in the home directory, so a path below `~` is relative.
        files = f"{self.access.shared.removeprefix('~/')}/fairway/{archives.agent_digest()}"
        enter = ["python3", "-X", "pycache_prefix=/dev/null", "-s", files, f"{self.NODE}.nodes"]
        enter += [self.access.partition, self.find_node(node).name]
        if not forward:
            return connection.interactive([*enter, "shell", *command])
        # A server on the node may listen only on the loopback there. So a socket on the login host
        # is in between, in a folder that nobody else can access.
        here, _, there = forward.partition(":")
        socket = f"/tmp/fairway-{os.urandom(8).hex()}/s"  # noqa: S108 - cannot be guessed
        relay = [*enter, "relay", socket, there.rpartition(":")[2]]
        return connection.interactive(relay, forward=f"{here}:{socket}")

    def nodes_request(self, **asked: Any) -> NodesRequest:
        return NodesRequest(self.access.partition, **asked)

    def faults(self, nodes: Sequence[NodeReport], health: Health) -> Iterator[Finding]:
        partition = self.access.partition
        if (state := health.available) != "up":
            why = next((node.reason for node in nodes if node.reason.startswith(_OURS)), "")
            message = f"Slurm's partition `{partition}` is {state}{why and f': {why}'}"
            hint = f"on the scheduler: scontrol update partitionname={partition} state=up"
            if state == "missing":
                hint = "set the target's `partition:` to an existing one; list them: sinfo"
            yield Finding("no-partition", message, hint)
        for held in health.held:
            message = f"Slurm holds the job {held.job} ({held.name}): {held.reason}"
            hint = f"once that is fixed: scontrol release {held.job}"
            yield Finding("held-job", message, hint, severity=Severity.WARNING)
        for node in nodes:
            if is_unfit(node.state):
                why = f": {node.reason}" if node.reason else ""
                message = f"the node {node.name} is {node.state}{why}"
                resume = f"scontrol update nodename={node.name} state=resume"
                hint = f"once that is fixed, on the scheduler: {resume}"
                yield Finding("unfit-node", message, hint, severity=Severity.WARNING)

    def request(self, run: RunFolder, submission: SubmissionRecord, code: str) -> SubmitRequest:
        from fairway_core.catalog import vm_size

        size = vm_size(self.target.vm_size) if self.target.vm_size else None
        job = read_job(run.folder)
        return SubmitRequest(
            run.id,
            submission.submission,
            code,
            partition=self.access.partition,
            vm_size=size.name if size else "",
            gpus=size.gpu.count if size and size.gpu else 0,
            # Never below 0, which only operators may use.
            nice=_MOST_PRIORITY - job.priority_number,
            account=job.account or "",
            qos=job.qos or "",
        )


ENGINE = SlurmEngine
