"""A node: an address on loopback, a folder, a state, and what runs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.clock import wire_time
from fairway_simulator.batch.model.entity import Entity

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_simulator.batch.agent.execution import Execution
    from fairway_simulator.batch.agent.supervisor_client import Supervisor
    from fairway_simulator.batch.clock import Clock
    from fairway_simulator.batch.model.pool import Pool

_RECENT = 10

# The states in which a node's files can be read.
REACHABLE = {"idle", "running", "offline", "starttaskfailed", "waitingforstarttask"}


class Node(Entity):
    """A node of a pool."""

    def __init__(
        self, pool: Pool, number: int, address: str, folder: Path, *, dedicated: bool, now: str
    ) -> None:
        super().__init__("creating", now)
        self.pool = pool
        self.dedicated = dedicated
        self.address = address
        self.name = f"tvm-{pool.key}-{number}"
        self.id = f"{self.name}_{'d' if dedicated else 'p'}"
        self.folder = folder / self.id
        """Its folder as this process sees it; its tasks see it at the agent's `root`."""
        self.schedulable = True
        self.slots_used = 0
        self.executions: set[Execution] = set()
        self.start_info: dict[str, Any] | None = None
        self.supervisors: set[Supervisor] = set()
        """All that run on it; what they run ends with the node."""
        self.daemons: Supervisor | None = None
        """That of its start task, whose background processes live as long as the node is up."""
        self.errors: list[dict[str, Any]] = []
        self.recent: list[dict[str, Any]] = []
        self.users: dict[str, dict[str, Any]] = {}
        self.total_run = self.total_succeeded = 0
        self.booted = now
        self.generation = 0
        """Counts its boots: what began before the last one no longer concerns it."""
        self.unfit_for: set[str] = set()
        """Jobs whose preparation failed here; they do not run here until it is reimaged."""
        self.events: list[dict[str, Any]] = []
        """Scheduled Events, as the instance metadata service shows them."""
        self.leaving = False

    @property
    def url(self) -> str:
        """The node's address in the service."""
        return f"{self.pool.url}/nodes/{self.id}"

    def free_slots(self) -> int:
        """How many slots a task could have now."""
        fit = self.state in {"idle", "running"} and self.schedulable and not self.leaving
        return self.pool.slots - self.slots_used if fit else 0

    def remember(self, info: dict[str, Any]) -> None:
        """Keeps what a task did among the recent ones."""
        others = [known for known in self.recent if known["taskUrl"] != info["taskUrl"]]
        self.recent = [info, *others][:_RECENT]

    def wire(self, clock: Clock) -> dict[str, Any]:
        """The node as `get_node` answers."""
        wire: dict[str, Any] = {
            "id": self.id,
            "url": self.url,
            "state": self.state,
            "schedulingState": "enabled" if self.schedulable else "disabled",
            "stateTransitionTime": self.transition,
            "lastBootTime": self.booted,
            "allocationTime": self.created,
            "ipAddress": self.address,
            "ipv6Address": "",
            "affinityId": f"TVM:{self.id}",
            "vmSize": self.pool.spec["vmSize"],
            "totalTasksRun": self.total_run,
            "totalTasksSucceeded": self.total_succeeded,
            "runningTasksCount": len(self.executions),
            "runningTaskSlotsCount": self.slots_used,
            "recentTasks": self.recent,
            "isDedicated": self.dedicated,
            "endpointConfiguration": {"inboundEndpoints": []},
            "nodeAgentInfo": {"version": "1.0.0", "lastUpdateTime": wire_time(clock.time())},
            "virtualMachineInfo": {},
        }
        if self.pool.spec.get("startTask"):
            wire["startTask"] = self.pool.spec["startTask"]
        if self.start_info:
            wire["startTaskInfo"] = self.start_info
        if self.errors:
            wire["errors"] = self.errors
        return wire
