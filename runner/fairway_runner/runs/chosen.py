"""Which task of a run a person means, and what people call it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.fields import shown
from fairway_agent.task_spec import LAST
from fairway_core.findings import UserError
from fairway_runner.runs import steps

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder


def chosen_task(run: RunFolder, task: str | int) -> int:
    """The place of a task in the run, given by its number or as `finally`, or of a step, given by
    its name too; UserError where the run has no such task."""
    if steps.has_steps(run.folder):
        names = [each.name for each in steps.read(run.folder)]
        if task in names:
            return names.index(str(task))
    count = run.record.tasks - run.has_last
    if task == LAST and run.has_last:
        return count
    if isinstance(task, str) and task.isascii() and task.isdecimal() and len(task) < 10:
        task = int(task)
    if isinstance(task, int) and 0 <= task < count:
        return task
    known = "its only task is 0" if count == 1 else f"its tasks are 0 to {count - 1}"
    hint = f"{known}, and {LAST}" if run.has_last else known
    raise UserError.of("unknown-task", f"{run.id} has no task {shown(task)}", hint)


def task_name(run: RunFolder, index: int) -> str:
    """A task as people name it: by its number, or `finally`; its folder may have another name, of
    an earlier release."""
    return LAST if run.has_last and index == run.record.tasks - 1 else str(index)
