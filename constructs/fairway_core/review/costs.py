"""What plans change in costs: the parts of each resource before and after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.cost.estimate import Line, estimate
from fairway_core.cost.planned import is_priced, parts_of_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fairway_core.cost.prices import Price, Prices
    from fairway_core.review.changes import Change
    from fairway_core.review.plan import Plan

_REGION = re.compile(r"[a-z][a-z0-9]*")


@dataclass(frozen=True)
class _Unit:
    """A thing that is paid for, where, and its price."""

    what: str
    region: str
    price: Price | None


@dataclass(frozen=True)
class CostChange:
    """What a resource costs an hour before and after, at its most, and how much more that is.

    Each is of the parts whose price is known, None where there is none. `at_minimum` is the
    difference with the least number of nodes. A difference is `whole` where it is that of all
    parts. `what` describes the resource after the change, or
    before it where nothing comes after.
    """

    stack: str
    address: str
    what: str
    before: float | None
    after: float | None
    difference: float | None
    at_minimum: float | None
    whole: bool


@dataclass(frozen=True)
class CostReview:
    """The changes of costs, in `currency`, and where the prices are from."""

    currency: str
    changes: tuple[CostChange, ...]
    prices: tuple[Price, ...]

    @property
    def hourly(self) -> float | None:
        """The sum of the known differences; None where none is known and some is not."""
        return self._sum([each.difference for each in self.changes])

    @property
    def hourly_at_minimum(self) -> float | None:
        """The same with the least number of nodes that clusters have."""
        return self._sum([each.at_minimum for each in self.changes])

    @staticmethod
    def _sum(differences: Sequence[float | None]) -> float | None:
        known = [each for each in differences if each is not None]
        return None if differences and not known else sum(known)

    @property
    def known(self) -> tuple[int, int]:
        """Of how many changes the whole difference is known, and how many there are."""
        return sum(each.whole for each in self.changes), len(self.changes)


def review_costs(plans: Sequence[Plan], changes: Iterable[Change], prices: Prices) -> CostReview:
    """The resources whose costs change, or may change, in their order."""
    regions = {plan.stack: _only_region(plan) for plan in plans}
    found = []
    used: dict[Price, None] = {}
    for change in changes:
        if not is_priced(change.type) or change.raw is None:
            continue
        before = _lines(change, "before", regions[change.stack], prices)
        after = _lines(change, "after", regions[change.stack], prices)
        most, least = (_more_units(before, after, at) for at in ("maximum", "minimum"))
        if not most and not least:
            continue
        found.append(_cost_change(change, before, after, most, least))
        used.update(dict.fromkeys(line.price for line in (*before, *after) if line.price))
    return CostReview(prices.currency, tuple(found), tuple(used))


def _lines(change: Change, side: str, region: str, prices: Prices) -> list[Line]:
    attributes: Mapping[str, Any] | None = (change.raw or {}).get(side)
    if not attributes:
        return []
    own = _normal(attributes.get("location")) or region
    parts = parts_of_resource(change.address, change.type, attributes, own)
    return [line for line in estimate(parts, prices).lines if not line.part.by_use]


def _more_units(before: Iterable[Line], after: Iterable[Line], at: str) -> dict[_Unit, float]:
    """How many more of each thing that is paid for: by meter, or by words where it has none."""
    units: dict[_Unit, float] = {}
    for lines, sign in ((before, -1), (after, 1)):
        for line in lines:
            key = _Unit(line.part.meter or line.part.what, line.part.region, line.price)
            units[key] = units.get(key, 0) + sign * getattr(line.part.counts, at)
    return {unit: count for unit, count in units.items() if count}


def _cost_change(
    change: Change,
    before: Sequence[Line],
    after: Sequence[Line],
    most: Mapping[_Unit, float],
    least: Mapping[_Unit, float],
) -> CostChange:
    return CostChange(
        stack=change.stack,
        address=change.address,
        what="; ".join(line.part.what for line in after or before),
        before=_known(before),
        after=_known(after),
        difference=_difference(most),
        at_minimum=_difference(least),
        whole=all(unit.price for unit in (*most, *least)),
    )


def _difference(more: Mapping[_Unit, float]) -> float | None:
    """The known part of it; None where there is one and nothing of it is known."""
    known = [count * unit.price.hourly for unit, count in more.items() if unit.price]
    return None if more and not known else sum(known)


def _known(lines: Sequence[Line]) -> float | None:
    """What the priced parts cost an hour; 0 for no resource, None where no part is priced."""
    amounts = [line.hourly.maximum for line in lines]
    known = [amount for amount in amounts if amount is not None]
    return None if amounts and not known else sum(known)


def _only_region(plan: Plan) -> str:
    """The one region of the plan, for resources that do not say theirs; else an empty text."""
    regions = set()
    for resource in plan.changes:
        values = resource["change"].get("after") or resource["change"].get("before") or {}
        location = _normal(values.get("location")) if isinstance(values, dict) else ""
        if location and location != "global":
            regions.add(location)
    return regions.pop() if len(regions) == 1 else ""


def _normal(location: object) -> str:
    """A region as prices spell it: `East US` is `eastus`."""
    name = str(location or "").lower().replace(" ", "")
    return name if _REGION.fullmatch(name) else ""
