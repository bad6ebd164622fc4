"""Costs of environments and runs, as tables and CSV."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns
from fairway_core.findings import printable
from fairway_runner.quantities import duration, money

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.environment.services import Budget
    from fairway_runner.runs.usage import Group

_STATES = ("minimum", "maximum", "idle")


def print_costs(
    facts: dict[str, Any], *, asked: bool, elsewhere: tuple[str, int] | None = None
) -> None:
    """Prints the costs and where prices come from. `asked` means that the price service was asked;
    `elsewhere` is a region with known prices for more parts, and for how many."""
    currency, least = facts["currency"], "" if facts["complete"] else "at least "
    missing = _missing(facts)
    rows: list[tuple[str, ...]] = []
    for line in facts["resources"]:
        amounts = ("" if line["by_use"] else money(line["hourly"][state]) for state in _STATES)
        rows.append((line["resource"], line["what"], *amounts, line["reason"]))
    for label, key in (("an hour", "hourly"), ("a month", "monthly")):
        sums = (_sum(facts[key][which], least) for which in _STATES)
        rows.append((label, currency, *sums, missing))
    print(columns(("RESOURCE", "WHAT", "MINIMUM", "MAXIMUM", "AT REST", ""), rows), end="\n\n")
    if facts["hours_per_day"] is not None:
        month = _sum(facts["monthly_at_hours_per_day"], least)
        month += f" {currency}, {missing}" if missing else f" {currency}"
        print(f"a month of {facts['hours_per_day']:g} hours a day at maximum: {month}")
    for offer in facts["dedicated_against_spot"]:
        dedicated, spot = offer["dedicated_hourly"], offer["spot_hourly"]
        saved = f", {1 - spot / dedicated:.0%} less" if dedicated and spot else ""
        chosen = "Spot" if offer["spot"] else "dedicated"
        print(
            f"{offer['resource']} at maximum an hour: dedicated {money(dedicated)}, "
            f"Spot {money(spot)}{saved}; it is {chosen}"
        )
    _print_schedules(facts)
    for idle in facts["idle"]:
        print(
            f"{idle['resource']} stops itself after {duration(idle['after_seconds'])} without use; "
            f"each hour that it is stopped saves {money(idle['saved_hourly'])} {facts['currency']}"
        )
    known = facts["known"]
    print(f"{known['parts']} of {known['of']} parts have known prices ({known['share']:.0%})")
    for source in facts["prices"]:
        days = dict.fromkeys((source["oldest"], source["newest"]))
        print(f"prices from {source['source']}, of {' to '.join(days)}")
    if not facts["complete"]:
        _tell_unknown(facts, asked=asked, elsewhere=elsewhere)


def _missing(facts: dict[str, Any]) -> str:
    """Names the resources that a sum leaves out, in whole or in part; "" if it is complete."""
    named = []
    for resource, missing in facts["missing"].items():
        known = any(
            line["resource"] == resource and line["unit_price"] is not None
            for line in facts["resources"]
        )
        named.append(f"{resource} ({'; '.join(missing)})" if known else resource)
    return f"without {', '.join(named)}" if named else ""


def _print_schedules(facts: dict[str, Any]) -> None:
    for schedule in facts["schedules"]:
        hours, saved = schedule["hours_a_week"], money(schedule["saved_monthly"])
        if hours is None:
            print(f"{schedule['resource']} is stopped by its schedule, and started by hand")
        else:
            print(
                f"{schedule['resource']} runs {hours:g} of 168 hours a week by its schedule, "
                f"which saves {saved} {facts['currency']} a month"
            )


def _tell_unknown(facts: dict[str, Any], *, asked: bool, elsewhere: tuple[str, int] | None) -> None:
    missing: dict[str, dict[str, None]] = {}
    for line in facts["resources"]:
        if line["unit_price"] is None and line["meter"] is not None:
            missing.setdefault(line["region"], {})[line["meter"]] = None
    print("\nunknown prices are not in the totals")
    for region, meters in missing.items():
        print(f"no price in {region}: {', '.join(meters)}")
    if missing and not asked:
        print(
            "without --offline and --prices, Azure's price service is asked; that needs "
            "no credentials"
        )
    if missing and elsewhere is not None:
        region, number = elsewhere
        print(f"with --region {region}, {number} of {facts['known']['of']} parts have known prices")
    print("prices of your own: --prices FILE, see docs/cost.md")


def _sum(amount: float | None, least: str) -> str:
    return money(None) if amount is None else f"{least}{money(amount)}"


_CSV = ("key", "runs", "node_hours", "cost", "unpriced", "sizes")


def budget_facts(budget: Budget, month: Group, currency: str) -> dict[str, Any]:
    """Returns how much of an environment's budget the runs of a month have spent; `share` is null
    if the budget is in another currency than the prices, or no price is known."""
    spent = month.facts["cost"]
    known = spent is not None and currency == budget.currency
    return {
        "monthly": budget.monthly,
        "currency": budget.currency,
        "month": month.key,
        "spent": spent,
        "unpriced": month.unpriced,
        "share": round(spent / budget.monthly, 4) if known else None,
    }


def _budget_line(budget: dict[str, Any], currency: str) -> str:
    limit = f"the budget of {money(budget['monthly'])} {budget['currency']} a month"
    if budget["currency"] != currency:
        return f"{limit} is in another currency: name prices in it with --prices FILE"
    if budget["share"] is None:
        return f"{limit}: what the runs of {budget['month']} have cost is not known"
    least = "at least " if budget["unpriced"] else ""
    spent = f"{least}{money(budget['spent'])} {currency}, {budget['share']:.1%}"
    return f"runs of {budget['month']}: {spent} of {limit}"


def print_run_costs(facts: dict[str, Any]) -> None:
    """Prints a line per group, their sum, and what it leaves out."""
    total = {"key": "all", **facts["total"]}
    rows = [
        (
            each["key"] or "(none)",
            f"{each['runs']:,}" if facts["by"] != "run" or each is total else "",
            f"{each['node_hours']:,.2f}",
            ", ".join(each["sizes"]),
            _money(each),
        )
        for each in [*facts["groups"], total]
    ]
    header = (facts["by"].upper(), "RUNS", "NODE HOURS", "SIZE", facts["currency"])
    print(columns(header, rows))
    if total["unpriced"]:
        print(
            f"\nthe price of {total['unpriced']:,} of {total['runs']:,} runs is not known: give "
            "the region with --region, or prices with --prices FILE or as `price` of the target"
        )
    if facts["by"] == "tag":
        print("\na run with several tags counts under each, and once in the total")
    if budget := facts.get("budget"):
        print(f"\n{_budget_line(budget, facts['currency'])}")


def write_run_costs(facts: dict[str, Any]) -> None:
    """Writes the groups to standard output as comma-separated values."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([facts["by"], *_CSV[1:], "currency"])
    for each in facts["groups"]:
        sizes = " ".join(each["sizes"])
        writer.writerow([*(each[name] for name in _CSV[:-1]), sizes, facts["currency"]])


def cost_line(use: Mapping[str, Any]) -> str:
    """Describes one run's usage and cost in a sentence, from its facts; "" if nothing is known."""
    from fairway_runner.quantities import number

    if not use["node_hours"] or not (use["vm_size"] or use["hourly"] is not None):
        return ""
    count = number(round(use["node_hours"], 3))
    hours = f"{count} node hour{'' if count == '1' else 's'}"
    hours += f" of {printable(use['vm_size'])}" if use["vm_size"] else ""
    hours += " (Spot)" if use["spot"] else ""
    if use["cost"] is None:
        return f"unknown: {hours}; see: fairway cost --runs"
    in_region = f" in {printable(use['region'])}" if use["region"] else ""
    spent = f"{money(use['cost'])} {printable(use['currency'])}"
    return f"{spent}: {hours} at {money(use['hourly'])} an hour{in_region}"


def _money(facts: dict[str, Any]) -> str:
    if not facts["sizes"] and facts["cost"] == 0:
        return ""
    return _sum(facts["cost"], "at least " if facts["unpriced"] else "")
