"""`fairway ssh`: a shell on a node."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Exit

from fairway_cli.commands.arguments import DeadlineOption, TargetArgument


def command(
    target: TargetArgument,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[NODE] [-- COMMAND…]",
            help="A node and a command; by default a shell on the main host, or on any node.",
            show_default=False,
        ),
    ] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Open a shell on a node of a target, or run a command there."""
    from fairway_core.findings import UserError
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import find_target

    words = words or []
    # Click takes the `--` away, which alone says where the command begins.
    wanted = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    nodes = words[: len(words) - len(wanted)]
    if len(nodes) > 1:
        hint = f"fairway ssh {target} {nodes[0]} -- {' '.join(nodes[1:])}"
        raise UserError.of("many-nodes", f"a shell opens on one node, not on {len(nodes)}", hint)
    node = nodes[0] if nodes else None
    raise Exit(engine_for(find_target(target)).shell(node, wanted))
