"""Kinds of managed data disks: their sizes, and their fixed or configurable speed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import look_up, table

if TYPE_CHECKING:
    import datetime


@dataclass(frozen=True, kw_only=True)
class Provisioned:
    """The limits within which a user chooses the IOPS and MB/s of a disk."""

    least_iops: int
    iops_per_gib: int
    most_iops: int
    least_mbps: int
    iops_per_mbps: int
    most_mbps: int
    default: bool = False

    def iops_range(self, gib: int) -> tuple[int, int]:
        """Returns the minimum and maximum IOPS of a disk of that size."""
        return self.least_iops, max(self.least_iops, min(self.most_iops, gib * self.iops_per_gib))

    def mbps_range(self, iops: int) -> tuple[int, int]:
        """Returns the minimum and maximum MB/s of a disk with that many IOPS."""
        return self.least_mbps, min(self.most_mbps, iops // self.iops_per_mbps)


@dataclass(frozen=True, kw_only=True)
class Tier:
    """Fixed IOPS and MB/s of a disk of up to `gib` GiB."""

    gib: int
    iops: int
    mbps: int


@dataclass(frozen=True, kw_only=True)
class DiskKind:
    """A row of disks.toml, which describes the columns: it has either `provisioned` or a `letter`
    and a list of `tiers`."""

    sku: str
    least_gib: int
    most_gib: int
    source: str
    date: datetime.date
    zonal: bool = False
    enabled_by_vm: bool = False
    fixed: bool = False
    letter: str = ""
    provisioned: Provisioned | None = None
    tiers: tuple[Tier, ...] = ()

    def tier(self, gib: int) -> Tier:
        """Returns the tier of a disk of that size, which must be within the kind's limits."""
        return next(tier for tier in self.tiers if gib <= tier.gib)


def disk_kind(name: str) -> DiskKind:
    """Returns the kind of that name. Raises UserError with the nearest name if it is unknown."""
    return look_up(name, disk_kinds(), "disk-kind")


@cache
def disk_kinds() -> dict[str, DiskKind]:
    """Returns all kinds by name."""
    kinds = {}
    for name, row in table("disks")["disk"].items():
        values = dict(row)
        if "provisioned" in values:
            values["provisioned"] = Provisioned(**values["provisioned"])
        values["tiers"] = tuple(Tier(**tier) for tier in values.get("tiers", ()))
        kinds[name] = DiskKind(**values)
    return kinds


@cache
def disk_skus() -> dict[str, str]:
    """Returns the name of each kind by its sku in Azure."""
    return {kind.sku: name for name, kind in disk_kinds().items()}


def is_inconvertible(sku: str) -> bool:
    """Returns True for a kind of disk that cannot be converted into another."""
    name = disk_skus().get(sku)
    return name is not None and disk_kinds()[name].fixed
