"""Azure's meters: what each counts, and by which fields its price service knows it."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import table
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

GLOBAL = "global"
"""The region of prices that are the same everywhere."""

HOURS_A_MONTH = 730
"""As Azure counts a month."""

VARIABLE = "FAIRWAY_PRICES_URL"
"""Names another service that answers in the same way: over https, or on this machine."""

_URL = "https://prices.azure.com/api/retail/prices"


@dataclass(frozen=True)
class Meter:
    """A meter by its name, and the fields that tell it in the answers of the price service."""

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

    Raises KeyError where the table has none.

    >>> meter("premium/P10").fields
    (('productName', 'Premium SSD Managed Disks'), ('meterName', 'P10 LRS Disk'))
    """
    rows = _table()["meter"]
    family, _, rest = name.partition("/")
    row = rows.get(name) or (rows.get(f"{family}/*") if rest else None)
    if row is None:
        raise KeyError(name)
    fields = tuple(
        (field, row[key].replace("{}", rest)) for key, field in _FIELDS.items() if key in row
    )
    return Meter(name, fields, row.get("spot", False), row.get("global", False))


def service_url() -> str:
    """Returns the service's address. Raises UserError if VARIABLE names one that is neither safe
    nor here."""
    url = os.environ.get(VARIABLE) or _URL
    parts = urlsplit(url)
    here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        message = f"{VARIABLE}: `{url}` is not an https address"
        raise UserError.of("wrong-prices-url", message, f"unset {VARIABLE}")
    return url


def all_meters(sizes: Iterable[str]) -> list[Meter]:
    """Returns every meter that there is for VMs of these sizes, and for whatever else is paid
    for."""
    tiers, found = _table()["disk_tiers"]["number"], []
    for name, row in _table()["meter"].items():
        family, _, rest = name.partition("/")
        if rest != "*":
            found.append(meter(name))
        elif letter := row.get("tiers"):
            found += [meter(f"{family}/{letter}{number}") for number in tiers]
        else:
            found += [meter(f"{family}/{each}") for each in row.get("names", sizes)]
    return found


def disk_tier(gib: int) -> int | None:
    """Returns the number in the name of the tier of a disk of `gib` GiB; None for one too large.

    >>> disk_tier(100)
    10
    """
    tiers = _table()["disk_tiers"]
    pairs = zip(tiers["gib"], tiers["number"], strict=True)
    return next((number for most, number in pairs if gib <= most), None)


def included(kind: str) -> tuple[int, int]:
    """Returns the IOPS and the MB/s that disks of that kind have without paying for them."""
    row = _table()["included"].get(kind, {"iops": 0, "mbps": 0})
    return row["iops"], row["mbps"]


def paid_by_use(type: str) -> str | None:  # noqa: A002
    """Returns text on how a resource of that Terraform type is paid for by use; None for others."""
    found: str | None = _table()["by_use"].get(type)
    return found


def never_priced(type: str) -> str | None:  # noqa: A002
    """Why a resource of that Terraform type has no known price; None for others."""
    found: str | None = _table()["unknown"].get(type)
    return found


@cache
def _table() -> dict[str, Any]:
    return table("meters")
