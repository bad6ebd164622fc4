"""File systems as constructs: their common interface, and those that are only mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init.mounts import Mount, nfs_mount
from fairway_constructs.service import Service
from fairway_core.catalog.tables import look_up
from fairway_core.environment.filesystems_existing import Blobfuse as BlobfuseSpec
from fairway_core.environment.filesystems_existing import NfsExport as NfsExportSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.azurerm.linux_virtual_machine import LinuxVirtualMachine
    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.cdk import Construct
    from fairway_constructs.network import INetwork
    from fairway_constructs.storage import IStorage
    from fairway_core.environment.filesystem_base import FileSystem as FileSystemSpec
    from fairway_core.fields import Count


@dataclass(frozen=True, kw_only=True)
class Site:
    """The parts of an environment that its file systems use; nodes are in the subnets `node_roles`.

    `storage_endpoints` are the private endpoints of `storage` in the network, if it has any.
    """

    network: INetwork
    node_roles: Sequence[str]
    storage: IStorage
    storage_endpoints: Sequence[PrivateEndpoint]
    monitored: bool

    @property
    def clients(self) -> list[IPv4Network]:
        """The address ranges of nodes."""
        return [self.network.subnets[role].range for role in self.node_roles]


class FileSystem(Component):
    """A shared file system of any kind.

    `mount` is how nodes mount it; `throughput_mbps` is its maximum throughput, in MB/s, and
    `limited_by` the bottleneck. `virtual_machine` is the VM that serves it, if any.
    """

    mount: Mount
    virtual_machine: LinuxVirtualMachine | None = None

    def __init__(self, scope: Construct, id: str, spec: FileSystemSpec) -> None:
        super().__init__(scope, id)
        self.throughput_mbps = spec.throughput_mbps
        self.limited_by = spec.limited_by

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        """Returns the arguments of the constructor, from those of the section."""
        del site
        return section


def from_section(
    kind: type[FileSystem], scope: Construct, name: str, section: FileSystemSpec, site: Site
) -> FileSystem:
    """Creates the file system of a section of `filesystems:` in an environment file, with private
    endpoints if the kind and the network have them."""
    arguments = {key: value for key, value in section if key != "kind"}
    if section.subnet_role:
        arguments["subnet"] = site.network.subnets[section.subnet_role]
    make: Callable[..., FileSystem] = kind
    made = make(scope, name, **kind._arguments(arguments, site))
    if isinstance(made, Service) and made.LINKS and site.network.endpoints:
        made.private_endpoints(site.network)
    return made


class Blobfuse(FileSystem):
    """A container of `storage` as a folder of nodes, which access it by their identity.

    Nothing is created for it in Azure: nodes need a role, by `storage.grant_read` or
    `storage.grant_read_write`. It cannot hold runs. Raises UserError for a container that `storage`
    does not have.

    >>> blobs = Blobfuse(stack, "datasets", path="/datasets", storage=storage,
    ...                  container="datasets")  # doctest: +SKIP
    >>> blobs.mount, blobs.throughput_mbps  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        path: str,
        storage: IStorage,
        container: str,
        read_only: bool | None = None,
    ) -> None:
        look_up(container, storage.containers, "container")
        spec = BlobfuseSpec.with_defaults(
            kind="blobfuse", path=path, container=container, read_only=read_only
        )
        super().__init__(scope, f"blobfuse-{name}", spec)
        self.mount = Mount(
            name=name,
            type=spec.mount_type,
            options="ro" if spec.read_only else "rw",
            source=f"{storage.host}/{container}",
            path=spec.path,
        )

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        return {**section, "storage": site.storage}


class NfsExport(FileSystem):
    """A file system that an existing NFS server exports, within reach of the nodes.

    Nothing is created for it in Azure. If it holds runs and homes, all users must be able to create
    a folder in its top folder. `mbps` is the throughput of its server.

    >>> home = NfsExport(stack, "home", path="/home", host="nfs.example.com", export="/srv/home",
    ...                  mbps=2000)  # doctest: +SKIP
    >>> home.mount, home.throughput_mbps  # doctest: +SKIP
    """

    def __init__(
        self, scope: Construct, name: str, *, path: str, host: str, export: str, mbps: Count
    ) -> None:
        spec = NfsExportSpec(kind="nfs", path=path, host=host, export=export, mbps=mbps)
        super().__init__(scope, f"nfs-export-{name}", spec)
        self.mount = nfs_mount(name=name, server=spec.host, export=spec.export, path=spec.path)
