"""The shared file systems of an environment: for now an NFS server of one's own."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fairway_core.catalog import limit, vm_size, vm_sizes
from fairway_core.documents import FieldError, Model
from fairway_core.environment.values import MountPath, offered_size


class Disks(Model, defer_build=True):
    """The Premium SSD v2 disks of a server: each with `gib` GiB, `iops` and `mbps` MB/s."""

    count: int = Field(default=4, ge=1)
    """How many there are; data is striped over all of them."""
    gib: int = Field(default=1024, ge=1, le=limit("premium_ssd_v2_gib"))
    iops: int = limit("premium_ssd_v2_base_iops")
    mbps: int = limit("premium_ssd_v2_base_mbps")

    @model_validator(mode="after")
    def _within_a_disk(self) -> Self:
        least, most = limit("premium_ssd_v2_base_iops"), limit("premium_ssd_v2_iops")
        most = max(least, min(most, self.gib * limit("premium_ssd_v2_iops_per_gib")))
        if not least <= self.iops <= most:
            raise FieldError(
                f"a disk of {self.gib} GiB has {least} to {most} IOPS, not {self.iops}",
                path=("iops",),
            )
        least, most = limit("premium_ssd_v2_base_mbps"), limit("premium_ssd_v2_mbps")
        most = min(most, self.iops // limit("premium_ssd_v2_iops_per_mbps"))
        if not least <= self.mbps <= most:
            raise FieldError(
                f"a disk of {self.iops} IOPS has {least} to {most} MB/s, not {self.mbps}",
                "raise `iops:`, four for each MB/s" if self.mbps > most else "",
                path=("mbps",),
            )
        return self


class NfsServer(Model, defer_build=True):
    """A VM that exports striped Premium SSD v2 disks over NFS 4.1; nodes mount it at `path`."""

    kind: Literal["nfs_server"]
    """`nfs_server`: a VM of one's own."""
    size: str = "Standard_D16s_v6"
    """The VM size of the server."""
    disks: Disks = Field(default_factory=Disks)
    """The disks that hold the data."""
    path: MountPath

    @model_validator(mode="after")
    def _size_carries_the_disks(self) -> Self:
        try:
            size = offered_size(self.size)
        except FieldError as error:
            raise FieldError(str(error), error.mend, path=("size",)) from None
        if not size.premium_ssd_v2 or size.max_data_disks is None:
            fit = ", ".join(s.name for s in vm_sizes().values() if s.premium_ssd_v2)
            raise FieldError(
                f"what `{self.size}` does with Premium SSD v2 disks is not known",
                f"known are: {fit}",
                path=("size",),
            )
        if self.disks.count > size.max_data_disks:
            raise FieldError(
                f"`{self.size}` takes at most {size.max_data_disks} disks, not {self.disks.count}",
                path=("disks", "count"),
            )
        return self

    @property
    def throughput_mbps(self) -> int:
        """MB/s to expect: the least of the disks together, the VM's disk limit and its NIC."""
        size = vm_size(self.size)
        assert size.remote_disk_mbps is not None
        assert size.network_gbps is not None
        nic = int(size.network_gbps * 1000 / 8)
        return min(self.disks.count * self.disks.mbps, size.remote_disk_mbps, nic)
