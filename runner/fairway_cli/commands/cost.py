"""`fairway cost`: what an environment costs an hour and a month."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.findings import Severity, UserError
from fairway_runner.quantities import parse_moment

if TYPE_CHECKING:
    from fairway_core.cost.prices import Prices


def cost(
    environment: arguments.EnvironmentArgument = None,
    hours_per_day: Annotated[
        float | None,
        Option(metavar="H", help="Hours a day for which clusters run at their maximum."),
    ] = None,
    runs: Annotated[
        bool, Option("--runs", help="Show what runs have cost, on ENVIRONMENT or anywhere.")
    ] = False,
    by: Annotated[
        str | None,
        Option(
            metavar="WHAT",
            help="With --runs: group by name, tag, user, target or month.",
            autocompletion=arguments.complete_groups,
        ),
    ] = None,
    since: Annotated[
        str | None,
        Option(metavar="WHEN", help="With --runs: only those submitted since 7d, or 2026-11-01."),
    ] = None,
    csv: Annotated[
        bool, Option("--csv", help="With --runs: print comma-separated values.")
    ] = False,
    json_: arguments.JsonOption = False,
    prices: arguments.PricesOption = None,
    offline: Annotated[
        bool, Option("--offline", help="Use cached prices and the built-in snapshot only.")
    ] = False,
    region: Annotated[
        str | None, Option(metavar="REGION", help="Use the prices of this region.")
    ] = None,
) -> None:
    """Show what an environment costs per hour and per month.

    Shows it at the minimum and maximum number of nodes, and while nothing runs. With --runs it
    shows what runs have cost: their nodes, from the start of each attempt to its end. Those that
    your other machines have submitted to the project's targets count too. Prices come from Azure's
    public price service, which needs no credentials, and are cached for a week.
    """
    from fairway_cli.ui.costs import print_costs
    from fairway_core.cost.environment import line_items_of
    from fairway_core.cost.estimate import best_priced_region
    from fairway_core.cost.prices import snapshot
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file
    from fairway_runner.environment_costs import cost_facts
    from fairway_stacks.extension import left_out

    if hours_per_day is not None and not 0 <= hours_per_day <= 24:
        message = f"--hours-per-day {hours_per_day:g}: a day has 24 hours"
        raise UserError.of("wrong-hours", message, "give a number from 0 to 24")
    if runs or by or since or csv:
        from fairway_runner.runs.usage import require_group

        if not runs:
            message = "--by, --since and --csv apply to runs only"
            raise UserError.of("bad-value", message, "add --runs")
        require_group("--by", by)
        if csv and json_:
            message = "--csv and --json cannot be combined"
            raise UserError.of("bad-value", message, "give one of them")
        chosen = _prices(prices, offline=offline)
        _print_runs(environment, by, since, chosen, _region(region, prices), csv=csv, json_=json_)
        return
    loaded = load_environment(environment_file(environment))
    warn(*left_out("counted"))
    parts = line_items_of(loaded, region=_region(region, prices))
    chosen = _prices(prices, offline=offline)
    facts = cost_facts(loaded, parts, chosen, hours_per_day)
    if json_:
        print(json.dumps(facts, indent=1))
    else:
        asked = getattr(chosen, "service", None) is not None
        elsewhere = None if asked else best_priced_region(parts, chosen, snapshot().regions)
        print_costs(facts, asked=asked, elsewhere=elsewhere)


def _print_runs(
    environment: str | None,
    by: str | None,
    since: str | None,
    prices: Prices,
    region: str | None,
    *,
    csv: bool,
    json_: bool,
) -> None:
    from fairway_cli.ui.costs import budget_facts, print_run_costs, write_run_costs
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file
    from fairway_runner.runs.query import usage_of_runs
    from fairway_runner.runs.usage import run_cost_facts, this_month
    from fairway_runner.targets.lookup import all_targets

    store = arguments.run_store()
    first = None if since is None else parse_moment("--since", since)
    loaded = None if environment is None else load_environment(environment_file(environment))
    held = usage_of_runs(
        store,
        prices,
        ask=[known.target for known in all_targets().values()],
        environment=None if loaded is None else loaded.name,
        since=first,
        region=region,
    )
    warn(*dict.fromkeys((*held.unanswered, *held.damaged)))
    facts = run_cost_facts(held.usages, by=by, currency=prices.currency)
    if loaded is not None and loaded.budget is not None and first is None:
        facts["budget"] = budget_facts(loaded.budget, this_month(held.usages), prices.currency)
    if json_:
        print(json.dumps(facts, indent=1))
    elif csv:
        write_run_costs(facts)
    elif held.usages:
        print_run_costs(facts)
    else:
        print("no run to show")


def _prices(file: Path | None, *, offline: bool) -> Prices:
    from fairway_core.cost.cache import CachedPrices, cached_prices
    from fairway_core.cost.service import DEADLINE, PriceService
    from fairway_runner.engines import outage
    from fairway_runner.engines.outage import SlowCallNotice

    if offline or file:
        return cached_prices(file)
    chosen, notice = outage.Choice.seconds, SlowCallNotice()
    seconds = DEADLINE if chosen is None else chosen
    service = PriceService(
        deadline=seconds, watch=lambda: notice.watch("Azure's price service", seconds)
    )

    def say_away(error: UserError) -> None:
        warn(*(replace(finding, severity=Severity.WARNING) for finding in error.findings))

    return CachedPrices(service, warn=say_away)


def _region(name: str | None, prices: Path | None) -> str | None:
    """Returns the region of `--region`. Raises UserError for an unknown one; with a file of prices,
    which may know other regions than Azure's, only for one that cannot be a name."""
    if name is None:
        return None
    if not (name.isascii() and name.isalnum() and name.islower()):
        hint = "for example eastus"
        raise UserError.of("unknown-region", f"--region: Azure has no region `{name}`", hint)
    if prices is None:
        from fairway_core.catalog.limits import require_region

        require_region("--region", name, "is it a new one? give its prices: --prices FILE")
    return name
