"""Submission of a job file up to a started run, and resumption of an interrupted one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_boot.files import write_json
from fairway_core.findings import Finding, UserError, printable
from fairway_runner.engines import capabilities
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.outage import RunRefused, Unavailable, warn
from fairway_runner.jobs.job_file import JobFile, has_steps
from fairway_runner.runs.folder import TakenId
from fairway_runner.runs.records import is_run_id, legible_facts, read_job, read_plan, removed
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.run_plan import secret_values
from fairway_runner.submit.target_selection import (
    PASSED,
    passed_over_warning,
    prepare_for,
    targets_with_room,
)
from fairway_runner.targets.lookup import all_targets, submitted_to

if TYPE_CHECKING:
    from fairway_runner.jobs.job import Job
    from fairway_runner.submit.prepare import PreparedRun

MANY = 1_000
"""Number of tasks above which a submission needs confirmation."""


def prepare_submission(
    job_file: JobFile,
    store: RunStore,
    targets: Sequence[str] = (),
    *,
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> PreparedRun:
    """Checks a job file. Raises UserError if anything is wrong with it. `targets` replace its own,
    `asks` and `copies` are as for `prepare`."""
    if run_id is not None:
        require_run_id(run_id)
    if has_steps(job_file.document.data):
        from fairway_runner.submit.steps import prepare_steps

        made = prepare_steps(job_file, store, targets, run_id=run_id, asks=asks, copies=copies)
    else:
        made = prepare_for(job_file, targets, store, run_id=run_id, asks=asks, copies=copies)
    if tags or note is not None:
        from fairway_runner.runs.labels import labelled

        made.record = labelled(made.record, tags, note)
    return made


def unconfirmed(tasks: int, hint: str) -> UserError:
    """Returns the error for a number of tasks that nobody has confirmed."""
    return UserError.of("many-tasks", f"this starts {tasks:,} tasks", hint)


def find_recorded(prepared: PreparedRun, store: RunStore) -> Run | None:
    """Returns the run of that ID and job, None without one. Raises UserError for another job."""
    run_id, alike = prepared.record.id, (prepared, *prepared.others, *prepared.passed)
    require_run_id(run_id)
    run = Run(store.folder / run_id)
    if not (run.folder / "run.json").is_file():
        return None
    job = read_recorded(run, "job.json")
    targets = [each.files["target.json"] for each in alike if each.files["job.json"] == job]
    # The target of a run that was not sent may have been corrected since: only its name counts.
    if run.is_unsent:
        is_same = run.record.target in [json.loads(each)["name"] for each in targets]
    else:
        is_same = bool(targets) and read_recorded(run, "target.json") in targets
    if not is_same:
        message = f"the run `{run_id}` is of another job, or on another target"
        raise UserError.of("taken-run-id", message, "choose another ID")
    return run


def submit(prepared: PreparedRun, store: RunStore) -> Run:
    """Records the run and starts it on the first of its targets that accepts it; an existing run of
    the same ID and job is resumed. A target that refuses it keeps nothing of it; if all refuse,
    nothing is left here, and the error names them all. Raises UserError if the target cannot be
    reached."""
    try:
        return _submit(prepared, store)
    except TakenId:
        return _submit(prepared, store)  # another command has just recorded it


def _submit(prepared: PreparedRun, store: RunStore) -> Run:
    left, passed = [prepared, *prepared.others], dict(prepared.provenance.get(PASSED, {}))
    forgets = Unavailable if left[1:] or passed else RunRefused
    before = find_recorded(prepared, store)
    if before is not None:
        first = next(
            each for each in (*left, *prepared.passed) if each.record.target == before.record.target
        )
        left = [first, *(each for each in left if each is not first)]
    while True:
        now, *left = left
        try:
            return repeat(before, forgets) if before else _start(now, store, forgets)
        except Unavailable as error:
            before = None
            if not left and forgets is RunRefused:
                raise
            if not left:
                raise _with_passed(error, passed) from None
            passed[now.record.target] = why = error.findings[0].message
            warn("`%s` was passed over: %s", now.record.target, printable(why))
        try:
            left, more = targets_with_room(left)
        except UserError as error:
            raise _with_passed(error, passed) from None
        passed |= more
        left = [_in_place_of(prepared, each, passed) for each in left]


def _with_passed(error: UserError, passed: Mapping[str, str]) -> UserError:
    """Returns the last target's error, with why others were passed over, but without the remark
    that the run is recorded: nothing of it is left here."""
    found = [each for each in error.findings if each.id != CUT_OFF]
    tried = [passed_over_warning(name, why) for name, why in passed.items()]
    return error.with_findings([*found, *tried])


def _start(prepared: PreparedRun, store: RunStore, forgets: type[UserError]) -> Run:
    with store.recording(), code.keep_snapshots(store.base / "code"):
        snapshot = code.snapshot(prepared.code, store.base / "code")
        run, lock = store.create(prepared.record, prepared.all_files())
        try:
            with forget_on_error(run, forgets):
                prepared.engine.start(run, lock, snapshot, prepared.secrets)
        except UserError as error:
            raise error_with_state(run, error) from None
        except KeyboardInterrupt:  # otherwise the user never sees its ID
            warn("%s is recorded, and may have started; see: fairway show %s", run.id, run.id)
            raise
        return run


def _in_place_of(first: PreparedRun, other: PreparedRun, passed: Mapping[str, str]) -> PreparedRun:
    """Returns the run for another target, with the labels and the origin of the first."""
    record = replace(first.record, target=other.record.target, engine=other.record.engine)
    return replace(other, record=record, provenance={**first.provenance, PASSED: dict(passed)})


def recorded_facts(run: Run, name: str) -> dict[str, Any]:
    """Reads one of its JSON files. Raises UserError if required facts are missing."""
    value = legible_facts(run.folder / name)
    if not isinstance(value.get("code" if name == "provenance.json" else "name"), str):
        raise _unusable(run, name)
    return value


def read_recorded(run: Run, name: str) -> str:
    """Reads one of its files. Raises UserError if that fails."""
    try:
        return (run.folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def recorded_lines(run: Run, name: str) -> Iterator[bytes]:
    """Yields the lines of a file, of any size. Raises UserError if it is unreadable."""
    try:
        with (run.folder / name).open("rb") as lines:
            for line in lines:
                line.decode()  # text only: anything else raises
                yield line
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def snapshots_of(run: Run) -> Path:
    """Returns the folder of the code snapshots of a run's project."""
    return run.folder.parent.parent / "code"


