"""The regions of Azure's public cloud, by name."""

from __future__ import annotations

from functools import cache

from fairway_core.catalog.tables import table


@cache
def regions() -> frozenset[str]:
    """The names that resources take as their location.

    >>> "southcentralus" in regions(), "southcentral" in regions()
    (True, False)
    """
    return frozenset(table("regions")["names"])
