"""The cost of an environment as plain data, for the program and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairway_core.cost.environment import idle_savings, savings
from fairway_core.cost.estimate import Amounts, Estimate, Line, estimate, offers

if TYPE_CHECKING:
    from fairway_core.cost.line_items import LineItem
    from fairway_core.cost.prices import Prices
    from fairway_core.environment import Environment


def cost_facts(
    environment: Environment,
    parts: Sequence[LineItem],
    prices: Prices,
    hours_per_day: float | None = None,
) -> dict[str, Any]:
    """Returns everything about the cost of its parts: money in `currency`, null if a price is
    unknown. Sums cover known prices, and `complete` is true if only usage-based prices are missing;
    `missing` has the parts of each resource that are not included."""
    found = estimate(parts, prices)
    known, count = found.known
    return {
        "environment": environment.name,
        "currency": found.currency,
        "hourly": _amounts(found.hourly),
        "monthly": _amounts(found.monthly),
        "hours_per_day": hours_per_day,
        "monthly_at_hours_per_day": None
        if hours_per_day is None
        else _rounded(found.month_of_days(hours_per_day)),
        "complete": known == count,
        "missing": {resource: list(whats) for resource, whats in found.missing.items()},
        "known": {"parts": known, "of": count, "share": round(known / count, 4) if count else 1.0},
        "prices": _sources(found),
        "resources": [_line_facts(line) for line in found.lines],
        "dedicated_against_spot": [
            {
                "resource": offer.resource,
                "size": offer.size,
                "spot": offer.spot,
                "dedicated_hourly": _rounded(offer.dedicated),
                "spot_hourly": _rounded(offer.spare),
            }
            for offer in offers(parts, prices)
        ],
        "schedules": [
            {"resource": name, "hours_a_week": hours, "saved_monthly": _rounded(saved)}
            for name, hours, saved in savings(environment, found)
        ],
        "idle": [
            {"resource": name, "after_seconds": after, "saved_hourly": _rounded(saved)}
            for name, after, saved in idle_savings(environment, found)
        ],
    }


def _line_facts(line: Line) -> dict[str, Any]:
    part, price = line.item, line.price
    unknown = price is None and not part.by_use
    region = part.region
    return {
        "resource": part.resource,
        "what": part.what,
        "region": region,
        "meter": part.meter,
        "units": asdict(part.counts),
        "spot": part.spot,
        "by_use": part.by_use,
        "unit_price": None if price is None else price.hourly,
        "hourly": _amounts(line.hourly),
        "reason": part.reason or (f"its price in {region} is not known" if unknown else ""),
    }


def _amounts(amounts: Amounts) -> dict[str, float | None]:
    return {name: _rounded(amount) for name, amount in asdict(amounts).items()}


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 6)


def _sources(estimate: Estimate) -> list[dict[str, str]]:
    dates: dict[str, list[str]] = {}
    for line in estimate.lines:
        if line.price is not None:
            dates.setdefault(line.price.source, []).append(line.price.date.isoformat())
    return [
        {"source": source, "oldest": min(days), "newest": max(days)}
        for source, days in dates.items()
    ]
