"""`fairway review`: what Terraform plans would do, before anybody applies them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway_core.review.review import Review

_DATA_LOST = 3


def command(
    plans: Annotated[
        list[str],
        typer.Argument(
            metavar="[STACK=]PLAN.json…", help="What `terraform show -json` printed, one a stack."
        ),
    ],
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STACK=]PLAN.json", help="A plan of the base, to be set apart. Repeatable."
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a comment for a pull request.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A resource whose loss is meant. Repeatable."),
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prices of your own, see docs/cost.md.")
    ] = None,
) -> None:
    """Say what Terraform plans would change, what that costs and what it would destroy.

    Exits with 3 where data would be lost and its address is not named by --allow. Asks no
    service: prices are those at hand.
    """
    from fairway_core.cost.prices import prices_at_hand
    from fairway_core.findings import UserError
    from fairway_core.review.plan import collector_paused, read_plan
    from fairway_core.review.review import review

    if markdown and json_:
        raise UserError.of("two-forms", "--markdown and --json exclude each other", "choose one")
    with collector_paused():
        found = review(
            [read_plan(plan) for plan in plans],
            base=[read_plan(plan) for plan in base or ()],
            allow=allow or (),
            prices=prices_at_hand(prices),
        )
        _print(found, "json" if json_ else "markdown" if markdown else "text")
    if found.lost:
        raise typer.Exit(_DATA_LOST)


def _print(found: Review, form: str) -> None:
    match form:
        case "json":
            from fairway_core.review.facts import review_facts

            print(json.dumps(review_facts(found), indent=1))
        case "markdown":
            from fairway_core.review.markdown import markdown

            print(markdown(found), end="")
        case _:
            from fairway_cli.ui.reviews import print_review

            print_review(found)
