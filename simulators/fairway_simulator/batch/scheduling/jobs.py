"""How jobs end, stop and go on."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.preparation import release
from fairway_simulator.batch.model.outcome import ended
from fairway_simulator.batch.scheduling.requeue import requeue
from fairway_simulator.batch.wire.errors import ServiceError

if TYPE_CHECKING:
    from fairway_simulator.batch.agent.commands import NodeAgent
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.attempt import Attempt
    from fairway_simulator.batch.model.job import Job

# Seconds for which a job is at least `deleting`: on Azure that lasts, and its id is taken so long.
_DELETION = 1.0

BY_USER = "Task Was Ended by User Request"


class JobEnds:
    """The changes of jobs. The caller holds the account's lock."""

    def __init__(self, account: Account, agent: NodeAgent) -> None:
        self._account = account
        self._agent = agent

    def check_complete(self, job: Job) -> None:
        """Ends a job that is to end once all its tasks have, if they have."""
        if job.state != "active" or job.spec["onAllTasksComplete"] != "terminatejob":
            return
        if job.all_tasks_complete():
            self.terminate(job, "AllTasksComplete")

    def terminate(self, job: Job, reason: str) -> None:
        """Ends a job: what runs is ended, what waits stays as it is."""
        if job.state == "completed":
            raise ServiceError(409, "JobCompleted")
        if job.state in {"terminating", "deleting"}:
            raise ServiceError(409, "JobBeingTerminated")
        job.info["terminateReason"] = reason
        job.become("terminating", self._account.clock.now())
        self._close(job)

    def delete(self, job: Job) -> None:
        """Ends a job and forgets it, with its tasks and their files."""
        if job.state == "deleting":
            raise ServiceError(409, "JobBeingDeleted")
        job.become("deleting", self._account.clock.now())
        self._close(job)

    def _close(self, job: Job) -> None:
        executions = self._executions(job)
        for execution in executions:
            execution.end(ended(BY_USER))
        if job.closing:
            return  # its termination is on its way, and sees that it is deleted too
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
            self._remove_files(job)
        else:
            job.info["endTime"] = now
            job.become("completed", now)

    def _remove_files(self, job: Job) -> None:
        for pool in self._account.pools.values():
            for node in pool.nodes.values():
                shutil.rmtree(node.folder / "workitems" / job.id, ignore_errors=True)

    def _executions(self, job: Job) -> list[Attempt]:
        with self._account.changed:
            if not job.running:
                return []
            return [task.execution for task in job.tasks.values() if task.execution]

    def disable(self, job: Job, tasks: str) -> None:
        """Stops a job: its running tasks are `requeue`d, `terminate`d or waited for (`wait`)."""
        self._require(job, {"active", "enabling"})
        now = self._account.clock.now()
        job.become("disabling", now)
        if tasks == "terminate":
            for execution in self._executions(job):
                execution.end(ended(BY_USER))
        elif tasks == "requeue":
            for task in [task for task in job.tasks.values() if task.execution]:
                requeue(task, now)
        self.settle(job)

    def settle(self, job: Job) -> None:
        """Brings a job that is being disabled to its end once nothing of it runs."""
        if job.state == "disabling" and not job.running:
            job.become("disabled", self._account.clock.now())

    @staticmethod
    def _require(job: Job, states: set[str]) -> None:
        codes = {
            "completed": "JobCompleted",
            "terminating": "JobBeingTerminated",
            "deleting": "JobBeingDeleted",
            "disabled": "JobDisabled",
        }
        if job.state not in states:
            code = codes.get(job.state, "OperationInvalidForCurrentState")
            raise ServiceError(409, code)
