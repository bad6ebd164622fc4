"""`fairway deploy`: does what was approved, and stops where it would be anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairway_cli.commands.arguments import AllowOption, EnvironmentArgument, allowed


def command(
    approved: Annotated[
        Path,
        typer.Option(
            metavar="REVIEW.json", help="The approved review, written by fairway plan --report."
        ),
    ],
    environment: EnvironmentArgument = None,
    outputs_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the stacks' outputs here, for fairway targets sync."
        ),
    ] = None,
    allow: AllowOption = None,
) -> None:
    """Apply an approved plan, and nothing else.

    Plans each stack again in its order, compares the digest of its review with that of the
    approved review, and applies that very plan. A stack that could not be planned when the
    review was made, because those before it were not deployed, was not approved: it is
    deployed the next time. Exits with 2 where something is not as approved, with 3 where data
    would be lost, and with 5 where Terraform failed; stacks that were done stay done.
    """
    from fairway_cli.ui.reviews import print_review
    from fairway_stacks.plan.deploy import deploy
    from fairway_stacks.plan.options import files_can_be_written

    with files_can_be_written():
        deploy(
            environment,
            approved,
            allow=allowed(allow),
            show=print_review,
            outputs_file=outputs_file,
        )
