"""Pools of Azure Batch, their images and their scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from fairway_core.autoscale import Autoscale, PoolShape, ScenarioName, check_formula
from fairway_core.catalog import default_image, image, images, vm_size
from fairway_core.cost.line_items import LineItem
from fairway_core.documents import FieldError, Model, rule
from fairway_core.environment.clusters.base import HasNodes
from fairway_core.environment.clusters.node_rules import (
    MOST_SLOTS,
    check_image,
    check_mix,
    check_pool_nodes,
    check_slots,
)
from fairway_core.environment.values import (
    FOREIGN_SPOT,
    OfferedSize,
    below_path,
    most_nodes_path,
)
from fairway_core.findings import counted
from fairway_core.light_fields import Image as ContainerImage
from fairway_core.resource_ids import ImageVersionId
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.catalog import Image, VmSize


def _has_infiniband(fields: Mapping[str, Any]) -> bool:
    """Returns True if a pool's size has InfiniBand, or if the size itself is refused."""
    return "size" not in fields or vm_size(fields["size"]).rdma


class BatchCluster(HasNodes, Model, defer_build=True):
    """A pool of Azure Batch; its nodes are all dedicated or all Spot.

    `nodes` is a number, or `{min, max}` between which the pool scales: by `pending_tasks`
    where `autoscale` says nothing else. With `autoscale: manual` it starts with `min` nodes,
    people resize it, and Terraform leaves the number alone.

    Jobs take several nodes, which reach each other over InfiniBand. With `mpi: false`, and by
    default if the size has no InfiniBand, each takes one: such a pool may be larger, and may mix
    dedicated and Spot nodes.
    """

    FOREIGN = FOREIGN_SPOT
    takes_logins: ClassVar = False
    hides_home: ClassVar = True
    machines: ClassVar = ("Batch pool", "batch_pool")
    manager: ClassVar = ("belongs to", "batch")
    in_place_of_idle: ClassVar = (
        "let the pool shrink: `nodes: {min: 0, max: 8}` with `autoscale: pending_tasks`"
    )

    engine: Literal["batch"]
    """`batch`: Azure Batch queues and runs the jobs."""
    size: OfferedSize
    """The VM size of every node; `fairway sizes` lists them. Describe a size that it does not list
    by one that it does: `{name: Standard_HB200rs_v9, like: Standard_HB176rs_v4, vcpus: 200}`.
    """
    nodes: Annotated[int, Field(ge=1)] | NodeRange
    """The number of nodes, or `{min, max}` between which the pool scales."""
    mpi: bool = Field(default_factory=_has_infiniband)
    """`true`: jobs may take several nodes, which talk to each other; `false`: each takes one. By
    default `true` if the size has InfiniBand."""
    task_slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 1
    """The number of slots of a node for jobs with `gpus` or `cores`, for example 8 on nodes with 8
    GPUs. A job without them takes the whole node. It needs `mpi: false`, and changing it
    replaces the pool. A pool that scales by tasks starts one node per that many tasks.
    """
    spot: bool = False
    """Use Spot nodes: cheaper, but Azure may take them away at any time."""
    autoscale: ScenarioName | Literal["manual"] | Autoscale | None = None
    """The rule for scaling between `min` and `max`; by default `pending_tasks`."""
    image: str | None = None
    """The image of every node, by alias or URN; by default one that fits the size."""
    image_id: ImageVersionId | None = None
    """A gallery image of your own, which was made from `image` and shares its properties."""
    mounts: tuple[str, ...] = ()
    """Names of file systems that every node mounts."""
    containers: bool | tuple[ContainerImage, ...] = False
    """Run jobs in containers: `true`, or the images that each node pulls when it starts. Every job
    then names an image: Batch takes no others on such a pool."""

    @rule
    def _image_fits(self) -> None:
        with below_path("image"):
            chosen, own = self.chosen_image, self.image_id is not None
            check_image(vm_size(self.size), chosen, own=own, usual=pool_image)
        if self.runs_containers and not chosen.hpc and self.image_id is None:
            raise FieldError(
                f"image `{chosen.alias}` has no container runtime",
                "use an HPC image such as `ubuntu-hpc-2204`, or a gallery image (`image_id:`) "
                "with Docker",
                ("containers",),
            )

    @rule
    def _nodes_fit_a_pool(self) -> None:
        # The account's mode may lower the limit, see `Batch.check`.
        check_pool_nodes(self.shape, path=most_nodes_path(self.nodes))

    @rule
    def _slots_fit(self) -> None:
        check_slots(self.shape, vm_size(self.size))

    @rule
    def _autoscale_fits(self) -> None:
        if self.autoscale is not None and not self.node_range.scales:
            nodes = counted(self.node_range.max, "node")
            raise FieldError(
                f"with {nodes} at all times there is nothing to scale",
                "write `nodes: {min: 0, max: …}`, or leave `autoscale:` out",
                ("autoscale",),
            )
        autoscale = self.autoscaling
        if autoscale is None:
            return
        if autoscale.formula is not None:
            with below_path("autoscale", "formula"):
                check_formula(autoscale.formula, spot=self.spot, mpi=self.mpi)
        check_mix(self.shape, autoscale)
        if autoscale.nodes_per_job is not None:
            self._check_nodes_per_job(autoscale.nodes_per_job)

    def _check_nodes_per_job(self, count: int) -> None:
        path = ("autoscale", "nodes_per_job")
        if not self.mpi:
            hint = "leave it out, or set `mpi: true` where jobs take several"
            raise FieldError("each job takes one node of this pool", hint, path)
        if count > self.node_range.max:
            most = self.node_range.max
            raise FieldError(
                f"a pool of at most {counted(most, 'node')} cannot count {count} for a job",
                f"write {most} or less",
                path,
            )

    @property
    def nodes_of_a_job(self) -> int:
        """The maximum number of nodes of one job."""
        return self.node_range.max if self.mpi else 1

    @property
    def system_disks(self) -> list[LineItem]:
        """The system disks to pay for, whose kind and size are unknown."""
        reason = "Batch does not tell the kind and size of its nodes' system disks"
        return [LineItem("system disks of the nodes", counts=self.counts, reason=reason)]

    @property
    def chosen_image(self) -> Image:
        """The image of every node: the one named, or the default for such a pool."""
        return image(self.image) if self.image else pool_image(vm_size(self.size))

    @property
    def runs_containers(self) -> bool:
        """True if every job names a container image."""
        return self.containers is not False

    @property
    def pulled_images(self) -> tuple[str, ...]:
        """The images that a node pulls when it starts."""
        return self.containers if isinstance(self.containers, tuple) else ()

    @property
    def autoscaling(self) -> Autoscale | None:
        """The settings by which the pool scales, or None if it does not scale by itself."""
        if isinstance(self.autoscale, Autoscale):
            return self.autoscale
        if self.autoscale == "manual" or not self.node_range.scales:
            return None
        return Autoscale(scenario=self.autoscale or "pending_tasks")

    @property
    def resized_by_hand(self) -> bool:
        """True if people change the number of nodes, and Terraform must not change it back."""
        return self.autoscale == "manual"

    @property
    def shape(self) -> PoolShape:
        """Facts about the pool that its autoscale formula needs."""
        nodes = self.node_range
        return PoolShape(
            minimum=nodes.min,
            maximum=nodes.max,
            spot=self.spot,
            mpi=self.mpi,
            task_slots=self.task_slots,
        )


def pool_image(size: VmSize) -> Image:
    """Returns the default image of a pool of that size. Only HPC images have GPU drivers; Batch
    lists them for sizes with InfiniBand, and one was seen to work on others, see the check
    `rdma-only-image`. Raises UserError if none fits."""
    if size.rdma:
        return default_image(size)
    for row in images().values():
        fits = row.pools_without_rdma if size.gpu else not row.hpc
        if fits and row.fits(size):
            return row
    return default_image(size)
