"""The base of shared file systems: their common fields, and the facts that each kind states."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairway_agent.quick import dataclass
from fairway_core.documents import Model
from fairway_core.environment.values import MountPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.cost.parts import Part
    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.network import Network
    from fairway_core.environment.storage import Storage
    from fairway_core.yaml_text import DataPath

_BYTES_PER_MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class EnvironmentParts:
    """The parts of an environment that file systems need; `zone` is None where it names none."""

    filesystems: Mapping[str, FileSystem]
    clusters: Mapping[str, AnyCluster]
    storage: Storage
    network: Network
    zone: int | None


class FileSystem(Model, defer_build=True):
    """Base of the kinds of `filesystems:`; nodes mount one at `path`.

    All that others ask about a file system is here, with the answer of most kinds. A kind with
    another answer overrides it, so that nobody else needs to know which kinds there are.
    """

    path: MountPath
    """The path at which nodes mount the file system, for example /data."""

    resource_kind: ClassVar[str] = ""
    """The kind of resource in names.toml that it is called as."""
    subnet_role: ClassVar[str | None] = None
    """The subnet that it is in; None where nodes reach it otherwise."""
    mount_type: ClassVar[str] = "nfs"
    """Type of the file system on nodes, for mount(8)."""
    private_link: ClassVar[str] = ""
    """The service of private_links.toml by which nodes reach it."""
    is_server: ClassVar[bool] = False
    """True for a VM of the environment: it takes SSH keys, and itself opens its top folder."""
    egress: ClassVar[tuple[str, ...]] = ()
    """The kinds of rows of egress.toml that it needs."""
    holds_runs: ClassVar[bool] = True
    """True if it has the locks and owners that runs and homes need."""
    is_container: ClassVar[bool] = False
    """True for a container of the storage account, which only the identity of nodes reads."""
    encrypted: ClassVar[dict[str, str]] = {}
    """Its parts for which a company can require its own keys, by the kind in `policies:`."""
    raised_by: ClassVar[dict[str, str]] = {}
    """The ways to raise each of `limits_mbps`, for a hint."""

    @property
    def source(self) -> str | None:
        """The server and its export, where another has made it; None where the environment does."""
        return None

    @property
    def facts(self) -> tuple[str, ...]:
        """Lines on what it is, for a diagram."""
        raise NotImplementedError

    @property
    def size_gib(self) -> int:
        """Capacity of the file system in GiB."""
        raise NotImplementedError

    def cost(self, zone: int | None) -> list[Part]:  # noqa: ARG002  # for kinds with copies
        """The parts that it is paid for, without its private endpoint; `zone` is the environment's.
        What a kind without any costs is a part of something else."""
        return []

    @property
    def providers(self) -> tuple[str, ...]:
        """The resource providers that it needs beyond those of every environment."""
        return ()

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
        """The kind of its data disks; None where they are Azure's own."""
        return None

    @property
    def is_zone_redundant(self) -> bool:
        """True if it asks for copies in several zones."""
        return False

    @property
    def imported(self) -> str | None:
        """The container that it is filled from, with the account's keys; None without one."""
        return None

    @property
    def is_backed_up(self) -> bool:
        """True if a vault of the environment has backups of it."""
        return False

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError where the rest of the environment cannot do what the file system needs.

        The subnet that it is in is known to be there.
        """

    def check_mount(self, cluster: AnyCluster, path: DataPath) -> None:
        """Raises FieldError where nodes of a cluster cannot mount it, which they do at `path`."""

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
