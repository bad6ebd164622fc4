"""What the nodes of a scale set and a single VM have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.cloud_init import Mount, NodeHealth, node_cloud_init
from fairway_core.environment.cluster import fits_local_disk
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.network import PlacedSubnet
    from fairway_core.catalog import Image, VmSize
    from fairway_core.environment import Spot

# Time for a job to write a checkpoint before Azure deletes its node.
TERMINATION_NOTICE = "PT5M"

_EVICTION = {"delete": "Delete", "deallocate": "Deallocate"}


def sends_gpu_metrics(size: VmSize) -> bool:
    """Whether nodes of that size say how busy their GPUs are: those of NVIDIA do."""
    return size.gpu is not None and size.gpu.vendor == "nvidia"


def cloud_init_of(
    cluster: str,
    *,
    host_patterns: Sequence[str],
    subnet: PlacedSubnet,
    size: VmSize,
    image: Image,
    mounts: Sequence[Mount],
    monitored: bool,
    watched: bool = False,
    slurm: SlurmNode | None = None,
) -> str:
    """The cloud-config of a node; `watched` is whether it says on its own port how it is.

    With `slurm` it is a node of Slurm's.
    """
    gpus = size.gpu.count if size.gpu and sends_gpu_metrics(size) else 0
    adapters = size.infiniband.adapters if size.infiniband and size.rdma else 0
    return node_cloud_init(
        cluster=cluster,
        mounts=mounts,
        nfs_client_package=image.nfs_client_package,
        host_patterns=[*host_patterns, subnet.address_pattern],
        gpu_metrics=monitored and sends_gpu_metrics(size),
        health=NodeHealth(gpus=gpus, adapters=adapters) if watched else None,
        announced=slurm is None,
        template="slurm_node.yaml.j2" if slurm else "node.yaml.j2",
        more=slurm.extension() if slurm else None,
    )


def spot_arguments(spot: Spot | None) -> dict[str, Any]:
    """What makes VMs of spare capacity; nothing where they are dedicated.

    >>> from fairway_core.environment import Spot
    >>> spot_arguments(Spot(max_price=2.5))
    {'priority': 'Spot', 'eviction_policy': 'Delete', 'max_bid_price': 2.5}
    """
    if spot is None:
        return {}
    return {
        "priority": "Spot",
        "eviction_policy": _EVICTION[spot.eviction],
        "max_bid_price": spot.max_price,
    }


def os_disk_gib(name: str, image: Image, wanted: int | None) -> int:
    """The size of the system disk in GiB; UserError where the image does not fit in it."""
    if wanted is not None and wanted < image.os_disk_gib:
        raise UserError.of(
            "small-os-disk",
            f"cluster `{name}`: image {image.alias} needs {image.os_disk_gib} GiB, not {wanted}",
        )
    return wanted or image.os_disk_gib


def check_image(name: str, size: VmSize, image: Image) -> None:
    """Raises UserError where the devices of such nodes would not work."""
    if not image.fits(size):
        raise UserError.of(
            "image-does-not-fit", f"cluster `{name}`: image {image.alias} does not fit {size.name}"
        )


def check_local_disk(name: str, size: VmSize, gib: int, spot: Spot | None) -> None:
    """Raises UserError where a system disk on the node itself has no room, or would be lost."""
    if not fits_local_disk(size.name, gib):
        raise UserError.of(
            "no-local-disk", f"cluster `{name}`: no room for {gib} GiB on the disk of {size.name}"
        )
    if spot is not None and spot.eviction == "deallocate":
        raise UserError.of(
            "lost-os-disk", f"cluster `{name}`: a local system disk does not outlive a stop"
        )


def terms(scope: Construct, image: Image, accept: bool) -> list[ITerraformDependable]:
    """What must be accepted before an image may be used; nothing where that is done already."""
    if not accept or image.plan is None:
        return []
    from fairway_constructs.marketplace import accept_terms

    return [accept_terms(scope, image.plan)]
