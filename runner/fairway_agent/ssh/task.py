"""A task on nodes of its own. Standard library only."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import bundle, scratch
from fairway_agent.task import Task

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.allocators.hosts import Host

REACHED = "reached"  # a file for each node to which MPI's launcher has a connection
LOST = "lost-nodes"  # names of nodes that could not be reached, a line each
SETUP_FAILED = "setup-failed"  # written by the node on which the job's setup failed
_ATTEMPT, _SHELL = "fairway_agent.ssh.attempt", "fairway_agent.fanout.ssh.shell"


@dataclass
class HostTask(Task):
    """A task of a cluster's run; its `nodes` are known when it starts, its main host first."""

    MARK: ClassVar = scratch.LEASE

    nodes: list[Host] = field(default_factory=list)

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
        try:
            return list(dict.fromkeys((self.folder / LOST).read_text(encoding="utf-8").split()))
        except FileNotFoundError:
            return []

    def setup_failed(self) -> bool:
        """Whether the setup failed in this attempt."""
        try:
            text = (self.run_folder / "setup" / "state.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        state = json.loads(text)
        mine = state.get("task") == self.name and state.get("task_attempt") == self.attempt
        return bool(state["state"] == "failed" and mine)

    def record(self, state: str, **facts: object) -> None:
        """Replaces the task's state, which says where it runs."""
        if self.nodes:
            facts = {"node": ",".join(host.name for host in self.nodes), **facts}
        super().record(state, **facts)

    def facts(self) -> dict[str, object]:
        """Which nodes were lost."""
        lost = self.lost()
        names = [host.name for host in self.nodes if host.address in lost or host.name in lost]
        if not names:
            return {}
        words = "node" if len(names) == 1 else "nodes"
        return {"reason": f"{words} {', '.join(names)} could not be reached any more"}

    def _command(self, script: Path) -> list[str]:
        attempt = [*bundle.program(_ATTEMPT), str(self.run_folder), str(script)]
        main = self.nodes[0]
        if main.is_near:
            return attempt
        return [*bundle.program(_SHELL), "--exactly", main.address, *attempt]

    def _hosts(self) -> list[str]:
        return [host.address for host in self.nodes]

    def _checkpoint_directory(self) -> Path:
        own = super()._checkpoint_directory()
        return self.run_folder.parents[1] / "checkpoints" / own  # which an absolute path is itself

    def _contract(self) -> dict[str, str]:
        programs = bundle.package() / "fanout" / "ssh" / "bin"
        base = super()._contract()
        task = f"{self.plan['run']}-{self.name}"
        inputs = {
            f"FAIRWAY_INPUT_{entry['name'].upper()}": str(self._input(entry))
            for entry in self.plan["staged"]
        }
        return {
            **base,
            **inputs,
            "PATH": f"{base.get('PATH', '/usr/local/bin:/usr/bin:/bin')}:{programs}",
            "FAIRWAY_SCRATCH_DIR": str(scratch.root() / "tasks" / task),
            "FAIRWAY_EACH_NODE": "fairway-each-node",
            "FAIRWAY_TASK_FOLDER": str(self.folder),
            "_FAIRWAY_PYTHON": sys.executable or "python3",
            # How MPI reaches the other nodes: Open MPI 4, Open MPI 5, MPICH, Intel MPI.
            "OMPI_MCA_plm_rsh_agent": "fairway-rsh",
            "PRTE_MCA_plm_ssh_agent": "fairway-rsh",
            "HYDRA_LAUNCHER": "rsh",
            "HYDRA_LAUNCHER_EXEC": str(programs / "fairway-rsh"),
            "I_MPI_HYDRA_BOOTSTRAP": "rsh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": str(programs / "fairway-rsh"),
        }

    def _input(self, entry: dict[str, Any]) -> Path:
        return scratch.input_folder(self.run_folder.parents[1], entry)
