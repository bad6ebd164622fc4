"""Rules on nodes that hold for a section of an environment file and for a construct alike.

Each raises FieldError, whose path is that of the file's field, and so are the words of its hint.
"""

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
    """Devices of the size have to work with the image, or with an `own` one that was made from it;
    `usual` is the one to use in its place, and raises UserError where there is none."""
    if not chosen.fits(size, own=own):
        hint = f"use `{usual(size).alias}`, or leave `image:` out"
        raise FieldError(f"image `{chosen.alias}` does not fit {size.name}", hint, ("image",))


def check_scale_set(nodes: int, path: DataPath, *, infiniband: bool = True) -> None:
    """One scale set has to hold the nodes of a cluster, or of a node pool: with InfiniBand in one
    placement group."""
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
    """The image has to fit into a system disk of `gib` GiB, and that on the node where it is to be
    `local`: Spot nodes that are kept by their `eviction` would lose it there."""
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
    """A system disk has to have room on the node's own; `smaller` is another way out."""
    if not fits_local_disk(size, gib):
        name = size if isinstance(size, str) else size.name
        raise FieldError(
            f"the local disk of {name} has no room for a system disk of {gib} GiB",
            f"use `os_disk: managed`{smaller}",
            ("os_disk",),
        )


def fits_local_disk(size: str | VmSize, gib: int) -> bool:
    """True if the own disk of a node of that size has room for a system disk of `gib` GiB."""
    known = vm_size(size) if isinstance(size, str) else size
    return known.ephemeral_os and known.temp_disk_gib > gib


def prefers_local_disk(size: str | VmSize, gib: int, eviction: str | None) -> bool:
    """True if nodes of a scale set have their system disk on themselves by default: that is faster,
    and free. Spot nodes that are kept when they are evicted do not, as they would lose it."""
    return eviction != "deallocate" and fits_local_disk(size, gib)


def most_pool_nodes(mode: str, *, mpi: bool, spot: bool = False) -> int:
    """The most nodes in a pool of an account with that `mode`, as Azure documents it."""
    if mpi:
        return limit(_POOL_LIMITS[mode])
    return limit("batch_spot_nodes" if spot else "batch_dedicated_nodes")


def check_pool_nodes(
    shape: PoolShape, mode: str = "BatchService", path: DataPath = ("nodes",)
) -> None:
    """A pool of Batch has to hold its nodes."""
    most = most_pool_nodes(mode, mpi=shape.mpi, spot=shape.spot)
    if shape.maximum > most:
        raise FieldError(
            f"a pool holds at most {most} nodes, not {shape.maximum}",
            "make several pools"
            + (", or set `mpi: false` where each job takes one node" if shape.mpi else ""),
            path,
        )


def check_slots(shape: PoolShape, size: VmSize) -> None:
    """Jobs of several nodes take whole ones, and the slots of a node have a limit."""
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
    """Dedicated and Spot nodes may be side by side in a pool of Spot nodes without MPI alone."""
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
