"""Changes in costs by plans, from the parts of each resource before and after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fairway_core.cost.estimate import Line, estimate
from fairway_core.cost.from_plan import is_priced, line_items_of_resource

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping, Sequence

    from fairway_core.cost.prices import Price, Prices
    from fairway_core.review.changes import Change
    from fairway_core.review.plan import Plan

_REGION = re.compile(r"[a-z][a-z0-9]*")


@dataclass
class _Units:
    """Additional units of one priced thing, and their price; with a `formula` their number is
    unknown."""

    price: Price | None
    formula: str = ""
    most: float = 0
    least: float = 0


@dataclass(frozen=True)
class CostChange:
    """Hourly costs of a resource before and after, at its maximum, and their difference.

    Each covers the parts with a known price, and is None without any. `at_minimum` is the
    difference with the minimum number of nodes. `is_complete` says that all parts are covered.
    `what` describes the resource after the change, or before it if it is deleted.
    """

    stack: str
    address: str
    what: str
    before: float | None
    after: float | None
    difference: float | None
    at_minimum: float | None
    is_complete: bool


class PriceSource(NamedTuple):
    """The source of prices, and their date."""

    source: str
    date: datetime.date


@dataclass(frozen=True)
class CostReview:
    """The changes in costs, in `currency`, and the sources of the prices."""

    currency: str
    changes: tuple[CostChange, ...]
    prices: tuple[PriceSource, ...]

    @property
    def hourly(self) -> float | None:
        """The sum of the known differences, or None if there are differences and none is known."""
        return _sum(each.difference for each in self.changes)

    @property
    def hourly_at_minimum(self) -> float | None:
        """The sum of the known differences with the minimum number of nodes."""
        return _sum(each.at_minimum for each in self.changes)

    @property
    def known(self) -> tuple[int, int]:
        """The number of changes whose difference is known as a whole, and of all changes."""
        return sum(each.is_complete for each in self.changes), len(self.changes)


def review_costs(plans: Sequence[Plan], changes: Iterable[Change], prices: Prices) -> CostReview:
    """Returns the resources whose costs change, or may change, in the order of the changes."""
    regions = {plan.stack: _only_region(plan) for plan in plans}
    found = []
    used: set[Price] = set()
    for change in changes:
        if not is_priced(change.type) or change.raw is None:
            continue
        region = regions[change.stack]
        before, after = (
            _lines(change.type, change.raw.get(side), region, prices)
            for side in ("before", "after")
        )
        if "forget" in change.actions:  # Azure goes on billing it
            after = [*before, *after]
        more = _more_units(before, after)
        if not more:
            continue
        found.append(_cost_change(change, before, after, more))
        used.update(line.price for line in (*before, *after) if line.price)
    sources = {PriceSource(price.source, price.date) for price in used}
    return CostReview(prices.currency, tuple(found), tuple(sorted(sources)))


def _lines(
    type: str,  # noqa: A002
    attributes: Mapping[str, Any] | None,
    region: str,
    prices: Prices,
) -> Sequence[Line]:
    """Returns the cost lines of a resource, without parts billed by use; none if it has no
    attributes, and so does not exist. `region` is that of a resource that names none."""
    if not attributes:
        return ()
    parts = line_items_of_resource(type, attributes, _normal(attributes.get("location")) or region)
    return estimate((part for part in parts if not part.by_use), prices).lines


def _more_units(before: Sequence[Line], after: Sequence[Line]) -> list[_Units]:
    """Returns the additional units of each part, by meter, or by description without a meter."""
    units: dict[tuple[str, str, str], _Units] = {}
    for lines, sign in ((before, -1), (after, 1)):
        for line in lines:
            key = (line.item.meter or line.item.what, line.item.region, line.item.formula)
            found = units.get(key)
            if found is None:
                found = units[key] = _Units(line.price, line.item.formula)
            found.most += sign * line.item.counts.maximum
            found.least += sign * line.item.counts.minimum
    return [each for each in units.values() if each.most or each.least]


def _cost_change(
    change: Change, before: Sequence[Line], after: Sequence[Line], more: Sequence[_Units]
) -> CostChange:
    by_formula = any(each.formula for each in more)
    return CostChange(
        stack=change.stack,
        address=change.address,
        what="; ".join(line.item.what for line in after or before),
        before=_sum(line.hourly.maximum for line in before),
        after=_sum(line.hourly.maximum for line in after),
        # Nodes are most of the cost: without their number a difference would mislead.
        difference=None if by_formula else _difference([(each.most, each.price) for each in more]),
        at_minimum=None if by_formula else _difference([(each.least, each.price) for each in more]),
        is_complete=all(each.price for each in more),
    )


def _difference(more: Sequence[tuple[float, Price | None]]) -> float | None:
    return _sum(count * price.hourly if price else None for count, price in more if count)


def _sum(amounts: Iterable[float | None]) -> float | None:
    """Returns the sum of the known amounts: 0 for no amounts, None if none of them is known."""
    given = list(amounts)
    known = [amount for amount in given if amount is not None]
    return None if given and not known else sum(known)


def _only_region(plan: Plan) -> str:
    """Returns the plan's only region, for resources without one, or "" if it has several."""
    regions = set()
    for resource in plan.changes:
        values = resource["change"].get("after") or resource["change"].get("before") or {}
        location = _normal(values.get("location")) if isinstance(values, dict) else ""
        if location and location != "global":
            regions.add(location)
    return regions.pop() if len(regions) == 1 else ""


def _normal(location: object) -> str:
    """Returns a region as prices spell it: `East US` is `eastus`; "" if it is invalid."""
    name = str(location or "").lower().replace(" ", "")
    return name if _REGION.fullmatch(name) else ""
