"""The base of file systems as constructs, and how a section of an environment becomes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_constructs.cdk import Component
from fairway_constructs.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.azurerm.linux_virtual_machine import LinuxVirtualMachine
    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_constructs.network import INetwork
    from fairway_constructs.storage import IStorage
    from fairway_core.environment.filesystems.base import FileSystem as FileSystemSpec


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

    >>> home.mount.path, home.throughput_mbps, home.limited_by
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
