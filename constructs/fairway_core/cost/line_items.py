"""Parts: units of one meter that are billed by the hour, such as VMs, disks and addresses, from
facts that environments and Terraform plans both have."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from fairway_core.catalog.disks import disk_kind
from fairway_core.catalog.images import SERVER_IMAGE, image
from fairway_core.catalog.sizes import plain_name
from fairway_core.cost.meters import disk_tier, free_performance, never_priced, paid_by_use


@dataclass(frozen=True)
class Counts:
    """The number of units of a part: minimum, maximum, and at rest, when no job runs."""

    minimum: float = 1
    maximum: float = 1
    idle: float = 1

    def __str__(self) -> str:
        least, most = f"{self.minimum:g}", f"{self.maximum:g}"
        return most if least == most else f"{least}–{most}"

    def times(self, units: float) -> Counts:
        """Returns the counts multiplied by `units`."""
        return Counts(self.minimum * units, self.maximum * units, self.idle * units)


ONE = Counts()

HARD_DISK = "standard_hdd"
"""The kind of some images' system disks, which no file system has."""


@dataclass(frozen=True)
class LineItem:
    """Units of a meter that belong to a resource; a `meter` of None has no price.

    `reason` explains a missing price; with `by_use` the part is billed by use and counts as neither
    known nor unknown. `cluster` is set for the cost of a cluster's nodes, and `size` for VMs, as
    named or described in the file. `resource` is set only for parts of an environment. `formula` is
    a Batch formula whose number of nodes is unknown.
    """

    what: str
    meter: str | None = None
    counts: Counts = ONE
    _: KW_ONLY
    reason: str = ""
    by_use: bool = False
    cluster: bool = False
    spot: bool = False
    size: str = ""
    resource: str = ""
    region: str = ""
    formula: str = ""


PUBLIC_IP = LineItem("public address", "public_ip")
NAT_GATEWAY = LineItem("gateway", "nat_gateway")
PRIVATE_ENDPOINT = LineItem("private endpoint", "private_endpoint")


def vms(size: str, counts: Counts = ONE, *, spot: bool = False, cluster: bool = False) -> LineItem:
    """Returns running VMs of one size."""
    name = plain_name(size)
    what, meter = f"{counts} × {name}", f"{'spot' if spot else 'vm'}/{name}"
    what += " (Spot)" if spot else ""
    return LineItem(what, meter, counts, cluster=cluster, spot=spot, size=size)


def disks(
    kind: str,
    gib: int | None,
    counts: Counts = ONE,
    *,
    iops: int | None = None,
    mbps: int | None = None,
) -> list[LineItem]:
    """Returns disks, billed by their tier or, if their speed is chosen, by capacity, IOPS and MB/s;
    `kind` is a row of disks.toml, or HARD_DISK."""
    what = f"disk of {gib} GiB" if gib else "disk"
    if kind == HARD_DISK or disk_kind(kind).provisioned is None:
        number = disk_tier(gib) if gib else None
        if number is None:
            return [LineItem(f"{counts} × {what}", counts=counts, reason="its size is not known")]
        # The smallest hard disk is an S4.
        tier = f"S{max(number, 4)}" if kind == HARD_DISK else f"{disk_kind(kind).letter}{number}"
        return [LineItem(f"{counts} × {what} ({tier})", f"{kind}/{tier}", counts)]
    if not gib or iops is None or mbps is None:
        return [LineItem(what, counts=counts, reason="its IOPS or MB/s are known after apply")]
    free_iops, free_mbps = free_performance(kind)
    units = (
        (f"{counts} × {what}", "gib", gib),
        (f"{iops} IOPS each, {free_iops} of them free", "iops", max(0, iops - free_iops)),
        (f"{mbps} MB/s each, {free_mbps} of them free", "mbps", max(0, mbps - free_mbps)),
    )
    return [
        LineItem(what, f"{kind}/{unit}", counts.times(each)) for what, unit, each in units if each
    ]


def server(size: str) -> list[LineItem]:
    """Returns a VM that always runs, such as a file server, with its system disk."""
    return [vms(size), *disks("premium", image(SERVER_IMAGE).os_disk_gib)]


def api_server(tier: str) -> list[LineItem]:
    """Returns the API server of a Kubernetes cluster, which is free with the tier Free."""
    return [] if tier == "Free" else [LineItem(f"{tier} API server", f"kubernetes/{tier}")]


def netapp_pool(level: str, tib: int) -> LineItem:
    """Returns a capacity pool; a Flexible one's price depends on its throughput, and is unknown."""
    what = f"{tib} TiB, {level}"
    if level == "Flexible":
        return LineItem(what, reason="no price of the level Flexible is known")
    return LineItem(what, f"netapp/{level}", ONE.times(tib * 1024))


def without_meter(type: str, what: str) -> list[LineItem]:  # noqa: A002
    """Returns a resource of a Terraform type that is billed by use, or has no known price."""
    by_use = paid_by_use(type)
    reason = by_use or never_priced(type)
    return [LineItem(what, reason=reason, by_use=by_use is not None)] if reason else []
