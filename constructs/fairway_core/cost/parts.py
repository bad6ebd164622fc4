"""Parts: what is paid for by the hour, in units of one meter; and how resources fall apart.

Each function answers with the parts of one resource, whichever asks for it: an environment
file, or a Terraform plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairway_core.catalog.disks import disk_kind
from fairway_core.catalog.sizes import plain_name
from fairway_core.cost.meters import disk_tier, included


@dataclass(frozen=True)
class Counts:
    """How many there are: at the least, at the most, and at rest, when no job runs."""

    minimum: float = 1
    maximum: float = 1
    rest: float = 1

    def times(self, units: float) -> Counts:
        """The same with `units` for each."""
        return Counts(self.minimum * units, self.maximum * units, self.rest * units)


ONE = Counts()

HARD_DISK = "standard_hdd"
"""The kind of system disks of some images, which no file system has."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some units of a meter that a resource has; a `meter` of None has no price.

    `reason` says why there is none; with `by_use` the part is paid for as it is used and
    counts as neither known nor unknown. `cluster` is set for what nodes of a cluster cost, and
    `size` for VMs: as the file names or describes it.
    """

    resource: str
    what: str
    region: str
    meter: str | None
    counts: Counts = ONE
    reason: str = ""
    by_use: bool = False
    cluster: bool = False
    spot: bool = False
    size: str = ""


def nodes(resource: str, region: str, *, size: str, counts: Counts, spot: bool = False) -> Part:
    """VMs of one size, which run."""
    name = plain_name(size)
    return Part(
        resource=resource,
        what=f"{_number(counts)} × {name}{' (Spot)' if spot else ''}",
        region=region,
        meter=f"{'spot' if spot else 'vm'}/{name}",
        counts=counts,
        cluster=True,
        spot=spot,
        size=size,
    )


def machine(resource: str, region: str, *, size: str) -> Part:
    """A VM that always runs, such as a file server."""
    return replace(nodes(resource, region, size=size, counts=ONE), cluster=False)


def tiered_disks(
    resource: str, region: str, *, kind: str, gib: int | None, counts: Counts = ONE
) -> Part:
    """Disks that cost what their tier costs; `kind` is a column of meters.toml."""
    letter = "S" if kind == HARD_DISK else disk_kind(kind).letter
    number = disk_tier(gib) if gib else None
    if number is not None and kind == HARD_DISK:
        number = max(number, 4)  # the smallest of that kind
    tier = f"{letter}{number}" if number else None
    what = f"{_number(counts)} × disk of {gib} GiB" if gib else f"{_number(counts)} × disk"
    return Part(
        resource=resource,
        what=f"{what} ({tier})" if tier else what,
        region=region,
        meter=f"{kind}/{tier}" if tier else None,
        counts=counts,
        reason="" if tier else "its size is not known",
    )


def provisioned_disks(
    resource: str, region: str, *, kind: str, gib: int, iops: int, mbps: int, count: int = 1
) -> list[Part]:
    """Disks whose capacity, IOPS and MB/s are paid for apart."""
    free_iops, free_mbps = included(kind)
    units = (
        (f"{count} × disk of {gib} GiB", "gib", gib),
        (f"{iops} IOPS each, {free_iops} of them free", "iops", max(0, iops - free_iops)),
        (f"{mbps} MB/s each, {free_mbps} of them free", "mbps", max(0, mbps - free_mbps)),
    )
    return [
        Part(
            resource=resource,
            what=what,
            region=region,
            meter=f"{kind}/{unit}",
            counts=ONE.times(count * amount),
        )
        for what, unit, amount in units
        if amount
    ]


def flat(resource: str, region: str, *, meter: str, what: str, units: float = 1) -> Part:
    """A number of units of a meter, at all times."""
    return Part(resource=resource, what=what, region=region, meter=meter, counts=ONE.times(units))


def netapp_pool(resource: str, region: str, *, level: str, tib: int) -> Part:
    """A capacity pool; what a Flexible one costs depends on its throughput too."""
    if level == "Flexible":
        reason = "no price of the level Flexible is known"
        return unpriced(resource, region, what=f"{tib} TiB, Flexible", reason=reason)
    what = f"{tib} TiB, {level}"
    return flat(resource, region, meter=f"netapp/{level}", what=what, units=tib * 1024)


def unpriced(resource: str, region: str, *, what: str, reason: str, counts: Counts = ONE) -> Part:
    """Something that costs, and nobody knows how much."""
    return Part(
        resource=resource, what=what, region=region, meter=None, reason=reason, counts=counts
    )


def used(resource: str, region: str, *, what: str, reason: str) -> Part:
    """Something that costs as it is used."""
    return Part(resource=resource, what=what, region=region, meter=None, reason=reason, by_use=True)


def _number(counts: Counts) -> str:
    if counts.minimum == counts.maximum:
        return f"{counts.maximum:g}"
    return f"{counts.minimum:g}–{counts.maximum:g}"
