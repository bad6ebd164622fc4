"""Makes the jobs of job schedules when their time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_simulator.batch.wire.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.job import Job
    from fairway_simulator.batch.model.schedule import Schedule
    from fairway_simulator.batch.scheduling.jobs import JobEnds

_ENDED = {"completed", "deleting"}


class Schedules:
    """Runs the account's job schedules. The caller holds the account's lock."""

    def __init__(self, account: Account, jobs: JobEnds) -> None:
        self._account = account
        self._jobs = jobs
        self.add_job: Callable[[dict[str, Any]], Job]
        """Makes a job of a specification; set once the operations exist."""

    def run(self) -> None:
        """Makes the jobs that are due. A schedule has one job at a time: while its last one
        goes on, the next waits."""
        now = self._account.clock.time().timestamp()
        for schedule in self._account.schedules.values():
            if schedule.state != "active" or schedule.next_run is None:
                continue
            if schedule.last_time is not None and now > schedule.last_time:
                self._complete(schedule)
            elif schedule.next_run <= now and not self._is_busy(schedule):
                self._make(schedule, now)

    def _is_busy(self, schedule: Schedule) -> bool:
        if not schedule.recent:
            return False
        job = self._account.jobs.get(schedule.recent["id"].lower())
        return job is not None and job.state not in _ENDED

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
        # Runs that were missed are not made up for.
        due = schedule.next_run or now
        while interval and due <= now:
            due += interval
        schedule.next_run = due if interval else None
        schedule.touch(self._account.clock.now())

    def _complete(self, schedule: Schedule) -> None:
        schedule.next_run = None
        schedule.ended = self._account.clock.now()
        schedule.become("completed", self._account.clock.now())

    def jobs_of(self, schedule: Schedule) -> list[Job]:
        """The jobs that a schedule has made and that are still known."""
        names = {f"{schedule.key}:job-{number}" for number in range(1, schedule.runs + 1)}
        return [job for job in self._account.jobs.values() if job.key in names]

    def end(self, schedule: Schedule, *, delete: bool) -> None:
        """Ends a schedule with its current job; with `delete` forgets all of it."""
        for job in self.jobs_of(schedule):
            if delete and job.state != "deleting":
                self._jobs.delete(job)
            elif not delete and job.state in {"active", "disabled", "disabling"}:
                self._jobs.terminate(job, "JobScheduleTerminated")
        if delete:
            self._account.schedules.pop(schedule.key, None)
        else:
            self._complete(schedule)
