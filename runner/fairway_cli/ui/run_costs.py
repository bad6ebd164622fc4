"""What runs have cost, as plain data, as a table and as CSV."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns
from fairway_core.findings import printable
from fairway_runner.quantities import money

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.environment.monitoring import Budget
    from fairway_runner.runs.accounting import Group

_CSV = ("key", "runs", "node_hours", "cost", "unpriced", "sizes")


def budget_facts(budget: Budget, month: Group, currency: str) -> dict[str, Any]:
    """What of an environment's budget the runs of a month have cost; `share` is null where it is
    in another currency than the prices, or no price is known."""
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
    whole = f"the budget of {money(budget['monthly'])} {budget['currency']} a month"
    if budget["currency"] != currency:
        return f"{whole} is in another currency: name prices in it with --prices FILE"
    if budget["share"] is None:
        return f"{whole}: what the runs of {budget['month']} have cost is not known"
    least = "at least " if budget["unpriced"] else ""
    spent = f"{least}{money(budget['spent'])} {currency}, {budget['share']:.1%}"
    return f"runs of {budget['month']}: {spent} of {whole}"


def print_run_costs(facts: dict[str, Any]) -> None:
    """A line a group, their sum, and what is not in it."""
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
    """The groups to standard output as comma-separated values."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([facts["by"], *_CSV[1:], "currency"])
    for each in facts["groups"]:
        sizes = " ".join(each["sizes"])
        writer.writerow([*(each[name] for name in _CSV[:-1]), sizes, facts["currency"]])


def cost_line(use: Mapping[str, Any]) -> str:
    """What one run has held and cost, by its facts, in a sentence; "" where nothing of that is
    known."""
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
    if facts["cost"] is None:
        return money(None)
    if not facts["sizes"] and not facts["cost"]:
        return ""
    return f"{'at least ' if facts['unpriced'] else ''}{money(facts['cost'])}"
