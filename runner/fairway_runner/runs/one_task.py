"""Ends one task of a run, or one step, while the others go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import unsupported
from fairway_runner.runs import steps
from fairway_runner.runs.chosen import chosen_task, task_name
from fairway_runner.runs.plans import read_plan
from fairway_runner.runs.records import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.engines.engine import Engine
    from fairway_runner.runs.folder import RunFolder

_SLACK = 60.0  # seconds beyond a task's grace in which its end is known


def cancel_task(
    run: RunFolder,
    engine: Engine,
    task: str | int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Ends a task, given by its number or as `finally`, or a step by its name; its state once it
    has ended. One that has ended stays as it is. UserError where the run has no such task, or its
    target ends whole runs alone."""
    index = chosen_task(run, task)
    is_whole = steps.has_steps(run.folder)
    if not is_whole and not capabilities(run.record.engine).ends_tasks:
        raise unsupported(engine, "end one task of a run", f"end all: fairway cancel {run.id}")
    engine.refresh([run])
    if _state(run, index) in FINAL_STATES:
        return _state(run, index)
    engine.cancel_task(run, index)
    grace = 0.0 if is_whole else read_plan(run.folder).grace
    deadline = clock() + grace + _SLACK
    while (state := _state(run, index)) not in FINAL_STATES:
        if clock() >= deadline:
            message = (
                f"task {task_name(run, index)} of {run.id} is being ended, but is still {state}"
            )
            hint = f"see its state: fairway show {run.id}"
            raise UserError.of("not-ended", message, hint, exit_code=5)
        time.sleep(engine.pause)
        engine.refresh([run])
    return state


def _state(run: RunFolder, index: int) -> str:
    return run.task_status(index, run.state).state
