"""`fairway rerun`: the same job with the same code, as a new run."""

from __future__ import annotations

from fairway_cli.commands.arguments import JsonOption, RunArgument


def command(run: RunArgument, json_: JsonOption = False) -> None:
    """Start a new run with the job and the code of an earlier one."""
    from fairway_cli.ui.started import print_started
    from fairway_runner.runs.store import RunStore
    from fairway_runner.submit.retry import rerun

    print_started(rerun(RunStore.here().find(run)), json_=json_)
