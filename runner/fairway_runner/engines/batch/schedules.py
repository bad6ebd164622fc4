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
from fairway_runner.engines.batch.client import state_of
from fairway_runner.engines.batch.request_builder import is_exit_report, pattern_with_hidden
from fairway_runner.engines.batch.submission import BatchSubmission, State, metadata_of
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

    def create(self, prepared: PreparedRun, recurrence: Recurrence, name: str) -> None:
        """Uploads code and key of the run, and creates a job schedule with the run's id: a later
        schedule of that name shares neither blobs nor folders of its runs. Raises UserError for a
        job of more than one task or node, and for a name that is taken."""
        _require_one_task(prepared)
        if self._named(name):
            message = f"`{self.target.name}` already has a schedule `{name}`"
            hint = "choose another with --name; or delete it first: "
            hint += f"fairway schedule delete {name} --target {self.target.name}"
            raise UserError.of("taken-run-id", message, hint)
        with tempfile.TemporaryDirectory() as folder:
            store = RunFolders(Path(folder))
            snapshot = code.snapshot(prepared.code, store.base / "code")
            run, _ = store.create(prepared.record, prepared.all_files())
            state = State(0, jobs=(client.job_id(run.id),))
            submission = BatchSubmission(run, self.account, self.storage, state, snapshot)
            key, job = submission.new_key(), submission.job()
            submission.upload(outputs.missing_inputs(run, self.storage), key)
            task = next(submission.tasks())
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
        manager["outputFiles"] += [each for each in task["outputFiles"] if is_exit_report(each)]
        specification["jobManagerTask"] = {**manager, "killJobOnCompletion": True}
        spec = {
            "id": run.id,
            "displayName": job["displayName"],
            "schedule": recurrence.wire(),
            "jobSpecification": specification,
            "metadata": specification["metadata"],
        }
        create: Any = self.account.client.create_job_schedule
        try:
            self.account.calls.call("a new schedule", lambda: create(spec))
        except ServiceError as error:
            if error.code != "JobScheduleExists":  # an earlier try, whose answer was lost
                raise

    def _own(self) -> list[Facts]:
        """Returns the schedules whose jobs are for the target's pool."""
        listed = self.account.client.list_job_schedules()
        return [
            schedule
            for schedule in self.account.calls.pages("schedules", listed)
            if client.SCHEDULE in metadata_of(schedule)
            and (schedule["jobSpecification"].get("poolInfo") or {}).get("poolId")
            == self.account.pool
        ]

    def _named(self, name: str) -> list[str]:
        """Returns the ids of schedules of that name, or id: several if two machines created it at
        once."""
        names = {str(each["id"]): metadata_of(each)[client.SCHEDULE] for each in self._own()}
        return [each for each in names if name in (each, names[each])]

    def all(self) -> list[Schedule]:
        """Lists the schedules whose jobs are for the target's pool."""
        found = []
        for each in self._own():
            info = each.get("executionInfo") or {}
            last = str((info.get("recentJob") or {}).get("id") or "")
            found.append(
                Schedule(
                    name=metadata_of(each)[client.SCHEDULE],
                    run=str(each["id"]),
                    state=state_of(each),
                    interval=str((each.get("schedule") or {}).get("recurrenceInterval") or ""),
                    next_run=str(info.get("nextRunTime") or ""),
                    last_run=client.scheduled_run(last) if last else "",
                )
            )
        return sorted(found, key=lambda schedule: schedule.name)

    def act(self, action: str, name: str) -> list[str]:
        """Acts on a schedule; `delete` removes key, record and copied inputs too, but no outputs of
        its runs."""
        ids = self._named(name)
        if not ids:
            hint = f"its schedules: fairway schedule list --target {self.target.name}"
            message = f"`{self.target.name}` has no schedule `{name}`"
            raise UserError.of("unknown-schedule", message, hint)
        for each in ids:
            path = f"/jobschedules/{each}"
            if action == "delete":
                with ignore_missing():
                    self.account.order("to delete it", "DELETE", path)
                outputs.delete_stored(each, self.storage)
            else:
                self.account.order(f"to {action} it", "POST", f"{path}/{action}")
        return ids


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
