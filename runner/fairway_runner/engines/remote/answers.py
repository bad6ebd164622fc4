"""What a cluster says of runs, checked before anything of it is written on this machine.

A cluster's host may be another's by now: what it sends names no file of its own choice here, and
has the shape that whatever reads a run's folder expects.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Fields, Unfit, shown
from fairway_agent.plan import RunPlan
from fairway_agent.shared import runs
from fairway_agent.task_spec import TaskSpec
from fairway_runner.runs.records import RunRecord, is_run_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_agent.shared.reports import RunReport, RunsReport
    from fairway_runner.runs.folder import RunFolder

STRANGE = "nothing was taken from its answer; is it still the same host?"
"""What is said where a cluster has sent something of another shape."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_tasks(report: RunReport, run: RunFolder) -> None:
    """Unfit where a report of the run names a task, or a setup, that it does not have."""
    for name in (*report.tasks, *report.logs):
        if name != "setup" and run.index_of(name) is None:
            raise Unfit(f"{run.id} has no task `{shown(name)}`")


def listed_runs(answer: RunsReport) -> list[tuple[str, object, int]]:
    """The runs that a host has: of each its id, its files, which are still to be checked, and
    the number of its last submission."""
    return [(run, files, answer.submissions.get(run, 0)) for run, files in answer.runs.items()]


def adopted(run_id: str, files: Any) -> tuple[RunRecord, dict[str, str]]:
    """The record of a run that lies at a cluster, and its other files by name.

    Unfit for anything that no submission writes.
    """
    if not is_run_id(run_id):
        raise Unfit("its name is not one that runs have")
    for name, text in Fields(files, "what it has").facts.items():
        if name not in runs.FILES or not isinstance(text, str):
            raise Unfit(f"runs have no file `{shown(name)}`")
    record = RunRecord.from_json(_json(files, "run.json"))
    if record.id != run_id:
        raise Unfit(f"it is a copy of {shown(record.id)}")
    _json(files, "job.json")
    RunPlan.from_json(_json(files, "plan.json"))
    if not _DIGEST.fullmatch(str(_json(files, "provenance.json").get("code"))):
        raise Unfit("`provenance.json` does not name its code")
    tasks, last = _lines(files, "tasks.jsonl"), _lines(files, "finally.jsonl")
    # Earlier releases gave the last one a number.
    names = [len(tasks) if task.is_last else task.index for task in last]
    numbers = [*(task.index for task in tasks), *names]
    if len(last) > 1 or len(numbers) != record.tasks or numbers != list(range(len(numbers))):
        raise Unfit("its tasks are not those of its record")
    return record, {name: text for name, text in files.items() if name != "run.json"}


def _json(files: Mapping[str, str], name: str) -> dict[str, Any]:
    if name not in files:
        raise Unfit(f"`{name}` is missing")
    return _parsed(files[name], name)


def _lines(files: Mapping[str, str], name: str) -> list[TaskSpec]:
    lines = files.get(name, "").split("\n")
    return [TaskSpec.from_json(_parsed(line, name)) for line in lines if line]


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return dict(Fields(json.loads(text), f"`{name}`").facts)
    except (ValueError, RecursionError):
        raise Unfit(f"`{name}` is not JSON") from None
