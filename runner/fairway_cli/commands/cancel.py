"""`fairway cancel`: end runs early."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunsArgument


def command(
    runs: RunsArgument,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="Only this task (its number, from 0, or finally), or only this step.",
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Cancel runs: signal their programs, and kill them after the grace period."""
    from fairway_cli.server import run_store

    store, facts = run_store(), []
    for run in [store.find(name, going=True) for name in runs]:
        run.cancel(task)
        fact = {"run_id": run.id, "state": run.state}
        said = f"{run.id} {fact['state']}"
        if task is not None:
            from fairway_runner.runs.folder import chosen_task

            state = run.task_status(chosen_task(run, task), run.state).state
            fact |= {"task": task, "task_state": state}
            said = f"{run.id} task {task} {state}"
        facts.append(fact)
        if not json_:
            print(said, flush=True)
    if json_:
        print(json.dumps(facts, indent=1))
