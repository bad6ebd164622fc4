"""`fairway wait`: until a run has ended."""

from __future__ import annotations

import typer

from fairway_runner.commands.arguments import RunArgument


def command(run: RunArgument) -> None:
    """Wait until a run has ended, print its state, and exit with the job's code."""
    from fairway_runner.runs import RunStore

    found = RunStore.here().find(run)
    try:
        found.wait()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print(f"{found.id} {found.state}")
    raise typer.Exit(found.exit_code)
