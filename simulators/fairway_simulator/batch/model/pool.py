"""A pool: its size, its nodes, and why it is not as large as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.entity import Entity

if TYPE_CHECKING:
    from fairway_simulator.batch.model.node import Node

_DEFAULTS: dict[str, Any] = {
    "resizeTimeout": "PT15M",
    "enableAutoScale": False,
    "enableInterNodeCommunication": False,
    "taskSlotsPerNode": 1,
    "taskSchedulingPolicy": {"nodeFillType": "spread"},
}


@dataclass(frozen=True)
class AllocationLimit:
    """A pool gets no more nodes than this, and says why."""

    nodes: int
    code: str
    message: str


class Pool(Entity):
    """A pool. `spec` holds the properties that do not change by themselves."""

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
        self.limit: AllocationLimit | None = None
        self.autoscale_run: dict[str, Any] | None = None

    @property
    def slots(self) -> int:
        """How many slots each node has."""
        return int(self.spec["taskSlotsPerNode"])

    @property
    def talks(self) -> bool:
        """Whether its nodes may talk to one another, which multi-instance tasks need."""
        return bool(self.spec["enableInterNodeCommunication"]) and self.slots == 1

    def members(self, *, dedicated: bool) -> list[Node]:
        """Its dedicated nodes, or those of Spot."""
        return [node for node in self.nodes.values() if node.dedicated == dedicated]

    def allocate(self, state: str, now: str) -> None:
        """Enters an allocation state."""
        self.allocation_state, self.allocation_transition = state, now
        self.touch(now)

    def wire(self) -> dict[str, Any]:
        """The pool as `get_pool` answers."""
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
        if self.autoscale_run:
            wire["autoScaleRun"] = self.autoscale_run
        return wire
