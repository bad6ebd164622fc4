"""A Premium Azure file share over NFS 4.1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fairway_core.catalog import limit
from fairway_core.cost.line_items import ONE, LineItem
from fairway_core.environment.filesystems.base import FileSystem, mbps

if TYPE_CHECKING:
    from collections.abc import Mapping


class AzureFiles(FileSystem, defer_build=True):
    """A Premium Azure file share over NFS 4.1; the larger it is, the faster."""

    kind: Literal["azure_files"]
    """`azure_files`: a file share that Azure runs."""
    gib: int = Field(
        default=1024, ge=limit("azure_files_least_gib"), le=limit("azure_files_most_gib")
    )
    """Provisioned size in GiB; it can grow, and shrink a day later."""
    replication: Literal["LRS", "ZRS"] | None = None
    """Keep copies in one zone (LRS) or in three (ZRS). By default ZRS, or LRS with `zone: none`."""

    resource_kind = "file_storage_account"
    private_link = "file"
    encrypted: ClassVar = {"files": "the share"}
    raised_by: ClassVar = {"its size": "raise its `gib:`"}

    @property
    def facts(self) -> tuple[str, ...]:
        """Its size."""
        return ("Azure Files", f"{self.gib:,} GiB")

    @property
    def size_gib(self) -> int:
        """The size in GiB."""
        return self.gib

    def cost(self, zone: int | None) -> list[LineItem]:
        """Returns the provisioned size."""
        return [LineItem(f"{self.gib} GiB", f"files/{self.copies(zone)}", ONE.times(self.gib))]

    @property
    def is_zone_redundant(self) -> bool:
        """True if the file says ZRS: the default adapts to the environment's zone."""
        return self.replication == "ZRS"

    def copies(self, zone: int | None) -> Literal["LRS", "ZRS"]:
        """Returns the replication; the default depends on the environment's zone."""
        return self.replication or ("ZRS" if zone else "LRS")

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput in MB/s that comes with its size, without bursts."""
        # Source: Azure documentation, understand Azure Files billing, provisioned v1 model.
        mibps = 100 + math.ceil(0.04 * self.gib) + math.ceil(0.06 * self.gib)
        return {"its size": mbps(min(mibps, limit("azure_files_most_mibps")))}
