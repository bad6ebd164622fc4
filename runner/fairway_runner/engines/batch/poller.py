"""Updates runs' folders from Batch's states of their jobs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_agent.records import Fields, InvalidRecord
from fairway_agent.state_files import TIMED_OUT, ExceededLimit, RunState, TaskState
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch import pools, states
from fairway_runner.engines.batch.client import CONCURRENCY, Account, Facts, state_of
from fairway_runner.engines.batch.outputs import note_empty
from fairway_runner.engines.batch.states import add_exit_reports, add_shares, cancelled_alone
from fairway_runner.engines.batch.submission import State, is_job_of, job_id_of
from fairway_runner.engines.batch.task_files import TaskFiles, follow_logs, logs_are_complete
from fairway_runner.runs.records import known_state, known_task, read_plan

if TYPE_CHECKING:
    from fairway_runner.engines.azure_storage import Storage
    from fairway_runner.runs.folder import RunFolder

_SETUP_LOG = 8 << 20  # bytes

# From this many runs on, listing all jobs is faster than one request per run.
_MANY = 4


@dataclass
class Poller:
    """Polls the runs of one target; tasks that it has seen end are not read or written again."""

    account: Account
    storage: Storage
    written: dict[tuple[str, int], TaskState] = field(default_factory=dict)

    def refresh(self, runs: Sequence[RunFolder], *, logs: bool) -> None:
        """Refreshes as `Engine.refresh` describes."""
        runs = [
            run
            for run in runs
            if not known_state(run.folder).is_final or (logs and not logs_are_complete(run))
        ]
        how = {"logs": logs, "brief": len(runs) > 1}
        if len(runs) < _MANY:
            for run in runs:
                self._refresh(run, {}, **how)
            return
        jobs = {str(job["id"]): job for job in self.account.jobs()}
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(lambda run: self._refresh(run, jobs, **how), runs))

    def _refresh(
        self, run: RunFolder, jobs: Mapping[str, Facts], *, logs: bool, brief: bool
    ) -> None:
        """Refreshes one run, whose job may be among these, which were fetched before. With `brief`
        its tasks are only counted while it is active."""
        state = State.read(run)
        if state is None or not state.complete:
            reason, before = run.incomplete_submission_reason, known_state(run.folder)
            if reason and not before.is_final:
                write_state(run, replace(before, state="queued", reason=reason))
            return
        # Another command may have created a job that is not listed since.
        job = jobs.get(state.job) or self.account.find_job(state.job)
        found: dict[int, TaskState] = {}
        if job is None or state_of(job) == "deleting" or not is_job_of(job, run):
            known = known_state(run.folder)
            ended = known.ended or time.time()
            known = replace(known, state="lost", reason="its job was deleted", ended=ended)
        elif brief and not logs and state_of(job) != "completed":
            known = _held(self._counted(run, state), job)
        else:
            # Updates the entire run from its job.
            ended = state_of(job) == "completed"
            found, over = self._tasks(run, job, state, logs=logs)
            setup = _watch_setup(run, self.account, state.job, ended=ended)
            if ended:
                with suppress(ServiceError):  # without permission to read there, report nothing
                    note_empty(run, self.storage, found)
            counts = Counter(status.state for status in found.values())
            counts["queued"] += run.record.tasks - len(found)
            if ended:
                counts["cancelled"] += counts.pop("queued", 0)
            known = self._run_state(found, counts, job, ended=ended)
            all_run = state.only is None
            own = (found[n] for n in found if all_run or run.task_name(n) in state.first)
            known = replace(known, started=known_state(run.folder).start_with(own))
            if over is not None:
                known = limited(known, over)
            if setup:
                known = replace(known, reason=setup)
            if known.state == "queued" or states.terminate_reason(job) == states.UNPREPARED:
                known = self._end_unprepared(known, job, ended=ended)
            known = _held(known, job)
        self._write(run, state, found, known)
        run.note_answer()

    def _write(
        self, run: RunFolder, state: State, found: Mapping[int, TaskState], known: RunState
    ) -> None:
        """Writes Batch's states, unless another command has submitted the run again meanwhile."""
        with run.mirroring():
            if job_id_of(run) == state.job:
                self._write_tasks(run, found)
                write_state(run, known)

    def _tasks(
        self, run: RunFolder, job: Facts, state: State, *, logs: bool
    ) -> tuple[dict[int, TaskState], ExceededLimit | None]:
        """Returns the status of each task by its number, and the limit that the run has exceeded.
        Tasks that have ended before, and those of an earlier submission, stay as they are."""
        files = TaskFiles(run, self.account, self.storage, state.job)
        found = self._known_to_batch(run, job, state)
        new = {
            number: status
            for number, status in found.items()
            if not status.is_final or status != self._known(run, number)
        }
        add_shares(files, new)
        if logs:
            for number, copy in follow_logs(files, found).items():
                if number in new:  # there may be more attempts than Batch reports
                    new[number] = states.count_up(new[number], copy.attempt)
                if (begins := copy.begins or None) != found[number].begins:
                    new[number] = replace(new.get(number, found[number]), begins=begins)
        over = add_exit_reports(files, state.submission, new)
        return found | new, over

    def _end_unprepared(self, known: RunState, job: Facts, *, ended: bool) -> RunState:
        """Ends a run for which no node could be prepared, and returns its state. Batch silently
        keeps such a node from the job, which would wait for ever; if the pool has no nodes now, the
        next may be better."""
        broken, job_id = {}, str(job["id"])
        for node in self.account.preparation(job_id):
            info = node.get("jobPreparationTaskExecutionInfo") or {}
            if str(info.get("result") or "").lower() == "failure":
                failure = info.get("failureInfo") or {}
                broken[str(node["nodeId"])] = {"message": failure.get("code"), **failure}
        if not broken:
            return known
        there = {str(node["id"]) for node in self.account.nodes()}
        if there and there <= broken.keys() and state_of(job) == "active":
            try:
                states.terminate(self.account, job_id, states.UNPREPARED)
            except ServiceError as error:
                if not error.exists_already:  # another command has noticed it too
                    raise
        name, failure = next(iter(broken.items()))
        why = f"the node {name} could not be prepared: {states.failure_text(failure)}"
        return replace(known, reason=why, state="failed" if ended else known.state)

    def _counted(self, run: RunFolder, state: State) -> RunState:
        counts, known = dict(self.account.task_counts(state.job)), known_state(run.folder)
        # Batch counts a task as running while its node is prepared for the job.
        is_new = known.state == "queued" and counts.get("running")
        if is_new and not self.account.running_tasks(state.job):
            counts["active"] = counts.get("active", 0) + counts.pop("running")
        words = {"active": "queued", **{each: each for each in ("running", "succeeded", "failed")}}
        tasks = {ours: int(counts.get(word, 0)) for word, ours in words.items()}
        tasks = dict(Counter(tasks) + Counter(state.done))
        now = states.run_state(tasks, ended=False)
        # The reason for waiting no longer holds once the run starts or its job is enabled.
        stays = known.limit is not None or now == "queued"
        stays = stays and not (known.reason or "").startswith(states.DISABLED)
        reason = known.reason if stays else None
        return replace(known, state=now, reason=reason, tasks=tasks, ended=None)

    def _known_to_batch(self, run: RunFolder, job: Facts, state: State) -> dict[int, TaskState]:
        timeout = read_plan(run.folder).timeout
        found: dict[int, TaskState] = {}
        is_cancelled = cancelled_alone(run.id, state.submission, self.storage)
        for task in self.account.tasks(state.job, states.SELECT):
            number = run.index_of(str(task["id"]))
            if number is None:
                continue  # somebody added it by hand
            first = state.first.get(run.task_name(number), 0)
            before = self._known(run, number) if task.get("executionInfo") else None
            found[number] = states.task_status(
                task, job, first, timeout, before, cancelled=is_cancelled(task)
            )
        if state.only is not None:
            for number in range(run.record.tasks):
                if number not in found:
                    found[number] = known_task(run.task_folder(number)) or TaskState()
        return found

    def _run_state(
        self, found: Mapping[int, TaskState], counts: Counter[str], job: Facts, *, ended: bool
    ) -> RunState:
        state = states.run_state(counts, ended=ended)
        ends = [status.ended for status in found.values() if status.ended]
        reason = ""
        if state == "queued":
            waits = {status.reason for status in found.values()}
            if states.PREPARING in waits:
                reason = "a node is being prepared for it"
            else:
                reason = pools.why_waiting(self.account, job)
        elif state == "failed":
            reason = next((each.reason for each in found.values() if each.reason), "")
        elif state == "cancelled" and (why := states.ended_by_person(job)) != states.CANCELLED:
            reason = why and f"its job was ended in Azure Batch: {why}"
        return RunState(
            state=state,
            reason=reason or None,
            ended=max(ends, default=states.end_of(job)) if ended else None,
            tasks={name: count for name, count in counts.items() if count > 0},
        )

    def _known(self, run: RunFolder, number: int) -> TaskState | None:
        """Returns the folder's state of a task, which another command may have written."""
        known = self.written.get((run.id, number)) or known_task(run.task_folder(number))
        if known is not None and known.is_final:
            self.written[run.id, number] = known
        return known

    def _write_tasks(self, run: RunFolder, found: Mapping[int, TaskState]) -> None:
        """Writes the states of tasks that have begun: readers take a file as a sign of that."""
        for number, status in found.items():
            folder, key = run.task_folder(number), (run.id, number)
            begun = status.state != "queued" or status.attempts > 0
            if not begun or self.written.get(key) == status:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            before = known_task(folder)
            # Another command may meanwhile have seen a later attempt, or the end of one that is
            # active here.
            is_older = (
                before is not None
                and not status.is_final
                and before.attempts > status.attempts - before.is_final
            )
            if before != status and not is_older:
                state_files.write(folder, status)
            if status.is_final:
                self.written[key] = status
            else:  # another command may write what it sees
                self.written.pop(key, None)


