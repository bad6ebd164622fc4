"""`fairway cost`: what an environment costs an hour and a month."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway_cli.commands.arguments import EnvironmentArgument, JsonOption

if TYPE_CHECKING:
    from fairway_core.cost.parts import Part
    from fairway_core.cost.prices import Prices


def command(
    environment: EnvironmentArgument = None,
    hours_per_day: Annotated[
        float | None,
        typer.Option(metavar="H", help="Hours a day for which clusters run at their maximum."),
    ] = None,
    json_: JsonOption = False,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own prices; see docs/cost.md."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use cached prices and the built-in snapshot only.")
    ] = False,
    region: Annotated[
        str | None,
        typer.Option(metavar="REGION", help="Use the prices of this region."),
    ] = None,
) -> None:
    """Show what an environment costs per hour and per month.

    At the minimum and the maximum number of nodes, and at rest, when nothing runs. Prices come
    from Azure's public price service, which asks for no credentials, and are kept for a week.
    """
    from fairway_cli.ui.costs import cost_facts, print_costs
    from fairway_core.cost.environment import parts_of
    from fairway_core.cost.estimate import estimate, offers
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file

    _check_hours(hours_per_day)
    loaded = load_environment(environment_file(environment))
    parts = parts_of(loaded, region=_region(region))
    chosen = _prices(prices, offline=offline)
    found, spot = estimate(parts, chosen), offers(parts, chosen)
    facts = cost_facts(found, spot, name=loaded.name, hours_per_day=hours_per_day)
    if json_:
        print(json.dumps(facts, indent=1))
    else:
        asked = not offline and prices is None
        print_costs(facts, asked=asked, elsewhere=None if asked else _elsewhere(parts, chosen))


def _elsewhere(parts: list[Part], chosen: Prices) -> tuple[str, int] | None:
    """The region of which the snapshot knows more, and of how many parts the price is known."""
    from fairway_core.cost.estimate import known_elsewhere
    from fairway_core.cost.prices import snapshot

    return known_elsewhere(parts, chosen, snapshot().regions)


def _prices(file: Path | None, *, offline: bool) -> Prices:
    from fairway_core.cost.cache import CachedPrices, prices_at_hand
    from fairway_core.cost.service import PriceService

    return prices_at_hand(file) if offline or file else CachedPrices(PriceService())


def _check_hours(hours: float | None) -> None:
    from fairway_core.findings import UserError

    if hours is not None and not 0 <= hours <= 24:
        message = f"--hours-per-day {hours:g}: a day has 24 hours"
        raise UserError.of("wrong-hours", message, "take a number from 0 to 24")


def _region(name: str | None) -> str | None:
    from fairway_core.findings import UserError

    if name is not None and not (name.isascii() and name.isalnum() and name.islower()):
        raise UserError.of("unknown-region", f"there is no region `{name}`", "for example eastus")
    return name
