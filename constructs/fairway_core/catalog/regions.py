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


@cache
def regions_without_zones() -> frozenset[str]:
    """The regions that are known to have no availability zones; of others nothing is said.

    >>> "northcentralus" in regions_without_zones(), "southcentralus" in regions_without_zones()
    (True, False)
    """
    return frozenset(table("regions")["without_zones"])
