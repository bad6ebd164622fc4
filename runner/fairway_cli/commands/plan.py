"""`fairway plan`: what deploying an environment would do, in words, in money and in danger."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from fairway_cli.commands.arguments import (
    AllowOption,
    DeadlineOption,
    EnvironmentArgument,
    JsonOption,
    PricesOption,
)
from fairway_cli.reviewing import allowed
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.findings import Finding


def command(
    environment: EnvironmentArgument = None,
    offline: Annotated[
        bool, Option("--offline", help="Plan from an empty state, without Azure.")
    ] = False,
    base: Annotated[
        list[str] | None,
        Option(
            metavar="PLAN.json|DIR",
            help="A plan of the base branch, or a folder of --out; its changes are listed "
            "separately. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Keep the plans here; they hold secrets.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Write review.md and review.json here.")
    ] = None,
    summary: Annotated[
        str, Option(metavar="FILE", help="Append the review in Markdown to this file.")
    ] = "",
    markdown: Annotated[bool, Option("--markdown", help="Print the review as Markdown.")] = False,
    json_: JsonOption = False,
    allow: AllowOption = None,
    prices: PricesOption = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Plan every stack of an environment, and review what would change.

    Synthesizes the environment, runs `terraform init`, `validate` and `plan` for each stack in
    its order, and prints what `fairway review` does. With --offline no Azure account is
    needed: every stack is planned from an empty state against a stand-in for Azure on this
    machine. Exits with 3 where data would be lost, with 2 where Azure would refuse a change,
    with 4 where Terraform or its provider is missing, and with 5 where Terraform failed.
    --deadline holds for what Fairway asks Azure beside Terraform.
    """
    from fairway_cli.ui.reviews import form_of, show_review
    from fairway_core.findings import UserError
    from fairway_stacks.app import usual_outdir
    from fairway_stacks.plan.left import left_behind
    from fairway_stacks.plan.options import files_can_be_written, say, tell
    from fairway_stacks.plan.planning import base_plans, plan_folder, plan_live, plan_offline
    from fairway_stacks.plan.review import Reviewer, add_summary, write_report
    from fairway_stacks.plan.stacks import in_order

    form = form_of(markdown=markdown, json_=json_)
    before = [plan for each in base or () for plan in base_plans(each, say)]
    with files_can_be_written(), plan_folder(out) as folder:
        plans = (
            plan_offline(environment, folder, say)
            if offline
            else plan_live(environment, folder, say, allowed(allow))
        )
        left = [] if offline else left_behind(in_order(usual_outdir()))
        found = Reviewer(before, allowed(allow), left, prices).review(plans)
        if report:
            write_report(found, report)
        if summary:  # nothing where it is that of a variable which is not set
            add_summary(found, Path(summary))
        show_review(found, form)
        for finding in [] if offline else _of_stopped_machines([plan.review for plan in plans]):
            tell(UserError([finding]))
    code = found.exit_code
    for error in filter(None, (plan.error for plan in plans)):
        code = code or error.exit_code
        tell(error)
    raise Exit(code)


def _of_stopped_machines(reviews: Sequence[Path]) -> Iterator[Finding]:
    """VMs that would have to run, for Azure to change what these plans change of them."""
    from fairway_runner.live.rules import stopped_machines

    for file in reviews:
        with suppress(ValueError):  # the log of a plan that was not made
            for machine in stopped_machines(json.loads(file.read_text(encoding="utf-8"))):
                yield replace(machine.finding, severity=Severity.WARNING)
