"""Submits one step of a workflow, from what the folder of its run keeps."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_core.documents import Document
from fairway_core.yaml_text import parse_yaml
from fairway_runner import worker
from fairway_runner.jobs.job_file import typed_by
from fairway_runner.jobs.project_sandbox import sent_before
from fairway_runner.jobs.steps import read_steps, step_run
from fairway_runner.runs.store import RunStore
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.prepare import prepare
from fairway_runner.submit.rerun import job_file_of
from fairway_runner.submit.steps import require_free
from fairway_runner.submit.submission import (
    recorded_facts,
    recorded_snapshot,
    recorded_text,
    snapshots_of,
    submit,
)
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_runner.runs.steps import StepRecord
    from fairway_runner.runs.store import Run
    from fairway_runner.submit.prepare import PreparedRun


def start_step(workflow: Run, step: StepRecord, store: RunStore, before: Sequence[Run] = ()) -> Run:
    """Submits the run of a step that has none, which waits there until those `before` it have ended
    as it wants; UserError where that cannot be."""
    if threading.current_thread() is not threading.main_thread():
        return worker.look_at_job(start_step, workflow, step, RunStore(store.base), before)
    require_free(step.run, step.name, store)
    facts = recorded_facts(workflow, "provenance.json")
    target = find_target(step.target)
    snapshot = recorded_snapshot(workflow)
    with code.in_use(snapshots_of(workflow)), sent_before(facts, snapshot):
        parsed = parse_yaml(recorded_text(workflow, "job.yaml"), workflow.record.job_file)
        document = Document(parsed, parsed.data)
        document = document.override(facts.get("set", []), typed_by(document.data))
        named = read_steps(document, workflow.id)
        own = next(each for each in named if each.name == step.name).document
        job_file = replace(
            job_file_of(own, facts, snapshot, target), assignments=tuple(facts.get("set", []))
        )
        options: dict[str, Any] = {"code_folder": snapshot, "before": before}
        known = {run.id for run in before}
        wanted = {step_run(workflow.id, name): how for name, how in step.after.items()}
        options["conditions"] = {
            run: how for run, how in wanted.items() if run in known and how != "succeeded"
        }
        prepared = prepare(job_file, target, store, run_id=step.run, **options)
        _say_whose(prepared, own, facts, workflow, step)
        worker.lift()
        return submit(prepared, store)


def _say_whose(
    prepared: PreparedRun, own: Document, facts: Mapping[str, Any], workflow: Run, step: StepRecord
) -> None:
    """Writes down of which run the step is, and its job alone, so that it can be run again."""
    made = json.loads(prepared.files["provenance.json"])
    names = ("git", "folder", *(("by", "user") if "by" in facts else ()))
    kept = {name: facts[name] for name in names if name in facts}
    origin = {"step": {"of": workflow.id, "name": step.name}, "set": []}
    prepared.files["provenance.json"] = json.dumps({**made, **kept, **origin}, indent=1)
    prepared.files["code.diff"] = recorded_text(workflow, "code.diff")
    prepared.files["job.yaml"] = json.dumps(own.data, indent=1)
