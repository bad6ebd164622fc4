"""Brings runs' folders up to date with what Batch says of their jobs."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.record import read_json, write_json
from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import names, pools, states
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.batch.logs import Logs
from fairway_runner.engines.batch.setup import unprepared, watch_setup
from fairway_runner.engines.batch.submission import State
from fairway_runner.runs.plans import read_plan
from fairway_runner.runs.records import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolder

# From so many runs on one list of all jobs is quicker than asking for each.
_MANY = 4


@dataclass
class Poller:
    """Looks at the runs of one target; remembers what it wrote, to write only what changes."""

    account: Account
    storage: Storage
    written: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    def refresh(self, runs: Sequence[RunFolder], *, logs: bool, patient: bool = True) -> None:
        """See `Engine.refresh`. Who is not patient wants an answer soon, or to know that the
        service has none."""
        if patient:
            self._refresh_all(runs, logs=logs)
            return
        with self.account.calls.soon():
            self._refresh_all(runs, logs=logs)

    def _refresh_all(self, runs: Sequence[RunFolder], *, logs: bool) -> None:
        runs = [run for run in runs if self._is_open(run, logs=logs)]
        if not runs:
            return
        if len(runs) < _MANY:
            for run in runs:
                self._refresh(run, self._job(run), logs=logs, brief=len(runs) > 1)
                run.note_answer()
            return
        jobs = {str(job["id"]): job for job in self.account.jobs()}

        def look(run: RunFolder) -> None:
            state = State.read(run)
            job = jobs.get(state.job if state else names.job_id(run.id))
            self._refresh(run, job, logs=logs, brief=True)
            run.note_answer()

        with ThreadPoolExecutor(CONCURRENCY) as pool:
            for done in [pool.submit(look, run) for run in runs]:
                done.result()

    def _is_open(self, run: RunFolder, *, logs: bool) -> bool:
        ended = read_json(run.folder / "state.json")["state"] in FINAL_STATES
        return not ended or (logs and not Logs.are_complete(run))

    def _job(self, run: RunFolder) -> Mapping[str, Any] | None:
        state = State.read(run)
        try:
            return self.account.job(state.job if state else names.job_id(run.id))
        except ServiceError as error:
            if error.is_missing:
                return None
            raise

    def _refresh(
        self, run: RunFolder, job: Mapping[str, Any] | None, *, logs: bool, brief: bool
    ) -> None:
        """One run. With `brief` its tasks are only counted for as long as it goes on."""
        state = State.read(run)
        if state is None or not state.complete:
            _say_cut_off(run)
            return
        if job is None or states.is_going(job):
            _write_state(run, {"state": "lost", "reason": "its job was deleted", "tasks": {}})
            return
        if brief and not logs and not states.has_ended(job):
            self._count(run, state)
            return
        found = self._tasks(run, job, state)
        counts = Counter(status["state"] for status in found.values())
        counts["queued"] += run.record.tasks - len(found)
        ended = states.has_ended(job)
        setup = watch_setup(run, self.account, state.job, ended=ended)
        if logs:
            copied = Logs(run, self.account, self.storage, state.job)
            copied.follow(found)
            for number, status in found.items():
                if status.get("started"):
                    states.count_up(status, copied.attempt(number))
        if ended:
            counts["cancelled"] += counts.pop("queued", 0)
        facts = self._facts(found, counts, job, ended=ended)
        if setup:
            facts["reason"] = setup
        if facts["state"] == "queued" or states.terminate_reason(job) == states.UNPREPARED:
            facts |= self._unprepared(job, ended=ended)
        self._write_tasks(run, found)
        _write_state(run, facts)

    def _unprepared(self, job: Mapping[str, Any], *, ended: bool) -> dict[str, Any]:
        """What is to be said of a run that no node could be prepared for, which is ended."""
        why, all_nodes = unprepared(self.account, str(job["id"]))
        if all_nodes and str(job["state"]).lower() == "active":
            try:
                self.account.terminate_job(str(job["id"]), states.UNPREPARED)
            except ServiceError as error:
                if not error.exists_already:  # somebody else has seen it too
                    raise
        if not why:
            return {}
        return {"reason": why, "state": "failed"} if ended else {"reason": why}

    def _count(self, run: RunFolder, state: State) -> None:
        counts = self.account.task_counts(state.job)
        tasks = {
            "queued": int(counts.get("active", 0)),
            "running": int(counts.get("running", 0)),
            "succeeded": int(counts.get("succeeded", 0)),
            "failed": int(counts.get("failed", 0)),
        }
        before = read_json(run.folder / "state.json")
        facts = {"state": states.run_state(tasks, ended=False), "started": before.get("started")}
        _write_state(run, {**facts, "ended": None, "reason": before.get("reason"), "tasks": tasks})

    def _tasks(
        self, run: RunFolder, job: Mapping[str, Any], state: State
    ) -> dict[int, dict[str, Any]]:
        """The status of each task by its number; those of an earlier time stay as they are."""
        plan = read_plan(run.folder)
        found: dict[int, dict[str, Any]] = {}
        for task in self.account.tasks(state.job, states.SELECT):
            number = int(task["id"])
            first = state.first.get(str(number), 0)
            before = self._known(run, number) if task.get("executionInfo") else None
            found[number] = states.task_status(task, job, first, plan.timeout, before)
        if state.only is not None:
            for number in range(run.record.tasks):
                if number not in found:
                    found[number] = read_json(run.task_folder(number) / "state.json")
        return found

    def _facts(
        self,
        found: Mapping[int, dict[str, Any]],
        counts: Counter[str],
        job: Mapping[str, Any],
        *,
        ended: bool,
    ) -> dict[str, Any]:
        state = states.run_state(counts, ended=ended)
        starts = [status["started"] for status in found.values() if status.get("started")]
        reason = ""
        if state == "queued":
            waits = {status.get("reason") for status in found.values()}
            preparing = "its node is made ready for the job" in waits
            reason = "a node is made ready for it" if preparing else pools.why_waiting(self.account)
        elif state == "failed":
            reason = next((each["reason"] for each in found.values() if each.get("reason")), "")
        return {
            "state": state,
            "reason": reason or None,
            "started": min(starts, default=None),
            "ended": _end(found.values(), job) if ended else None,
            "tasks": {name: count for name, count in counts.items() if count > 0},
        }

    def _known(self, run: RunFolder, number: int) -> dict[str, Any]:
        """What the folder says of a task, which another command may have written."""
        known = self.written.get((run.id, number))
        return known or read_json(run.task_folder(number) / "state.json")

    def _write_tasks(self, run: RunFolder, found: Mapping[int, dict[str, Any]]) -> None:
        """The states of tasks that have begun: readers take a file for the sign of that."""
        for number, status in found.items():
            folder = run.task_folder(number)
            key = (run.id, number)
            begun = status["state"] != "queued" or status["attempt"] >= 0
            if not begun or self.written.get(key) == status:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            before = read_json(folder / "state.json")
            if before != status and not _is_older(status, before):
                write_json(folder / "state.json", status)
            self.written[key] = status


def _end(found: Iterable[Mapping[str, Any]], job: Mapping[str, Any]) -> float | None:
    ends = [status["ended"] for status in found if status.get("ended")]
    return max(ends, default=states.seconds((job.get("executionInfo") or {}).get("endTime")))


def _is_older(status: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether another command has seen the end meanwhile of what goes on here."""
    ended = known.get("state") in FINAL_STATES and status["state"] not in FINAL_STATES
    return ended and int(known.get("attempt", 0)) >= int(status.get("attempt", 0))


def _write_state(run: RunFolder, facts: dict[str, Any]) -> None:
    before = read_json(run.folder / "state.json")
    if before != facts and not _is_older(facts, before):
        write_json(run.folder / "state.json", facts)


def cut_off(run: RunFolder) -> str:
    """Why the submission of a run is not complete; "" where it is, or goes on right now."""
    state = State.read(run)
    if state is not None and state.complete:
        return ""
    try:
        os.close(run.take_lock())
    except UserError:
        return ""  # somebody is submitting it
    return f"submission was cut off; go on with: fairway submit --resume {run.id}"


def _say_cut_off(run: RunFolder) -> None:
    """Says that a submission is not complete, where nobody is about to complete it."""
    reason, before = cut_off(run), read_json(run.folder / "state.json")
    if reason and before["state"] not in FINAL_STATES:
        _write_state(run, {**before, "state": "queued", "reason": reason})
