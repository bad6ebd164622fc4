"""`fairway logs`: what a run printed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairway_runner.commands.arguments import RunArgument


def command(
    run: RunArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")
    ] = False,
) -> None:
    """Print what a run printed."""
    from fairway_runner.runs import RunStore
    from fairway_runner.ui.follow import copy_log

    try:
        copy_log(RunStore.here().find(run), 0, sys.stdout.buffer, follow=follow)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
