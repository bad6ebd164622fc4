"""Runs on a plain scale set or a single VM, over OpenSSH and a folder that its nodes share."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent.shared.reports import CancelRequest, Done
from fairway_agent.ssh.reports import NodesReport, NodesRequest, StartRequest
from fairway_core.findings import UserError
from fairway_runner.engines.engine import Node, unsupported
from fairway_runner.engines.remote import copying, submission_state
from fairway_runner.engines.remote.engine import RemoteEngine
from fairway_runner.engines.remote.submission_state import Submission
from fairway_runner.engines.ssh.health import findings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.ssh.reports import NodeReport
    from fairway_core.findings import Finding
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder

# Seconds: the run's copy of its code may be many small files on a slow file system.
_START_TIMEOUT = 1800.0


@dataclass
class SshEngine(RemoteEngine):
    """A cluster without a scheduler; see `engines.engine.Engine` for what each method does."""

    pause: ClassVar[float] = 1.0
    NODE: ClassVar[str] = "fairway_agent.ssh"

    def require(self, job: Job, needs: Sequence[str]) -> None:
        """UserError for more nodes than the cluster has, and for containers over MPI.

        Whether its nodes run containers is seen when a task starts.
        """
        self.require_launcher(job)
        self.require_nodes(job)

    def start(
        self,
        run: RunFolder,
        lock: int,
        snapshot: Path,
        secrets: Mapping[str, str],
        *,
        retry: bool = False,
    ) -> None:
        """Brings the run to the shared folder and starts its supervisor on the main host."""
        try:
            submission = self.begin(run, retry=retry)
            if submission.complete:
                return
            self.mirror.publish(run, snapshot)
            request = StartRequest(run.id, submission.submission, code=snapshot.name)
            self.ask("start", request, Done, timeout=_START_TIMEOUT)
            replace(submission, complete=True).write(run)
        finally:
            os.close(lock)

    def refresh(self, runs: Sequence[RunFolder], *, logs: bool = False) -> None:
        """One command on the main host for all of them."""
        self.mirror.refresh(runs, logs=logs)

    def wait(self, run: RunFolder) -> None:
        """Looks at it until it has ended."""
        self.mirror.wait(run, self.pause)

    def cancel(self, run: RunFolder) -> None:
        """Tells the run's supervisor to end, which ends what runs on all nodes."""
        if submission_state.is_final(run):
            return
        last = submission_state.read(run) or Submission(0)
        self.ask("cancel", CancelRequest(run.id, last.submission), Done)
        self.mirror.cancel_unknown(run)
        self.wait(run)

    def no_capacity(self, job: Job) -> str:
        """That fewer nodes are up than it needs."""
        up = sum(node.fresh and not node.trouble for node in self._look().nodes)
        return f"the job needs {job.nodes} nodes, and {up} are up" if up < job.nodes else ""

    def nodes(self) -> list[Node]:
        """As they announced themselves."""
        return [
            Node(
                name=node.name,
                state=_state(node),
                address=node.address,
                run=node.run,
                reason=node.trouble if node.fresh else f"silent for {node.age / 60:.0f} min",
            )
            for node in self._look().nodes
        ]

    def act_on_node(self, action: str, node: str) -> None:
        """Nothing schedules these nodes, and nothing but Azure restarts them."""
        raise unsupported(
            self, f"{action} a node", f"connect to it: fairway ssh {self.target.name} NODE"
        )

    def resize(self, nodes: int) -> None:
        """Terraform sets how many there are."""
        raise unsupported(
            self, "be resized", "set `nodes:` of the cluster in the environment file, and deploy it"
        )

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """On the main host, or from there on a node: over the cluster's own trust."""
        connection = self.remote_host.connection
        host = self._host(node) if node else None
        if host is None or host.own:
            return connection.interactive(command, forward=forward)
        if not forward:
            return connection.interactive(_onwards(host.address, command))
        # What listens on the node may listen there on its loopback alone: a socket on the main
        # host, which nobody else can open, is in between.
        port, _, there = forward.partition(":")
        socket = f"/tmp/fairway-{secrets.token_hex(8)}"  # noqa: S108 - cannot be guessed
        way = ["-o", "ExitOnForwardFailure=yes", "-L", f"{socket}:{there}"]
        words = ["ssh", "-N", *way, "--", host.address]
        line = f"trap 'rm -f {socket}' EXIT; {shlex.join(words)}"
        return connection.interactive(["bash", "-c", line], forward=f"{port}:{socket}")

    def doctor(self) -> list[Finding]:
        """Whether the main host, the shared folder and the nodes are fit."""
        try:
            began = time.time()
            found = self._look(health=True)
        except UserError as error:
            return list(error.findings)
        assert self.target.ssh is not None, "a target with this engine has the section"
        rest = findings_of(found, self.target, began, time.time())
        return [*rest, *copying.of_shell(self.remote_host.connection, self.deadline)]

    def _look(self, *, health: bool = False) -> NodesReport:
        assert self.target.ssh is not None, "a target with this engine has the section"
        request = NodesRequest(self.target.name, health, self.target.ssh.queue or "")
        return self.ask("nodes", request, NodesReport)

    def _host(self, name: str) -> NodeReport:
        nodes = self._look().nodes
        for node in nodes:
            if name in (node.name, node.address):
                return node
        self.unknown_node(name, [node.name for node in nodes])


ENGINE = SshEngine


def _state(node: NodeReport) -> str:
    if not node.fresh:
        return "silent"
    return "busy" if node.run else "unwell" if node.trouble else "idle"


def _onwards(address: str, command: Sequence[str]) -> list[str]:
    """The command line that the main host runs to get to a node."""
    if not command:
        return ["ssh", "-t", "--", address]
    return ["ssh", "--", address, shlex.join(command)]
