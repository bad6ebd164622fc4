"""The nodes of a plain cluster: a task's program on its main host prepares and samples the others.
Standard library only."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import bundle, container, scratch
from fairway_agent.fanout import launchers
from fairway_agent.fanout.remote_exec import REACHED, lost_nodes
from fairway_agent.nodes.shared import SharedNodes
from fairway_agent.task.task import Loss
from fairway_agent.task_state import NODE

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.task.task import Task

_ATTEMPT, _REMOTE_EXEC = "fairway_agent.ssh.attempt", "fairway_agent.fanout.remote_exec"


class SshNodes(SharedNodes):
    """Nodes that a run of a cluster has been lent; a task knows its own when it starts."""

    MARK: ClassVar = scratch.LEASE
    WAY: ClassVar = "ssh"
    LOSSES_ARE_FAILURES: ClassVar = True

    def mark(self, task: Task) -> str:
        """The attempt's lease, which marks whatever runs for it, on every node."""
        return scratch.lease(task.run_folder, task.name, task.attempt, task.hosts)

    def prepare(self, task: Task) -> None:
        """Also forgets which nodes were reached."""
        super().prepare(task)
        shutil.rmtree(task.folder / REACHED, ignore_errors=True)

    def command(self, task: Task, script: Path) -> list[str]:
        """On the main host, by ssh where that is another one."""
        attempt = [*bundle.program(_ATTEMPT, waits=True), str(task.run_folder), str(script)]
        main = task.hosts[0]
        if main.is_near:
            return attempt
        return [*bundle.program(_REMOTE_EXEC), "--exactly", main.address, *attempt]

    def sampling(self, task: Task, environment: dict[str, str]) -> None:
        """The program on the main host sees to that."""

    def loss(self, task: Task) -> Loss | None:
        """Which could not be reached any more."""
        lost = lost_nodes(task.folder)
        if not lost:
            return None
        names = [host.name for host in task.hosts if host.address in lost or host.name in lost]
        words = "node" if len(names) == 1 else "nodes"
        reason = f"{words} {', '.join(names or lost)} could not be reached any more"
        return Loss(NODE, reason, lost)

    def contract(self, task: Task) -> dict[str, str]:
        """Also the Python by which the nodes' programs run; the user's own arguments for mpirun
        stay."""
        found = super().contract(task)
        del found["FAIRWAY_MPI_ARGS"]
        return {**found, "_FAIRWAY_PYTHON": sys.executable or "python3"}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """With a container the script of one node is in it, and of several what it starts there."""
        inside = container.entry(task.run_folder)
        count = len(task.addresses())
        return launchers.contract(
            self.WAY, path, nodes=count, inside=inside, contained=bool(inside)
        )
