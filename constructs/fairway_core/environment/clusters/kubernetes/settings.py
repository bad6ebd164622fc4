"""Settings of a Kubernetes cluster: its system nodes, operators and updates."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from fairway_core.catalog import kubernetes_ends, limit
from fairway_core.documents import FieldError, Model, matching, require, rule
from fairway_core.environment.clusters.base import HasNodes
from fairway_core.environment.schedule import Day, Time
from fairway_core.environment.values import (
    most_nodes_path,
    x64,
)
from fairway_core.target import NodeRange

_SYSTEM_SIZE = "Standard_D4s_v6"
_VERSION = re.compile(r"1\.([0-9]{2})")
# Resources that a ResourceQuota may limit. Source: Kubernetes documentation: "for extended
# resources, only quota items with prefix requests. are allowed".
_QUOTA = re.compile(
    r"((requests|limits)\.)?(cpu|memory|ephemeral-storage|hugepages-[0-9A-Za-z]+)"
    r"|requests\.(storage|[a-z0-9.-]+/[A-Za-z0-9._-]+)"
    r"|[a-z0-9.-]+\.storageclass\.storage\.k8s\.io/[a-z.]+|count/[a-z0-9.-]+"
    r"|[a-z0-9.-]+\.deviceclass\.resource\.k8s\.io/devices"
    r"|pods|services(\.(loadbalancers|nodeports))?|secrets|configmaps|persistentvolumeclaims"
    r"|replicationcontrollers|resourcequotas"
)
# Namespaces of Flux, of Kueue, of the operators and of AKS's add-ons.
_INSTALLED = frozenset(
    {
        *("fairway-flux", "flux-system", "kueue-system", "gpu-operator", "network-operator"),
        *("fairway-health", "fairway-nodes"),
        *("aks-command", "aks-istio-system", "app-routing-system", "gatekeeper-system"),
        *("azure-arc", "dapr-system"),
    }
)


def check_minor(text: str) -> None:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise FieldError(
            f"`{text}` is not a minor version of Kubernetes",
            'for example version: "1.36", with quotes: Azure adds the patch',
        )
    oldest = next(iter(kubernetes_ends()))
    if int(found[1]) < int(oldest.removeprefix("1.")):
        raise FieldError(
            f"Kubernetes {text} is too old: jobs need {oldest} or later",
            "choose one that your region has: az aks get-versions --location REGION",
            id="retired",
        )


# Kubernetes accepts no wider range of services, and its DNS has the tenth address of it.
SERVICES = require(
    lambda network: 12 <= network.prefixlen <= 28,
    "`{}` cannot be the range of services",
    "use a length of /12 to /28, for example /16",
)
_RELEASE = matching(
    r"v?[0-9]+\.[0-9]+\.[0-9]+", "`{}` is not an exact version", "for example v26.3.3"
)
_TAG = matching(
    r"(?!latest$)[A-Za-z0-9_][A-Za-z0-9._-]{0,127}",
    "`{}` is not the tag of an exact version",
    "its maker's release notes have it, for example doca3.2.0-25.10-1.2.8.0-2",
)


def check_namespace(text: str) -> None:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise FieldError(
            f"`{text}` cannot be a namespace",
            "up to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends",
        )
    if text == "default" or text.startswith("kube-"):
        raise FieldError(
            f"`{text}` belongs to Kubernetes itself", "choose another, for example `training`"
        )
    # Who may submit jobs may act as any account of the namespace, and Flux's has all rights.
    if text in _INSTALLED:
        raise FieldError(
            f"`{text}` is reserved for what Azure or Fairway installs",
            "choose another, for example `training`",
        )


def check_quota(quota: dict[str, str]) -> None:
    for key, value in quota.items():
        if not _QUOTA.fullmatch(key):
            extended = re.fullmatch(r"[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9._-]+", key)
            raise FieldError(
                f"`{key}: {value}` is not a quota of Kubernetes",
                f'for example requests.{key if extended else "nvidia.com/gpu"}: "{value}"',
                (key,),
            )
        if key in ("services.loadbalancers", "services.nodeports") and value != "0":
            message = "nothing may open ports outside the cluster"
            raise FieldError(message, "leave it out: it is 0", (key,))
        if key == "limits.cpu":
            raise FieldError(
                "pods that set no CPU limit could not start then, and the pod through "
                "which jobs are submitted is one",
                f'limit requests instead: requests.cpu: "{value}"',
                (key,),
            )


WHOLE_MINUTES = require(
    lambda seconds: seconds >= 60 and not seconds % 60,
    "pods take minutes to start",
    "for example `wait_for_pods: 15m`",
)


_NEVER_EMPTY = "the cluster's own pods need a node at all times"


def _not_none(nodes: object) -> object:
    if type(nodes) is int and nodes < 1:
        raise FieldError(_NEVER_EMPTY, "write 1, or more")
    return nodes


class SystemPool(HasNodes, Model, defer_build=True):
    """The nodes of what AKS and Fairway run in the cluster: DNS, Flux, Kueue, operators, the pod
    through which jobs are submitted. No job runs there.
    """

    size: Annotated[str, x64(_SYSTEM_SIZE)] = _SYSTEM_SIZE
    """The VM size of each."""
    nodes: Annotated[Annotated[int, Field(ge=1)] | NodeRange, BeforeValidator(_not_none)] = 2
    """The number of nodes, or `{min, max}` between which AKS scales them."""

    @rule
    def _is_never_empty(self) -> None:
        if self.node_range.min < 1:
            raise FieldError(_NEVER_EMPTY, "write `min: 1`, or more", ("nodes", "min"))

    @rule
    def _one_pool_holds_them(self) -> None:
        nodes, most = self.node_range.max, limit("kubernetes_pool_nodes")
        if nodes > most:
            message = f"a node pool has {most} nodes at most, not {nodes}"
            raise FieldError(message, f"write {most}, or less", most_nodes_path(self.nodes))


class Operators(Model, defer_build=True):
    """Versions of what Flux installs in the cluster, from the charts and images of their makers.

    Drivers are compiled on each node, for its kernel; a new version comes only with a new node.
    """

    gpu: Annotated[str, _RELEASE] = "v26.3.3"
    """NVIDIA's GPU operator, which installs drivers if a pool has GPUs."""
    gpu_driver: Annotated[str, _TAG] | None = None
    """The GPU driver, for example "580.105.08"; by default the one of the operator's release, whose
    notes say which drivers it takes."""
    network: Annotated[str, _RELEASE] = "v26.4.0"
    """NVIDIA's network operator, which offers InfiniBand to pods if a pool has it."""
    infiniband_driver: Annotated[str, _TAG] = "doca3.2.0-25.10-1.2.8.0-2"
    """NVIDIA's DOCA driver, which the network operator installs: a tag of its image
    `nvcr.io/nvidia/mellanox/doca-driver`."""
    device_plugin: Annotated[str, _TAG] = "network-operator-v25.10.0"
    """The plugin that offers InfiniBand adapters to pods: a tag of its image
    `nvcr.io/nvidia/mellanox/sriov-network-device-plugin`."""
    lustre: Annotated[str, _TAG] = "v0.4.0"
    """The CSI driver of Managed Lustre, if a pool mounts one: a tag of its repository on GitHub."""
    kueue: Annotated[str, _RELEASE] = "0.19.2"
    """Kueue, which queues jobs and admits one when there is quota for all of its pods."""


