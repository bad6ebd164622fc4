"""The base of clusters, and of what all clusters of an engine share: the facts that each kind
provides."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from fairway_agent.quick import dataclass
from fairway_core.cost.line_items import Counts, LineItem, disks
from fairway_core.documents import Model
from fairway_core.environment.clusters.node_rules import fits_local_disk
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.catalog import Image
    from fairway_core.environment.access import Access
    from fairway_core.environment.network import Network
    from fairway_core.environment.storage import Storage
    from fairway_core.yaml_text import DataPath

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The parts of an environment that clusters and their managers look at. `servers` are the
    sources of file systems that exist already, by name."""

    clusters: Mapping[str, HasNodes]
    network: Network
    access: Access
    storage: Storage
    servers: Mapping[str, str]
    monitored: bool

    def of(self, kind: type[_Kind]) -> dict[str, _Kind]:
        """Returns the clusters of one kind, by name."""
        return {name: each for name, each in self.clusters.items() if isinstance(each, kind)}


class HasNodes:
    """Nodes of one size, as many as `nodes:` says, with what other modules read of a cluster; the
    defaults hold for most kinds."""

    if TYPE_CHECKING:  # fields that each model declares itself
        size: str
        nodes: int | NodeRange

    takes_logins: ClassVar[bool] = True
    """True if people log in to the nodes, with their SSH keys."""
    is_partition: ClassVar[bool] = False
    """True if Slurm queues its jobs, and starts and deletes its nodes."""
    hides_home: ClassVar[bool] = False
    """True if its nodes have their own users below /home."""
    machines: ClassVar[tuple[str, str]] = ("scale set", "linux_virtual_machine_scale_set")
    """Its machines in a diagram, and the kind of their resource, or "" if Azure names them."""
    manager: ClassVar[tuple[str, str]] = ("", "")
    """Its job manager in a diagram: an arrow's label, and the box at the end of the arrow."""
    acts_as: ClassVar[tuple[str, str]] = ("runs as", "nodes")
    """The identity of its jobs in a diagram, in the same form."""
    in_place_of_idle: ClassVar[str] = ""
    """The settings that replace `idle:`, for a hint, where no node stops itself."""

    def check(self, name: str, around: Surroundings) -> None:
        """Raises FieldError if the rest of the environment does not fit the cluster."""

    def subnet_role(self, network: Network) -> str:  # for kinds with their own
        """Returns the role of the subnet with its nodes."""
        return "compute"

    @property
    def egress(self) -> tuple[str, ...]:
        """The kinds of rows of egress.toml that its nodes need."""
        if self.chosen_image is None:
            return ()
        # Ubuntu's package of the NFS client, or AlmaLinux's.
        is_ubuntu = self.chosen_image.nfs_client_package == "nfs-common"
        return ("ubuntu" if is_ubuntu else "almalinux",)

    @property
    def stops_after(self) -> float | None:
        """The seconds without work after which nodes stop themselves, or None if they do not."""
        return None

    @property
    def chosen_image(self) -> Image | None:
        """The image of every node, or None if Azure chooses it."""
        return None

    @property
    def is_single(self) -> bool:
        """True for one VM that keeps its name and its disk."""
        return False

    @property
    def node_range(self) -> NodeRange:
        """The minimum and maximum number of nodes."""
        return NodeRange.of(self.nodes)

    @property
    def counts(self) -> Counts:
        """Numbers of nodes to pay for: at rest the minimum number runs."""
        return Counts(self.node_range.min, self.node_range.max, self.node_range.min)

    @property
    def nodes_of_a_job(self) -> int:
        """The maximum number of nodes of one job."""
        return self.node_range.max


class HasSystemDisk(HasNodes):
    """Nodes with local or managed system disks."""

    if TYPE_CHECKING:
        os_disk: Literal["local", "managed"] | None

        @property
        def os_gib(self) -> int: ...

    @property
    def has_local_disk(self) -> bool:
        """True if system disks are local to the nodes, and lost with them."""
        if self.os_disk is not None:
            return self.os_disk == "local"
        return fits_local_disk(self.size, self.os_gib)

    @property
    def system_disks(self) -> list[LineItem]:
        """The system disks to pay for."""
        return [] if self.has_local_disk else disks("premium", self.os_gib, self.counts)


Box = tuple[str, str, str, str]
"""A service in a diagram: its id there, the kind of its name, a title, and the subresources of its
private endpoints, or ""."""


class Manager(Model, defer_build=True):
    """Base of what all clusters of an engine share, such as Slurm's scheduler: a section of the
    environment that is named like the engine. The defaults hold for most."""

    private_links: ClassVar[tuple[str, ...]] = ()
    """The services of private_links.toml that it brings."""
    encrypted: ClassVar[dict[str, str]] = {}
    """Its parts for which a company can require customer-managed keys, by kind in `policies:`."""

    @property
    def services(self) -> tuple[Box, ...]:
        """Its services in a diagram."""
        return ()

    @property
    def vms(self) -> dict[str, str]:
        """The VM sizes of its own machines beside the nodes, by the machine's name."""
        return {}

    @property
    def sizes(self) -> dict[DataPath, str]:
        """The VM sizes that the section names, by path."""
        return {}

    @property
    def address_rules(self) -> dict[str, int]:
        """Its services with address rules in limits.toml, each with the number of its own rules."""
        return {}

    def check(self, around: Surroundings) -> None:
        """Raises FieldError if its clusters and the rest of the environment do not fit it."""

    def addresses(self, network: Network) -> dict[str, int]:
        """Returns how many addresses it takes beside those of nodes, by the role of the subnet."""
        return {"compute": len(self.vms)}

    def cost(self, endpoint: list[LineItem]) -> Iterator[tuple[str, list[LineItem]]]:
        """Yields its billed resources; `endpoint` is a private endpoint, where there are any."""
        yield from ()

    def egress(self, around: Surroundings) -> Iterator[str]:
        """Yields the kinds of rows of egress.toml that its machines and its nodes need."""
        yield from ()
