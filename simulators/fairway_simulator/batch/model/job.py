"""A job: its tasks, those that may start, and how many there are in each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.dependencies import Dependencies
from fairway_simulator.batch.model.entity import Entity
from fairway_simulator.batch.wire.durations import UNLIMITED

if TYPE_CHECKING:
    from fairway_simulator.batch.model.task import Task

_DEFAULTS: dict[str, Any] = {
    "usesTaskDependencies": False,
    "priority": 0,
    "allowTaskPreemption": False,
    "maxParallelTasks": -1,
    "onAllTasksComplete": "noaction",
    "onTaskFailure": "noaction",
}


class Job(Entity):
    """A job. `spec` holds its properties in their wire form, the service's defaults filled in."""

    def __init__(self, spec: dict[str, Any], account_url: str, sequence: int, now: str) -> None:
        super().__init__("active", now)
        limits = {"maxWallClockTime": UNLIMITED, "maxTaskRetryCount": 0}
        self.spec = {**_DEFAULTS, **spec}
        self.spec["constraints"] = {**limits, **(spec.get("constraints") or {})}
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.sequence = sequence
        self.url = f"{account_url}/jobs/{self.id}"
        self.tasks: dict[str, Task] = {}
        self.ready: dict[int, Task] = {}
        """Tasks that may start, by their sequence, in the order in which they do."""
        self.dependencies = Dependencies()
        self.counts = {"active": 0, "running": 0, "completed": 0, "succeeded": 0, "failed": 0}
        self.slot_counts = dict(self.counts)
        self._told = (dict(self.counts), dict(self.counts))
        self.info: dict[str, Any] = {"startTime": now, "poolId": self.pool_id}
        self.deadline: float | None = None
        """The POSIX time at which its wall-clock time is over."""
        self.prepared: dict[str, Any] = {}
        """Its preparation on each node, by the node's id."""
        self.closing = False
        """Whether someone sees to its end already."""

    @property
    def pool_id(self) -> str:
        """The pool on which it runs."""
        return str(self.spec["poolInfo"]["poolId"])

    @property
    def priority(self) -> int:
        """Jobs of a higher priority come first; −1000 to 1000."""
        return int(self.spec["priority"])

    @property
    def running(self) -> int:
        """How many of its tasks are preparing or running."""
        return self.counts["running"]

    def add(self, task: Task) -> None:
        """Takes a new task."""
        self.tasks[task.key] = task
        self.count(task, 1)
        self.dependencies.add(task)
        if not task.unmet:
            self.ready[task.sequence] = task

    def remove(self, task: Task) -> None:
        """Forgets a task."""
        self.tasks.pop(task.key, None)
        self.ready.pop(task.sequence, None)
        self.count(task, -1)
        self.dependencies.remove(task)

    def become_task(self, task: Task, state: str, now: str) -> None:
        """Brings a task into a state and keeps the counts; its result is set before."""
        self.count(task, -1)
        task.become(state, now)
        self.count(task, 1)

    def count(self, task: Task, by: int) -> None:
        """Counts a task in or out by the state that it has."""
        kinds = ["running" if task.state == "preparing" else task.state]
        if task.state == "completed":
            kinds.append("failed" if task.failed else "succeeded")
        for kind in kinds:
            self.counts[kind] += by
            self.slot_counts[kind] += by * task.slots

    def told_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Counts of tasks and of their slots as a client is told them: they "may not always be up
        to date" (get_job_task_counts of azure-batch), and here are those of the look before."""
        told, self._told = self._told, (dict(self.counts), dict(self.slot_counts))
        return told

    def all_tasks_complete(self) -> bool:
        """Whether no task is left to do, which holds for a job without tasks too."""
        return self.counts["completed"] == len(self.tasks)

    def wire(self) -> dict[str, Any]:
        """The job as `get_job` answers."""
        return {**self.spec, "url": self.url, **self.wire_state(), "executionInfo": self.info}
