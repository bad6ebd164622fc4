"""`fairway ssh-config`: targets for every program that reads ~/.ssh/config."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from fairway_cli.commands.arguments import complete_targets


def command(
    targets: Annotated[
        list[str],
        Argument(metavar="TARGET…", help="Names of targets.", autocompletion=complete_targets),
    ],
) -> None:
    """Print the `Host` blocks by which ssh, scp, rsync and VS Code reach targets.

    To use them: fairway ssh-config gpu >~/.ssh/fairway, and `Include fairway` as the first line
    of ~/.ssh/config. Then `ssh gpu` connects to the target's main host or login node.
    """
    from fairway_runner.targets.lookup import find_target, host_block

    print("\n\n".join([host_block(find_target(name)) for name in targets]))
