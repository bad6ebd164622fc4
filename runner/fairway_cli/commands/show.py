"""`fairway show`: one run and its tasks."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Exit, Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument


def command(
    run: RunArgument,
    failed: Annotated[
        bool, Option("--failed", help="Only the tasks that did not succeed.")
    ] = False,
    limit: Annotated[
        int, Option("--limit", "-n", min=0, help="Show at most N tasks; 0 for all.")
    ] = 50,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Show a run: its state, its tasks and its files.

    If its target does not answer, what is known locally is shown, and the exit code is 5.
    """
    from fairway_cli.server import remote_store, run_store
    from fairway_cli.ui.progress import EXIT_CODE, is_away
    from fairway_runner.runs.view import RunView

    found, remote = run_store().find(run), remote_store()
    # A server has the logs and samples that it shows.
    logs = remote is None and bool(found.record.metrics)
    away = is_away(found, lambda: found.refresh(logs=logs, samples=remote is None))
    view = RunView.of(found, has_currency=json_) if remote is None else remote.view(found)
    if json_:
        print(json.dumps(view.to_json(failed=failed), indent=1))
    else:
        from fairway_cli.ui.runs import print_overview

        print_overview(view, view.unsuccessful if failed else view.tasks, limit)
    if away:
        raise Exit(EXIT_CODE)
