"""Plain scale sets and single VMs: the local engine seen through a connection."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent.quick import dataclass
from fairway_agent.shared.reports import Done, Health, NodeReport, NodesRequest, SubmitRequest
from fairway_core.findings import Finding, Severity
from fairway_core.target import SshAccess
from fairway_runner.engines.engine import Node
from fairway_runner.engines.remote.engine import RemoteEngine

if TYPE_CHECKING:
    from fairway_runner.engines.remote.submission_state import SubmissionRecord
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder

# Seconds: copying the code may mean many small files on a slow file system.
_START_TIMEOUT = 1800.0


@dataclass
class SshEngine(RemoteEngine[SshAccess]):
    """A cluster without a scheduler; `engines.engine.Engine` documents the methods."""

    pause: ClassVar[float] = 1.0
    NODE: ClassVar[str] = "fairway_agent.ssh"
    NODES: ClassVar[str] = "runs.nodes"
    ROLE: ClassVar[str] = "main host"
    HINTS: ClassVar = {
        "act_on_node": "connect to it: fairway ssh {target} NODE",
        "resize": "set `nodes:` of the cluster in the environment file, and deploy it",
    }

    def hand_over(self, run: RunFolder, submission: SubmissionRecord, code: str) -> tuple[str, ...]:
        request = SubmitRequest(run.id, submission.submission, code)
        self.ask("runs.submit", request, Done, timeout=_START_TIMEOUT)
        return ()

    def no_capacity(self, job: Job) -> str:
        """Returns a message if fewer nodes are up than the job needs; "" if enough are up."""
        up = sum(node.fresh and not node.reason for node in self.look().nodes)
        return f"the job needs {job.nodes} nodes, and {up} are up" if up < job.nodes else ""

    def nodes(self) -> list[Node]:
        return [
            Node(
                name=node.name,
                state=_state(node),
                address=node.address,
                run=node.run,
                reason=node.reason if node.fresh else f"silent for {node.age / 60:.0f} min",
            )
            for node in self.look().nodes
        ]

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """Opens a shell on the main host, or from there on a node: over the cluster's own trust."""
        connection = self.remote_host.connection
        host = self.find_node(node) if node else None
        if host is None or host.own:
            return connection.interactive(command, forward=forward)
        if not forward:
            onwards = [host.address, shlex.join(command)] if command else [host.address]
            return connection.interactive(["ssh", *([] if command else ["-t"]), "--", *onwards])
        # A server on the node may listen only on the loopback there. So a socket on the main host
        # is in between, which nobody else can open.
        port, _, there = forward.partition(":")
        socket = f"/tmp/fairway-{os.urandom(8).hex()}"  # noqa: S108 - cannot be guessed
        way = ["-o", "ExitOnForwardFailure=yes", "-L", f"{socket}:{there}"]
        words = ["ssh", "-N", *way, "--", host.address]
        line = f"trap 'rm -f {socket}' EXIT; {shlex.join(words)}"
        return connection.interactive(["bash", "-c", line], forward=f"{port}:{socket}")

    def nodes_request(self, **asked: Any) -> NodesRequest:
        return NodesRequest(self.target.name, queue=self.access.queue or "", **asked)

    def faults(self, nodes: Sequence[NodeReport], health: Health) -> Iterator[Finding]:
        """Yields silent or unhealthy nodes, too few nodes, and a main host without ssh."""
        for node in nodes:
            if not node.fresh:
                message = f"the node {node.name} has been silent for {node.age / 60:.0f} min"
                hint = f"is it up? on it: systemctl status fairway-node ({node.address})"
                yield Finding("silent-node", message, hint, severity=Severity.WARNING)
            elif node.unreachable:
                message = f"the node {node.name} takes no connection from the main host"
                hint = f"has it just failed? on the main host: ssh {node.address}"
                yield Finding("silent-node", message, hint, severity=Severity.WARNING)
            elif node.reason:
                message = f"the node {node.name} is unhealthy, and gets no tasks: {node.reason}"
                hint = f"restart it, or have Azure replace it; on it: nvidia-smi ({node.address})"
                yield Finding("unwell-node", message, hint, severity=Severity.WARNING)
        fit = [node for node in nodes if node.fresh and not node.unreachable and not node.reason]
        if len(fit) < self.target.nodes.min:
            message = f"{len(fit)} of {self.target.nodes.min} nodes are up"
            hint = f"see which: fairway nodes list {self.target.name}"
            yield Finding("missing-nodes", message, hint)
        if len(nodes) > 1 and not health.has_ssh:
            hint = "install openssh-client there"
            yield Finding("missing-tool", "the main host has no ssh", hint)


ENGINE = SshEngine


def _state(node: NodeReport) -> str:
    if not node.fresh:
        return "silent"
    return "busy" if node.run else "unwell" if node.reason else "idle"
