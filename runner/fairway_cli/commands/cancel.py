"""`fairway cancel`: end runs early."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunsArgument


def command(
    runs: RunsArgument,
    task: Annotated[
        str | None,
        Option(
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
    from fairway_runner.runs.view import cancel_facts

    store, facts = run_store(), []
    for run in [store.find(name, going=True) for name in runs]:
        run.cancel(task)
        fact = cancel_facts(run, task)
        facts.append(fact)
        if not json_:
            ended = fact["state"] if task is None else f"task {task} {fact['task_state']}"
            print(f"{run.id} {ended}", flush=True)
    if json_:
        print(json.dumps(facts, indent=1))
