"""Runs that were submitted or retried from elsewhere, read from nothing but the account."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairway_agent import state_files
from fairway_agent.state_files import RunState, TaskState
from fairway_boot.files import write_json
from fairway_core.findings import UserError
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.azure_storage import OUTPUTS, Storage
from fairway_runner.engines.batch import client, states
from fairway_runner.engines.batch.client import CONCURRENCY, Account
from fairway_runner.engines.batch.states import CancelledTasks
from fairway_runner.engines.batch.submission import RECORD, State, metadata_of
from fairway_runner.engines.batch.task_files import reopen_logs
from fairway_runner.runs.folder import RunFolder, RunFolders
from fairway_runner.runs.records import read_plan

_WANTED = (*states.SELECT, "environmentSettings")


def submission_of(job: Mapping[str, Any]) -> int:
    """Returns the number of the submission of its run that a job belongs to, from 0."""
    return int(metadata_of(job).get(client.SUBMISSION) or 0)


def write_history(
    folder: Path, account: Account, storage: Storage, jobs: Sequence[Mapping[str, Any]]
) -> None:
    """Writes into a run's folder what the submissions of all its jobs have left there: the state
    of the last one, and that of each task which only earlier ones have."""
    plan, run = read_plan(folder), RunFolder(folder)
    count = run.record.tasks
    *earlier, last = sorted(jobs, key=submission_of)
    found: dict[int, TaskState] = {}
    for job in earlier:
        cancelled = CancelledTasks(run.record.id, submission_of(job), storage)
        for number, (task, first) in _tasks(run, account, job).items():
            known, by_person = found.get(number), cancelled.has(task)
            found[number] = states.task_status(
                *(task, job, first, plan.timeout, known), cancelled=by_person
            )
    state = State(str(last["id"]), submission_of(last), complete=True)
    if earlier:
        now = _tasks(run, account, last)
        state.first = {run.task_name(number): first for number, (_, first) in now.items()}
        chosen = (number for number in now if not run.has_last or number != count - 1)
        state.only = tuple(sorted(chosen))
        others = found.keys() - now.keys()
        state.done = dict(Counter(found[number].state for number in others))
        for number in others:
            run.task_folder(number).mkdir(parents=True, exist_ok=True)
            state_files.write(run.task_folder(number), found[number])
    write_json(folder / "engine.json", state.to_json())


def _tasks(
    run: RunFolder, account: Account, job: Mapping[str, Any]
) -> dict[int, tuple[Mapping[str, Any], int]]:
    """The tasks of a job by their numbers, each with the number of its first attempt there."""
    found = {}
    for task in account.tasks(str(job["id"]), _WANTED):
        number = run.index_of(str(task["id"]))
        if number is None:
            continue  # somebody has added it by hand
        settings = {str(each["name"]): each for each in task.get("environmentSettings") or ()}
        found[number] = (task, int(settings.get("FAIRWAY_FIRST", {}).get("value") or 0))
    return found


def require_latest(run: RunFolder, state: State, account: Account, storage: Storage) -> None:
    """UserError where the run was retried from elsewhere, which is known here from now on."""
    jobs = []
    submission = state.submission
    while (later := _job(account, run, submission + 1)) is not None:
        jobs.append(later)
        submission = submission_of(later)
    if not jobs:
        return
    before = [_job(account, run, i) for i in range(state.submission + 1)]
    _take_over(run, account, storage, [*(job for job in before if job is not None), *jobs])
    hint = f"see its state: fairway show {run.id}"
    raise UserError.of("retried-run", f"{run.id} was retried from elsewhere", hint)


def note_later(
    run: RunFolder, account: Account, storage: Storage, jobs: Sequence[Mapping[str, Any]]
) -> None:
    """Goes on to the last of a run's jobs, where that is one that was submitted elsewhere."""
    try:
        if run.record.engine != account.target.engine or not _is_behind(run, jobs):
            return
        lock = run.take_lock()
    except (UserError, OSError):
        return  # it is damaged, is being removed, or is about to be retried here too
    try:
        # Somebody here may have retried it once more since the jobs were listed.
        if _is_behind(run, jobs):
            _take_over(run, account, storage, jobs)
    finally:
        os.close(lock)


def _is_behind(run: RunFolder, jobs: Sequence[Mapping[str, Any]]) -> bool:
    state = State.read(run)
    return state is not None and max(map(submission_of, jobs)) > state.submission


def _take_over(
    run: RunFolder, account: Account, storage: Storage, jobs: Sequence[Mapping[str, Any]]
) -> None:
    write_history(run.folder, account, storage, jobs)
    with run.mirroring():
        state_files.write(run.folder, RunState())
    reopen_logs(run)


def _job(account: Account, run: RunFolder, submission: int) -> Mapping[str, Any] | None:
    job = account.find_job(client.job_id(run.id, submission))
    return None if job is None or states.is_being_deleted(job) else job


def adopt(store: RunFolders, account: Account, storage: Storage) -> None:
    """Makes a folder for each run of the account's pool that the store does not know, and notes
    where one that it knows was retried from elsewhere."""
    known = {run.id: run for run in store.unsorted()}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for job in account.jobs():
        facts = metadata_of(job)
        run = (
            client.scheduled_run(str(job["id"]))
            if client.SCHEDULE in facts
            else facts.get(client.RUN)
        )
        if not run or states.is_being_deleted(job):
            continue
        found.setdefault(run, []).append(job)
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        each = [
            pool.submit(note_later, known[run], account, storage, jobs)
            if run in known
            else pool.submit(_adopt, run, jobs, store, account, storage)
            for run, jobs in found.items()
        ]
        for done in each:
            done.result()


def _adopt(
    run: str,
    jobs: Sequence[Mapping[str, Any]],
    store: RunFolders,
    account: Account,
    storage: Storage,
) -> None:
    job = jobs[0]
    submitted = metadata_of(job)[client.RUN]
    try:
        record = storage.read(OUTPUTS, client.record_blob(submitted))
    except ServiceError as error:
        if error.is_missing:  # it was cleaned, or is being submitted just now
            return
        raise
    store.folder.mkdir(parents=True, exist_ok=True)
    draft = store.folder / f".{run}.{os.getpid()}"
    draft.mkdir()
    try:
        with tarfile.open(fileobj=io.BytesIO(record), mode="r:gz") as archive:
            for entry in archive:
                # A record holds these plain files and nothing else, no matter who wrote it.
                if (
                    entry.name in RECORD
                    and entry.isfile()
                    and (source := archive.extractfile(entry))
                ):
                    (draft / entry.name).write_bytes(source.read())
        if run != submitted:
            _rename(draft, run, job)
        write_history(draft, account, storage, jobs)
        (draft / "state.json").write_text(json.dumps({"state": "queued"}), encoding="ascii")
        (draft / "lock").write_text("", encoding="ascii")
        with contextlib.suppress(OSError):  # somebody else has adopted it meanwhile
            draft.rename(store.folder / run)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _rename(folder: Path, run: str, job: Mapping[str, Any]) -> None:
    """Makes the record of a schedule that of one of its runs."""
    facts = json.loads((folder / "run.json").read_bytes())
    facts |= {"id": run, "created": states.seconds(job.get("creationTime")) or facts["created"]}
    (folder / "run.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    (folder / "plan.json").write_text(replace(read_plan(folder), run=run).text(), encoding="utf-8")
