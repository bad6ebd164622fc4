"""Partitions of Slurm: scale sets with nodes on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fairway_core.catalog import vm_size
from fairway_core.documents import FieldError, rule
from fairway_core.environment.clusters.machines import Nodes
from fairway_core.environment.clusters.node_rules import check_scale_set
from fairway_core.environment.values import most_nodes_path, require_mounts
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from fairway_core.environment.clusters.base import Surroundings


# In slurm.conf a partition of this name sets the defaults of all others.
_SLURMS_OWN = "default"


class SlurmNodes(Nodes, defer_build=True):
    """A partition of Slurm: one scale set, whose nodes reach each other over InfiniBand.

    `nodes` is `{min, max}`: Slurm starts nodes for the jobs in its queue and deletes those
    that were idle for as long as `slurm.idle`; `min` nodes stay. A number is that many nodes
    at all times. A job takes nodes of one partition, as InfiniBand does not leave a scale set.

    All nodes and the scheduler see the first file system of `mounts`, where jobs have their
    files. A node that fails its health check takes no jobs, and is deleted when it is idle.
    """

    is_partition: ClassVar = True
    manager: ClassVar = ("reaches", "slurm-scheduler")
    acts_as: ClassVar = ("runs as", "slurm-nodes")
    in_place_of_idle: ClassVar = "set when Slurm deletes idle nodes: `slurm: {idle: 10m}`"

    engine: Literal["slurm"]
    """`slurm`: Slurm queues and runs the jobs, on nodes that come and go."""
    nodes: Annotated[int, Field(ge=1)] | NodeRange
    """The number of nodes, or `{min, max}` between which Slurm starts and deletes them."""
    health: Literal["quick", "full"] = "quick"
    """The checks of a new node before its first job: `quick` counts GPUs and InfiniBand adapters,
    `full` also measures them by the HPC image's own checks, which take some minutes.
    """

    @rule
    def _the_image_can_check_it(self) -> None:
        known = vm_size(self.size).health is not None and self.chosen_image.hpc
        if self.health == "full" and not known:
            message = f"the HPC image has no health checks for {self.size}"
            raise FieldError(message, "leave it out", ("health",))

    @rule
    def _one_placement_group_holds_them(self) -> None:
        check_scale_set(self.node_range.max, most_nodes_path(self.nodes))

    @rule
    def _nodes_share_a_folder(self) -> None:
        require_mounts(self.mounts, "scheduler and nodes need a folder that all of them see")

    @rule
    def _slurm_brings_nodes_back_itself(self) -> None:
        spot = self.spot_options
        if spot is None:
            return
        message = "Slurm starts a new node when one was taken away"
        if spot.eviction != "delete":
            raise FieldError(message, "use `eviction: delete`", ("spot", "eviction"))
        if spot.restore is not None:
            raise FieldError(message, "leave it out", ("spot", "restore"))

    def check(self, name: str, around: Surroundings) -> None:
        """Raises FieldError for a name that Slurm takes for something else."""
        if name == _SLURMS_OWN:
            raise FieldError(
                f"Slurm does not allow a partition named `{name}`",
                "choose another name",
                ("clusters", name),
            )


def slurm_memory_mib(size: str) -> int:
    """Returns the memory of a node that jobs may use, in MiB; the rest is for the system.

    A node with less memory than Slurm is configured for takes no jobs. A VM sees a little less than
    Azure's number, and the system and its file caches need some of it.

    >>> slurm_memory_mib("Standard_ND96isr_H100_v5")
    1848320
    """
    return vm_size(size).memory_gib * 1024 * 95 // 100
