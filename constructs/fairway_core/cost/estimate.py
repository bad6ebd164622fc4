"""Parts with their prices, and their sums per hour and month."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

from fairway_core.cost.meters import HOURS_A_MONTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fairway_core.cost.line_items import LineItem
    from fairway_core.cost.prices import Price, Prices


@dataclass(frozen=True)
class Amounts:
    """Cost per hour: minimum, maximum and at rest; None if unknown."""

    minimum: float | None
    maximum: float | None
    idle: float | None


@dataclass(frozen=True)
class Line:
    """A part and its price, or None if that is unknown."""

    item: LineItem
    price: Price | None

    @property
    def hourly(self) -> Amounts:
        """The part's hourly cost; zero units cost 0 even if the price is unknown."""
        counts = self.item.counts
        return Amounts(*map(self._amount, (counts.minimum, counts.maximum, counts.idle)))

    def _amount(self, units: float) -> float | None:
        if self.item.by_use:
            return None
        if units == 0:
            return 0.0
        return None if self.price is None else units * self.price.hourly


@dataclass(frozen=True)
class Estimate:
    """Costs of an environment, of everything that has a known price."""

    currency: str
    lines: tuple[Line, ...]

    @property
    def hourly(self) -> Amounts:
        """The sums of the known costs: lower bounds if a part has no known price, and None if that
        part is the nodes of a cluster, which are most of the cost."""
        sums = []
        for state in ("minimum", "maximum", "idle"):
            amounts = [(line.item, getattr(line.hourly, state)) for line in self._priced]
            no_nodes = any(amount is None and part.cluster for part, amount in amounts)
            sums.append(None if no_nodes else _sum(amount for _, amount in amounts))
        return Amounts(*sums)

    @property
    def monthly(self) -> Amounts:
        """The sums of known costs for a month of 730 hours."""
        amounts = astuple(self.hourly)
        return Amounts(*(None if each is None else each * HOURS_A_MONTH for each in amounts))

    def month_of_days(self, hours: float) -> float | None:
        """Returns the monthly cost with clusters at their maximum for `hours` a day."""
        hourly = self.hourly
        if hourly.maximum is None or hourly.idle is None:
            return None
        busy = hours / 24
        return HOURS_A_MONTH * (busy * hourly.maximum + (1 - busy) * hourly.idle)

    @property
    def known(self) -> tuple[int, int]:
        """The number of priced parts, and of all parts, without those billed by use."""
        return sum(line.price is not None for line in self._priced), len(self._priced)

    @property
    def missing(self) -> Mapping[str, Iterable[str]]:
        """Parts without a known price, which are not in the sums, by resource."""
        found: dict[str, dict[str, None]] = {}
        for line in self._priced:
            if line.price is None:
                found.setdefault(line.item.resource, {})[line.item.what] = None
        return found

    @property
    def _priced(self) -> Sequence[Line]:
        """The lines that are billed by the hour."""
        return [line for line in self.lines if not line.item.by_use]


@dataclass(frozen=True)
class Offer:
    """Hourly prices of a cluster's nodes at their maximum, dedicated and as Spot."""

    resource: str
    size: str
    spot: bool
    dedicated: float | None
    spare: float | None


def estimate(parts: Iterable[LineItem], prices: Prices) -> Estimate:
    """Returns the estimate of the parts, in their order."""
    lines = (
        Line(part, prices.price(part.meter, part.region) if part.meter else None) for part in parts
    )
    return Estimate(prices.currency, tuple(lines))


def offers(parts: Iterable[LineItem], prices: Prices) -> list[Offer]:
    """Returns the dedicated and Spot prices of each cluster."""
    found = []
    for part in parts:
        if part.cluster and part.meter is not None:
            size = part.meter.partition("/")[2]
            known = [prices.price(f"{kind}/{size}", part.region) for kind in ("vm", "spot")]
            most = part.counts.maximum
            costs = [None if each is None else each.hourly * most for each in known]
            found.append(Offer(part.resource, size, part.spot, *costs))
    return found


def best_priced_region(
    parts: Sequence[LineItem], prices: Prices, regions: Iterable[str]
) -> tuple[str, int] | None:
    """Returns the region with the most priced parts, and their number, or None if none has more."""
    here = estimate(parts, prices).known[0]
    found = [
        (region, estimate([replace(part, region=region) for part in parts], prices).known[0])
        for region in regions
    ]
    best = max(found, key=lambda each: each[1], default=None)
    return best if best is not None and best[1] > here else None


def _sum(amounts: Iterable[float | None]) -> float | None:
    """Returns the sum of the known amounts, or None if one is unknown and the known ones are 0."""
    all_ = list(amounts)
    total = sum(amount for amount in all_ if amount is not None)
    return None if total == 0 and None in all_ else total
