"""Rules on nodes that apply to environment files and to constructs. Each raises FieldError with the
path of the file's field, and the hint names fields of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fairway_core.catalog import default_image, limit, vm_size
from fairway_core.documents import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_core.autoscale import Autoscale, PoolShape
    from fairway_core.catalog import Image, VmSize
    from fairway_core.yaml_text import DataPath

# Source: Azure documentation, run tasks concurrently on Batch nodes: "4 times the number of cores
# of the node, or 256, whichever is smaller".
MOST_SLOTS, SLOTS_OF_A_CORE = 256, 4
_POOL_LIMITS = {
    "BatchService": "batch_pool_nodes_batch_service",
    "UserSubscription": "batch_pool_nodes_user_subscription",
}


ScaleSetNodes = Annotated[int, Field(ge=1, le=limit("placement_group_vms"))]
"""The number of nodes of a scale set with InfiniBand."""


def check_image(
    size: VmSize, chosen: Image, *, own: bool, usual: Callable[[VmSize], Image] = default_image
) -> None:
    """Raises FieldError if the image, or an `own` image made from it, does not support the size's
    devices; `usual` returns the image to suggest, or raises UserError without one."""
    if not chosen.fits(size, own=own):
        hint = f"use `{usual(size).alias}`, or leave `image:` out"
        raise FieldError(f"image `{chosen.alias}` does not fit {size.name}", hint)


def check_terms(chosen: Image, *, accepted: bool) -> None:
    """Raises FieldError if terms of an image are accepted that it does not have."""
    if accepted and chosen.plan is None:
        message = f"image `{chosen.alias}` has no terms to accept"
        raise FieldError(message, "leave it out", ("accept_terms",))


def check_scale_set(nodes: int, path: DataPath, *, infiniband: bool = True) -> None:
    """Raises FieldError if one scale set cannot hold the nodes of a cluster or node pool; with
    InfiniBand they share a placement group."""
    most = limit("placement_group_vms" if infiniband else "kubernetes_pool_nodes")
    if nodes > most:
        between = " with InfiniBand" if infiniband else ""
        raise FieldError(
            f"a scale set holds at most {most} nodes{between}, not {nodes}",
            "make several clusters for separate jobs",
            path,
        )


def check_os_disk(
    size: str | VmSize, chosen: Image, gib: int | None, *, local: bool, eviction: str | None
) -> None:
    """Raises FieldError if the image does not fit in a system disk of `gib` GiB, or that on a
    `local` disk; Spot nodes that their `eviction` policy keeps would lose a local one."""
    if gib is not None and gib < chosen.os_disk_gib:
        raise FieldError(
            f"image `{chosen.alias}` needs {chosen.os_disk_gib} GiB, not {gib}",
            "leave `os_disk_gib:` out for what the image needs",
            ("os_disk_gib",),
        )
    if not local:
        return
    check_local_disk(size, gib or chosen.os_disk_gib)
    if eviction == "deallocate":
        raise FieldError(
            "a local system disk is lost when Azure stops the node",
            "use `eviction: delete`, or `os_disk: managed`",
            ("os_disk",),
        )


def check_local_disk(size: str | VmSize, gib: int, smaller: str = "") -> None:
    """Raises FieldError if the local disk cannot hold a system disk; `smaller` extends the hint."""
    if not fits_local_disk(size, gib):
        name = size if isinstance(size, str) else size.name
        raise FieldError(
            f"the local disk of {name} has no room for a system disk of {gib} GiB",
            f"use `os_disk: managed`{smaller}",
            ("os_disk",),
        )


def fits_local_disk(size: str | VmSize, gib: int) -> bool:
    """Returns True if the local disk of a size has room for a system disk of `gib` GiB."""
    known = vm_size(size) if isinstance(size, str) else size
    return known.ephemeral_os and known.temp_disk_gib > gib


def prefers_local_disk(size: str | VmSize, gib: int, eviction: str | None) -> bool:
    """Returns True if nodes of a scale set have local system disks by default, which are faster and
    free. Spot nodes that are kept when evicted have not, as they would lose them."""
    return eviction != "deallocate" and fits_local_disk(size, gib)


def most_pool_nodes(mode: str, *, mpi: bool, spot: bool = False) -> int:
    """Returns Azure's documented maximum of nodes in a pool of an account with that `mode`."""
    if mpi:
        return limit(_POOL_LIMITS[mode])
    return limit("batch_spot_nodes" if spot else "batch_dedicated_nodes")


def check_pool_nodes(
    shape: PoolShape, mode: str = "BatchService", path: DataPath = ("nodes",)
) -> None:
    """Raises FieldError if the pool has more nodes than Batch allows."""
    most = most_pool_nodes(mode, mpi=shape.mpi, spot=shape.spot)
    if shape.maximum > most:
        raise FieldError(
            f"a pool holds at most {most} nodes, not {shape.maximum}",
            "make several pools"
            + (", or set `mpi: false` where each job takes one node" if shape.mpi else ""),
            path,
        )


def check_slots(shape: PoolShape, size: VmSize) -> None:
    """Raises FieldError if jobs of several nodes would share nodes, or for too many task slots."""
    if shape.task_slots > 1 and shape.mpi:
        raise FieldError(
            "jobs of several nodes run only where a node has one task slot",
            "set `mpi: false` where each job takes one node or less, or make another pool",
            ("task_slots",),
        )
    most = SLOTS_OF_A_CORE * size.vcpus
    if shape.task_slots > most:
        message = f"a node of {size.name} has at most {most} task slots, not {shape.task_slots}"
        raise FieldError(message, f"write {most} or less", ("task_slots",))


def check_mix(shape: PoolShape, autoscale: Autoscale | None) -> None:
    """Raises FieldError if dedicated and Spot nodes mix, except in a Spot pool without MPI."""
    if autoscale is None or not autoscale.mixes:
        return
    path = ("autoscale", "rebalance") if autoscale.rebalance else ("autoscale",)
    what = "`rebalance:`" if autoscale.rebalance else f"`{autoscale.scenario}`"
    if not shape.spot:
        raise FieldError(f"{what} needs Spot nodes", "set `spot: true`", path)
    if shape.mpi:
        raise FieldError(
            f"{what} mixes dedicated and Spot nodes, and a pool for MPI holds only one kind",
            "set `mpi: false` where each job takes one node, or use another scenario",
            path,
        )
