"""The nodes of jobs, as what runs on them besides jobs has to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.kubernetes.manifests import TAINTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.catalog import VmSize
    from fairway_core.catalog.fabrics import Topology
    from fairway_core.target import Target


POOL_TAINT = "fairway.dev/pool"
"""The key of the taint that keeps others off the nodes of a pool; its value is the pool's name."""
SYSTEM_TAINT = "CriticalAddonsOnly"
"""The key of the taint of the system's nodes in an environment, which AKS' own pods tolerate, those
of its extension Flux too. Sources: Azure documentation, AKS: system node pools; Azure/AKS, issue
4780."""
ON_SYSTEM = [{"key": SYSTEM_TAINT, "operator": "Exists"}]
"""The tolerations of what Fairway installs there."""
_SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}


def taints(target: Target) -> list[dict[str, str]]:
    """Those that an environment and AKS give the target's nodes."""
    own = target.kubernetes.tolerations if target.kubernetes else ()
    pool = {"key": POOL_TAINT, "value": target.name, "effect": "NoSchedule"}
    return [pool] * (POOL_TAINT in own) + [_SPOT] * target.spot


def tolerations(targets: Iterable[Target]) -> list[dict[str, str]]:
    """For the taints of the targets' nodes, which a task's pods tolerate too."""
    own = [key for target in targets if target.kubernetes for key in target.kubernetes.tolerations]
    return [{"key": key, "operator": "Exists"} for key in dict.fromkeys((*TAINTS, *own))]


def size_of(target: Target) -> VmSize | None:
    """The VM size of its nodes; None where it says none."""
    from fairway_core.catalog import vm_size

    return vm_size(target.vm_size) if target.vm_size else None


def topology_of(target: Target) -> Topology | None:
    """Where the GPUs and adapters of its nodes are, for NCCL; None where nobody has to say it."""
    from fairway_core.catalog import fabric_for

    size = size_of(target)
    return fabric_for(size).topology if size else None


def has_nvidia(target: Target) -> bool:
    """Whether its nodes have GPUs of NVIDIA's."""
    size = size_of(target)
    return bool(size and size.gpu and size.gpu.vendor == "nvidia")


def offers_infiniband(target: Target) -> bool:
    """Whether pods on its nodes are given InfiniBand adapters."""
    return bool(target.kubernetes and target.kubernetes.rdma)
