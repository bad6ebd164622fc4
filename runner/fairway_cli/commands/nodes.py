"""`fairway nodes`: the nodes of a target, and what can be done to one."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairway_cli.commands import completion
from fairway_cli.commands.arguments import JsonOption

_ACTIONS = {
    "drain": "gets no more work, and finishes what it does",
    "resume": "gets work again",
    "reboot": "starts again",
    "reimage": "is made anew from its image",
}


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[drain|resume|reboot|reimage] TARGET [NODE…]",
            help="A target; or what to do, the target, and to which of its nodes.",
            autocompletion=completion.targets,
        ),
    ],
    json_: JsonOption = False,
) -> None:
    """List the nodes of a target, or drain, resume, reboot or reimage some of them."""
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    if len(words) > 1:
        _act(*words)
        return
    nodes = engine_for(find_target(words[0])).nodes()
    from fairway_cli.ui.nodes import node_facts, print_nodes

    if json_:
        print(json.dumps([node_facts(node) for node in nodes], indent=1))
    elif nodes:
        print_nodes(nodes)
    else:
        print(f"{words[0]} has no nodes now")


def _act(action: str, target: str, *names: str) -> None:
    from fairway_core.findings import UserError
    from fairway_core.spelling import did_you_mean
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    if action not in _ACTIONS:
        message = f"`{action}` is nothing that is done to a node"
        raise UserError.of("unknown-action", message, did_you_mean(action, _ACTIONS))
    engine = engine_for(find_target(target))
    if not names:
        hint = f"its nodes: fairway nodes {target}"
        raise UserError.of("no-node", f"say which node of {target}", hint)
    for name in names:
        engine.act_on_node(action, name)
        print(f"{name} {_ACTIONS[action]}", flush=True)
