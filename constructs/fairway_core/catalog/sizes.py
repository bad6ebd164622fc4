"""VM sizes: their hardware, InfiniBand, and availability."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from fairway_agent import quick
from fairway_core.catalog.tables import look_up, table, text_of

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping


# See `described_size`.
_DESCRIBED = re.compile(
    r"(?P<name>Standard_\w+(?:-\w+)?) like (?P<like>\S+)"
    r"(?: with (?P<with>(?:(?:^|, )?(?:vcpus|memory_gib|gpus)=[0-9]+)+))?"
)


@quick.dataclass(frozen=True)
class Gpu:
    """The GPUs of a node: `count` devices with `memory_gb` GB each."""

    model: str
    count: int
    memory_gb: int
    vendor: Literal["nvidia", "amd"]
    architecture: str


@quick.dataclass(frozen=True)
class InfiniBand:
    """The InfiniBand adapters of a node, each with `gbps` Gb/s; MPI over them needs SR-IOV."""

    adapters: int
    gbps: int
    sr_iov: bool = True


@quick.dataclass(frozen=True)
class Health:
    """Rates that a healthy node reaches: all-reduce and copies in GB/s, InfiniBand in Gb/s. Over
    several nodes `multi_node_all_reduce` is the minimum without in-network reduction, and
    `sharp_all_reduce` has the expected rate with it, and those below which to warn and to fail."""

    all_reduce: int | None = None
    multi_node_all_reduce: int | None = None
    sharp_all_reduce: tuple[int, int, int] | None = None
    infiniband: int | None = None
    copy_h2d: int | None = None
    copy_p2p: int | None = None


@dataclass(frozen=True, kw_only=True)
class VmSize:
    """A row of vm_sizes.toml; an empty string or None is an unknown value. A size with fewer vCPUs
    than its machine is `constrained_from` the full size, and counts as much against the quota:
    `quota_vcpus`. `unsupported` is the reason why Fairway does not use a size that Azure offers.

    >>> vm_size("Standard_ND96isr_H100_v5").cores
    96
    """

    name: str
    series: str
    source: str
    date: datetime.date
    vcpus: int
    cores: int
    memory_gib: int
    constrained_from: str = ""
    quota_vcpus: int = 0
    gpu: Gpu | None = None
    infiniband: InfiniBand | None = None
    health: Health | None = None
    status: Literal["current", "no-new-capacity", "retiring", "retired", "unsupported"] = "current"
    unsupported: str = ""
    retirement_date: datetime.date | None = None
    successor: str = ""
    rdma_variant: str = ""
    quota_family: str = ""
    fabric: str = "ethernet"
    nvlink_nodes: int = 1
    image_family: str = "hpc"
    architecture: Literal["x64", "arm64"] = "x64"
    generations: tuple[str, ...] = ("V2",)
    accelerated_networking: bool = True
    capacity_reservation: bool = True
    numa_domains: int | None = None
    gpu_numa: tuple[int, ...] = ()
    network_gbps: float | None = None
    temp_disk_gib: int = 0
    nvme_disks: int = 0
    max_data_disks: int | None = None
    remote_disk_mbps: int | None = None
    remote_disk_iops: int | None = None
    premium_ssd_mbps: int | None = None
    ephemeral_os: bool = False
    premium_ssd_v2: bool = False
    disk_controller: str = ""
    verified: bool = True
    described: str = ""

    @property
    def text(self) -> str:
        """The text by which `vm_size` finds it: its name, or its description, see
        `described_size`."""
        return self.described or self.name

    @property
    def rdma(self) -> bool:
        """True if MPI can use InfiniBand between nodes of this size."""
        return self.infiniband is not None and self.infiniband.sr_iov

    @property
    def processes_per_node(self) -> int:
        """The usual number of ranks per node: one per GPU, or one per core without GPUs."""
        return self.gpu.count if self.gpu else self.cores

    def is_retired(self, today: datetime.date | None = None) -> bool:
        """Returns True if Azure has retired the size by `today` (the current date by default)."""
        if self.status == "retired" or self.retirement_date is None:
            return self.status == "retired"
        import datetime

        return self.retirement_date <= (today or datetime.datetime.now(datetime.UTC).date())


@cache
def vm_size(name: str) -> VmSize:
    """Returns the size of that name, or the one that a text from `described_size` describes. Raises
    UserError with the nearest name if it is unknown.

    >>> vm_size("Standard_HB176rs_v4").infiniband
    InfiniBand(adapters=1, gbps=400, sr_iov=True)
    """
    described = _DESCRIBED.fullmatch(name)
    if described is None:
        rows = _rows_beside(name) or _rows()
        return _size(name, look_up(name, rows, "vm-size", "fairway sizes"))
    like = vm_size(described["like"])
    changes = dict(each.split("=") for each in (described["with"] or "").split(", ") if each)
    values = {key: int(value) for key, value in changes.items()}
    return _changed(described["name"], name, like, values)


def described_size(name: str, like: str, changes: Mapping[str, int]) -> str:
    """Returns the text for a size that the table lacks: a similar size, and the values that differ.

    >>> text = described_size("Standard_HB200rs_v9", "Standard_HB176rs_v4", {"vcpus": 200})
    >>> text
    'Standard_HB200rs_v9 like Standard_HB176rs_v4 with vcpus=200'
    >>> vm_size(text).name, vm_size(text).vcpus, vm_size(text).fabric
    ('Standard_HB200rs_v9', 200, 'cpu-hpc')
    """
    listed = ", ".join(f"{key}={value}" for key, value in changes.items())
    return f"{name} like {like}{listed and f' with {listed}'}"


def plain_name(size: str) -> str:
    """Returns Azure's name of a size that is named or described, known or unknown.

    >>> plain_name("Standard_HB200rs_v9 like Standard_HB176rs_v4 with vcpus=200")
    'Standard_HB200rs_v9'
    """
    described = _DESCRIBED.fullmatch(size)
    return described["name"] if described else size


def _changed(name: str, text: str, like: VmSize, changes: Mapping[str, int]) -> VmSize:
    """Returns a size like another with some changes, without the other's health rates and quota."""
    vcpus, gpus = changes.get("vcpus", like.vcpus), changes.get("gpus")
    cores = vcpus * like.cores // like.vcpus
    domains = like.numa_domains if not cores % (like.numa_domains or 1) else None
    return replace(
        like,
        name=name,
        described=text,
        vcpus=vcpus,
        cores=cores,
        quota_vcpus=vcpus,
        memory_gib=changes.get("memory_gib", like.memory_gib),
        gpu=replace(like.gpu, count=gpus) if like.gpu and gpus else like.gpu,
        gpu_numa=() if gpus or domains is None else like.gpu_numa,
        numa_domains=domains,
        health=None,
        status="current",
        retirement_date=None,
        quota_family="",
        constrained_from="",
        verified=False,
    )


