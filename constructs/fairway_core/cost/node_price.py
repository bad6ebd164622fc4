"""Hourly price of a target's node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway_core.cost.prices import Prices
    from fairway_core.target import Target


def node_price(
    prices: Prices, *, size: str, region: str, spot: bool = False, own: float | None = None
) -> float | None:
    """Returns the target's own price, or the list price of the size in the region, or None if
    neither is known.

    >>> from fairway_core.cost.prices import PriceTable
    >>> node_price(PriceTable(), size="Standard_ND96isr_H100_v5", region="eastus", own=12.5)
    12.5
    """
    if own is not None:
        return own
    if not size or not region:
        return None
    from fairway_core.catalog.sizes import plain_name

    price = prices.price(f"{'spot' if spot else 'vm'}/{plain_name(size)}", region)
    return None if price is None else price.hourly


def price_of(target: Target, prices: Prices) -> float | None:
    """Returns the hourly price of a target's node by the target's record, or None if unknown."""
    return node_price(
        prices, size=target.vm_size, region=target.region, spot=target.spot, own=target.price
    )
