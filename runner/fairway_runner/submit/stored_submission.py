"""A submission as its run's folder keeps it, and how one that was cut off goes on."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fairway_boot import files
from fairway_core.findings import Finding, UserError
from fairway_runner.engines import capabilities
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.outage import Refused
from fairway_runner.jobs.job import Job
from fairway_runner.runs.records import is_run_id, read_json, read_plan, removed
from fairway_runner.runs.store import Run
from fairway_runner.submit import snapshot as code
from fairway_runner.targets.lookup import all_targets, submitted_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fairway_runner.runs.store import RunStore


def recorded_facts(run: Run, name: str) -> dict[str, Any]:
    """Reads one of its JSON files; raises UserError if required facts are missing."""
    try:
        value = read_json(run.folder / name)
    except (UserError, OSError):
        value = {}
    if not isinstance(value.get("code" if name == "provenance.json" else "name"), str):
        raise _unusable(run, name)
    return value


def recorded_text(run: Run, name: str) -> str:
    """One of its files; UserError where it cannot be read."""
    try:
        return (run.folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def recorded_lines(run: Run, name: str) -> Iterator[bytes]:
    """Yields the lines of a run's file, which may be very large; UserError if it is unreadable."""
    try:
        with (run.folder / name).open("rb") as lines:
            for line in lines:
                line.decode()  # what is no text is not copied either
                yield line
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def snapshots_of(run: Run) -> Path:
    """Where the snapshots of code of its project are."""
    return run.folder.parent.parent / "code"


def recorded_snapshot(run: Run) -> Path:
    """Returns the snapshot of its own code, which may be gone."""
    return code.stored(recorded_facts(run, "provenance.json")["code"], snapshots_of(run))


# What a run's scripts and its plan are made for.
_FIXED = ("engine", "vm_size", "mounts", "storage")


def retarget(run: Run) -> bool:
    """Gives a run of which nothing was sent its target as that is known now; whether it is another.
    UserError where the tasks were made for what the target no longer is."""
    found = all_targets().get(run.record.target) if run.is_unsent else None
    if found is None or found.target == (was := submitted_to(run)):
        return False
    now = found.target
    if changed := [name for name in _FIXED if getattr(now, name) != getattr(was, name)]:
        message = f"`{now.name}` has changed since {run.id} was recorded: {', '.join(changed)}"
        hint = f"submit the job again from its file, and: fairway cancel {run.id}"
        raise UserError.of("changed-target", message, hint)
    files.write_json(run.folder / "target.json", now.record())
    run.reread()
    return True


def require_runnable(run: Run) -> Job:
    """The job of a run; UserError where its target cannot run it, or no longer can."""
    given = {**recorded_facts(run, "job.json"), "sweep": None}
    try:
        job = Job.model_validate(given)
    except ValidationError:
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


def resume(run: Run, forgets: type[UserError] = Refused) -> Run:
    """Completes a recorded submission; one that is complete, or has ended, stays as it is, and one
    of which nothing was sent goes to its target as that is now. UserError where another command
    submits it right now; one that raises what `forgets` says is forgotten."""
    if runs_here(run.record.engine):
        return run  # it is recorded and started in one step
    if run.status.is_final:
        return run  # it was cancelled before anything of it was sent
    with forgetting(run, forgets):
        lock = run.take_lock()
        try:
            if retarget(run):
                require_runnable(run)
            snapshot = recorded_snapshot(run)
        except BaseException:
            os.close(lock)
            raise
        if run.status.is_final:  # it was cancelled just now
            os.close(lock)
            return run
        run.engine.start(run, lock, snapshot, {})
    return run


def repeat(run: Run, forgets: type[UserError] = Refused) -> Run:
    """Resumes a job submitted again by its run's id; waits for a command that submits it now."""
    if not runs_here(run.record.engine):
        run.await_lock()
    return resume(run, forgets)


@contextmanager
def forgetting(run: Run, forgets: type[UserError] = Refused) -> Iterator[None]:
    """Around the start of a run: one that raises what `forgets` says, as one that its target
    refuses, leaves nothing behind; one that was not sent keeps why."""
    try:
        yield
    except UserError as error:
        # A retry that is refused has the results of what came before.
        if isinstance(error, forgets) and not (run.folder / "retry.json").exists():
            shutil.rmtree(run.folder, ignore_errors=True)
            raise
        from fairway_agent import state_files

        with suppress(UserError, OSError):
            if why := run.not_sent:
                state = replace(run.status, reason=f"{error.findings[0].message}; {why}")
                state_files.write(run.folder, state)
        raise


CUT_OFF = "cut-off-submission"


def cut_off(run: Run, error: UserError) -> UserError:
    """The error with what became of the run, where it is recorded and has not started."""
    told = any(finding.id == CUT_OFF for finding in error.findings)
    if told or not run.folder.is_dir():
        return error
    hint = f"resume it with: fairway submit --resume {run.id}"
    finding = Finding(CUT_OFF, f"{run.id} is recorded, but has not started", hint)
    return error.with_findings([*error.findings, finding])


def require_run_id(text: str) -> None:
    """UserError where it cannot be a run's id."""
    if not is_run_id(text):
        hint = "up to 63 lower-case letters, digits and hyphens, the first of them a letter"
        raise UserError.of("bad-run-id", f"`{text[:70]}` is not a run's id", hint)


def earlier(store: RunStore, run_id: str, *alike: Mapping[str, str]) -> Run | None:
    """The run of that id, where it is of the same job, which has the files of one that is `alike`;
    None where there is none. UserError where the id is taken by another job, or is none."""
    require_run_id(run_id)
    run = Run(store.folder / run_id)
    if not (run.folder / "run.json").is_file():
        return None
    if not any(_is_same(run, files) for files in alike):
        message = f"the run `{run_id}` is of another job, or on another target"
        raise UserError.of("taken-run-id", message, "choose another with --run-id")
    return run


def _is_same(run: Run, files: Mapping[str, str]) -> bool:
    """True if the run was submitted with these files. The target of a run that was not sent may
    have been corrected since, so only its name counts."""
    if recorded_text(run, "job.json") != files["job.json"]:
        return False
    if run.is_unsent:
        return bool(json.loads(files["target.json"])["name"] == run.record.target)
    return recorded_text(run, "target.json") == files["target.json"]
