"""Prepares a job file of several steps: every step is checked first."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_agent.spec import RunPlan, TaskSpec
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import engine_of_steps
from fairway_runner.engines.outage import join_errors
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.project_files import known_git
from fairway_runner.jobs.steps import NamedStep, inputs_of_runs, read_steps, step_run
from fairway_runner.runs.records import (
    LONGEST_ID,
    STEPS_ENGINE,
    STEPS_FILE,
    StepRecord,
    is_run_id,
    steps_text,
)
from fairway_runner.submit.prepare import PreparedRun, prepare
from fairway_runner.submit.run_inputs import missing_outputs
from fairway_runner.submit.target_selection import select_targets

if TYPE_CHECKING:
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import RunStore


def prepare_steps(
    job_file: JobFile,
    store: RunStore,
    targets: Sequence[str] = (),
    *,
    run_id: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> PreparedRun:
    """Checks what can be checked of each step now. Raises UserError with all that is wrong.
    `targets` replace the steps' own; `asks` and `copies` are as for `prepare`."""
    workflow_id = run_id or store.new_id(_name_of(job_file))
    named = read_steps(job_file.document, workflow_id)
    _require_ids(workflow_id, named, store)
    runs = {step.name: step_run(workflow_id, step.name) for step in named}
    found: dict[str, PreparedRun] = {}
    errors: list[UserError] = []
    for step in named:
        try:
            own = replace(job_file, document=step.document)
            found[step.name] = _prepared(own, step, runs, store, targets, asks=asks, copies=copies)
        except UserError as error:
            errors.append(error)
    if errors:
        raise join_errors(errors)
    kept = {name: each.job for name, each in found.items()}
    if missing := [each for step in named for each in missing_outputs(step, runs, kept)]:
        raise UserError(dict.fromkeys(missing))
    records = [
        StepRecord(
            step.name,
            runs[step.name],
            found[step.name].record.target,
            {name: how if isinstance(how, str) else how.codes for name, how in step.after.items()},
            _can_wait(step, runs, found),
        )
        for step in named
    ]
    return _workflow(job_file, workflow_id, records, found)


def _name_of(job_file: JobFile) -> str:
    """Returns the name, or a placeholder: an invalid name is reported later."""
    name = job_file.document.data.get("name")
    return name if isinstance(name, str) else "steps"


def _require_ids(workflow_id: str, named: Sequence[NamedStep], store: RunStore) -> None:
    """Raises UserError for a step whose run cannot have its ID, or if another run has it."""
    if not is_run_id(workflow_id) or (store.folder / workflow_id / "run.json").is_file():
        return  # `earlier` checks whether it is damaged, or the same
    for step in named:
        run = step_run(workflow_id, step.name)
        if not is_run_id(run):
            message = f"the run of the step `{step.name}` cannot be named {run}"
            longest = LONGEST_ID - len(step_run("", step.name))
            hint = f"choose an ID of up to {longest} lower-case letters, digits and hyphens"
            raise UserError.of("bad-run-id", message, hint)
        require_free(run, step.name, store)


def require_free(run: str, step: str, store: RunStore) -> None:
    """Raises UserError if another run has the ID of a step's run."""
    if (store.folder / run).exists():
        message = f"the run `{run}` already exists, and is not step `{step}` of this one"
        hint = f"choose another ID, or remove it: fairway clean {run}"
        raise UserError.of("taken-run-id", message, hint)


def _prepared(
    job_file: JobFile,
    step: NamedStep,
    runs: Mapping[str, str],
    store: RunStore,
    targets: Sequence[str],
    *,
    asks: bool,
    copies: bool,
) -> PreparedRun:
    (target, *others), _ = select_targets(job_file, targets)
    if others:
        message = f"the step `{step.name}` names several targets, but can have only one"
        raise step.document.error("one-target", ("target",), message, "name one of them")
    coming = [*runs.values()]
    run_id = runs[step.name]
    made = prepare(job_file, target, store, run_id=run_id, coming=coming, asks=asks, copies=copies)
    folder = made.code.folder
    if known_git() is None or folder == job_file.folder:
        return made
    # Of uploaded code only the snapshot exists when the step begins.
    own = replace(job_file, folder=folder)
    options: dict[str, Any] = {"code_folder": folder, "coming": coming}
    return prepare(own, target, store, run_id=run_id, asks=asks, copies=copies, **options)


def _can_wait(step: NamedStep, runs: Mapping[str, str], found: Mapping[str, PreparedRun]) -> bool:
    """Returns True if its target sees the ends and outputs of the active runs before it."""
    engine = found[step.name].engine
    others = [found[name].engine.target for name in step.after]
    able = capabilities(engine.target.engine).begins_steps
    if not (able and others and all(engine.waits_for(each) for each in others)):
        return False
    read = {str(value.get("best", value).get("run")) for _, value in inputs_of_runs(step.document)}
    return read.isdisjoint(run for name, run in runs.items() if name not in step.after)


def _workflow(
    job_file: JobFile,
    workflow_id: str,
    records: Sequence[StepRecord],
    found: Mapping[str, PreparedRun],
) -> PreparedRun:
    first, name = found[records[0].name], _name_of(job_file)
    known = steps_text(records)
    digest = hashlib.sha256(f"{json.dumps(job_file.document.data)}{known}".encode()).hexdigest()
    job = Job(name=name, command="true", params={"steps": digest})
    specs = [
        TaskSpec(index=index, nodes=0, params={"step": each.name})
        for index, each in enumerate(records)
    ]
    # Outputs of earlier runs that steps read: `clean` keeps them until this run has ended.
    inputs = {
        f"{step}.{name}": facts
        for step, each in found.items()
        for name, facts in each.provenance.get("inputs", {}).items()
    }
    own = {"set": list(job_file.assignments), "inputs": inputs}
    record = replace(
        first.record,
        id=workflow_id,
        name=name,
        target=", ".join(dict.fromkeys(each.target for each in records)),
        created=time.time(),
        tasks=len(records),
        metrics={},
        engine=STEPS_ENGINE,
    )
    return PreparedRun(
        record=record,
        job=job,
        engine=engine_of_steps(),
        plan=RunPlan(run=workflow_id, directory="code", tasks=len(records)),
        code=first.code,
        files={
            "job.yaml": job_file.document.text.source,
            "job.json": job.model_dump_json(indent=1, by_alias=True),
            "target.json": json.dumps(Target.local().record(), indent=1),
            "code.diff": first.files["code.diff"],
            STEPS_FILE: known,
        },
        lines={"tasks.jsonl": "".join(each.line() for each in specs)},
        provenance=first.provenance | own,
        warnings=list(dict.fromkeys(each for one in found.values() for each in one.warnings)),
        steps=found,
    )
