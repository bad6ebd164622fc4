"""`fairway best`: which task of a sweep did best."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument, complete_metrics


def command(
    run: RunArgument,
    lowest: Annotated[
        bool | None,
        Option(
            "--min/--max",
            help="Which value is best; by default what the job's `better:` says, or the "
            "metric's name implies.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        Option(
            "--metric",
            "-m",
            help="The metric, if the job has several.",
            autocompletion=complete_metrics,
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Show the task with the lowest or highest final value of a metric.

    Failed and cancelled tasks are ignored; running ones count.
    """
    from fairway_runner.runs.results import best
    from fairway_runner.runs.store import RunStore
    from fairway_runner.runs.view import task_facts

    found = RunStore.here().find(run)
    found.refresh(logs=True)
    task, name, value = best(found, metric, lowest=lowest)
    if json_:
        facts = {"run_id": found.id, "metric": name, "value": value, **task_facts([task])[0]}
        print(json.dumps(facts, indent=1))
        return
    from fairway_runner.quantities import number
    from fairway_runner.runs.view import shown

    print(f"task {task.index} of {found.id}: {name} {number(value)}")
    for parameter, setting in task.params.items():
        print(f"  {parameter}: {shown(setting)}")
