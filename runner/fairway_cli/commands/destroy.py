"""`fairway destroy`: takes an environment down as it was reviewed and approved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from fairway_cli.commands.arguments import EnvironmentArgument


def command(
    environment: EnvironmentArgument = None,
    stack: Annotated[
        list[str] | None,
        Option(
            metavar="STACK",
            help="Only compute, or data, or network, with those that read it. Repeatable.",
        ),
    ] = None,
    approved: Annotated[
        Path | None, Option(metavar="REVIEW.json", help="The approved review, written by --report.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Write the review of what would go to this folder.")
    ] = None,
) -> None:
    """Destroy an environment, or some of its stacks, once that was approved.

    Plans the destruction of each stack, shows the review, and asks for the environment's name. The
    stacks go in the opposite order of their making, and those that read a stack go with it:
    `--stack compute` takes the clusters alone and keeps the data.

    Without a terminal, --report DIR writes the review and stops, and --approved DIR/review.json
    does what it says and nothing else. Exits with 2 where something differs from the approved
    review or is protected: set `protect: false` in the file and deploy that first.
    """
    from fairway_cli.ui.reviews import print_review
    from fairway_stacks.plan.destroy import destroy
    from fairway_stacks.plan.options import files_can_be_written

    asks = approved is None and sys.stdin is not None and sys.stdin.isatty()

    def ask(name: str) -> bool:
        typed = typer.prompt(f"Type `{name}` to destroy this, and what is on it", default="")
        return bool(typed == name)

    with files_can_be_written():
        destroy(
            environment,
            stack or (),
            approved,
            show=print_review,
            ask=ask if asks else None,
            report=report,
        )
