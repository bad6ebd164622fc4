"""A job and its tasks: which may start, how many are in each state, and how they end; job
schedules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fairway_simulator.batch.model.entity import Entity, parse_time, wire_time
from fairway_simulator.batch.wire.bodies import UNLIMITED, seconds

if TYPE_CHECKING:
    import threading

_DEFAULTS: dict[str, Any] = {
    "usesTaskDependencies": False,
    "priority": 0,
    "allowTaskPreemption": False,
    "maxParallelTasks": -1,
    "onAllTasksComplete": "noaction",
    "onTaskFailure": "noaction",
}

_TASK_LIMITS: dict[str, Any] = {
    "maxWallClockTime": UNLIMITED,
    "retentionTime": "P7D",
}


class Job(Entity):
    """A job. `spec` holds its properties in their wire format, with the service's defaults."""

    def __init__(self, spec: dict[str, Any], account_url: str, sequence: int, now: str) -> None:
        super().__init__("active", now)
        self.spec = {**_DEFAULTS, **spec}
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.sequence = sequence
        self.url = f"{account_url}/jobs/{self.id}"
        self.tasks: dict[str, Task] = {}
        self.ready: dict[int, Task] = {}
        """Tasks that may start, by their sequence number, in the order in which they start."""
        self._satisfied: set[str] = set()
        self._unmet: dict[str, set[str]] = {}
        self._waiting: defaultdict[str, list[Task]] = defaultdict(list)
        self.counts = {"active": 0, "running": 0, "completed": 0, "succeeded": 0, "failed": 0}
        self.slot_counts = dict(self.counts)
        self._told = (dict(self.counts), dict(self.counts))
        self.info: dict[str, Any] = {"startTime": now, "poolId": self.pool_id}
        self.reason = ""
        """The reason of the job's termination."""
        self.prepared: dict[str, Any] = {}
        """The job's preparation on each node, by node id."""
        self.closing = False
        """True if a thread is ending the job already."""

    @property
    def pool_id(self) -> str:
        return str(self.spec["poolInfo"]["poolId"])

    @property
    def folder(self) -> str:
        """The job's folder on nodes, relative to their root: below `workitems`, `<id>/job-1`, or
        `<schedule>/job-<number>` for a scheduled job. The service documents only the first; the
        second avoids the colon of such an id, which no folder on a Windows node could have."""
        schedule, _, number = self.id.partition(":")
        return f"workitems/{schedule}/{number or 'job-1'}"

    @property
    def priority(self) -> int:
        """The job's priority from −1000 to 1000; jobs of a higher one start first."""
        return int(self.spec["priority"])

    @property
    def running(self) -> int:
        return self.counts["running"]

    def add(self, task: Task) -> None:
        self.tasks[task.key] = task
        self.count(task, 1)
        others = task.spec.get("dependsOn") or {}
        ids = set(others.get("taskIds") or ())
        for each in others.get("taskIdRanges") or ():
            ids.update(str(n) for n in range(int(each["start"]), int(each["end"]) + 1))
        self._unmet[task.key] = ids - self._satisfied
        for key in self._unmet[task.key]:
            self._waiting[key].append(task)
        if not self._unmet[task.key]:
            self.ready[task.sequence] = task

    def satisfy(self, task: Task) -> None:
        """Marks a dependency as satisfied, and readies the tasks that waited only for it."""
        self._satisfied.add(task.key)
        for each in sorted(self._waiting.pop(task.key, ()), key=lambda w: w.sequence):
            self._unmet[each.key].discard(task.key)
            if not self._unmet[each.key]:
                self.ready[each.sequence] = each

    def become_task(self, task: Task, state: str, now: str) -> None:
        """Moves a task to a state and updates the counts; the task's result must be set before."""
        self.count(task, -1)
        task.become(state, now)
        self.count(task, 1)

    def count(self, task: Task, by: int) -> None:
        """Adds `by` to the counts of a task's state."""
        kinds = ["running" if task.state == "preparing" else task.state]
        if task.state == "completed":
            kinds.append("failed" if task.failed else "succeeded")
        for kind in kinds:
            self.counts[kind] += by
            self.slot_counts[kind] += by * task.slots

    def told_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Returns the counts of tasks and of their slots at the previous call: they "may not always
        be up to date" (get_job_task_counts of azure-batch)."""
        told, self._told = self._told, (dict(self.counts), dict(self.slot_counts))
        return told

    def all_tasks_complete(self) -> bool:
        """Returns True if all tasks have completed, or if there are none."""
        return self.counts["completed"] == len(self.tasks)

    def wire(self) -> dict[str, Any]:
        return {**self.spec, "url": self.url, **self.wire_state(), "executionInfo": self.info}


