"""`fairway pool`: the size of a target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, TargetArgument

if TYPE_CHECKING:
    from fairway_runner.engines.service_pools import Evaluated, Formula

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Change the number of nodes of a target, or evaluate its autoscale formula.",
)


@app.command()
def resize(
    target: TargetArgument,
    nodes: Annotated[int, typer.Argument(metavar="NODES", min=0, help="The new number of nodes.")],
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


@app.command()
def evaluate(
    target: TargetArgument,
    formula: Annotated[
        Path | None,
        typer.Option(
            "--formula",
            metavar="FILE",
            help="A formula to try; by default the pool's own. The pool is not changed.",
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Evaluate a pool's autoscale formula: what it comes to now, and what it last came to.

    Exits with 1 where the formula cannot be evaluated.
    """
    from fairway_runner.engines.service_pools import formulas_of
    from fairway_runner.targets.lookup import find_target

    found = formulas_of(find_target(target)).evaluate(_text_of(formula))
    if json_:
        print(json.dumps(_facts(found), indent=1))
    else:
        _print(found)
    if found.now.error:
        raise typer.Exit(1)


def _text_of(file: Path | None) -> str | None:
    """The formula of a file; UserError where there is none in it."""
    from fairway_core.findings import UserError

    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        hint = "name a file that holds a formula of Azure Batch"
        message = f"--formula: {file} cannot be read: {why}"
        raise UserError.of("unreadable-formula", message, hint) from None
    if not text.strip():
        message = f"--formula: {file} holds no formula"
        raise UserError.of("unreadable-formula", message, "write $TargetDedicatedNodes = …;")
    return text


def _facts(found: Formula) -> dict[str, Any]:
    def of(each: Evaluated | None) -> dict[str, Any] | None:
        if each is None:
            return None
        return {
            "evaluated": each.evaluated,
            "variables": dict(each.variables),
            "error": each.error or None,
        }

    return {"formula": found.text, "now": of(found.now), "last": of(found.last)}


def _print(found: Formula) -> None:
    """A row a variable; what the service last made of the pool's own beside it."""
    from fairway_cli.ui.columns import columns
    from fairway_core.findings import printable

    last = found.last.variables if found.last else {}
    names = dict.fromkeys([*found.now.variables, *last])
    if names:
        rows = [(each, found.now.variables.get(each, ""), last.get(each, "")) for each in names]
        print(columns(("VARIABLE", "NOW", "LAST"), rows))
    for when, each in (("now", found.now), ("last", found.last)):
        if each is not None and each.error:
            print(f"it cannot be evaluated ({when}): {printable(each.error)}")
