"""A task on nodes of its own. Standard library only."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import bundle, container, scratch, state_files
from fairway_agent.fanout import launchers
from fairway_agent.fanout.remote_exec import LOST, REACHED, lost_nodes
from fairway_agent.setup import SETUP_FAILED
from fairway_agent.shared.task import ClusterTask
from fairway_agent.task_state import ERROR, NODE

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.task_state import TaskState

_ATTEMPT, _REMOTE_EXEC = "fairway_agent.ssh.attempt", "fairway_agent.fanout.remote_exec"


@dataclass
class HostTask(ClusterTask):
    """A task of a cluster's run; its nodes are known when it starts."""

    MARK: ClassVar = scratch.LEASE
    WAY: ClassVar = "ssh"
    IS_HERE: ClassVar = False

    def mark(self) -> str:
        """The attempt's lease, which marks whatever runs for it, on every node."""
        return scratch.lease(self.run_folder, self.name, self.attempt, self.nodes)

    def start(self) -> None:
        """Starts the next attempt on its nodes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (LOST, SETUP_FAILED):
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / REACHED, ignore_errors=True)
        super().start()

    def lost(self) -> list[str]:
        """The addresses of nodes that could not be reached any more."""
        return lost_nodes(self.folder)

    def cause(self) -> str:
        """Whether a node was lost."""
        return NODE if self.lost() else ERROR

    def setup_failed(self) -> bool:
        """Whether the setup failed in this attempt."""
        known = state_files.read_task(self.run_folder / "setup")
        mine = (self.name, self.attempt)
        return known is not None and (known.state, known.task, known.task_attempt) == (
            "failed",
            *mine,
        )

    def status(self, state: str) -> TaskState:
        """Where it stands, and where it runs."""
        node = ",".join(host.name for host in self.nodes)
        return replace(super().status(state), node=node or None)

    def why(self) -> str | None:
        """Which nodes were lost."""
        lost = self.lost()
        names = [host.name for host in self.nodes if host.address in lost or host.name in lost]
        if not names:
            return super().why()
        words = "node" if len(names) == 1 else "nodes"
        return f"{words} {', '.join(names)} could not be reached any more"

    def _command(self, script: Path) -> list[str]:
        attempt = [*bundle.program(_ATTEMPT, waits=True), str(self.run_folder), str(script)]
        main = self.nodes[0]
        if main.is_near:
            return attempt
        return [*bundle.program(_REMOTE_EXEC), "--exactly", main.address, *attempt]

    def _contract(self) -> dict[str, str]:
        return {**super()._contract(), "_FAIRWAY_PYTHON": sys.executable or "python3"}

    def _reach(self, path: str) -> dict[str, str]:
        """With a container the script of one node is in it, and of several what it starts there."""
        inside = container.entry(self.run_folder)
        count = len(self.nodes)
        return launchers.contract(
            self.WAY, path, nodes=count, inside=inside, contained=bool(inside)
        )
