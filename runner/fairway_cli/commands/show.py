"""`fairway show`: one run and its tasks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairway_cli.commands.arguments import JsonOption, RunArgument


def command(
    run: RunArgument,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only the tasks that did not succeed.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Show at most N tasks; 0 for all.")
    ] = 50,
    json_: JsonOption = False,
) -> None:
    """Show a run: its state, its tasks and its files."""
    from fairway_runner.runs.facts import run_facts, setup_facts, task_facts
    from fairway_runner.runs.store import RunStore

    found = RunStore.here().find(run)
    found.refresh(logs=bool(found.record.metrics))
    facts = run_facts(found)
    setup = setup_facts(found, facts["state"])
    tasks = [
        task for task in found.tasks if not failed or task.state in ("failed", "cancelled", "lost")
    ]
    if json_:
        more = {"folder": str(found.folder), "setup": setup, "task_list": task_facts(tasks)}
        print(json.dumps({**facts, **more}, indent=1))
        return
    from fairway_cli.ui.overview import print_overview

    print_overview(found, facts, setup, tasks, limit)
