"""Azure's limits, by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairway_core.catalog.tables import look_up, table

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping
    from ipaddress import IPv4Network


@dataclass(frozen=True)
class Limit:
    """A row of limits.toml: a number, what it counts, and where it is documented."""

    value: int
    unit: str
    source: str
    date: datetime.date


def limit(name: str) -> int:
    """The number of that name.

    >>> limit("subnet_reserved_addresses")
    5
    """
    return look_up(name, limits(), "limit").value


@cache
def limits() -> Mapping[str, Limit]:
    """All limits by name."""
    return MappingProxyType({name: Limit(**row) for name, row in table("limits")["limit"].items()})


@cache
def kubernetes_ends() -> Mapping[str, datetime.date]:
    """The last day on which AKS supports each minor version of Kubernetes, the oldest first."""
    return MappingProxyType(table("limits")["kubernetes_versions"]["end_of_life"])


@cache
def reserved_ranges() -> tuple[IPv4Network, ...]:
    """The address ranges that no virtual network of a cluster with InfiniBand may overlap."""
    from ipaddress import IPv4Network

    ranges = table("limits")["address_ranges"]["rdma_reserved"]["value"]
    return tuple(IPv4Network(text) for text in ranges)
