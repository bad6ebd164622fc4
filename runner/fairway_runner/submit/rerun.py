"""Reruns and retries: a new run with the same code, or the tasks of an ended one in place."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fairway_core
from fairway_agent.records import section_of
from fairway_agent.spec import LINES, Retry
from fairway_boot.files import write_json
from fairway_core.documents import Document
from fairway_core.findings import Finding, UserError
from fairway_core.target import Target
from fairway_core.yaml_text import parse_yaml
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile
from fairway_runner.jobs.project_files import uploaded_before
from fairway_runner.runs.folder import running
from fairway_runner.runs.labels import labelled
from fairway_runner.runs.records import (
    FINAL_STATES,
    has_steps,
    read_plan,
    read_specs,
    recorded_steps,
)
from fairway_runner.runs.results import task_results
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.prepare import PreparedRun, prepare
from fairway_runner.submit.run_plan import secret_values
from fairway_runner.submit.submission import (
    read_recorded,
    recorded_facts,
    recorded_lines,
    recorded_snapshot,
    require_runnable,
    retarget,
    snapshots_of,
    submit,
)
from fairway_runner.targets.lookup import current_target, find_target

_TEXTS = ("job.yaml", "job.json", "target.json", "code.diff")
_AGAIN = "submit the job again from its file"


@dataclass(frozen=True)
class RerunResult:
    """The new run, the values of changed fields before and after by path, and `warnings`."""

    run: Run
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    warnings: Sequence[Finding] = ()


def rerun(
    run: Run,
    assignments: Sequence[str] = (),
    target: Target | None = None,
    *,
    tags: Sequence[str] = (),
    note: str | None = None,
    on_changes: Callable[[Mapping[str, tuple[Any, Any]]], None] | None = None,
) -> RerunResult:
    """Starts a new run of the same job with the same code. `assignments` are further `KEY=VALUE`,
    and tags are added; `on_changes` is called with the changes before anything starts. Raises
    UserError if the run's record is incomplete, its code is gone, or a change is invalid."""
    _require_one_job(run)
    if not assignments and target is None:
        with code.keep_snapshots(snapshots_of(run)):
            return RerunResult(submit(_prepare_same(run, tags, note), _store_of(run)))
    for each in assignments:
        if re.match(r"code[.=]", each):
            message = f"`-s {each}`: a rerun has the code of {run.id}"
            raise UserError.of("bad-override", message, _AGAIN)
    was = submitted(run)
    edited = replace(was, assignments=(*was.assignments, *assignments))
    with prepare_again(run, edited, target, tags=tags, note=note) as (prepared, changes):
        if on_changes is not None:
            on_changes(changes)
        new = submit(prepared, _store_of(run))
    return RerunResult(new, changes, prepared.warnings)


def _prepare_same(run: Run, tags: Sequence[str], note: str | None) -> PreparedRun:
    """Prepares the run from its own record: nothing is read or rendered anew."""
    job, engine = require_runnable(run), run.engine
    secrets = secret_values(job.secrets, os.environ)
    store, old = _store_of(run), read_plan(run.folder)
    run_id = store.new_id(run.record.name)
    record = replace(run.record, id=run_id, created=time.time(), fairway=fairway_core.__version__)
    own = old.environment.items()
    inputs = {name: value for name, value in own if name.startswith("FAIRWAY_INPUT_")}
    plan = replace(old, run=run_id, environment={**engine.environment(), **inputs})
    if runs_here(run.record.engine):
        plan = replace(plan, directory=str(store.folder / run_id / "code"))
    there = {name for name in (*_TEXTS, *LINES) if (run.folder / name).exists()}
    files = {name: read_recorded(run, name) for name in _TEXTS if name in there}
    return PreparedRun(
        record=labelled(record, (*run.tags, *tags), note),
        job=job,
        engine=engine,
        plan=plan,
        code=code.Code(_snapshot(run), (), recorded_facts(run, "provenance.json")["code"]),
        files=files,
        lines={name: recorded_lines(run, name) for name in LINES if name in there},
        provenance=_provenance(run),
        secrets=secrets,
    )


def _store_of(run: Run) -> RunStore:
    return RunStore(run.folder.parent.parent)


@dataclass(frozen=True)
class Submitted:
    """The job of a run as it was submitted: the text of its file, and the values set over it."""

    text: str
    assignments: tuple[str, ...] = ()


def submitted(run: Run) -> Submitted:
    """Returns the job of a run as submitted. Raises UserError if that is unknown, or has steps."""
    _require_one_job(run)
    assignments = recorded_facts(run, "provenance.json").get("set", [])
    return Submitted(read_recorded(run, "job.yaml"), tuple(assignments))


