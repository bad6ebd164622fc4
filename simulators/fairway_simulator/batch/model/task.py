"""A task, and the answers to what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.entity import Entity
from fairway_simulator.batch.wire.durations import UNLIMITED

if TYPE_CHECKING:
    from fairway_simulator.batch.agent.execution import Execution
    from fairway_simulator.batch.model.job import Job

_LIMITS: dict[str, Any] = {
    "maxWallClockTime": UNLIMITED,
    "retentionTime": "P7D",
}


class Task(Entity):
    """A task of a job. `spec` holds the properties that the client gave, in their wire form."""

    __slots__ = (
        "execution",
        "files_gone",
        "files_until",
        "id",
        "info",
        "job",
        "key",
        "sequence",
        "spec",
        "subtasks",
        "unmet",
        "where",
    )

    def __init__(self, job: Job, spec: dict[str, Any], sequence: int, now: str) -> None:
        super().__init__("active", now)
        self.job = job
        self.spec = spec
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.sequence = sequence
        self.unmet: set[str] = set()
        self.info: dict[str, Any] = {"retryCount": 0, "requeueCount": 0}
        self.where: dict[str, Any] = {}
        self.subtasks: list[dict[str, Any]] = []
        self.execution: Execution | None = None
        self.files_until: float | None = None
        """The POSIX time at which its files are removed; None while it has not ended."""
        self.files_gone = False

    @property
    def url(self) -> str:
        """The task's address."""
        return f"{self.job.url}/tasks/{self.id}"

    @property
    def instances(self) -> int:
        """On how many nodes it runs at once."""
        settings = self.spec.get("multiInstanceSettings")
        return int(settings.get("numberOfInstances", 1)) if settings else 1

    @property
    def is_multi_instance(self) -> bool:
        """Whether it has a coordination command, if only for one node."""
        return "multiInstanceSettings" in self.spec

    @property
    def slots(self) -> int:
        """How many of a node's slots it takes."""
        return int(self.spec.get("requiredSlots") or 1)

    @property
    def failed(self) -> bool:
        """Whether it has ended without success."""
        return self.info.get("result") == "failure"

    def retry_limit(self) -> int:
        """How many retries it may have; -1 stands for any number."""
        own = (self.spec.get("constraints") or {}).get("maxTaskRetryCount")
        of_job = (self.job.spec.get("constraints") or {}).get("maxTaskRetryCount")
        return int(own if own is not None else of_job or 0)

    def wire(self) -> dict[str, Any]:
        """The task as `get_task` answers."""
        wire = {
            "requiredSlots": 1,
            **self.spec,
            "constraints": {
                **_LIMITS,
                **(self.spec.get("constraints") or {}),
                "maxTaskRetryCount": self.retry_limit(),
            },
            "url": self.url,
            **self.wire_state(),
            "executionInfo": self.info,
        }
        if self.where:
            wire["nodeInfo"] = self.where
        return wire
