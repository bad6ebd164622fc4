"""`fairway retry`: the tasks that did not succeed, again in place."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument


def command(
    run: RunArgument,
    failed: Annotated[
        bool,
        Option("--failed", help="Only tasks that failed, not those that were cancelled or lost."),
    ] = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Run the unsuccessful tasks of an ended run again.

    They resume from their checkpoints, append to their logs and keep counting attempts.
    """
    from fairway_runner.quantities import counted
    from fairway_runner.runs.records import has_steps
    from fairway_runner.runs.store import RunStore
    from fairway_runner.submit.rerun import retry

    found = RunStore.here().find(run)
    attempts = retry(found, failed_only=failed)
    count = len(attempts)
    if json_:
        print(json.dumps({"run_id": found.id, "tasks": count}))
        return
    print(f"{found.id} runs again: {counted(count, 'task')}")
    # Not what earlier attempts have printed.
    number, *others = sorted({1} if has_steps(found.folder) else set(attempts.values()))
    options = "-f --tail 10" if others else f"-f --attempt {number}" if number > 1 else "-f"
    print(f"  follow it:  fairway logs {found.id} {options}")