def recorded_snapshot(run: Run) -> Path:
    """Returns the snapshot of its own code, which may be gone."""
    return code.stored(recorded_facts(run, "provenance.json")["code"], snapshots_of(run))


# Properties of a target that a run's scripts and plan depend on.
_FIXED = ("engine", "vm_size", "mounts", "storage")


def retarget(run: Run) -> bool:
    """Updates the target of a run of which nothing was sent; returns True if it has changed. Raises
    UserError if the tasks were made for properties that the target no longer has."""
    found = all_targets().get(run.record.target) if run.is_unsent else None
    if found is None or found.target == (was := submitted_to(run)):
        return False
    now = found.target
    if changed := [name for name in _FIXED if getattr(now, name) != getattr(was, name)]:
        message = f"`{now.name}` has changed since {run.id} was recorded: {', '.join(changed)}"
        hint = f"submit the job again from its file, and: fairway cancel {run.id}"
        raise UserError.of("changed-target", message, hint)
    write_json(run.folder / "target.json", now.record())
    run.reread()
    return True


def require_runnable(run: Run) -> Job:
    """Returns the job of a run. Raises UserError if its target cannot run it, or no longer can."""
    try:
        job = read_job(run.folder)
    except UserError:
        raise _unusable(run, "job.json") from None
    engine = run.engine
    capabilities.require(job, engine.target)
    engine.require(job, read_plan(run.folder).needs)
    return job


def _unusable(run: Run, name: str) -> UserError:
    path = run.folder / name
    message = f"{path}: missing or damaged"
    return removed(path) or UserError.of(
        "damaged-run", message, "submit the job again from its file"
    )


def resume(run: Run, forgets: type[UserError] = RunRefused) -> Run:
    """Completes a recorded submission; a complete or ended one stays as it is, and one of which
    nothing was sent goes to its target as that is now. Raises UserError while another command
    submits it; a run that raises one of the `forgets` is removed."""
    here = runs_here(run.record.engine)
    if not run.never_began if here else run.status.is_final:
        return run  # elsewhere, a run may be cancelled before it is submitted
    with forget_on_error(run, forgets):
        lock = run.take_lock()
        try:
            sources = recorded_facts(run, "job.json").get("secrets", {}) if here else {}
            secrets = secret_values(sources, os.environ)
            if retarget(run) or here:
                require_runnable(run)
            snapshot = recorded_snapshot(run)
        except BaseException:
            os.close(lock)
            raise
        if run.status.is_final:  # it was just cancelled, or has ended meanwhile
            os.close(lock)
            return run
        run.engine.start(run, lock, snapshot, secrets)
    return run


def repeat(run: Run, forgets: type[UserError] = RunRefused) -> Run:
    """Resumes a job submitted again by its run's id; waits for a command that submits it now."""
    if not runs_here(run.record.engine):
        run.await_lock()
    return resume(run, forgets)


@contextmanager
def forget_on_error(run: Run, forgets: type[UserError] = RunRefused) -> Iterator[None]:
    """Handles errors of a run's start in the block: a run that raises one of the `forgets`, such as
    one that its target refuses, is removed; one that was not sent keeps the reason."""
    try:
        yield
    except UserError as error:
        # A refused retry keeps the results of earlier submissions.
        if isinstance(error, forgets) and not (run.folder / "retry.json").exists():
            shutil.rmtree(run.folder, ignore_errors=True)
            raise
        with suppress(UserError, OSError):
            if why := run.not_sent:
                state = replace(run.status, reason=f"{error.findings[0].message}; {why}")
                state_files.write(run.folder, state)
        raise


CUT_OFF = "cut-off-submission"


def error_with_state(run: Run, error: UserError) -> UserError:
    """Returns the error, with the state of a run that is recorded and has not started."""
    reported = any(finding.id in (CUT_OFF, "cancelled-run") for finding in error.findings)
    if reported or not run.folder.is_dir():
        return error
    hint = f"resume it with: fairway submit --resume {run.id}"
    finding = Finding(CUT_OFF, f"{run.id} is recorded, but has not started", hint)
    return error.with_findings([*error.findings, finding])


def require_run_id(text: str) -> None:
    """Raises UserError if the text cannot be a run's id."""
    if not is_run_id(text):
        hint = "up to 63 lower-case letters, digits and hyphens, the first of them a letter"
        raise UserError.of("bad-run-id", f"`{text[:70]}` is not a run's id", hint)
