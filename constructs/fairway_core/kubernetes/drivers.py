"""Drivers of nodes for GPUs, InfiniBand and Lustre, each installed by its maker's operator.

AKS' images have no InfiniBand driver, and its GPU driver excludes NVIDIA's operator, which loads
the module for GPUDirect RDMA. The settings, and an environment's default versions, are those that
Azure tests together: https://github.com/Azure/aks-rdma-infiniband (commit 700dabb).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_core.kubernetes import flux
from fairway_core.kubernetes.documents import Manifest, manifest, privileged_namespace
from fairway_core.kubernetes.pools import (
    LUSTRE_DRIVER,
    ON_SYSTEM,
    has_nvidia,
    offers_infiniband,
    tolerations,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fairway_core.environment.clusters.kubernetes.settings import Operators
    from fairway_core.target import Target

RDMA = "rdma/ib"
"""The resource of an entire InfiniBand adapter, which the policy below offers."""
_NVIDIA = "https://helm.ngc.nvidia.com/nvidia"
_GPU, _NETWORK = "gpu-operator", "network-operator"
_MELLANOX = "nvcr.io/nvidia/mellanox"
# Device ids of InfiniBand adapters: nodes have another one of that maker, for Ethernet.
_ADAPTERS = ["101c", "101e"]
_BLACKLIST = "/host/etc/modprobe.d/blacklist-ofed-modules.conf"
_PRESENT = "feature.node.kubernetes.io/pci-15b3.present"
_LUSTRE = "https://github.com/kubernetes-sigs/azurelustre-csi-driver"
# The driver's Deployment, which tolerates only taints of control planes.
_LUSTRE_CONTROLLER = "csi-azurelustre-controller"


def installation(
    targets: Sequence[Target], volume_types: Collection[str], versions: Operators
) -> list[Manifest]:
    """Returns manifests of the drivers that the targets' nodes and volumes need, if any."""
    fast = [each for each in targets if offers_infiniband(each)]
    nvidia = [each for each in targets if has_nvidia(each)]
    found: list[Manifest] = []
    if fast or nvidia:
        found.append(flux.chart_repository("nvidia", _NVIDIA))
    if fast:
        values = {
            "operator": {"tolerations": ON_SYSTEM},
            "nfd": {"enabled": True, "deployNodeFeatureRules": False},
            "node-feature-discovery": _discovery(targets),
        }
        # The chart's versions have no prefix `v`.
        exact = versions.network.removeprefix("v")
        release = flux.release(_NETWORK, "nvidia", exact, values, namespace=_NETWORK)
        found += [privileged_namespace(_NETWORK), release]
    if nvidia:
        found += [privileged_namespace(_GPU), _gpu_operator(versions, targets, rdma=bool(fast))]
    if "lustre" in volume_types:
        name = LUSTRE_DRIVER.partition(".")[0]
        found += flux.repository_files(
            name, _LUSTRE, versions.lustre, "deploy", ("example",), _LUSTRE_CONTROLLER
        )
    return found


def devices(targets: Sequence[Target], versions: Operators) -> list[Manifest]:
    """Returns the policy that offers InfiniBand adapters to pods; nothing if no target has them."""
    fast = [each for each in targets if offers_infiniband(each)]
    return [_node_feature_rule(), _nic_cluster_policy(fast, versions)] if fast else []


def _gpu_operator(versions: Operators, targets: Sequence[Target], *, rdma: bool) -> Manifest:
    off = {"enabled": False}
    values: dict[str, Any] = {
        "operator": {"tolerations": ON_SYSTEM},
        # One node feature discovery is enough, and the network operator installs it.
        "nfd": {"enabled": not rdma},
        # A new driver comes with a new node: an upgrade in place would end running jobs.
        "driver": {"rdma": {"enabled": rdma}, "upgradePolicy": {"autoUpgrade": False}},
        "daemonsets": {"tolerations": tolerations(targets)},
        "migManager": off,
        "vgpuDeviceManager": off,
        "vfioManager": off,
        "sandboxDevicePlugin": off,
    }
    if versions.gpu_driver:
        values["driver"]["version"] = versions.gpu_driver
    if not rdma:
        values["node-feature-discovery"] = _discovery(targets)
    after = (_NETWORK,) if rdma else ()
    exact = "v" + versions.gpu.removeprefix("v")
    return flux.release(_GPU, "nvidia", exact, values, namespace=_GPU, after=after)


def _discovery(targets: Sequence[Target]) -> dict[str, Any]:
    """Returns Helm values for node feature discovery: a program on each node, and two others."""
    beside = {"tolerations": ON_SYSTEM}
    return {"worker": {"tolerations": tolerations(targets)}, "master": beside, "gc": beside}


def _node_feature_rule() -> Manifest:
    device = {"op": "In", "value": _ADAPTERS}
    rule = {
        "name": "fairway-infiniband",
        "labels": {_PRESENT: "true"},
        "matchFeatures": [{"feature": "pci.device", "matchExpressions": {"device": device}}],
    }
    version, kind = "nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"
    return manifest(version, kind, "fairway-infiniband", spec={"rules": [rule]})


def _nic_cluster_policy(targets: Sequence[Target], versions: Operators) -> Manifest:
    """Returns the policy of the network operator, which accepts only one, with this name."""
    prefix, _, name = RDMA.partition("/")
    selectors = {"vendors": ["15b3"], "linkTypes": ["infiniband"], "isRdma": True}
    offered = {"resourcePrefix": prefix, "resourceName": name, "selectors": selectors}
    adapters = {"key": _PRESENT, "operator": "In", "values": ["true"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [adapters]}]}
    driver = {
        "repository": _MELLANOX,
        "image": "doca-driver",
        "version": versions.infiniband_driver,
        "forcePrecompiled": False,
        # Otherwise the node's own module may be loaded first.
        "env": [{"name": "OFED_BLACKLIST_MODULES_FILE", "value": _BLACKLIST}],
        "upgradePolicy": {"autoUpgrade": False},
        "startupProbe": {"initialDelaySeconds": 10, "periodSeconds": 20},
        "livenessProbe": {"initialDelaySeconds": 30, "periodSeconds": 30},
        "readinessProbe": {"initialDelaySeconds": 10, "periodSeconds": 30},
    }
    plugin = {
        "repository": _MELLANOX,
        "image": "sriov-network-device-plugin",
        "version": versions.device_plugin,
        "config": json.dumps({"resourceList": [offered]}, indent=2) + "\n",
    }
    spec = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
        "tolerations": tolerations(targets),
        "ofedDriver": driver,
        "sriovDevicePlugin": plugin,
    }
    version, kind = "mellanox.com/v1alpha1", "NicClusterPolicy"
    return manifest(version, kind, "nic-cluster-policy", spec=spec)
