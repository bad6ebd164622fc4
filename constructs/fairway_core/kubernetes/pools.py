"""Jobs' nodes with their taints, resources and volumes, for the objects that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.manifests import TAINTS
from fairway_core.findings import UserError
from fairway_core.kubernetes.documents import Manifest, manifest
from fairway_core.target import POOL_TAINT, SYSTEM_TAINT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.catalog import VmSize
    from fairway_core.catalog.fabrics import Topology
    from fairway_core.target import KubernetesAccess, Target


ON_SYSTEM = [{"key": SYSTEM_TAINT, "operator": "Exists"}]
"""The tolerations of pods that Fairway installs on system nodes."""
_SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}


def access_of(target: Target) -> KubernetesAccess:
    """Returns the section of a target with the engine `kubernetes`."""
    assert target.kubernetes is not None, "a target with this engine has the section"
    return target.kubernetes


def taints(target: Target) -> list[dict[str, str]]:
    """Returns the taints that an environment and AKS set on the target's nodes."""
    own = access_of(target).tolerations
    pool = {"key": POOL_TAINT, "value": target.name, "effect": "NoSchedule"}
    return [pool] * (POOL_TAINT in own) + [_SPOT] * target.spot


def tolerations(targets: Iterable[Target]) -> list[dict[str, str]]:
    """Returns tolerations for the taints of the targets' nodes, as tasks' pods have them."""
    own = [key for target in targets for key in access_of(target).tolerations]
    return [{"key": key, "operator": "Exists"} for key in dict.fromkeys((*TAINTS, *own))]


def size_of(target: Target) -> VmSize | None:
    """Returns the VM size of the target's nodes, or None if it has none."""
    from fairway_core.catalog import vm_size

    return vm_size(target.vm_size) if target.vm_size else None


def topology_of(target: Target) -> Topology | None:
    """Returns the topology of GPUs and adapters in the target's nodes for NCCL, if it needs one."""
    from fairway_core.catalog import fabric_for

    size = size_of(target)
    return fabric_for(size).topology if size else None


def has_nvidia(target: Target) -> bool:
    """Returns True if the target's nodes have NVIDIA GPUs."""
    size = size_of(target)
    return bool(size and size.gpu and size.gpu.vendor == "nvidia")


def offers_infiniband(target: Target) -> bool:
    """Returns True if pods on the target's nodes get InfiniBand adapters."""
    return bool(access_of(target).rdma)


LUSTRE_DRIVER = "azurelustre.csi.azure.com"

# Options that are only for /etc/fstab, or that a claim's access mode sets.
_OF_NODES = ("rw", "_netdev")
_MODES = ["ReadWriteMany"]
# A claim's request, whatever the size of its volume: when a file system grows, the API server would
# refuse all objects applied with the claim, as "only dynamically provisioned pvc can be resized"
# (its admission plugin PersistentVolumeClaimResize).
_ASKED = "1Gi"


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A shared file system: its name, and `type`, `source` and `options` of a mount on a node.

    `source` may contain a Terraform reference. `gib` is its size, which Kubernetes shows but does
    not enforce.
    """

    name: str
    type: str
    source: str
    options: str
    gib: int


def objects(volumes: Iterable[Volume], namespace: str) -> list[Manifest]:
    """Returns a volume and a claim of the same name for each, bound only to each other."""
    return [each for volume in volumes for each in _pair(volume, namespace)]


def _pair(volume: Volume, namespace: str) -> list[Manifest]:
    # Volumes are cluster-scoped: one file system in two namespaces is two volumes.
    name = f"{namespace}-{volume.name}"
    options = [each for each in volume.options.split(",") if each not in _OF_NODES]
    given = {
        "capacity": {"storage": f"{volume.gib}Gi"},
        "accessModes": _MODES,
        # The data belongs to the environment: deleting a claim must not delete it.
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": {"namespace": namespace, "name": volume.name},
        "mountOptions": options,
        **_where(volume, name),
    }
    taken = {
        "accessModes": _MODES,
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": _ASKED}},
    }
    return [
        manifest("v1", "PersistentVolume", name, spec=given),
        manifest("v1", "PersistentVolumeClaim", volume.name, namespace, spec=taken),
    ]


def _where(volume: Volume, handle: str) -> dict[str, Any]:
    if volume.type == "lustre":
        # Source: Azure Lustre CSI driver, static provisioning.
        attributes = {"mgs-ip-address": volume.source.partition("@")[0]}
        csi = {"driver": LUSTRE_DRIVER, "volumeHandle": handle, "volumeAttributes": attributes}
        return {"csi": csi}
    assert volume.type == "nfs", f"pods cannot mount a volume of type {volume.type}"
    # Kubernetes' built-in NFS volume, which needs no driver. Source: Azure documentation, NFS
    # volumes on AKS.
    server, _, export = volume.source.partition(":/")
    return {"nfs": {"server": server, "path": f"/{export}"}}


GPUS = "nvidia.com/gpu"
# Percentage of a node's processors and memory that tasks get: the kubelet reserves some, and every
# node runs other pods. And the percentage of its memory that the guest sees.
_PARTS = 90
_SEEN = 97
# GiB for the pods that every node has: AKS' own, drivers, and the monitoring agent.
_DAEMONS = 1.5


def of_node(target: Target) -> dict[str, str]:
    """Returns the resources of an entire node by their Kubernetes names. Raises UserError if the
    target has neither resources nor a VM size."""
    access = access_of(target)
    if access.resources is not None:
        return dict(access.resources)
    if not target.vm_size:
        message = f"the target `{target.name}` has neither a `vm_size` nor `resources`"
        hint = 'for example `kubernetes: {resources: {cpu: "30", memory: 200Gi}}`'
        raise UserError.of("no-vm-size", message, hint)
    from fairway_core.catalog import vm_size

    size = vm_size(target.vm_size)
    cpus = max(1, size.vcpus * _PARTS // 100)
    found = {"cpu": str(cpus), "memory": f"{_memory(size.memory_gib)}Gi"}
    if size.gpu:
        found[GPUS] = str(size.gpu.count)
    if access.rdma and size.infiniband:
        found[access.rdma] = str(size.infiniband.adapters)
    return found


def _memory(gib: float) -> int:
    """Returns the GiB of a node that are left for one pod, besides the pods that every node has.

    The lesser of two: large nodes keep a share, and on small ones AKS reserves more.
    https://learn.microsoft.com/azure/aks/node-resource-reservations

    >>> _memory(28)
    23
    """
    from fairway_core.environment.clusters.kubernetes.node_pool import MAX_PODS

    kept = min(20 * MAX_PODS + 50, 256 * gib) / 1024  # MiB, at most a quarter
    evicted = 100 / 1024  # the kubelet evicts pods if less is free
    small = gib * _SEEN / 100 - kept - evicted - _DAEMONS
    return max(1, int(min(gib * _PARTS / 100, small)))
