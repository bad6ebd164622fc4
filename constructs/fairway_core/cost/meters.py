"""Azure's meters: their units, and the fields that identify them in the price service."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import table
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

GLOBAL = "global"
"""The region of global prices."""

HOURS_A_MONTH = 730
"""Azure's definition of a month."""

VARIABLE = "FAIRWAY_PRICES_URL"
"""The environment variable for another, compatible service: over https, or on this machine."""

_URL = "https://prices.azure.com/api/retail/prices"


@dataclass(frozen=True)
class Meter:
    """A meter, and the fields that identify it in responses of the price service."""

    name: str
    fields: tuple[tuple[str, str], ...]
    spot: bool = False
    is_global: bool = False


_FIELDS = {
    "service": "serviceName",
    "product": "productName",
    "meter": "meterName",
    "arm_sku": "armSkuName",
}


@cache
def meter(name: str) -> Meter:
    """Returns the meter of that name, such as `nat_gateway` or `vm/Standard_HB176rs_v4`.

    Raises KeyError if the table has none.

    >>> meter("premium/P10").fields
    (('productName', 'Premium SSD Managed Disks'), ('meterName', 'P10 LRS Disk'))
    """
    rows = table("meters")["meter"]
    family, _, rest = name.partition("/")
    row = rows.get(name) or (rows.get(f"{family}/*") if rest else None)
    if row is None:
        raise KeyError(name)
    fields = tuple(
        (field, row[key].replace("{}", rest)) for key, field in _FIELDS.items() if key in row
    )
    return Meter(name, fields, row.get("spot", False), row.get("global", False))


def service_url() -> str:
    """Returns the service's address. Raises UserError if VARIABLE is neither https nor local."""
    url = os.environ.get(VARIABLE) or _URL
    parts = urlsplit(url)
    here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        message = f"{VARIABLE}: `{url}` is not an https address"
        raise UserError.of("wrong-prices-url", message, f"unset {VARIABLE}")
    return url


def all_meters(sizes: Iterable[str]) -> list[Meter]:
    """Returns all meters: for VMs of these sizes, and for everything else."""
    tiers, found = table("meters")["disk_tiers"]["number"], []
    for name, row in table("meters")["meter"].items():
        family, _, rest = name.partition("/")
        if rest != "*":
            found.append(meter(name))
        elif letter := row.get("tiers"):
            found += [meter(f"{family}/{letter}{number}") for number in tiers]
        else:
            found += [meter(f"{family}/{each}") for each in row.get("names", sizes)]
    return found


def disk_tier(gib: int) -> int | None:
    """Returns the number in the tier's name for a disk of `gib` GiB, or None if it is too large."""
    tiers = table("meters")["disk_tiers"]
    pairs = zip(tiers["gib"], tiers["number"], strict=True)
    return next((number for most, number in pairs if gib <= most), None)


def free_performance(kind: str) -> tuple[int, int]:
    """Returns the free IOPS and MB/s of disks of that kind."""
    row = table("meters")["included"].get(kind, {"iops": 0, "mbps": 0})
    return row["iops"], row["mbps"]


def paid_by_use(type: str) -> str | None:  # noqa: A002
    """Returns how a resource of that Terraform type is billed by use, or None for others."""
    found: str | None = table("meters")["by_use"].get(type)
    return found


def never_priced(type: str) -> str | None:  # noqa: A002
    """Returns why a resource of that Terraform type has no known price, or None for others."""
    found: str | None = table("meters")["unknown"].get(type)
    return found
