"""Clusters without a queue: a scale set of nodes, or a single VM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from fairway_core.catalog import vm_size
from fairway_core.cost.line_items import Counts, LineItem, disks
from fairway_core.documents import FieldError, Model, require, rule
from fairway_core.environment.clusters.machines import Nodes, minutes_between
from fairway_core.environment.clusters.node_rules import ScaleSetNodes, prefers_local_disk
from fairway_core.environment.schedule import Schedule
from fairway_core.fields import Span
from fairway_core.resource_ids import CapacityReservationId

if TYPE_CHECKING:
    from fairway_core.environment.clusters.base import Surroundings

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


class Repair(Model, defer_build=True):
    """Automatic repair of nodes whose GPUs or InfiniBand adapters have failed.

    The node's own health check reports the failure. What runs on the node is lost.

    >>> repair = Repair(action="replace")
    """

    action: Literal["replace", "reimage", "restart"] = "replace"
    """`replace` gets another machine; `reimage` and `restart` keep the one that there is."""
    grace: Annotated[Span, minutes_between(10, 90)] = 1800
    """The time that a node may take to boot before its health counts, from 10m to 90m."""


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
    def system_disks(self) -> list[LineItem]:
        """The system disks to pay for, which stopped nodes keep."""
        counts = replace(self.counts, idle=self.nodes)
        return [] if self.has_local_disk else disks("premium", self.os_gib, counts)

    @property
    def egress(self) -> tuple[str, ...]:
        """The kinds of rows for its system, and for nodes that stop themselves."""
        return (*super().egress, *(("idle",) if self.idle else ()))

    @property
    def stops_after(self) -> float | None:
        """The seconds of `idle:`."""
        return self.idle

    def check(self, name: str, around: Surroundings) -> None:
        """Raises FieldError if its nodes could not stop themselves."""
        if self.idle and around.network.is_closed:
            raise FieldError(
                f"`{name}` could not ask Azure to stop it, as `egress: none` blocks that",
                "use another `egress:`, or a `schedule:`, which Azure runs by itself",
                ("clusters", name, "idle"),
            )
