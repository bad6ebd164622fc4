"""An Azure NetApp Files volume over NFS 4.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fairway_core.catalog import limit
from fairway_core.cost.line_items import LineItem, netapp_pool
from fairway_core.documents import FieldError, rule
from fairway_core.environment.filesystems.base import FileSystem, mbps

if TYPE_CHECKING:
    from collections.abc import Mapping

# MiB/s per TiB of a volume. Source: Azure documentation, service levels for Azure NetApp Files.
_LEVELS = {"Standard": 16, "Premium": 64, "Ultra": 128}


class NetApp(FileSystem, defer_build=True):
    """An Azure NetApp Files volume over NFS 4.1, in its own capacity pool.

    A level gives 16 (`Standard`), 64 (`Premium`) or 128 (`Ultra`) MiB/s for each TiB; with
    `Flexible` the throughput is chosen by `mibps`.
    """

    kind: Literal["netapp"]
    """`netapp`: a volume that Azure NetApp Files runs."""
    service_level: Literal["Standard", "Premium", "Ultra", "Flexible"] = "Premium"
    """The service level, which decides the throughput per TiB."""
    tib: int = Field(default=4, ge=1, le=limit("netapp_volume_tib"))
    """Size of the volume in TiB; it can grow."""
    mibps: int | None = None
    """Throughput of a `Flexible` volume in MiB/s."""

    resource_kind = "netapp_volume"
    subnet_role = "netapp"
    provider = "Microsoft.NetApp"
    raised_by: ClassVar = {
        "its service level and size": "raise its `tib:` or `service_level:`",
        "one NetApp volume": "use `kind: lustre`",
    }

    @property
    def facts(self) -> tuple[str, ...]:
        """Its size and service level."""
        return ("NetApp Files volume", f"{self.size_gib:,} GiB, {self.service_level}")

    def cost(self, zone: int | None) -> list[LineItem]:
        """Returns the price of the capacity pool that holds the volume."""
        return [netapp_pool(self.service_level, self.tib)]

    @property
    def size_gib(self) -> int:
        """The size in GiB."""
        return self.tib * 1024

    @rule
    def _throughput_is_offered(self) -> None:
        if self.service_level != "Flexible":
            if self.mibps is not None:
                raise FieldError(
                    f"with level `{self.service_level}` the throughput follows from the size",
                    "leave it out, or use `service_level: Flexible`",
                    path=("mibps",),
                )
            return
        least = limit("netapp_flexible_least_mibps")
        most = min(limit("netapp_volume_mibps"), limit("netapp_flexible_mibps_per_tib") * self.tib)
        if self.mibps is None:
            raise FieldError(
                "a `Flexible` volume needs `mibps:`",
                f"add `mibps: {most}`, or as little as {least}",
            )
        if not least <= self.mibps <= most:
            raise FieldError(
                f"a `Flexible` volume of {self.tib} TiB can have {least} to {most} MiB/s, "
                f"not {self.mibps}",
                f"the nearest is `mibps: {min(max(self.mibps, least), most)}`",
                path=("mibps",),
            )

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput in MB/s that comes with its size and level, and the maximum of one volume."""
        mibps = self.mibps or _LEVELS[self.service_level] * self.tib
        return {
            "its service level and size": mbps(mibps),
            "one NetApp volume": mbps(limit("netapp_volume_mibps")),
        }
