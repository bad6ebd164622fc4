"""`fairway ssh`: a shell on a node."""

from __future__ import annotations

from typing import Annotated

import typer

from fairway_runner.commands import completion


def command(
    target: Annotated[str, typer.Argument(metavar="TARGET", autocompletion=completion.targets)],
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="By default the target's main host, or any node."),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="Run this in place of a shell."),
    ] = None,
) -> None:
    """Open a shell on a node of a target, or run a command there."""
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets import find_target

    raise typer.Exit(engine_for(find_target(target)).shell(node, run or []))
