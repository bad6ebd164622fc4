"""`fairway pool`: the size of a target."""

from __future__ import annotations

import json
from typing import Annotated

from typer import Argument, Typer

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, TargetArgument

app = Typer(
    add_completion=False, no_args_is_help=True, help="Change the number of nodes of a target."
)


@app.callback()
def pool() -> None:
    """Change the number of nodes of a target."""


@app.command()
def resize(
    target: TargetArgument,
    nodes: Annotated[int, Argument(metavar="NODES", min=0, help="The new number of nodes.")],
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Request a number of nodes, within the limits of the environment."""
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    engine_for(find_target(target)).resize(nodes)
    if json_:
        print(json.dumps({"target": target, "requested_nodes": nodes}))
        return
    print(f"requested {nodes} nodes for {target}; check progress: fairway nodes list {target}")
