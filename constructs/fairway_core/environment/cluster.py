"""Clusters that people log in to: a scale set of nodes, or a single VM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from fairway_core.catalog import default_image, image, vm_size
from fairway_core.cost.parts import Counts, Part, disks
from fairway_core.documents import Check, FieldError, Model, require, rule
from fairway_core.environment.node_rules import (
    ScaleSetNodes,
    check_image,
    check_os_disk,
    fits_local_disk,
    prefers_local_disk,
)
from fairway_core.environment.schedule import Schedule
from fairway_core.environment.values import FOREIGN_SPOT, OfferedSize, SpotPrice, below_path
from fairway_core.fields import Span
from fairway_core.resource_ids import CapacityReservationId, ImageVersionId, PlacementGroupId
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from fairway_core.catalog import Image


def _between(least: int, most: int) -> Check:
    """Returns a check for Azure's range, in minutes."""
    return require(
        lambda seconds: least * 60 <= seconds <= most * 60 and not seconds % 60,
        f"Azure accepts {least}m to {most}m here, in whole minutes",
        f"for example {least}m",
    )


Idle = Annotated[
    Span,
    require(
        # With less, users would hardly have time to log in after a start.
        lambda seconds: seconds >= 600 and not seconds % 60,
        "nodes can stop after 10 idle minutes at the earliest, in whole minutes",
        "for example `idle: 2h`",
    ),
]


def _a_number(value: object) -> object:
    if isinstance(value, dict):
        raise FieldError(
            "nothing resizes a cluster with `engine: ssh`: it has no queue",
            "write one number, or use `engine: slurm` or `engine: batch`",
        )
    return value


class Spot(Model, defer_build=True):
    """Settings of Spot nodes; `spot: true` takes the defaults.

    Azure takes such nodes away at any time, with half a minute's notice.
    """

    eviction: Literal["delete", "deallocate"] = "delete"
    """Eviction policy of the nodes: `deallocate` keeps a node's disk, which still costs."""
    restore: Annotated[Span, _between(15, 120)] | None = None
    """Time that Azure tries to bring evicted nodes back, for example 1h; not for a single VM."""
    max_price: SpotPrice | None = None
    """Maximum price per node and hour, in US dollars; by default the on-demand price."""


class Repair(Model, defer_build=True):
    """Automatic repair of nodes whose GPUs or InfiniBand adapters have failed.

    The node's own health check reports the failure. What runs on the node is lost.
    """

    action: Literal["replace", "reimage", "restart"] = "replace"
    """`replace` gets another machine; `reimage` and `restart` keep the one that there is."""
    grace: Annotated[Span, _between(10, 90)] = 1800
    """The time that a node may take to boot before its health counts, from 10m to 90m."""


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
    def system_disks(self) -> list[Part]:
        """The system disks to pay for."""
        return [] if self.has_local_disk else disks("premium", self.os_gib, self.counts)


class Nodes(HasSystemDisk, Model, defer_build=True):
    """Common settings of clusters that people log in to, whatever starts jobs on them."""

    FOREIGN = FOREIGN_SPOT

    engine: Literal["ssh", "slurm"]
    size: OfferedSize
    """The VM size of every node; `fairway sizes` lists them. Describe a size that it does not list
    by one that it does: `{name: Standard_HB200rs_v9, like: Standard_HB176rs_v4, vcpus: 200}`.
    """
    nodes: int | NodeRange
    spot: bool | Spot = False
    """Use Spot nodes: cheaper, but Azure may take them away at any time."""
    image: str | None = None
    """The image of every node, by alias or URN; by default one that fits the size."""
    image_id: ImageVersionId | None = None
    """A gallery image of your own, which was made from `image` and shares its properties."""
    accept_terms: bool = False
    """Accepts the Marketplace terms of `image`, once per subscription."""
    os_disk: Literal["local", "managed"] | None = None
    """Placement of the system disk: `local` is fast, but lost when a node is stopped."""
    os_disk_gib: int | None = Field(default=None, le=4095)
    """Size of the system disk in GiB; by default that of the image."""
    proximity_placement_group: PlacementGroupId | None = None
    """The id of an existing proximity placement group for the nodes."""
    mounts: tuple[str, ...] = ()
    """Names of file systems that every node mounts."""

    @rule
    def _image_fits(self) -> None:
        with below_path("image"):
            chosen = self.chosen_image
            check_image(vm_size(self.size), chosen, own=self.image_id is not None)
        if self.accept_terms and chosen.plan is None:
            raise FieldError(
                f"image `{chosen.alias}` has no terms to accept",
                "leave it out",
                path=("accept_terms",),
            )

    @rule
    def _the_os_disk_has_room(self) -> None:
        check_os_disk(
            self.size,
            self.chosen_image,
            self.os_disk_gib,
            local=self.os_disk == "local",
            eviction=self.eviction,
        )

    @property
    def chosen_image(self) -> Image:
        """The image of every node: the one named, or the default of the size."""
        return image(self.image) if self.image else default_image(vm_size(self.size))

    @property
    def spot_options(self) -> Spot | None:
        """The settings for Spot nodes, or None if the nodes are dedicated."""
        if isinstance(self.spot, Spot):
            return self.spot
        return Spot() if self.spot else None

    @property
    def eviction(self) -> str | None:
        """The eviction policy of Spot nodes, or None if the nodes are dedicated."""
        return self.spot_options.eviction if self.spot_options else None

    @property
    def os_gib(self) -> int:
        """The size of the system disk in GiB."""
        return self.os_disk_gib or self.chosen_image.os_disk_gib


