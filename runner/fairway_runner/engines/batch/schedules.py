"""Recurring runs: a job schedule of Batch's, whose jobs are runs of their own.

A schedule can start one task by itself (Batch calls it the job manager), on one node, and it starts
the next job when the previous one has ended.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure_calls import ServiceError, ignore_missing
from fairway_runner.engines.batch import client, outputs
from fairway_runner.engines.batch.request_builder import is_ending, pattern_with_hidden
from fairway_runner.engines.batch.submission import State, Submission, metadata_of
from fairway_runner.engines.schedules import Recurrence, Schedule
from fairway_runner.runs.folder import RunFolders
from fairway_runner.submit import snapshot as code

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.engines.azure_storage import Storage
    from fairway_runner.engines.batch.client import Account, Facts
    from fairway_runner.submit.prepare import PreparedRun

# Properties of an ordinary task that a job manager task may have, too.
_OF_A_MANAGER = (
    *("id", "commandLine", "environmentSettings", "constraints", "userIdentity"),
    *("containerSettings", "requiredSlots"),
)
_OF_A_JOB = (
    *("displayName", "priority", "poolInfo", "jobPreparationTask", "jobReleaseTask", "metadata"),
    "commonEnvironmentSettings",
)


@dataclass
class BatchSchedules:
    """The job schedules of a target's pool; see `engines.schedules.Schedules`."""

    account: Account
    storage: Storage
    target: Target

    def create(self, prepared: PreparedRun, recurrence: Recurrence) -> str:
        """Uploads code and key of the run, creates a job schedule, and returns its name. Raises
        UserError for a job of more than one task or node, and for a name that is taken, whose files
        have the same names: nothing is uploaded then."""
        _require_one_task(prepared)
        with tempfile.TemporaryDirectory() as folder:
            store = RunFolders(Path(folder))
            snapshot = code.snapshot(prepared.code, store.base / "code")
            run, _ = store.create(prepared.record, prepared.all_files())
            state = State(0, jobs=(client.job_id(run.id),))
            submission = Submission(run, self.account, self.storage, state)
            payload = submission.pack(snapshot)
            inputs = outputs.missing_inputs(run, self.storage)
            self._require_free(run.id)
            submission.upload(payload, snapshot, inputs)
            task = next(submission.tasks(payload.requests))
        name, job = run.id, payload.job
        specification = {key: job[key] for key in _OF_A_JOB}
        specification["metadata"] = [*job["metadata"], {"name": client.SCHEDULE, "value": name}]
        specification["commonEnvironmentSettings"] = [
            *job["commonEnvironmentSettings"],
            {"name": "FAIRWAY_SCHEDULE", "value": name},
        ]
        manager = {key: task[key] for key in _OF_A_MANAGER if key in task}
        # The task itself puts outputs below `kept/<its run>/`: each run of a schedule differs.
        destination = {**task["outputFiles"][0]["destination"]["container"]}
        del destination["path"]
        manager["outputFiles"] = [
            {
                "filePattern": pattern,
                "destination": {"container": destination},
                "uploadOptions": {"uploadCondition": "taskcompletion"},
            }
            for pattern in pattern_with_hidden("kept/**/*")
        ]
        manager["outputFiles"] += [each for each in task["outputFiles"] if is_ending(each)]
        specification["jobManagerTask"] = {**manager, "killJobOnCompletion": True}
        spec = {
            "id": name,
            "displayName": job["displayName"],
            "schedule": recurrence.wire(),
            "jobSpecification": specification,
            "metadata": specification["metadata"],
        }
        create: Any = self.account.client.create_job_schedule
        try:
            self.account.calls.call("a new schedule", lambda: create(spec))
        except ServiceError as error:
            if error.code not in ("JobScheduleExists", "JobWithSameIdExists"):
                raise
            known = self._schedules().get(name)
            if known is None or metadata_of(known) != metadata_of(spec):
                self._require_free(name, sent=True)
                raise
        return name

    def _schedules(self) -> dict[str, Facts]:
        """Returns all schedules of the account by name, even those of other programs."""
        listed = self.account.client.list_job_schedules()
        found = self.account.calls.pages("schedules", listed)
        return {str(schedule["id"]): schedule for schedule in found}

    def _is_own(self, schedule: Facts) -> bool:
        pool = (schedule["jobSpecification"].get("poolInfo") or {}).get("poolId")
        return client.SCHEDULE in metadata_of(schedule) and pool == self.account.pool

    def _require_free(self, name: str, *, sent: bool = False) -> None:
        """Raises UserError if the account has a schedule or a job of that name; `sent` says that
        the files of this one have taken the place of its own."""
        what = "schedule" if name in self._schedules() else "job"
        if what == "schedule" or self.account.find_job(name) is not None:
            message = f"the account already has a {what} `{name}`"
            hint = "choose another with --name"
            if sent:
                message += ", created at the same time, and its files are now those of this job"
                hint = f"fairway schedule delete {name} --target {self.target.name}, and create "
                hint += "both again, with different names"
            raise UserError.of("taken-run-id", message, hint)

    def all(self) -> list[Schedule]:
        """Lists the schedules whose jobs are for the target's pool."""
        found = []
        for each in filter(self._is_own, self._schedules().values()):
            info = each.get("executionInfo") or {}
            last = str((info.get("recentJob") or {}).get("id") or "")
            found.append(
                Schedule(
                    name=str(each["id"]),
                    state=str(each["state"]).lower(),
                    interval=str((each.get("schedule") or {}).get("recurrenceInterval") or ""),
                    next_run=str(info.get("nextRunTime") or ""),
                    last_run=client.scheduled_run(last) if last else "",
                )
            )
        return sorted(found, key=lambda schedule: schedule.name)

    def act(self, action: str, name: str) -> None:
        """Acts on a schedule; `delete` removes key, record and copied inputs too, but no outputs of
        its runs."""
        if name not in (schedule.name for schedule in self.all()):
            hint = f"its schedules: fairway schedule list --target {self.target.name}"
            message = f"`{self.target.name}` has no schedule `{name}`"
            raise UserError.of("unknown-schedule", message, hint)
        path = f"/jobschedules/{name}"
        if action == "delete":
            with ignore_missing():
                self.account.order("to delete it", "DELETE", path)
            outputs.delete_stored(name, self.storage)
        else:
            self.account.order(f"to {action} it", "POST", f"{path}/{action}")


def _require_one_task(prepared: PreparedRun) -> None:
    job = prepared.job
    for wrong, what in (
        (prepared.plan.tasks > 1 + (job.finally_ is not None), "a sweep"),
        (job.nodes > 1, f"{job.nodes} nodes"),
        # Batch runs nothing beside a job manager task (`runExclusive`).
        (job.wanted is not None, "a part of one"),
        (job.finally_ is not None, "a `finally:`"),
    ):
        if wrong:
            message = f"a schedule of Azure Batch starts one task on one node, not {what}"
            hint = "run `fairway submit` from a scheduler of your own, such as a pipeline"
            raise UserError.of("not-supported", message, hint)
