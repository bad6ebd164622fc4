"""Azure Managed Lustre: the sizes of its performance levels, and the subnet that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from fairway_core.catalog.tables import table


@dataclass(frozen=True)
class LustreLevel:
    """The sizes of a performance level: multiples of `least_tib` up to `most_tib`."""

    least_tib: int
    most_tib: int


def lustre_level(mbps_per_tib: int) -> LustreLevel:
    """The level with that many MB/s for each TiB, which Azure offers.

    >>> lustre_level(250).least_tib
    8
    """
    return LustreLevel(**_facts()["levels"][str(mbps_per_tib)])


def lustre_addresses(tib: int) -> int:
    """The addresses that a file system of that size needs in its subnet, Azure's own included.

    >>> lustre_addresses(48)
    128
    """
    rows = _facts()["addresses"]
    return int(next(count for most, count in rows.items() if tib <= int(most)))


@cache
def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = table("lustre")["lustre"]
    return facts
