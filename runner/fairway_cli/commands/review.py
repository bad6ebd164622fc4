"""`fairway review`: what Terraform plans would do, before anybody applies them."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import (
    AllowOption,
    JsonOption,
    PricesOption,
    complete_environments,
)
from fairway_cli.reviewing import Asked, environment_in, review_files


def command(
    plans: Annotated[
        list[str] | None,
        Argument(
            metavar="[ENVIRONMENT|[STACK=]PLAN.json…]",
            help="Output of `terraform show -json`, one per stack; or a folder of them. Or an "
            "environment, by default FAIRWAY_ENVIRONMENT, then the project's own.",
            show_default=False,
            autocompletion=complete_environments,
        ),
    ] = None,
    base: Annotated[
        list[str] | None,
        Option(
            metavar="[STACK=]PLAN.json",
            help="A plan of the base branch; its changes are listed separately. Repeatable.",
        ),
    ] = None,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a comment for a pull request.")
    ] = False,
    json_: JsonOption = False,
    allow: AllowOption = None,
    prices: PricesOption = None,
) -> None:
    """Show what Terraform plans would change, cost and destroy.

    Exits with 3 if data would be lost and --allow does not name its address, and with 2 if Azure
    would refuse a change. No service is asked: prices come from the cache or the snapshot. An
    environment in place of plans is planned first, as `fairway plan ENVIRONMENT` does.
    """
    given, base, allow = plans or [], base or [], allow or []
    environment = environment_in(given)
    if environment is not None:
        from fairway_cli.commands import plan

        name = environment or None
        plan.command(name, base=base, markdown=markdown, json_=json_, allow=allow, prices=prices)
    asked = Asked(
        plans=given, base=base, markdown=markdown, json_=json_, allow=allow, prices=prices
    )
    raise Exit(review_files(asked))
