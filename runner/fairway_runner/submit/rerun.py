"""A run once more as a new one, with the same code: as it was, or with changes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairway_core
from fairway_core.documents import Document
from fairway_core.findings import Finding, UserError
from fairway_core.yaml_text import parse_yaml
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.engine import target_of
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile
from fairway_runner.jobs.project_sandbox import sent_before
from fairway_runner.runs import steps
from fairway_runner.runs.labels import labelled
from fairway_runner.runs.records import read_specs
from fairway_runner.runs.store import RunStore
from fairway_runner.submit import recorded
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.secret_values import secret_values
from fairway_runner.submit.submission import launch, prepare, start
from fairway_runner.targets.lookup import as_known_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.target import Target
    from fairway_runner.runs.folder import Content
    from fairway_runner.runs.store import Run
    from fairway_runner.submit.submission import Prepared

_FILES = (
    *("job.yaml", "job.json", "target.json", "code.diff"),
    *("setup.jsonl", "release.jsonl", "tasks.jsonl", "finally.jsonl"),
)


Tell = Callable[[Mapping[str, tuple[Any, Any]]], None]


def _tell_nobody(_: Mapping[str, tuple[Any, Any]]) -> None:
    """Shows the changes to nobody."""


@dataclass(frozen=True)
class Again:
    """The new run, and by the path of each field that was changed its value before and after;
    `warnings` are what a person should hear of."""

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
    tell: Tell = _tell_nobody,
) -> Again:
    """Starts a new run of the same job with the same code.

    `assignments` are further `KEY=VALUE` over those that the run was submitted with. It keeps
    the run's tags, beside the new ones. `tell` is called with the changes before anything starts.
    UserError where the run's record is incomplete, its code is gone, or a change cannot be.
    """
    _require_one_job(run)
    if not assignments and target is None:
        return Again(_same(run, tags, note))
    for each in assignments:
        if re.match(r"code[.=]", each):
            message = f"`-s {each}`: a rerun has the code of {run.id}"
            raise UserError.of("bad-override", message, "submit the job again from its file")
    was = submitted(run)
    edited = replace(was, assignments=(*was.assignments, *assignments))
    with ready_again(run, edited, target, tags=tags, note=note) as (prepared, changes):
        tell(changes)
        new = start(prepared, RunStore(run.folder.parent.parent))
    return Again(new, changes, prepared.warnings)


def _same(run: Run, tags: Sequence[str], note: str | None) -> Run:
    """From the run's own record: nothing is read or rendered anew."""
    recorded.require(run)
    store = RunStore(run.folder.parent.parent)
    secrets = secret_values(recorded.facts(run, "job.json").get("secrets", {}), os.environ)
    run_id = store.new_id(run.record.name)
    record = replace(run.record, id=run_id, created=time.time(), fairway=fairway_core.__version__)
    record = labelled(record, (*run.tags, *tags), note)
    plan, engine = recorded.plan(run), run.engine
    inputs = {
        name: value for name, value in plan.environment.items() if name.startswith("FAIRWAY_INPUT_")
    }
    plan = replace(plan, run=run_id, environment={**engine.environment(), **inputs})
    if runs_here(run.record.engine):
        plan = replace(plan, directory=str(store.folder / run_id / "code"))
    files: dict[str, Content] = {
        name: recorded.pieces(run, name) for name in _FILES if (run.folder / name).exists()
    }
    files["plan.json"] = plan.text()
    files["provenance.json"] = _provenance(run)
    with code.in_use(recorded.snapshots(run)):
        return launch(store, engine, record, files, _snapshot(run), secrets)


@dataclass(frozen=True)
class Submitted:
    """The job of a run as it was submitted: the text of its file, and what was set over it."""

    text: str
    assignments: tuple[str, ...] = ()


def submitted(run: Run) -> Submitted:
    """That of a run; UserError where its record is incomplete, or it has several steps."""
    _require_one_job(run)
    assignments = recorded.facts(run, "provenance.json").get("set", [])
    return Submitted(recorded.text(run, "job.yaml"), tuple(assignments))


