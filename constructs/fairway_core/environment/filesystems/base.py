"""The base of shared file systems: their common fields, and the facts that each kind provides."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairway_agent.quick import dataclass
from fairway_core.documents import Model
from fairway_core.environment.clusters.base import Surroundings
from fairway_core.environment.values import MountPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.cost.line_items import LineItem
    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.yaml_text import DataPath

_BYTES_PER_MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class EnvironmentParts(Surroundings):
    """The parts of an environment that file systems need; `zone` is None with `zone: none`."""

    clusters: Mapping[str, AnyCluster]
    filesystems: Mapping[str, FileSystem]
    zone: int | None


class FileSystem(Model, defer_build=True):
    """Base of the kinds of `filesystems:`; nodes mount one at `path`.

    All that others ask about a file system is here, with the answer of most kinds. A kind with
    another answer overrides it, so that nobody else needs to know which kinds there are.
    """

    path: MountPath
    """The path at which nodes mount the file system, for example /data."""

    resource_kind: ClassVar[str] = ""
    """The kind of resource in names.toml that determines its name."""
    subnet_role: ClassVar[str | None] = None
    """The role of its subnet, or None if nodes reach it otherwise."""
    mount_type: ClassVar[str] = "nfs"
    """The file system type for mount(8) on nodes."""
    private_link: ClassVar[str] = ""
    """The service of private_links.toml by which nodes reach it."""
    is_server: ClassVar[bool] = False
    """True for a VM of the environment: it takes SSH keys, and opens its top folder itself."""
    egress: ClassVar[tuple[str, ...]] = ()
    """The kinds of rows of egress.toml that it needs."""
    holds_runs: ClassVar[bool] = True
    """True if it supports the locks and owners that runs and homes need."""
    is_container: ClassVar[bool] = False
    """True for a container of the storage account, which only the nodes' identity can read."""
    provider: ClassVar[str] = ""
    """The resource provider that it needs beyond those of every environment."""
    encrypted: ClassVar[dict[str, str]] = {}
    """Its parts for which a company can require customer-managed keys, by kind in `policies:`."""
    raised_by: ClassVar[dict[str, str]] = {}
    """Ways to raise each of `limits_mbps`, for a hint."""

    @property
    def source(self) -> str | None:
        """The server and its export if it exists already, or None if the environment creates it."""
        return None

    @property
    def facts(self) -> tuple[str, ...]:
        """Lines that describe it in a diagram."""
        raise NotImplementedError

    @property
    def size_gib(self) -> int:
        """Capacity of the file system in GiB."""
        raise NotImplementedError

    def cost(self, zone: int | None) -> list[LineItem]:  # for kinds with copies
        """Returns the billed parts, without its private endpoint; `zone` is the environment's. A
        kind without parts is billed with another resource."""
        return []

    @property
    def nfs_versions(self) -> tuple[float, ...]:
        """The NFS versions that nodes may use."""
        return (4.1,)

    @property
    def newest_version(self) -> float:
        """The NFS version that nodes use."""
        return max(self.nfs_versions)

    @property
    def data_disks(self) -> str | None:
        """The kind of its data disks, or None if Azure manages them."""
        return None

    @property
    def is_zone_redundant(self) -> bool:
        """True if the file asks for copies in several zones."""
        return False

    @property
    def imported(self) -> str | None:
        """The container that it imports with the account's keys, or None."""
        return None

    @property
    def is_backed_up(self) -> bool:
        """True if a vault of the environment backs it up."""
        return False

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError if the rest of the environment, which has its subnet, cannot do what
        the file system needs."""

    def check_mount(self, cluster: AnyCluster, path: DataPath) -> None:
        """Raises FieldError if a cluster's nodes cannot mount it; `path` is the field."""

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput of each of its parts in MB/s, by the part's name in messages."""
        raise NotImplementedError

    @property
    def throughput_mbps(self) -> int:
        """Expected throughput in MB/s: the lowest of the limits."""
        return min(self.limits_mbps.values())

    @property
    def limited_by(self) -> str:
        """The part with the lowest throughput."""
        limits = self.limits_mbps
        return min(limits, key=lambda what: limits[what])


def mbps(mibps: float) -> int:
    """Converts MiB/s, Azure's unit for file services, to MB/s, its unit for disks."""
    return int(mibps * _BYTES_PER_MIB / 1e6)
