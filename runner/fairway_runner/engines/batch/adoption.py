"""Runs that were submitted or retried on another machine, read from the account alone."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from fairway_agent import state_files
from fairway_agent.records import InvalidRecord
from fairway_agent.spec import RECORD, RunPlan
from fairway_agent.state_files import RunState, TaskState
from fairway_core.findings import Finding, UserError
from fairway_runner.engines.azure_calls import ignore_missing
from fairway_runner.engines.azure_storage import OUTPUTS, Storage
from fairway_runner.engines.batch import client, states
from fairway_runner.engines.batch.client import CONCURRENCY, Account, Facts, state_of
from fairway_runner.engines.batch.states import cancelled_alone
from fairway_runner.engines.batch.submission import State, find_own_job, is_job_of, metadata_of
from fairway_runner.engines.batch.task_files import reopen_logs
from fairway_runner.engines.remote.mirror import adopted_record, unreadable
from fairway_runner.runs.folder import RunFolder, RunFolders
from fairway_runner.runs.records import is_run_id, read_plan

_WANTED = (*states.SELECT, "environmentSettings")


def submission_of(job: Facts) -> int:
    """Returns the number of the submission of its run that a job belongs to, from 0."""
    return _number(metadata_of(job).get(client.SUBMISSION))


def _number(text: object) -> int:
    """Parses a number in text that others may write too; 0 for anything else."""
    return int(str(text)) if re.fullmatch(r"[0-9]{1,6}", str(text)) else 0


def _run_of(job: Facts) -> str:
    """Returns the run that owns this job; "" if it is none of ours, whatever its metadata says."""
    facts, name = metadata_of(job), str(job["id"])
    run = client.scheduled_run(name) if client.SCHEDULE in facts else facts.get(client.RUN, "")
    if not is_run_id(run):  # it becomes the name of a folder
        return ""
    own = client.SCHEDULE in facts or name == client.job_id(run, submission_of(job))
    return run if own else ""


def write_history(folder: Path, account: Account, storage: Storage, jobs: Sequence[Facts]) -> None:
    """Writes the records of all the run's jobs into its folder: the state of the last submission,
    and that of each task that only earlier ones have."""
    plan, run = read_plan(folder), RunFolder(folder)
    count = run.record.tasks
    *earlier, last = sorted(jobs, key=submission_of)
    found: dict[int, TaskState] = {}
    for job in earlier:
        is_cancelled = cancelled_alone(run.record.id, submission_of(job), storage)
        for number, (task, first) in _tasks(run, account, job).items():
            found[number] = states.task_status(
                *(task, job, first, plan.timeout, found.get(number)), cancelled=is_cancelled(task)
            )
    state = State(submission_of(last), complete=True, jobs=(str(last["id"]),))
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
    state.write(run)


def _tasks(run: RunFolder, account: Account, job: Facts) -> dict[int, tuple[Facts, int]]:
    """Returns the tasks of a job by number, each with the number of its first attempt there."""
    found = {}
    for task in account.tasks(str(job["id"]), _WANTED):
        number = run.index_of(str(task["id"]))
        if number is None:
            continue  # somebody added it by hand
        settings = {str(each["name"]): each for each in task.get("environmentSettings") or ()}
        found[number] = (task, _number(settings.get("FAIRWAY_FIRST", {}).get("value")))
    return found


def require_latest(run: RunFolder, state: State, account: Account, storage: Storage) -> None:
    """Raises UserError if the run was retried on another machine, and records that retry here."""
    jobs = []
    submission = state.submission
    while (later := _job(account, run, submission + 1)) is not None:
        jobs.append(later)
        submission += 1
    if not jobs:
        return
    before = [_job(account, run, i) for i in range(state.submission + 1)]
    _take_over(run, account, storage, [*(job for job in before if job is not None), *jobs])
    hint = f"see its state: fairway show {run.id}"
    raise UserError.of("retried-run", f"{run.id} was retried from elsewhere", hint)


def note_later(run: RunFolder, account: Account, storage: Storage, jobs: Sequence[Facts]) -> None:
    """Switches to the last of a run's own among these jobs, if another machine has submitted it."""
    try:
        jobs = [job for job in jobs if is_job_of(job, run)]
        if not _is_behind(run, jobs):
            return
        lock = run.take_lock()
    except (UserError, OSError):
        return  # damaged, being removed, or about to be retried here
    try:
        # Another command may have retried the run since the jobs were listed.
        if _is_behind(run, jobs):
            _take_over(run, account, storage, jobs)
    finally:
        os.close(lock)


