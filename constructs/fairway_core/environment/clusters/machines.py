"""Common settings of clusters that people log in to, whatever starts jobs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fairway_core.catalog import default_image, image, vm_size
from fairway_core.documents import Check, Model, require, rule
from fairway_core.environment.clusters.base import HasSystemDisk
from fairway_core.environment.clusters.node_rules import check_image, check_os_disk, check_terms
from fairway_core.environment.values import FOREIGN_SPOT, OfferedSize, SpotPrice, below_path
from fairway_core.fields import Span
from fairway_core.resource_ids import ImageVersionId, PlacementGroupId
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from fairway_core.catalog import Image


def minutes_between(least: int, most: int) -> Check:
    """Returns a check for Azure's range, in minutes."""
    return require(
        lambda seconds: least * 60 <= seconds <= most * 60 and not seconds % 60,
        f"Azure accepts {least}m to {most}m here, in whole minutes",
        f"for example {least}m",
    )


class Spot(Model, defer_build=True):
    """Settings of Spot nodes; `spot: true` takes the defaults.

    Azure takes such nodes away at any time, with half a minute's notice.

    >>> spot = Spot(restore="1h")
    """

    eviction: Literal["delete", "deallocate"] = "delete"
    """Eviction policy of the nodes: `deallocate` keeps a node's disk, which still costs."""
    restore: Annotated[Span, minutes_between(15, 120)] | None = None
    """Time that Azure tries to bring evicted nodes back, for example 1h; not for a single VM."""
    max_price: SpotPrice | None = None
    """Maximum price per node and hour, in US dollars; by default the on-demand price."""


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
        check_terms(chosen, accepted=self.accept_terms)

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