def limited(known: RunState, over: ExceededLimit) -> RunState:
    """Returns the state of a run over a limit, even before it ends: each task is asked once."""
    known = replace(known, reason=over.reason, limit=over.limit)
    return replace(known, state="failed", exit_code=TIMED_OUT) if known.is_final else known


def _held(known: RunState, job: Facts) -> RunState:
    """Returns the state of a run whose tasks wait in a job that somebody has disabled."""
    why = states.why_disabled(job) if (known.tasks or {}).get("queued") else ""
    return replace(known, reason=why) if why and known.limit is None else known


def write_state(run: RunFolder, state: RunState) -> None:
    """Writes the state of a run, unless another command has seen its end. A reason stays."""
    before = known_state(run.folder)
    if before.is_final and before.state == state.state:
        state = replace(state, reason=state.reason or before.reason)
    if before != state and (state.is_final or not before.is_final):
        state_files.write(run.folder, state)


def _watch_setup(run: RunFolder, account: Account, job_id: str, *, ended: bool) -> str:
    """Writes state and log of the nodes' setup; returns its failure, "" if there is none."""
    if not (run.folder / "setup.jsonl").exists():
        return ""
    folder = run.folder / "setup"
    status = known_task(folder)
    if status is None or not status.is_final:
        nodes = list(account.preparation(job_id))
        log = run.own_file(folder / "log.txt")
        status = setup_status(nodes, account, log, ended=ended)
        known = known_task(folder)
        if known is None or not known.is_final:  # another command may have seen its end
            state_files.write(folder, status)
    return f"the setup failed with exit code {status.exit_code}" if status.exit_code else ""


