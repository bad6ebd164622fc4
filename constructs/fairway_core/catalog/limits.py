"""Azure's limits by name, sizes of Managed Lustre, regions and time zones."""

from __future__ import annotations

import os
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import look_up, table
from fairway_core.findings import UserError

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping
    from ipaddress import IPv4Network


@dataclass(frozen=True)
class Limit:
    """A row of limits.toml: a number, its unit, and its documentation."""

    value: int
    unit: str
    source: str
    date: datetime.date


def limit(name: str) -> int:
    """Returns the value of the limit of that name."""
    return look_up(name, limits(), "limit").value


@cache
def limits() -> Mapping[str, Limit]:
    """Returns all limits by name."""
    return MappingProxyType({name: Limit(**row) for name, row in table("limits")["limit"].items()})


@cache
def kubernetes_ends() -> Mapping[str, datetime.date]:
    """Returns the end of AKS's support of each minor version of Kubernetes, the oldest first."""
    return MappingProxyType(table("limits")["kubernetes_versions"]["end_of_life"])


@cache
def reserved_ranges(purpose: str) -> tuple[IPv4Network, ...]:
    """Returns the address ranges that an environment must not overlap, because of `infiniband` or
    `kubernetes`, or because Azure does not allow them in a `virtual_network`."""
    from ipaddress import IPv4Network

    ranges = table("limits")["address_ranges"][purpose]["value"]
    return tuple(IPv4Network(text) for text in ranges)


def lustre_sizes(mbps_per_tib: int) -> tuple[int, int]:
    """Returns the smallest size in TiB, of which all are multiples, and the largest, with that many
    MB/s per TiB, which Azure must offer."""
    level = table("lustre")["lustre"]["levels"][str(mbps_per_tib)]
    return level["least_tib"], level["most_tib"]


def lustre_addresses(tib: int) -> int:
    """Returns the number of addresses, including Azure's, for a file system of that size."""
    rows = table("lustre")["lustre"]["addresses"]
    return int(next(count for most, count in rows.items() if tib <= int(most)))


@cache
def regions() -> frozenset[str]:
    """Returns the names of regions, as in a resource's location."""
    return frozenset(table("regions")["names"])


@cache
def regions_without_zones() -> frozenset[str]:
    """Returns the regions known to have no availability zones; others may have some."""
    return frozenset(table("regions")["without_zones"])


def require_region(option: str, name: str, if_new: str) -> None:
    """Raises UserError for a region that is unknown in the public cloud; `if_new` is the hint for a
    new region."""
    from fairway_core.suggestions import nearest

    if name in regions() or os.environ.get("ARM_ENVIRONMENT", "public").lower() != "public":
        return
    near = nearest(name, regions())
    hint = f"az account list-locations --output table\n{if_new}"
    if near:
        hint = f"did you mean `{near}`?"
    raise UserError.of("unknown-region", f"{option}: Azure has no region `{name}`", hint)


def windows_time_zone(name: str) -> str:
    """Returns Azure's name of a time zone. Raises UserError if it is unknown.

    >>> windows_time_zone("Europe/Berlin")
    'W. Europe Standard Time'
    """
    zones: dict[str, str] = table("timezones")["zones"]
    if name in zones.values():
        return name
    return look_up(name, zones, "time-zone", "timedatectl list-timezones")
