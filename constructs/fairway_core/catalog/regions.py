"""The regions of Azure's public cloud, and its names of time zones."""

from __future__ import annotations

import os
from functools import cache

from fairway_core.catalog.tables import look_up, table
from fairway_core.findings import UserError


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


def require_region(option: str, name: str, if_new: str) -> None:
    """UserError for a region that the public cloud does not have, as far as is known; `if_new` is
    what to do about one that it has by now."""
    from fairway_core.suggestions import nearest

    if name in regions() or os.environ.get("ARM_ENVIRONMENT", "public").lower() != "public":
        return
    near = nearest(name, regions())
    hint = f"az account list-locations --output table\n{if_new}"
    if near:
        hint = f"did you mean `{near}`?"
    raise UserError.of("unknown-region", f"{option}: Azure has no region `{name}`", hint)


def windows_time_zone(name: str) -> str:
    """What Azure calls a time zone; UserError for a name that is not known.

    >>> windows_time_zone("Europe/Berlin")
    'W. Europe Standard Time'
    """
    known = _zones()
    return name if name in known.values() else look_up(name, known, "time-zone", _LIST)


_LIST = "timedatectl list-timezones"


@cache
def _zones() -> dict[str, str]:
    zones: dict[str, str] = table("timezones")["zones"]
    return zones
