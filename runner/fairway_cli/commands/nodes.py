"""`fairway nodes`: the nodes of a target, and what can be done to one."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairway_cli.commands import completion
from fairway_cli.commands.arguments import JsonOption
from fairway_cli.groups import group_with_default

app = typer.Typer(
    cls=group_with_default("list"),
    add_completion=False,
    no_args_is_help=True,
    help="List, drain, resume, reboot or reimage the nodes of a target.",
)

_TargetArgument = Annotated[
    str, typer.Argument(metavar="TARGET", autocompletion=completion.targets)
]
_NodesArgument = Annotated[
    list[str], typer.Argument(metavar="NODE…", help="Names from `fairway nodes list TARGET`.")
]


@app.command("list")
def list_(target: _TargetArgument, json_: JsonOption = False) -> None:
    """List the nodes of a target, and why a node is unusable."""
    from fairway_cli.ui.nodes import node_facts, print_nodes
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    nodes = engine_for(find_target(target)).nodes()
    if json_:
        print(json.dumps([node_facts(node) for node in nodes], indent=1))
    elif nodes:
        print_nodes(nodes)
    else:
        print(f"{target} has no nodes now")


@app.command()
def drain(target: _TargetArgument, nodes: _NodesArgument) -> None:
    """Give nodes no new work; what runs there finishes."""
    _act("drain", target, nodes, "drains: it gets no new work, and finishes what it runs")


@app.command()
def resume(target: _TargetArgument, nodes: _NodesArgument) -> None:
    """Give drained nodes work again."""
    _act("resume", target, nodes, "gets work again")


@app.command()
def reboot(target: _TargetArgument, nodes: _NodesArgument) -> None:
    """Restart nodes."""
    _act("reboot", target, nodes, "restarts")


@app.command()
def reimage(target: _TargetArgument, nodes: _NodesArgument) -> None:
    """Reinstall nodes from their image; what is on their disks is lost."""
    _act("reimage", target, nodes, "is reinstalled from its image")


def _act(action: str, target: str, nodes: list[str], done: str) -> None:
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    engine = engine_for(find_target(target))
    for node in nodes:
        engine.act_on_node(action, node)
        print(f"{node} {done}", flush=True)
