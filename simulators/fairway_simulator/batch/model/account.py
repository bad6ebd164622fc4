"""The account: the complete state of the service, and the lock that guards it."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, TypeVar

from fairway_simulator.batch.wire.bodies import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_simulator.batch.model.entity import Clock
    from fairway_simulator.batch.model.job import Job, Schedule, Task
    from fairway_simulator.batch.model.pool import Node, Pool

Found = TypeVar("Found")

ENDING = {
    "completed": "JobCompleted",
    "terminating": "JobBeingTerminated",
    "deleting": "JobBeingDeleted",
}
"""The error codes of operations on jobs in these states."""
# An account's default is "100-300". Source: Azure documentation, Batch service quotas.
_QUOTA = 100


class Account:
    """Jobs, pools and schedules by their ids in lower case: ids are case-insensitive.

    A thread holds `changed` while it reads or changes any of them, and notifies it after a change.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.url = ""
        """The account's endpoint, known once the server listens."""
        self.changed = threading.Condition(threading.RLock())
        self.jobs: dict[str, Job] = {}
        self.pools: dict[str, Pool] = {}
        self.schedules: dict[str, Schedule] = {}
        self.quota: int | None = _QUOTA
        """Maximum number of active jobs and schedules; None for no limit."""
        self._sequence = itertools.count(1)

    def next_sequence(self) -> int:
        return next(self._sequence)

    def require_room(self) -> None:
        """Raises ServiceError (409) if the quota of active jobs and schedules is used up."""
        ended = {"completed", "deleting"}
        active = sum(job.state not in ended for job in self.jobs.values())
        active += sum(known.state not in ended for known in self.schedules.values())
        if self.quota is not None and active >= self.quota:
            raise ServiceError(409, "ActiveJobAndScheduleQuotaReached")

    def job(self, job_id: str) -> Job:
        return _found(self.jobs, job_id.lower(), "Job")

    def open_job(self, job_id: str) -> Job:
        """Returns the job of this id. Raises ServiceError (409) if it has ended or is about to."""
        job = self.job(job_id)
        if code := ENDING.get(job.state):
            raise ServiceError(409, code)
        return job

    def task(self, job_id: str, task_id: str) -> Task:
        return _found(self.job(job_id).tasks, task_id.lower(), "Task")

    def pool(self, pool_id: str) -> Pool:
        return _found(self.pools, pool_id.lower(), "Pool")

    def node(self, pool_id: str, node_id: str) -> Node:
        return _found(self.pool(pool_id).nodes, node_id, "Node")

    def schedule(self, schedule_id: str) -> Schedule:
        return _found(self.schedules, schedule_id.lower(), "JobSchedule")


def _found(known: Mapping[str, Found], key: str, what: str) -> Found:
    """Returns a known value. Raises ServiceError (404) with the code of its kind (`Job`)."""
    if key not in known:
        raise ServiceError(404, f"{what}NotFound")
    return known[key]
