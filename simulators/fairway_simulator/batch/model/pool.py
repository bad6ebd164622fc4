"""A pool and its nodes: its size, its resize errors, and the attempts that run on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.entity import Entity, wire_time

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_simulator.batch.agent.supervisor_client import Supervisor
    from fairway_simulator.batch.model.entity import Clock
    from fairway_simulator.batch.model.job import Attempt, Task

_DEFAULTS: dict[str, Any] = {
    "resizeTimeout": "PT15M",
    "enableAutoScale": False,
    "enableInterNodeCommunication": False,
    "taskSlotsPerNode": 1,
}

_RECENT = 10

# States in which a node's files can be read.
REACHABLE = {"idle", "running", "offline"}


class Pool(Entity):
    """A pool. `spec` holds the properties that only a request changes."""

    def __init__(self, spec: dict[str, Any], account_url: str, now: str) -> None:
        super().__init__("active", now)
        self.spec = {**_DEFAULTS, **spec}
        self.target_dedicated = int(self.spec.pop("targetDedicatedNodes", 0) or 0)
        self.target_spot = int(self.spec.pop("targetLowPriorityNodes", 0) or 0)
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.url = f"{account_url}/pools/{self.id}"
        self.nodes: dict[str, Node] = {}
        self.allocation_state = "steady"
        self.allocation_transition = now
        self.resize_errors: list[dict[str, Any]] = []
        self.limit: int | None = None
        """The number of nodes that the quota allows; None for no limit."""

    @property
    def slots(self) -> int:
        return int(self.spec["taskSlotsPerNode"])

    @property
    def talks(self) -> bool:
        """True if the pool's nodes may communicate, which multi-instance tasks need."""
        return bool(self.spec["enableInterNodeCommunication"]) and self.slots == 1

    def members(self, *, dedicated: bool) -> list[Node]:
        return [node for node in self.nodes.values() if node.dedicated == dedicated]

    def allocate(self, state: str, now: str) -> None:
        self.allocation_state, self.allocation_transition = state, now
        self.touch(now)

    def wire(self) -> dict[str, Any]:
        wire = {
            **self.spec,
            "url": self.url,
            **self.wire_state(),
            "allocationState": self.allocation_state,
            "allocationStateTransitionTime": self.allocation_transition,
            "currentDedicatedNodes": len(self.members(dedicated=True)),
            "currentLowPriorityNodes": len(self.members(dedicated=False)),
            "targetDedicatedNodes": self.target_dedicated,
            "targetLowPriorityNodes": self.target_spot,
        }
        if self.resize_errors:
            wire["resizeErrors"] = self.resize_errors
        return wire


class Node(Entity):
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
        """The node's folder as this process sees it; its tasks see it at `Layout.root`."""
        self.schedulable = True
        self.slots_used = 0
        self.executions: dict[Attempt, Task] = {}
        """The attempts that run on the node, each with its task."""
        self.supervisors: set[Supervisor] = set()
        """All supervisors of the node; their processes end with it."""
        self.recent: list[dict[str, Any]] = []
        self.users: dict[str, dict[str, Any]] = {}
        self.total_run = self.total_succeeded = 0
        self.booted = now
        self.generation = 0
        """Changes at each restart or loss: work begun before no longer concerns the node."""
        self.unfit_for: set[str] = set()
        """Jobs whose preparation failed here; they do not run here until a reimage."""
        self.events: list[dict[str, Any]] = []
        """Scheduled Events, as the instance metadata service reports them."""
        self.leaving = False

    @property
    def url(self) -> str:
        return f"{self.pool.url}/nodes/{self.id}"

    def free_slots(self) -> int:
        fit = self.state in {"idle", "running"} and self.schedulable and not self.leaving
        return self.pool.slots - self.slots_used if fit else 0

    def remember(self, info: dict[str, Any]) -> None:
        others = [known for known in self.recent if known["taskUrl"] != info["taskUrl"]]
        self.recent = [info, *others][:_RECENT]

    def wire(self, clock: Clock) -> dict[str, Any]:
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
        return wire
