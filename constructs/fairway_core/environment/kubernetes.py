"""Clusters whose jobs run on Azure Kubernetes Service: its node pools, and the service itself."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from fairway_core.catalog import kubernetes_ends, limit, vm_size
from fairway_core.documents import Check, FieldError, Model, matching, require, rule
from fairway_core.environment.addresses import require_no_overlap
from fairway_core.environment.cluster import HasNodes, HasSystemDisk
from fairway_core.environment.network import require_free
from fairway_core.environment.node_rules import check_local_disk, check_scale_set
from fairway_core.environment.schedule import Day, Time
from fairway_core.environment.values import (
    FOREIGN_SPOT,
    Range,
    SizeText,
    SpotPrice,
    Zone,
    most_nodes_path,
    offered_size,
    require_mounts,
    x64,
)
from fairway_core.fields import Span
from fairway_core.light_fields import Amount, ExactImage, Image
from fairway_core.resource_ids import ObjectId, PlacementGroupId
from fairway_core.target import HEAD_IMAGE, POOL_TAINT, SYSTEM_TAINT, NodeRange

# The pool for the pods of AKS and Fairway themselves.
SYSTEM_POOL = "system"
# The pool that has them while the provider makes the first one anew.
SYSTEM_POOL_MEANWHILE = f"{SYSTEM_POOL}tmp"
# The last part of the name of the resource group in which AKS creates the machines of all pools.
NODES_GROUP = "kubernetes-nodes"
# The storage container of the manifests that Flux applies: longer than the name of any other
# container can be.
CONFIGURATION = "cluster-configuration"
_SYSTEM_SIZE = "Standard_D4s_v6"
# Pods per node: the maximum that Kubernetes recommends, and within the node's addresses.
MAX_PODS = 110
# The operating system of every node: NVIDIA's operators support only one per cluster, and `Ubuntu`
# depends on the version of Kubernetes. Source: Azure documentation, AKS: NVIDIA GPU operator.
OS_SKU = "Ubuntu2404"
# By how many percent AKS may raise the number of system nodes while it replaces them. Other pools
# are replaced in place, and those of Spot nodes without further ones.
SYSTEM_SURGE = 10
# The disk of a system node, for container images and logs.
SYSTEM_GIB = 128
# The name of a Linux pool. Source: Azure documentation, AKS: limitations of node pools.
_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_VERSION = re.compile(r"1\.([0-9]{2})")
_DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_LABEL_KEY = re.compile(
    rf"((?=[^/]{{1,253}}/){_DOMAIN}(\.{_DOMAIN})*/)?"
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>NoSchedule|NoExecute)")
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
# Labels and taints that AKS or Fairway set themselves.
_TAKEN = ("kubernetes.azure.com/", "kubernetes.io/", "k8s.io/", "fairway.dev/")
_TAKEN_KEYS = ("agentpool", "accelerator", SYSTEM_TAINT)
# Namespaces of Flux, of Kueue, of the operators and of AKS's add-ons.
_INSTALLED = frozenset(
    {
        *("fairway-flux", "flux-system", "kueue-system", "gpu-operator", "network-operator"),
        *("fairway-health", "fairway-nodes"),
        *("aks-command", "aks-istio-system", "app-routing-system", "gatekeeper-system"),
        *("azure-arc", "dapr-system"),
    }
)
# Ranges of the section, and whose they are.
RANGES = {"pod_range": "the pods'", "service_range": "the services'"}
OTHER_RANGE = "set `{}:` to a private range that nothing in the network uses"


def _minor(text: str) -> None:
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
_SERVICES = require(
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


def _namespace(text: str) -> None:
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


def require_pool_name(name: str) -> None:
    is_taken = name in (SYSTEM_POOL, SYSTEM_POOL_MEANWHILE)
    if is_taken or not _POOL_NAME.fullmatch(name):
        raise FieldError(
            f"`{name}` cannot be the name of a node pool",
            "1 to 12 lower-case letters and digits, first a letter"
            + (f"; `{name}` belongs to AKS" if is_taken else ""),
        )


PoolName = Annotated[str, Check(require_pool_name)]


def _labels(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        _require_free(key, (key,))
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            prefix = "; before the `/` a domain such as example.com" if "/" in key else ""
            raise FieldError(
                f"`{key}: {value}` is not a label of Kubernetes",
                f"letters, digits, dots, hyphens and underscores, 63 at most{prefix}",
                (key,),
            )


def _taint(text: str) -> None:
    found = _TAINT.fullmatch(text)
    value = found["value"] or "" if found else ""
    if not found or not _LABEL_KEY.fullmatch(found["key"]) or not _LABEL_VALUE.fullmatch(value):
        raise FieldError(
            f"`{text}` is not a taint", "write key=value:NoSchedule or key=value:NoExecute"
        )
    _require_free(found["key"], ())


def _different(taints: tuple[str, ...]) -> None:
    seen = set()
    for index, text in enumerate(taints):
        found = _TAINT.fullmatch(text)
        assert found is not None, "each is a taint"
        if found.group("key", "effect") in seen:
            raise FieldError(
                f"`{text}` has key and effect of another taint", "keep one of the two", (index,)
            )
        seen.add(found.group("key", "effect"))


def _require_free(key: str, path: tuple[str, ...]) -> None:
    domain = key.partition("/")[0] + "/" if "/" in key else ""
    for taken in _TAKEN:
        if domain == taken or domain.endswith(f".{taken}") or key in _TAKEN_KEYS:
            raise FieldError(
                f"`{key}` is set by Azure or by Fairway", "choose another, for example `team`", path
            )


def _quota(quota: dict[str, str]) -> None:
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


_WHOLE_MINUTES = require(
    lambda seconds: seconds >= 60 and not seconds % 60,
    "pods take minutes to start",
    "for example `wait_for_pods: 15m`",
)


class SpotPool(Model, defer_build=True):
    """Maximum price of Spot nodes; `spot: true` allows up to the on-demand price.

    Azure takes such nodes away at any time. The pool then asks for new ones.
    """

    max_price: SpotPrice
    """Maximum price per node and hour, in US dollars; by default the on-demand price. Azure fixes
    it when it makes the pool."""


class NodePool(HasSystemDisk, Model, defer_build=True):
    """The nodes of a pool of Azure Kubernetes Service (AKS), all of one size."""

    FOREIGN = FOREIGN_SPOT
    takes_logins: ClassVar = False

    size: SizeText
    """The VM size of every node; `fairway sizes` lists them. Describe a size that it does not list
    by one that it does: `{name: Standard_HB200rs_v9, like: Standard_HB176rs_v4, vcpus: 200}`.
    """
    nodes: Annotated[int, Field(ge=1)] | NodeRange
    """The number of nodes, or `{min, max}` between which AKS scales the pool."""
    spot: bool | SpotPool = False
    """Use Spot nodes: cheaper, but Azure may take them away at any time."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=1)] | None = None
    """The availability zones of the nodes; without it the environment's. Several are for sizes
    without InfiniBand, which does not leave a zone."""
    os_disk: Literal["local", "managed"] | None = None
    """Placement of the system disk; by default `local`, which is fast, if it has room."""
    # Images for training have tens of GiB each.
    os_disk_gib: int = Field(default=256, ge=64, le=2048)
    """Size of the system disk in GiB, which also holds container images."""
    infiniband: bool | None = None
    """Give jobs the InfiniBand adapters of a node; by default `true` if at least one node always
    stays. It is not verified that AKS starts a node for them from `min: 0`: set `true` to try."""
    labels: Annotated[dict[str, str], Check(_labels)] = Field(default_factory=dict)
    """Further labels of every node."""
    taints: Annotated[tuple[Annotated[str, Check(_taint)], ...], Check(_different)] = ()
    """Taints of every node, as `key=value:NoSchedule`; pods of jobs tolerate them."""
    proximity_placement_group: PlacementGroupId | None = None
    """The id of an existing proximity placement group for the nodes."""

    @field_validator("size")
    @classmethod
    def _can_be_had(cls, name: str) -> str:
        gpu = offered_size(name).gpu
        if gpu is not None and gpu.vendor != "nvidia":
            raise FieldError(
                f"nothing installs the drivers of {name} in the cluster: its GPUs are from AMD",
                "use a size with NVIDIA GPUs, or another engine",
            )
        return name

    @rule
    def _a_pool_holds_them(self) -> None:
        most, rdma = self.node_range.max, vm_size(self.size).rdma
        check_scale_set(most, most_nodes_path(self.nodes), infiniband=rdma)

    @rule
    def _zones_and_infiniband_fit_the_size(self) -> None:
        rdma = vm_size(self.size).rdma
        if (rdma or self.proximity_placement_group) and len(self.zones or ()) > 1:
            what = f"the InfiniBand of {self.size}" if rdma else "a proximity placement group"
            raise FieldError(f"{what} does not cross zones", "name one zone", ("zones",))
        if self.infiniband and not rdma:
            raise FieldError(f"{self.size} has no InfiniBand", "leave it out", ("infiniband",))
        if len(set(self.zones or ())) < len(self.zones or ()):
            raise FieldError("a zone is named twice", "name it once", ("zones",))

    @rule
    def _the_local_disk_has_room(self) -> None:
        if self.os_disk == "local":
            check_local_disk(self.size, self.os_disk_gib, ", or a smaller `os_disk_gib:`")

    @property
    def nodes_of_a_job(self) -> int:
        """The maximum number of nodes of a job: 1 without InfiniBand, as small jobs share nodes."""
        return self.node_range.max if vm_size(self.size).rdma else 1

    @property
    def os_gib(self) -> int:
        """The size of the system disk in GiB."""
        return self.os_disk_gib

    @property
    def tainted_keys(self) -> tuple[str, ...]:
        """The keys of the taints that a job's pod must tolerate, besides those of Spot."""
        return (POOL_TAINT, *(each.partition(":")[0].partition("=")[0] for each in self.taints))

    @property
    def offers_infiniband(self) -> bool:
        """True if jobs get the InfiniBand adapters."""
        if not vm_size(self.size).rdma:
            return False
        return self.node_range.min > 0 if self.infiniband is None else self.infiniband

    def node_zones(self, zone: int | None) -> list[str] | None:
        """Returns the zones of the nodes, or None without any; `zone` is the environment's."""
        if self.zones is not None:
            return [str(each) for each in sorted(self.zones)]
        return None if zone is None else [str(zone)]


