"""What a pod takes of its node, which it has for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from fairway_core.target import Target

_GPUS = "nvidia.com/gpu"
# Of a hundred parts of a node's processors and memory: the kubelet keeps some for itself, and there
# are pods on every node. And of its memory, those that the guest sees.
_PARTS = 90
_SEEN = 97
# GiB of the pods that every node has: AKS' own, those of drivers, and the agent of monitoring.
_DAEMONS = 1.5


def of_node(target: Target) -> dict[str, str]:
    """The resources of a whole node by the names that Kubernetes has for them; UserError where the
    target says neither them nor its VM size."""
    access = target.kubernetes
    assert access is not None, "a target with this engine has the section"
    if access.resources is not None:
        return dict(access.resources)
    if not target.vm_size:
        message = f"the target `{target.name}` has neither a `vm_size` nor `resources`"
        hint = 'for example `kubernetes: {resources: {cpu: "30", memory: 200Gi}}`'
        raise UserError.of("no-vm-size", message, hint)
    from fairway_core.catalog import vm_size

    size = vm_size(target.vm_size)
    found = {
        "cpu": str(max(1, size.vcpus * _PARTS // 100)),
        "memory": f"{_memory(size.memory_gib)}Gi",
    }
    if size.gpu:
        found[_GPUS] = str(size.gpu.count)
    if access.rdma and size.infiniband:
        found[access.rdma] = str(size.infiniband.adapters)
    return found


def _memory(gib: float) -> int:
    """The GiB of a node that are left to one pod, beside those pods that every node has.

    The lesser of two: large nodes keep a share, and on small ones what AKS keeps is more.
    https://learn.microsoft.com/azure/aks/node-resource-reservations

    >>> _memory(28)
    23
    """
    from fairway_core.environment.kubernetes import MAX_PODS

    kept = min(20 * MAX_PODS + 50, 256 * gib) / 1024  # MiB, at most a quarter
    evicted = 100 / 1024  # where less is free
    small = gib * _SEEN / 100 - kept - evicted - _DAEMONS
    return max(1, int(min(gib * _PARTS / 100, small)))