@contextmanager
def ready_again(
    run: Run,
    edited: Submitted,
    target: Target | None = None,
    *,
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> Iterator[tuple[Prepared, Mapping[str, tuple[Any, Any]]]]:
    """The run's code with an edited job, ready to start, and what was changed; meanwhile the code
    stays; `asks` and `copies` are as for `prepare`. UserError with what is wrong with it."""
    was = submitted(run)
    store = RunStore(run.folder.parent.parent)
    there = target or as_known_now(target_of(recorded.facts(run, "target.json")))
    facts = recorded.facts(run, "provenance.json")
    with code.in_use(recorded.snapshots(run)), sent_before(facts, recorded.snapshot(run)):
        snapshot = _snapshot(run)
        before, after = _document(run, was), _document(run, edited)
        _require_same_code(run, before, after)
        _require_units(before, after)
        job_file = job_file_of(after, facts, snapshot, there)
        is_same = _part(after, "sweep") == _part(before, "sweep") != {}
        drawn = [spec.params for spec in read_specs(run.folder / "tasks.jsonl")] if is_same else []
        job_file = replace(job_file, assignments=edited.assignments, drawn=drawn)
        prepared = prepare(
            *(job_file, there, store), run_id=run_id, code_folder=snapshot, asks=asks, copies=copies
        )
        _keep(prepared, run)
        prepared.record = labelled(prepared.record, (*run.tags, *tags), note)
        changes = dict(_changes(before.data, after.data))
        if there.name != run.record.target:
            changes["target"] = (run.record.target, there.name)
        yield prepared, changes


def _document(run: Run, job: Submitted) -> Document:
    parsed = parse_yaml(job.text, run.record.job_file)
    # A job of the Python API has spans without units, and so may those of earlier releases.
    return Document(parsed, parsed.data, by_hand=False).override(job.assignments, Job)


def _require_same_code(run: Run, before: Document, after: Document) -> None:
    named = [
        each.data.get("code") if isinstance(each.data, dict) else None for each in (before, after)
    ]
    if named[0] != named[1]:
        message = f"`code`: a rerun has the code of {run.id}"
        hint = "submit the job again from its file"
        location = after.location(("code",), of_key=True)
        raise UserError([Finding("bad-override", message, hint, "code", location=location)])


def _require_units(before: Document, after: Document) -> None:
    """UserError for spans without a unit that the job did not have so far."""
    known = {(finding.path, finding.message) for finding in _without_units(before)}
    new = [each for each in _without_units(after) if (each.path, each.message) not in known]
    if new:
        raise UserError(new)


def _without_units(document: Document) -> list[Finding]:
    """What is wrong with it only if a person wrote it."""
    always = _faults(document)
    return [each for each in _faults(replace(document, by_hand=True)) if each not in always]


def _faults(document: Document) -> Sequence[Finding]:
    try:
        document.validate(Job)
    except UserError as error:
        return error.findings
    return ()


def _require_one_job(run: Run) -> None:
    if steps.has_steps(run.folder):
        message = f"{run.id} has several steps, and cannot be rerun as a whole"
        hint = f"submit it again from its file, or one step: fairway rerun {run.id}-STEP"
        raise UserError.of("several-steps", message, hint)


def job_file_of(
    document: Document, facts: Mapping[str, Any], snapshot: Path, target: Target
) -> JobFile:
    """The job with the folder in which its templates and the files of its sweep are: that of the
    code, unless the code was only a part of it."""
    if facts.get("sent") is True:  # and the job's folder has gone since
        return JobFile(document, snapshot)
    folder = Path(facts.get("folder") or snapshot)
    whole = _part(document, "code").get("path", ".") == "."
    kept = _part(document, "checkpoint").get("directory")
    if runs_here(target.engine) and isinstance(kept, str) and not re.match(r"/|[a-z0-9-]+:", kept):
        # It outlives the runs, and lies beside the job's file.
        document = document.override([f"checkpoint.directory={folder / kept}"], Job)
    return JobFile(document, snapshot if whole or not folder.is_dir() else folder)


def _part(document: Document, name: str) -> Mapping[str, Any]:
    """A section of a job, which nobody has looked at yet; empty where it is none."""
    data = document.data
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _keep(prepared: Prepared, run: Run) -> None:
    """Gives the new run the origin of the code that it has."""
    prepared.record = replace(prepared.record, job_file=run.record.job_file)
    made = json.loads(prepared.files["provenance.json"])
    names = ("fairway", "python", "machine", "user", "template", "set")
    known = {**{name: made[name] for name in names}, "inputs": made.get("inputs")}
    prepared.files["provenance.json"] = _provenance(run, **known)
    if (run.folder / "code.diff").exists():
        prepared.files["code.diff"] = recorded.text(run, "code.diff")


def _provenance(run: Run, **facts: Any) -> str:
    known = recorded.facts(run, "provenance.json")
    found = {**known, **facts, "rerun_of": run.id}
    found.pop("by", None)  # that is who submitted the earlier one
    if not found.get("inputs"):
        found.pop("inputs", None)  # it read what other runs have kept, and does so no more
    return json.dumps(found, indent=1)


def _snapshot(run: Run) -> Path:
    snapshot = recorded.snapshot(run)
    if not snapshot.is_dir():
        message = f"the code snapshot of {run.id} no longer exists: {snapshot}"
        raise UserError.of("no-code", message, "submit the job again from its file")
    return snapshot


def _changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The values that differ, by their dotted paths."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        # repr tells 1 from 1.0 and from true.
        if repr(before) != repr(after):
            yield path, (before, after)
        return
    for name in dict.fromkeys((*before, *after)):
        yield from _changes(before.get(name), after.get(name), f"{path}.{name}" if path else name)