def setup_status(nodes: list[Any], account: Account, log: Path, *, ended: bool) -> TaskState:
    """Returns the setup's state over all nodes: that of the first that fails, or of the last."""
    status = TaskState("cancelled" if ended else "queued")
    for node in nodes:
        info = node.get("jobPreparationTaskExecutionInfo")
        if info is None:
            continue  # that node has not begun
        started, name = states.seconds(info.get("startTime")), str(node["nodeId"])
        status = TaskState("running", attempt=0, started=started, node=name)
        root = info.get("taskRootDirectory")
        if state_of(info) != "completed" or not root:
            continue  # it is still running, or nothing ran there
        try:
            said = json.loads(account.node_file(name, f"{root}/wd/setup.json", 0, 4096))
            last = Fields(said, "what the setup says").integer("exit_code")
            log.write_bytes(account.node_file(name, f"{root}/stdout.txt", 0, _SETUP_LOG))
        except (ServiceError, ValueError, RecursionError, InvalidRecord):
            continue  # the node is gone with its files, or a task overwrote them
        state, end = "failed" if last else "succeeded", states.seconds(info.get("endTime"))
        status = replace(status, state=state, exit_code=last, ended=end)
        if last:
            break
    if ended and status.state == "running":
        # Its tasks started, so the setup succeeded; the node that had the details is gone.
        return replace(status, state="succeeded")
    return status