class KubernetesNodes(NodePool, defer_build=True):
    """A node pool of Azure Kubernetes Service (AKS), with nodes of one size.

    `nodes` is a number, or `{min, max}` between which AKS starts nodes for waiting pods and deletes
    idle ones. The cluster's name has at most 12 lower-case letters and digits.
    """

    machines: ClassVar = ("node pool", "")
    manager: ClassVar = ("belongs to", "kubernetes")
    acts_as: ClassVar = ("pods of jobs act as", "nodes")

    engine: Literal["kubernetes"]
    """`kubernetes`: jobs are pods, which Kueue queues."""
    job_image: Annotated[Image, Field(min_length=1)]
    """The container image for jobs that name none; docs/kubernetes.md says what it needs."""
    mounts: tuple[str, ...] = ()
    """Names of file systems that every pod of a job has as volumes; runs are kept on the first."""

    @rule
    def _pods_share_a_folder(self) -> None:
        require_mounts(
            self.mounts, "pods need a folder that all of them see, in which runs are kept"
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


class Kubernetes(Model, defer_build=True):
    """The cluster of Azure Kubernetes Service, in which each cluster with `engine: kubernetes` is a
    node pool.

    People sign in with Entra ID, and there are no local accounts. What runs in the cluster is
    described by manifests in a container of the storage account, which Flux applies.
    """

    version: Annotated[str, Check(_minor)] | None = None
    """The minor version of Kubernetes, for example "1.36"; by default Azure's choice when it
    creates the cluster."""
    tier: Literal["Free", "Standard"] = "Standard"
    """The tier of the API server: `Standard` has a guaranteed availability, `Free` is for trials
    with a few nodes."""
    api_server: Literal["private", "allowed"] = "private"
    """The API server's address for kubectl: inside the network (`private`), or a public one for the
    public ranges of `access.allowed`."""
    admins: tuple[ObjectId, ...] = ()
    """Object ids of Entra groups with full rights in the cluster."""
    namespace: Annotated[str, Check(_namespace)] = "fairway"
    """The namespace of jobs."""
    quota: Annotated[dict[str, Amount], Check(_quota)] = Field(default_factory=dict)
    """Limits of this namespace, written as in a ResourceQuota, for example
    `requests.nvidia.com/gpu: "64"`."""
    wait_for_pods: Annotated[Span, _WHOLE_MINUTES] | None = None
    """The time that an admitted job may wait for all of its pods before Kueue puts it back into the
    queue; by default it waits on. Nodes that are started have to be there by then, with their
    drivers. Leave it out where sweeps run: a task that fails at once counts as a pod that never
    started."""
    atomic_scale_up: bool = True
    """In pools that scale, ask the autoscaler for the nodes of all of a job's pods at once, before
    one of them starts (ProvisioningRequest). `false` is for a region where AKS does not know that
    yet: there such a pool's queue admits nothing, as `fairway doctor` says."""
    operators: Operators = Field(default_factory=Operators)
    """Versions of what is installed in the cluster."""
    head_image: ExactImage = HEAD_IMAGE
    """The image of Fairway's own pods: the one through which jobs are submitted, and those that set
    up nodes and check them, which are privileged. It has Python 3.10 or newer, bash, tar, and
    util-linux. A tag other than `latest`, or a digest; for example a copy in your own registry."""
    system: SystemPool = Field(default_factory=SystemPool)
    """The nodes for what AKS and Fairway run themselves."""
    upgrades: UpgradeWindow | None = None
    """When Azure may update the cluster by itself: nodes, and without Spot pools also patches of
    Kubernetes. Without this section it does not: you update the cluster when no job runs."""
    pod_range: Range = IPv4Network("10.244.0.0/16")
    """The address range of pods, 256 addresses per node; not visible outside the cluster."""
    service_range: Annotated[Range, _SERVICES] = IPv4Network("10.245.0.0/16")
    """The address range of services inside the cluster."""

    @rule
    def _ranges_are_free(self) -> None:
        for field in RANGES:
            own: IPv4Network = getattr(self, field)
            path, hint = (field,), OTHER_RANGE.format(field)
            require_free(own, "infiniband", "kubernetes", "virtual_network", path=path, hint=hint)
        require_no_overlap(
            self.service_range,
            self.pod_range,
            "the pods'",
            path=("service_range",),
            hint=OTHER_RANGE.format("service_range"),
        )
