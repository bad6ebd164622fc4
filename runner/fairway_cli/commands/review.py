"""`fairway review`: what Terraform plans would do, before anybody applies them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairway_cli.commands.arguments import AllowOption, JsonOption, allowed

_REFUSED, _DATA_LOST = 2, 3


def command(
    plans: Annotated[
        list[str],
        typer.Argument(
            metavar="[STACK=]PLAN.json…", help="Output of `terraform show -json`, one per stack."
        ),
    ],
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STACK=]PLAN.json",
            help="A plan of the base branch, to be set apart. Repeatable.",
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a comment for a pull request.")
    ] = False,
    json_: JsonOption = False,
    allow: AllowOption = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own prices; see docs/cost.md.")
    ] = None,
) -> None:
    """Show what Terraform plans would change, cost and destroy.

    Exits with 3 if data would be lost and --allow does not name its address, and with 2 if Azure
    would refuse a change. No service is asked: prices come from the cache or the snapshot.
    """
    from fairway_cli.ui.reviews import form_of, show_review
    from fairway_core.collector import collector_paused
    from fairway_core.cost.cache import prices_at_hand
    from fairway_core.review.plan import read_plan
    from fairway_core.review.review import review

    form = form_of(markdown=markdown, json_=json_)
    with collector_paused():
        found = review(
            [read_plan(plan) for plan in plans],
            base=[read_plan(plan) for plan in base or ()],
            allow=allowed(allow),
            prices=prices_at_hand(prices),
        )
        show_review(found, form)
    if found.lost or found.refused:
        raise typer.Exit(_DATA_LOST if found.lost else _REFUSED)
