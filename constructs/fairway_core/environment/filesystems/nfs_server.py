"""An NFS server in the environment: a VM, its disks, and their backup."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from fairway_core.catalog import vm_size, vm_sizes
from fairway_core.catalog.disks import disk_kind, disk_kinds
from fairway_core.cost.line_items import ONE, LineItem, disks, server, without_meter
from fairway_core.documents import Check, FieldError, Model, matching, require, rule
from fairway_core.environment.filesystems.base import EnvironmentParts, FileSystem
from fairway_core.environment.values import SizeText, below_path, offered_size
from fairway_core.fields import Days, days_between, require_unique

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.catalog.disks import Provisioned
    from fairway_core.catalog.sizes import VmSize

# The names in disks.toml, so that schema and messages list them.
if TYPE_CHECKING:
    DiskName = str
else:
    DiskName = Literal[tuple(disk_kinds())]

_HALF_HOUR = r"([01][0-9]|2[0-3]):(00|30)"
HalfHour = Annotated[
    str,
    matching(_HALF_HOUR, "`{}` is no time on the hour or half past", "such as 02:30"),
    WithJsonSchema({"type": "string", "pattern": f"^{_HALF_HOUR}$", "examples": ["02:30"]}),
]

_NFS_VERSIONS = (3, 4.1)


NfsVersion = Annotated[
    float,
    require(
        lambda version: version in _NFS_VERSIONS,
        "the server does not offer NFS {:g}",
        "use 4.1, or 3 for older clients",
    ),
    WithJsonSchema({"enum": list(_NFS_VERSIONS)}),
]


class Disks(Model, defer_build=True):
    """The data disks of a server; data is striped over all of them.

    With `premium_v2` and `ultra` the IOPS and MB/s of each disk are chosen; with `premium`
    and `standard_ssd` they come with its size.

    >>> disks = Disks(count=4, gib=2048)
    """

    kind: DiskName = "premium_v2"
    """Azure's kind of managed disk."""
    count: int = Field(default=4, ge=1)
    """The number of disks; you can add more at any time, but not remove any."""
    gib: int = Field(default=1024, ge=1)
    """Size of each disk in GiB; it can grow, but not shrink."""
    iops: int | None = None
    """IOPS of each disk; 3000 by default for `premium_v2`."""
    mbps: int | None = None
    """Throughput of each disk in MB/s; 125 by default for `premium_v2`."""

    @rule
    def _within_a_disk(self) -> None:
        kind = disk_kind(self.kind)
        if not kind.least_gib <= self.gib <= kind.most_gib:
            raise FieldError(
                f"a disk of kind `{self.kind}` has {kind.least_gib} to {kind.most_gib} GiB, "
                f"not {self.gib}",
                f"the nearest is `gib: {min(max(self.gib, kind.least_gib), kind.most_gib)}`",
                path=("gib",),
            )
        if kind.provisioned is None:
            self._nothing_is_chosen()
        else:
            self._is_offered(kind.provisioned)

    def _nothing_is_chosen(self) -> None:
        for field, value in (("iops", self.iops), ("mbps", self.mbps)):
            if value is not None:
                tier = disk_kind(self.kind).tier(self.gib)
                raise FieldError(
                    f"a `{self.kind}` disk of {self.gib} GiB has a fixed {tier.iops} IOPS "
                    f"and {tier.mbps} MB/s",
                    "leave it out, or use `kind: premium_v2`",
                    path=(field,),
                )

    def _is_offered(self, limits: Provisioned) -> None:
        if not limits.default:
            for field, value in (("iops", self.iops), ("mbps", self.mbps)):
                if value is None:
                    raise FieldError(
                        f"a disk of kind `{self.kind}` needs `{field}:`",
                        f"add `{field}:`",
                        (field,),
                    )
        least, most = limits.iops_range(self.gib)
        if not least <= self.disk_iops <= most:
            raise FieldError(
                f"a disk of {self.gib} GiB has {least} to {most} IOPS, not {self.disk_iops}",
                f"the nearest is `iops: {min(max(self.disk_iops, least), most)}`",
                path=("iops",),
            )
        least, most = limits.mbps_range(self.disk_iops)
        if not least <= self.disk_mbps <= most:
            raise FieldError(
                f"a disk of {self.disk_iops} IOPS has {least} to {most} MB/s, not {self.disk_mbps}",
                "raise `iops:`, four for each MB/s"
                if self.disk_mbps > most
                else f"use `mbps: {least}` or more",
                path=("mbps",),
            )

    @property
    def disk_iops(self) -> int:
        """IOPS of each disk: as chosen, the minimum of such a disk, or those of its tier."""
        kind = disk_kind(self.kind)
        if kind.provisioned is None:
            return kind.tier(self.gib).iops
        return kind.provisioned.least_iops if self.iops is None else self.iops

    @property
    def disk_mbps(self) -> int:
        """Throughput of each disk in MB/s: as chosen, the minimum, or that of its tier."""
        kind = disk_kind(self.kind)
        if kind.provisioned is None:
            return kind.tier(self.gib).mbps
        return kind.provisioned.least_mbps if self.mbps is None else self.mbps