def _is_behind(run: RunFolder, jobs: Sequence[Facts]) -> bool:
    state = State.read(run)
    return state is not None and max(map(submission_of, jobs), default=0) > state.submission


def _take_over(run: RunFolder, account: Account, storage: Storage, jobs: Sequence[Facts]) -> None:
    write_history(run.folder, account, storage, jobs)
    with run.mirroring():
        state_files.write(run.folder, RunState())
    reopen_logs(run)


def _job(account: Account, run: RunFolder, submission: int) -> Facts | None:
    job = find_own_job(account, run, client.job_id(run.id, submission))
    return None if job is None or state_of(job) == "deleting" else job


def adopt(store: RunFolders, account: Account, storage: Storage) -> list[Finding]:
    """Creates a folder for each run of the account's pool that the store does not know, and records
    retries on other machines of those that it knows. Returns findings about unreadable runs."""
    known = {run.id: run for run in store.unsorted()}
    found: dict[str, list[Facts]] = {}
    for job in account.jobs():
        run = _run_of(job)
        if run and state_of(job) != "deleting":
            found.setdefault(run, []).append(job)
    findings = []
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        each = {
            run: pool.submit(note_later, known[run], account, storage, jobs)
            if run in known
            else pool.submit(_adopt, run, jobs, store, account, storage)
            for run, jobs in found.items()
        }
        for run, done in each.items():
            try:
                done.result()
            except InvalidRecord as error:
                blob = client.record_blob(_submitted(run, found[run][0]))
                hint = f"its record is {blob} in the container `{OUTPUTS}`"
                findings.append(unreadable(run, account.target, error, hint))
    return findings


def _submitted(run: str, job: Facts) -> str:
    return metadata_of(job).get(client.RUN, run)


def _adopt(
    run: str, jobs: Sequence[Facts], store: RunFolders, account: Account, storage: Storage
) -> None:
    submitted, archive = _submitted(run, jobs[0]), None
    with ignore_missing():
        archive = storage.read(OUTPUTS, client.record_blob(submitted))
    if archive is None:
        return  # it was cleaned, or is just being submitted
    files = _unpacked(archive)
    _, kept = adopted_record(submitted, files, account.target)
    files |= kept
    if run != submitted:  # turns the record of a schedule into that of one of its runs
        facts = json.loads(files["run.json"]) | {"id": run}
        facts["created"] = states.seconds(jobs[0].get("creationTime")) or facts["created"]
        files["run.json"] = json.dumps(facts, indent=1)
        plan = RunPlan.from_json(json.loads(files["plan.json"]))
        files["plan.json"] = replace(plan, run=run).text()
    store.folder.mkdir(parents=True, exist_ok=True)
    draft = store.folder / f".{run}.{os.getpid()}"
    draft.mkdir()
    try:
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8", newline="")
        write_history(draft, account, storage, jobs)
        (draft / "state.json").write_text(json.dumps({"state": "queued"}), encoding="ascii")
        (draft / "lock").write_text("", encoding="ascii")
        with contextlib.suppress(OSError):  # another command has adopted it meanwhile
            draft.rename(store.folder / run)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _unpacked(record: bytes) -> dict[str, str]:
    """Returns the texts of a record: only plain files of these names, no matter who wrote it.
    Raises InvalidRecord for anything that is no such archive."""
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(record), mode="r:gz") as archive:
            for entry in archive:
                is_plain = entry.name in RECORD and entry.isfile()
                if is_plain and (source := archive.extractfile(entry)):
                    found[entry.name] = source.read().decode(errors="replace")
    except (tarfile.TarError, zlib.error, EOFError, OSError):
        raise InvalidRecord("its record is damaged") from None
    return found