class UpgradeWindow(Model, defer_build=True):
    """When Azure updates Kubernetes and the nodes' operating system, one node after another.

    Jobs on a node end when it gets another image, and start again from their checkpoints. AKS goes
    on without a look at GPUs and InfiniBand; docs/kubernetes.md says how to stop it.

    >>> window = UpgradeWindow(day="Sunday", start="01:00", hours=4)
    """

    day: Day = "Sunday"
    """The day of the week."""
    start: Time = "01:00"
    """When updates may begin, in UTC."""
    # Source: Azure documentation, AKS planned maintenance.
    hours: int = Field(default=4, ge=4, le=24)
    """For how many hours updates may begin. A pool whose update has begun is finished later."""
    nodes: Literal["SecurityPatch", "NodeImage"] = "SecurityPatch"
    """Updates of nodes: security patches, for which AKS replaces a node's image only when it must
    (`SecurityPatch`), or a new image with all fixes every week (`NodeImage`). With an Azure Policy
    that denies disks without a customer-managed key only `NodeImage` works."""
    # Source: Azure documentation, AKS rolling upgrades: customize node soak time.
    soak: int = Field(default=0, ge=0, le=30)
    """Minutes that AKS waits after it has drained a node, before that node gets its new image: time
    to see whether the one before has its devices."""