@cache
def known_size(name: str) -> VmSize | None:
    """Returns the size of that name in any case, as Batch uses capitals, or None if unknown."""
    if name in _rows_beside(name):
        return vm_size(name)
    found = next((row for row in _rows() if row.lower() == name.lower()), None)
    return vm_size(found) if found else None


@cache
def vm_sizes() -> Mapping[str, VmSize]:
    """Returns all sizes by name, in the order of the table."""
    return MappingProxyType({name: vm_size(name) for name in _rows()})


@cache
def _rows() -> Mapping[str, dict[str, Any]]:
    """Returns the rows of all sizes: each size's own values over those of its series."""
    return _rows_of(table("vm_sizes"))


def _rows_beside(name: str) -> Mapping[str, dict[str, Any]]:
    """Returns the rows of the series of a size with a row of its own, or none for any other size:
    parsing the entire table takes as long as all else that a command does with a size."""
    text = text_of("vm_sizes")
    heading = re.search(rf"^\[series\.([\w-]+)\.sizes\.{re.escape(name)}\]", text, re.MULTILINE)
    if heading is None:
        return {}
    part = rf"^\[series\.{heading[1]}\]$.*?(?=^\[series\.(?!{heading[1]}\.)|\Z)"
    found = re.search(part, text, re.MULTILINE | re.DOTALL)
    return _rows_of(tomllib.loads(found[0])) if found else {}


def _rows_of(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for series, shared in tables["series"].items():
        for name, own in shared["sizes"].items():
            row = {"series": series, "cores": own["vcpus"], **shared, **own}
            del row["sizes"]
            fewer = row.pop("constrained_vcpus", ())
            rows[name] = {**row, "quota_vcpus": row["vcpus"]}
            for vcpus in fewer:
                constrained = {**rows[name], "vcpus": vcpus, "cores": vcpus}
                # The visible vCPUs follow those of the machine: Standard_HB176-96rs_v4.
                visible = re.sub(r"(?<=[A-Z])([0-9]+)", rf"\1-{vcpus}", name, count=1)
                rows[visible] = {**constrained, "constrained_from": name}
    return rows


def _size(name: str, row: Mapping[str, Any]) -> VmSize:
    values = dict(row)
    for key, kind in (("gpu", Gpu), ("infiniband", InfiniBand)):
        if key in values:
            values[key] = kind(**values[key])
    if "health" in values:
        health = dict(values["health"])
        if "sharp_all_reduce" in health:
            health["sharp_all_reduce"] = tuple(health["sharp_all_reduce"])
        values["health"] = Health(**health)
    for key in ("generations", "gpu_numa"):
        if key in values:
            values[key] = tuple(values[key])
    return VmSize(name=name, **values)