class Task(Entity):
    """A task of a job. `spec` holds the properties that the client gave, in their wire format."""

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
        "where",
    )

    def __init__(self, job: Job, spec: dict[str, Any], sequence: int, now: str) -> None:
        super().__init__("active", now)
        self.job = job
        self.spec = spec
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.sequence = sequence
        self.info: dict[str, Any] = {"retryCount": 0, "requeueCount": 0}
        self.where: dict[str, Any] = {}
        self.subtasks: list[dict[str, Any]] = []
        self.execution: Attempt | None = None
        self.files_until: float | None = None
        """The POSIX time at which the task's files are removed; None before its end."""
        self.files_gone = False

    @property
    def url(self) -> str:
        return f"{self.job.url}/tasks/{self.id}"

    @property
    def instances(self) -> int:
        """The number of nodes that the task runs on at once."""
        settings = self.spec.get("multiInstanceSettings")
        return int(settings.get("numberOfInstances", 1)) if settings else 1

    @property
    def is_multi_instance(self) -> bool:
        """True if the task has multi-instance settings, even if for a single node."""
        return "multiInstanceSettings" in self.spec

    @property
    def slots(self) -> int:
        return int(self.spec.get("requiredSlots") or 1)

    @property
    def failed(self) -> bool:
        return self.info.get("result") == "failure"

    def retry_limit(self) -> int:
        return int((self.spec.get("constraints") or {}).get("maxTaskRetryCount") or 0)

    def wire(self) -> dict[str, Any]:
        wire = {
            "requiredSlots": 1,
            **self.spec,
            "constraints": {
                **_TASK_LIMITS,
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


class Schedule(Entity):
    """A job schedule. Times are POSIX times; `next_run` is None once it makes no more jobs."""

    def __init__(
        self, spec: dict[str, Any], account_url: str, sequence: int, now: str, time: float
    ) -> None:
        super().__init__("active", now)
        self.spec = spec
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.sequence = sequence
        self.url = f"{account_url}/jobschedules/{self.id}"
        self.runs = 0
        self.recent: dict[str, Any] | None = None
        self.next_run: float | None = self.first_run(time)

    @property
    def times(self) -> dict[str, Any]:
        return self.spec.get("schedule") or {}

    @property
    def interval(self) -> float | None:
        """Seconds between two jobs; None for a schedule of one job."""
        text = self.times.get("recurrenceInterval")
        return seconds(text, "recurrenceInterval") if text else None

    def first_run(self, time: float) -> float:
        text = self.times.get("doNotRunUntil")
        return max(time, parse_time(text).timestamp()) if text else time

    def wire(self) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if self.next_run is not None and self.state == "active":
            info["nextRunTime"] = wire_time(datetime.fromtimestamp(self.next_run, UTC))
        if self.recent:
            info["recentJob"] = self.recent
        return {**self.spec, "url": self.url, **self.wire_state(), "executionInfo": info}


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt. `failure` is the wire's failureInfo, None for success."""

    kind: Literal["exit", "preprocessing", "upload", "ended"]
    exit_code: int | None = None
    failure: dict[str, Any] | None = None


def failure(code: str, message: str, **details: object) -> Any:
    info: dict[str, Any] = {"category": "usererror", "code": code, "message": message}
    if details:
        info["details"] = [{"name": name, "value": str(v)} for name, v in details.items()]
    return info


def exited(code: int) -> Outcome:
    if code == 0:
        return Outcome("exit", 0)
    message = "The task exited with an exit code representing a failure"
    return Outcome("exit", code, failure("FailureExitCode", message))


def ended(message: str) -> Outcome:
    return Outcome("ended", None, failure("TaskEnded", message))


def satisfies(conditions: dict[str, Any], outcome: Outcome) -> bool:
    """Returns True if a task's exit conditions let its dependents start after this outcome. Source:
    ExitOptions of the service's REST reference, with its defaults."""
    if outcome.failure is None:
        return True
    names = {"preprocessing": "preProcessingError", "upload": "fileUploadError"}
    options = conditions.get(names.get(outcome.kind, "")) or conditions.get("default") or {}
    return str(options.get("dependencyAction")).lower() == "satisfy"


class Attempt(Protocol):
    """An attempt, which can be ended early: with an outcome, or abandoned without one."""

    deadline: float | None
    """The POSIX time at which the task exceeds its maximum wall-clock time."""
    done: threading.Event

    def end(self, outcome: Outcome) -> None: ...
    def abandon(self) -> None: ...