class Cluster(Nodes, defer_build=True):
    """Nodes of one size that run jobs together; one node is a single VM, more are a scale set.

    They share InfiniBand, an image, an identity and file systems, and have no public address.
    A single VM keeps its address and its disk when it is stopped.
    """

    engine: Literal["ssh"]
    """`ssh`: MPI over SSH, without a queue."""
    nodes: Annotated[ScaleSetNodes, BeforeValidator(_a_number)]
    """The number of nodes."""
    capacity_reservation: CapacityReservationId | None = None
    """The id of an existing capacity reservation group, for a single VM."""
    repair: Repair | None = None
    """Let Azure repair nodes whose hardware has failed; not for a single VM."""
    schedule: Schedule | None = None
    """When Azure stops the nodes by itself, and starts them again; without it they always run."""
    idle: Idle | None = None
    """Stop the nodes after this long without a run, a login or work on the GPUs, for example 2h;
    `fairway nodes start` starts them again. A single VM is replaced where this comes, changes or
    goes, as it is part of what it boots with."""

    @rule
    def _a_single_vm_can_do_it(self) -> None:
        if self.nodes > 1:
            return
        if self.repair is not None:
            raise FieldError("Azure does not repair a single VM", "leave it out", ("repair",))
        if self.spot_options and self.spot_options.restore is not None:
            raise FieldError(
                "Azure does not bring a single VM back", "leave it out", ("spot", "restore")
            )

    @rule
    def _capacity_can_be_reserved(self) -> None:
        if self.capacity_reservation is None:
            return
        hint, path = "leave it out", ("capacity_reservation",)
        if self.nodes > 1:
            message = (
                "nodes that share InfiniBand are in a placement group, which rules "
                "out a reservation"
            )
            raise FieldError(message, hint, path)
        if self.spot:
            raise FieldError("Spot capacity cannot be reserved", hint, path)
        if not vm_size(self.size).capacity_reservation:
            raise FieldError(f"Azure reserves no capacity of {self.size}", hint, path)

    @rule
    def _nodes_share_a_folder(self) -> None:
        if self.nodes > 1 and not self.mounts:
            raise FieldError(
                "nodes that run jobs together need a folder that all of them see",
                "add `mounts: [NAME]` with a name under `filesystems:`, or `nodes: 1`",
            )

    @rule
    def _stopped_nodes_keep_their_disks(self) -> None:
        for field in ("schedule", "idle"):
            if getattr(self, field) is None:
                continue
            if self.has_local_disk:
                raise FieldError(
                    "a stopped node loses its system disk, which is on the node itself",
                    "add `os_disk: managed`",
                    (field,),
                )
            if self.repair is not None:
                raise FieldError(
                    "Azure would take stopped nodes for broken ones, and replace them",
                    f"leave `repair:` or `{field}:` out",
                    (field,),
                )

    @rule
    def _the_image_can_watch(self) -> None:
        chosen = self.chosen_image
        if self.idle is not None and chosen.nfs_client_package != "nfs-common":
            raise FieldError(
                f"the idle check needs Python 3.10, and `{chosen.alias}` has an older one",
                "use an image of Ubuntu, or a `schedule:`",
                ("idle",),
            )

    @property
    def is_single(self) -> bool:
        """True if the cluster has one node."""
        return self.nodes == 1

    @property
    def counts(self) -> Counts:
        """Numbers of nodes: fixed, and 0 at rest, when they are stopped."""
        return Counts(self.nodes, self.nodes, 0)

    @property
    def has_local_disk(self) -> bool:
        """True if system disks are local to the nodes, by the rules of scale sets and VMs."""
        if self.os_disk is not None:
            return self.os_disk == "local"
        return self.nodes > 1 and prefers_local_disk(self.size, self.os_gib, self.eviction)

    @property
    def system_disks(self) -> list[Part]:
        """The system disks to pay for, which stopped nodes keep."""
        counts = replace(self.counts, rest=self.nodes)
        return [] if self.has_local_disk else disks("premium", self.os_gib, counts)
