"""What all shared file systems have in common: where nodes mount them, and how fast they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.documents import Model
from fairway_core.environment.values import MountPath

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTES_PER_MIB = 1024**2


class FileSystem(Model, defer_build=True):
    """Base of the kinds of `filesystems:`; nodes mount one at `path`."""

    path: MountPath
    """Where nodes mount it, for example /data."""

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """MB/s that each of its parts can pass on, by what a message calls the part."""
        raise NotImplementedError

    @property
    def throughput_mbps(self) -> int:
        """MB/s to expect: the least of the limits."""
        return min(self.limits_mbps.values())

    @property
    def limited_by(self) -> str:
        """The limit that binds."""
        limits = self.limits_mbps
        return min(limits, key=lambda what: limits[what])


def mbps(mibps: float) -> int:
    """MiB/s, in which Azure counts for its file services, as MB/s, in which it does for disks.

    >>> mbps(4500)
    4718
    """
    return int(mibps * _BYTES_PER_MIB / 1e6)
