"""The shared file systems of an environment, as volumes that pods have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.kubernetes.documents import Manifest, manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

LUSTRE_DRIVER = "azurelustre.csi.azure.com"

# What is for /etc/fstab, and the access that each claim states itself.
_OF_NODES = ("rw", "_netdev")
_MODES = ["ReadWriteMany"]


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A shared file system: its name, and how a node would mount it, `type`, `source`, `options`.

    `source` may hold a reference of Terraform's. `gib` is its size, which Kubernetes asks for and
    keeps nobody to.
    """

    name: str
    type: str
    source: str
    options: str
    gib: int


def objects(volumes: Iterable[Volume], namespace: str) -> list[Manifest]:
    """A volume and the claim of the same name for each, bound to each other alone."""
    return [each for volume in volumes for each in _pair(volume, namespace)]


def _pair(volume: Volume, namespace: str) -> list[Manifest]:
    # Volumes are the whole cluster's: the same file system in two namespaces is two.
    name, size = f"{namespace}-{volume.name}", {"storage": f"{volume.gib}Gi"}
    options = [each for each in volume.options.split(",") if each not in _OF_NODES]
    given = {
        "capacity": size,
        "accessModes": _MODES,
        # The data is the environment's: no claim that is deleted takes it along.
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
        "resources": {"requests": size},
    }
    return [
        {**manifest("v1", "PersistentVolume", name), "spec": given},
        {**manifest("v1", "PersistentVolumeClaim", volume.name, namespace), "spec": taken},
    ]


def _where(volume: Volume, handle: str) -> dict[str, Any]:
    if volume.type == "lustre":
        # Source: Azure Lustre CSI driver, static provisioning.
        address = {"mgs-ip-address": volume.source.partition("@")[0]}
        return {
            "csi": {"driver": LUSTRE_DRIVER, "volumeHandle": handle, "volumeAttributes": address}
        }
    assert volume.type == "nfs", f"pods cannot mount a volume of type {volume.type}"
    # Kubernetes' own, for which nodes need no driver. Source: Azure documentation, NFS volumes on
    # AKS.
    server, _, export = volume.source.partition(":/")
    return {"nfs": {"server": server, "path": f"/{export}"}}
