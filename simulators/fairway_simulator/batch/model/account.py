"""The account: everything that the service remembers, and the lock that guards it."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from fairway_simulator.batch.wire.errors import ServiceError, not_found

if TYPE_CHECKING:
    from fairway_simulator.batch.clock import Clock
    from fairway_simulator.batch.model.job import Job, Task
    from fairway_simulator.batch.model.pool import Node, Pool
    from fairway_simulator.batch.model.schedule import Schedule


# The default of an account, "100-300". Source: Azure documentation, Batch service quotas.
_QUOTA = 100


class Account:
    """Jobs, pools and schedules by their ids in lower case: ids differ by more than their case.

    A thread that reads or changes any of it holds `changed`, and notifies it after a change.
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
        """How many jobs and schedules may be active at a time; None for any number."""
        self._sequence = itertools.count(1)

    def next_sequence(self) -> int:
        """A number higher than every one before."""
        return next(self._sequence)

    def require_room(self) -> None:
        """409 where the quota of active jobs and schedules is used up."""
        ended = {"completed", "deleting"}
        active = sum(job.state not in ended for job in self.jobs.values())
        active += sum(known.state not in ended for known in self.schedules.values())
        if self.quota is not None and active >= self.quota:
            raise ServiceError(409, "ActiveJobAndScheduleQuotaReached")

    def job(self, job_id: str) -> Job:
        """The job of this id; 404 where there is none."""
        job = self.jobs.get(job_id.lower())
        if job is None:
            raise not_found("Job")
        return job

    def open_job(self, job_id: str) -> Job:
        """The job of this id where it takes tasks; 409 where it has ended or is about to."""
        job = self.job(job_id)
        codes = {
            "completed": "JobCompleted",
            "terminating": "JobBeingTerminated",
            "deleting": "JobBeingDeleted",
        }
        if job.state in codes:
            raise ServiceError(409, codes[job.state])
        return job

    def task(self, job_id: str, task_id: str) -> Task:
        """The task of these ids; 404 where there is none."""
        task = self.job(job_id).tasks.get(task_id.lower())
        if task is None:
            raise not_found("Task")
        return task

    def pool(self, pool_id: str) -> Pool:
        """The pool of this id; 404 where there is none."""
        pool = self.pools.get(pool_id.lower())
        if pool is None:
            raise not_found("Pool")
        return pool

    def node(self, pool_id: str, node_id: str) -> Node:
        """The node of this id; 404 where there is none."""
        node = self.pool(pool_id).nodes.get(node_id)
        if node is None:
            raise not_found("Node")
        return node

    def schedule(self, schedule_id: str) -> Schedule:
        """The job schedule of this id; 404 where there is none."""
        schedule = self.schedules.get(schedule_id.lower())
        if schedule is None:
            raise not_found("JobSchedule")
        return schedule
