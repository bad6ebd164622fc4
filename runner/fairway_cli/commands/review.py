"""`fairway review`: what Terraform plans would do, before anybody applies them."""

from __future__ import annotations

from typing import Annotated

import typer

from fairway_cli.commands.arguments import AllowOption, JsonOption, PricesOption
from fairway_cli.reviewing import Asked, review_files


def command(
    plans: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STACK=]PLAN.json…",
            help="Output of `terraform show -json`, one per stack; or a folder of them.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STACK=]PLAN.json",
            help="A plan of the base branch; its changes are listed separately. Repeatable.",
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a comment for a pull request.")
    ] = False,
    json_: JsonOption = False,
    allow: AllowOption = None,
    prices: PricesOption = None,
) -> None:
    """Show what Terraform plans would change, cost and destroy.

    Takes plans that were made already: `fairway plan ENVIRONMENT` makes them and reviews them.
    Exits with 3 if data would be lost and --allow does not name its address, and with 2 if Azure
    would refuse a change. No service is asked: prices come from the cache or the snapshot.
    """
    code = review_files(
        Asked(
            plans=plans or [],
            base=base or [],
            markdown=markdown,
            json_=json_,
            allow=allow or [],
            prices=prices,
        )
    )
    if code:
        raise typer.Exit(code)
