"""The scripts of a run's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.task_spec import LAST
from fairway_runner.runs.folder import chosen_task, task_name
from fairway_runner.runs.records import damaged, read_specs

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run


def script(run: Run, task: str) -> str:
    """That of one task, by its number, or of `setup` or `finally`; UserError where there is
    none."""
    if task == "setup":
        name, path = task, run.folder / "setup.jsonl"
    else:
        name = task_name(run, chosen_task(run, task))
        path = run.folder / ("finally.jsonl" if name == LAST else "tasks.jsonl")
    for spec in read_specs(path) if path.exists() else ():
        if spec.name == name or name == LAST:  # an earlier release gave the last a number
            return spec.script
    raise damaged(path, f"it has no task {name}")