@contextmanager
def prepare_again(
    run: Run,
    edited: Submitted,
    target: Target | None = None,
    *,
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> Iterator[tuple[PreparedRun, Mapping[str, tuple[Any, Any]]]]:
    """Yields the run's code with an edited job, ready to start, and the changes; the code stays as
    long. `asks` and `copies` are as for `prepare`. Raises UserError if anything is wrong."""
    was = submitted(run)
    there = target or current_target(Target.from_json(recorded_facts(run, "target.json")))
    facts = recorded_facts(run, "provenance.json")
    with code.keep_snapshots(snapshots_of(run)), uploaded_before(facts, recorded_snapshot(run)):
        snapshot = _snapshot(run)
        before, after = _document(run, was), _document(run, edited)
        # `code` of any form counts, also one that no job may have: this error says what to do.
        code_before, code_after = (
            each.data.get("code") if isinstance(each.data, dict) else None
            for each in (before, after)
        )
        if code_before != code_after:
            message = f"`code`: a rerun has the code of {run.id}"
            raise after.error("bad-override", ("code",), message, _AGAIN, of_key=True)
        job_file = job_file_of(after, facts, snapshot, there)
        is_same = section_of(after.data, "sweep") == section_of(before.data, "sweep") != {}
        drawn = [spec.params for spec in read_specs(run.folder / "tasks.jsonl")] if is_same else []
        job_file = replace(job_file, assignments=edited.assignments, drawn=drawn)
        prepared = prepare(
            *(job_file, there, _store_of(run)),
            run_id=run_id,
            code_folder=snapshot,
            asks=asks,
            copies=copies,
        )
        made = prepared.provenance
        names = ("fairway", "python", "machine", "user", "template", "set")
        own = {**{name: made[name] for name in names}, "inputs": made.get("inputs")}
        prepared.provenance = _provenance(run, **own)
        if (run.folder / "code.diff").exists():
            prepared.files["code.diff"] = read_recorded(run, "code.diff")
        record = replace(prepared.record, job_file=run.record.job_file)
        prepared.record = labelled(record, (*run.tags, *tags), note)
        changes = dict(_changes(before.data, after.data))
        if there.name != run.record.target:
            changes["target"] = (run.record.target, there.name)
        yield prepared, changes


def _document(run: Run, job: Submitted) -> Document:
    parsed = parse_yaml(job.text, run.record.job_file)
    return Document(parsed, parsed.data).override(job.assignments, Job)


def _require_one_job(run: Run) -> None:
    if has_steps(run.folder):
        message = f"{run.id} has several steps, and cannot be rerun as a whole"
        hint = f"submit it again from its file, or one step: fairway rerun {run.id}-STEP"
        raise UserError.of("several-steps", message, hint)


def job_file_of(
    document: Document, facts: Mapping[str, Any], snapshot: Path, target: Target
) -> JobFile:
    """Returns the job with the folder of its templates and of its sweep's files: that of the code,
    unless the code was only a part of it."""
    if facts.get("sent") is True:  # and the job's folder no longer exists
        return JobFile(document, snapshot)
    folder = Path(facts.get("folder") or snapshot)
    is_all = section_of(document.data, "code").get("path", ".") == "."
    kept = section_of(document.data, "checkpoint").get("directory")
    if runs_here(target.engine) and isinstance(kept, str) and not re.match(r"/|[a-z0-9-]+:", kept):
        # The directory outlives runs, and is relative to the job file.
        document = document.override([f"checkpoint.directory={folder / kept}"], Job)
    return JobFile(document, snapshot if is_all or not folder.is_dir() else folder)


def _provenance(run: Run, **facts: Any) -> dict[str, Any]:
    """Returns the provenance of the new run's code, with other `facts` about the run itself."""
    found = {**recorded_facts(run, "provenance.json"), **facts, "rerun_of": run.id}
    for name in ("by", "passed_over"):  # they describe the earlier submission
        found.pop(name, None)
    if not found.get("inputs"):
        found.pop("inputs", None)  # recorded inputs from other runs are no longer read
    return found


def _snapshot(run: Run) -> Path:
    snapshot = recorded_snapshot(run)
    if not snapshot.is_dir():
        message = f"this machine does not have the code of {run.id}: {snapshot}"
        raise UserError.of("no-code", message, _AGAIN)
    return snapshot


def _changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yields the values that differ, by their dotted paths."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        # repr distinguishes 1 from 1.0 and from true.
        if repr(before) != repr(after):
            yield path, (before, after)
        return
    for name in dict.fromkeys((*before, *after)):
        yield from _changes(before.get(name), after.get(name), f"{path}.{name}" if path else name)


def retry(run: Run, *, failed_only: bool = False) -> dict[int, int]:
    """Starts the unsuccessful tasks of an ended run again, or with `failed_only` the failed ones;
    returns the number of each task's next attempt, from 1. Each continues from its checkpoints,
    with as many retries as before; a setup that succeeded is not repeated, `finally:` is. Raises
    UserError if the run has not ended, has nothing to retry, or cannot run there any more."""
    secrets = secret_values(recorded_facts(run, "job.json").get("secrets", {}), os.environ)
    run.refresh()
    lock = run.take_lock()
    try:
        state = run.state_at_end
        if state not in FINAL_STATES:
            raise running(run)
        tasks = task_results(run, state)
        attempts = {
            task.index: task.attempts + 1
            for task in tasks
            if (task.state == "failed" if failed_only else task.state != "succeeded")
        }
        if not attempts and all(task.state == "succeeded" for task in tasks):
            hint = f"to run all of it again: fairway rerun {run.id}"
            raise UserError.of("nothing-to-retry", f"every task of {run.id} succeeded", hint)
        if not attempts:
            hint = "leave out --failed for those that were cancelled or lost"
            raise UserError.of("nothing-to-retry", f"no task of {run.id} failed", hint)
        retarget(run)
        require_runnable(run)
        setup = run.setup_status(state)
        own = [task for task in tasks if not task.is_last]
        has_begun = any(task.attempts for task in tasks)
        wanted = Retry(
            only=tuple(task.index for task in own if task.index in attempts),
            done=Counter(task.state for task in own if task.index not in attempts),
            is_set_up=setup is None or setup.state == "succeeded",
            after=() if has_begun else None,  # these had ended when it started
        )
        write_json(run.folder / "retry.json", wanted.to_json())
    except BaseException:
        os.close(lock)
        raise
    run.engine.start(run, lock, recorded_snapshot(run), secrets, retry=True)
    return attempts


def targets_of(run: Run) -> list[Target]:
    """Returns the targets on which the tasks of a run would run again."""
    steps = recorded_steps(run.folder)
    return [find_target(each.target) for each in steps] or [run.engine.target]
