"""`fairway deploy`: does what was approved, and stops where it would be anything else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from fairway_cli.commands.arguments import AllowOption, DeadlineOption, EnvironmentArgument
from fairway_cli.reviewing import allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def command(
    environment: EnvironmentArgument = None,
    approved: Annotated[
        Path | None,
        Option(
            metavar="REVIEW.json", help="The approved review, written by fairway plan --report."
        ),
    ] = None,
    outputs_file: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the stacks' outputs here, for fairway targets sync."),
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Write the next review to approve to this folder.")
    ] = None,
    allow: AllowOption = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Apply an approved plan, and nothing else.

    Plans each stack again, compares the digest of its review with that of the approved review,
    and applies that very plan. Without --approved it shows the review and asks on the terminal.
    Stacks that only destroy something come after those that read them.

    A stack that needed outputs of another one when the review was made is planned once they
    exist. On a terminal the rest is then shown and confirmed; with --approved the deployment
    stops there, and writes the review to approve next to --report. Exits with 2 if something
    differs from the approved review, with 3 if data would be lost, and with 5 if Terraform
    failed; stacks that were applied stay applied.

    Where it would change an extension of a VM that is stopped, which Azure refuses, it offers to
    start the VM, or stops before anything of that stack was done. --deadline holds for what Fairway
    asks Azure beside Terraform.
    """
    from fairway_cli.ui.reviews import print_review
    from fairway_stacks.plan.deploy import Person, deploy
    from fairway_stacks.plan.options import files_can_be_written

    asks = approved is None and sys.stdin is not None and sys.stdin.isatty()

    def before(plan: Mapping[str, Any]) -> None:
        _have_machines_run(plan, typer.confirm if asks else None)

    with files_can_be_written():
        deploy(
            environment,
            approved,
            Person(print_review, typer.confirm if asks else None, before),
            allow=allowed(allow),
            outputs_file=outputs_file,
            report=report,
        )


def _have_machines_run(plan: Mapping[str, Any], ask: Callable[[str], bool] | None) -> None:
    """Starts VMs that the plan could not change as they are; UserError where nobody agrees."""
    from fairway_core.findings import UserError
    from fairway_runner.live import operations
    from fairway_runner.live.rules import stopped_machines

    stopped = stopped_machines(plan)
    for machine in stopped:
        question = f"{machine.finding.message}. Start it now?"
        if ask is None or not ask(question):
            raise UserError([each.finding for each in stopped])
    for machine in stopped:
        operations.start_machine(machine.name, machine.id)