class Backup(Model, defer_build=True):
    """A daily backup of the VM with all its disks, in a vault of the environment.

    >>> backup = Backup(keep=30, at="02:00")
    """

    # Azure Backup's range for daily recovery points.
    keep: Annotated[Days, days_between(7, 9999, "backups are kept")] = 30
    """The time for which each backup is kept, from 7d to 9999d."""
    at: HalfHour = "02:00"
    """When it starts, in UTC, on the hour or half past."""


class NfsServer(FileSystem, defer_build=True):
    """A VM that exports striped disks over NFS; nodes mount it with the newest of `versions`."""

    kind: Literal["nfs_server"]
    """`nfs_server`: a VM that serves NFS."""
    size: SizeText = "Standard_D16s_v6"
    """The VM size of the server. Describe a size that Fairway does not list by one that it does."""
    disks: Disks = Field(default_factory=Disks)
    """The disks that hold the data."""
    versions: Annotated[
        tuple[NfsVersion, ...],
        Check(partial(require_unique, message="version {:g} is named twice")),
    ] = Field(default=(4.1,), min_length=1)
    """NFS versions that the server offers; version 3 opens five more ports."""
    backup: Backup | None = None
    """A daily backup of the disks; none without this section."""

    resource_kind = "linux_virtual_machine"
    subnet_role = "storage"
    is_server = True
    egress = ("ubuntu",)
    encrypted: ClassVar = {"disks": "the disks of"}
    raised_by: ClassVar = {
        "its disks": "raise `disks: {mbps: …}`, with four `iops:` for each, or `count:`",
        "the disk limit of its VM size": "choose a larger `size:`",
        "its network interface": "choose a larger `size:`",
    }

    @rule
    def _size_carries_the_disks(self) -> None:
        with below_path("size"):
            size = offered_size(self.size)
        if size.max_data_disks is None or self._vm_mbps(size) is None or not size.network_gbps:
            fit = ", ".join(s.name for s in vm_sizes().values() if self._vm_mbps(s) is not None)
            raise FieldError(
                f"what `{self.size}` does with `{self.disks.kind}` disks is not known",
                f"one of: {fit}",
                path=("size",),
            )
        if self.disks.count > size.max_data_disks:
            raise FieldError(
                f"`{self.size}` takes at most {size.max_data_disks} disks, not {self.disks.count}",
                f"use `count: {size.max_data_disks}`, or a larger size: fairway sizes",
                path=("disks", "count"),
            )

    def _vm_mbps(self, size: VmSize) -> int | None:
        """Returns the MB/s from such disks that a VM of that size allows, or None if unknown."""
        if not size.premium_ssd_v2:
            return None
        # Azure's limits differ for disks with a provisioned throughput.
        chosen = disk_kind(self.disks.kind).provisioned is not None
        return size.remote_disk_mbps if chosen else size.premium_ssd_mbps

    @property
    def facts(self) -> tuple[str, ...]:
        """Its VM size, and the number, size and kind of its disks."""
        disks, sku = self.disks, disk_kind(self.disks.kind).sku
        number = f"{disks.count} disks" if disks.count > 1 else "a disk"
        return (f"VM, {self.size}", f"{number} of {disks.gib:,} GiB {sku}")

    @property
    def size_gib(self) -> int:
        """The size of all disks in GiB."""
        return self.disks.count * self.disks.gib

    def cost(self, zone: int | None) -> list[LineItem]:
        """Returns the parts: the VM, its disks, and their backup."""
        own = self.disks
        counts, speed = ONE.times(own.count), {"iops": own.disk_iops, "mbps": own.disk_mbps}
        backup = without_meter("azurerm_recovery_services_vault", "backup") if self.backup else ()
        return [*server(self.size), *disks(own.kind, own.gib, counts, **speed), *backup]

    @property
    def is_backed_up(self) -> bool:
        """True if the file has `backup:`."""
        return self.backup is not None

    @property
    def nfs_versions(self) -> tuple[float, ...]:
        """The NFS versions that the server offers."""
        return self.versions

    @property
    def data_disks(self) -> str | None:
        """The kind of its data disks."""
        return self.disks.kind

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError if the server could not install its software."""
        if parts.network.is_closed:
            raise FieldError(
                f"`{name}` installs its NFS server from the internet, which `egress: none` closes",
                "use another `egress:` or another kind of file system",
                ("filesystems", name),
            )

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput in MB/s of all disks, of the VM, and of its network interface."""
        size = vm_size(self.size)
        of_vm = self._vm_mbps(size)
        assert of_vm is not None
        assert size.network_gbps is not None
        return {
            "its disks": self.disks.count * self.disks.disk_mbps,
            "the disk limit of its VM size": of_vm,
            "its network interface": int(size.network_gbps * 1000 / 8),
        }
