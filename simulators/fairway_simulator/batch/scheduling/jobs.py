"""Termination, deletion and disabling of jobs, and job schedules, which make jobs when due."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.agent.preparation import release
from fairway_simulator.batch.model.account import ENDING
from fairway_simulator.batch.model.job import ended
from fairway_simulator.batch.wire.bodies import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.batch.agent.commands import NodeAgent
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.job import Attempt, Job, Schedule

# Minimum seconds in state `deleting`: on Azure that takes time, and the id stays taken.
_DELETION = 1.0

BY_USER = "Task Was Ended by User Request"


class JobEnds:
    """Changes of jobs. The caller holds the account's lock."""

    def __init__(self, account: Account, agent: NodeAgent) -> None:
        self._account = account
        self._agent = agent

    def check_complete(self, job: Job) -> None:
        """Terminates an active job with `terminatejob` if all its tasks have completed."""
        if job.state != "active" or job.spec["onAllTasksComplete"] != "terminatejob":
            return
        if job.all_tasks_complete():
            self.terminate(job, "AllTasksComplete")

    def terminate(self, job: Job, reason: str) -> None:
        """Terminates a job: ends its running tasks and leaves its waiting ones as they are."""
        if job.state == "completed":
            raise ServiceError(409, "JobCompleted")
        if job.state in {"terminating", "deleting"}:
            raise ServiceError(409, "JobBeingTerminated")
        job.reason = reason
        job.become("terminating", self._account.clock.now())
        self._close(job)

    def delete(self, job: Job) -> None:
        """Ends a job and removes it, with its tasks and their files."""
        if job.state == "deleting":
            raise ServiceError(409, "JobBeingDeleted")
        job.become("deleting", self._account.clock.now())
        self._close(job)

    def _close(self, job: Job) -> None:
        executions = self._executions(job)
        for execution in executions:
            execution.end(ended(BY_USER))
        if job.closing:
            return  # the thread that terminates the job deletes it too
        job.closing = True
        if not executions and not job.prepared and job.state != "deleting":
            self._closed(job)
            return
        name = f"job-{job.id}-end"
        threading.Thread(target=self._finish, args=(job,), name=name, daemon=True).start()

    def _finish(self, job: Job) -> None:
        while executions := self._executions(job):
            for execution in executions:
                execution.done.wait()
        release(self._agent, job)
        if job.state == "deleting":
            time.sleep(_DELETION)
        with self._account.changed:
            self._closed(job)
            self._account.changed.notify_all()

    def _closed(self, job: Job) -> None:
        job.closing = False
        now = self._account.clock.now()
        if job.state == "deleting":
            self._account.jobs.pop(job.key, None)
            for pool in self._account.pools.values():
                for node in pool.nodes.values():
                    folder = node.folder / job.folder
                    shutil.rmtree(folder, ignore_errors=True)
                    with suppress(OSError):  # other jobs of the same schedule have folders there
                        folder.parent.rmdir()
        else:
            # Set only now: see termination_reason of BatchJobExecutionInfo in azure-batch.
            job.info |= {"endTime": now, "terminateReason": job.reason}
            job.become("completed", now)

    def _executions(self, job: Job) -> list[Attempt]:
        with self._account.changed:
            if not job.running:
                return []
            return [task.execution for task in job.tasks.values() if task.execution]

    def disable(self, job: Job) -> None:
        """Starts no more tasks of a job; running tasks continue."""
        if job.state != "active":
            codes = {**ENDING, "disabled": "JobDisabled"}
            raise ServiceError(409, codes.get(job.state, "OperationInvalidForCurrentState"))
        job.become("disabling", self._account.clock.now())
        self.settle(job)

    def settle(self, job: Job) -> None:
        """Makes a job that is being disabled `disabled` once none of its tasks runs."""
        if job.state == "disabling" and not job.running:
            job.become("disabled", self._account.clock.now())


class Schedules:
    """The account's job schedules. The caller holds the account's lock."""

    def __init__(self, account: Account, jobs: JobEnds) -> None:
        self._account = account
        self._jobs = jobs
        self.add_job: Callable[[dict[str, Any]], Job]
        """Adds a job from a specification; set once the operations exist."""

    def run(self) -> None:
        """Makes the jobs that are due. A schedule has one job at a time: the next waits until its
        last one has ended."""
        now = self._account.clock.time().timestamp()
        for schedule in self._account.schedules.values():
            if schedule.state != "active" or schedule.next_run is None:
                continue
            if schedule.next_run <= now and not self._is_busy(schedule):
                self._make(schedule, now)

    def _is_busy(self, schedule: Schedule) -> bool:
        if not schedule.recent:
            return False
        job = self._account.jobs.get(schedule.recent["id"].lower())
        return job is not None and job.state not in {"completed", "deleting"}

    def _make(self, schedule: Schedule, now: float) -> None:
        schedule.runs += 1
        spec = {**schedule.spec["jobSpecification"], "id": f"{schedule.id}:job-{schedule.runs}"}
        try:
            job = self.add_job(spec)
        except ServiceError:
            schedule.next_run = now + (schedule.interval or 60.0)
            return
        schedule.recent = {"id": job.id, "url": job.url}
        interval = schedule.interval
        # Missed runs are skipped.
        due = schedule.next_run or now
        while interval and due <= now:
            due += interval
        schedule.next_run = due if interval else None
        schedule.touch(self._account.clock.now())

    def delete(self, schedule: Schedule) -> None:
        """Removes a schedule, with its jobs that still exist."""
        names = {f"{schedule.key}:job-{number}" for number in range(1, schedule.runs + 1)}
        for job in [job for job in self._account.jobs.values() if job.key in names]:
            if job.state != "deleting":
                self._jobs.delete(job)
        self._account.schedules.pop(schedule.key, None)
