"""Node pools of Azure Kubernetes Service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from fairway_core.catalog import vm_size
from fairway_core.documents import Check, FieldError, Model, rule
from fairway_core.environment.clusters.base import HasSystemDisk
from fairway_core.environment.clusters.node_rules import check_local_disk, check_scale_set
from fairway_core.environment.values import (
    FOREIGN_SPOT,
    SizeText,
    SpotPrice,
    Zone,
    below_path,
    most_nodes_path,
    offered_size,
    require_mounts,
)
from fairway_core.light_fields import Image
from fairway_core.resource_ids import PlacementGroupId
from fairway_core.target import POOL_TAINT, SYSTEM_TAINT, NodeRange

if TYPE_CHECKING:
    from fairway_core.environment.clusters.base import Surroundings
    from fairway_core.environment.network import Network

# The pool for the pods of AKS and Fairway themselves.
SYSTEM_POOL = "system"
# The pool that has them while the provider makes the first one anew.
SYSTEM_POOL_MEANWHILE = f"{SYSTEM_POOL}tmp"
# Pods per node: the maximum that Kubernetes recommends, and within the node's addresses.
MAX_PODS = 110
# The operating system of every node: NVIDIA's operators support only one per cluster, and `Ubuntu`
# depends on the version of Kubernetes. Source: Azure documentation, AKS: NVIDIA GPU operator.
OS_SKU = "Ubuntu2404"
# The name of a Linux pool. Source: Azure documentation, AKS: limitations of node pools.
_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_LABEL_KEY = re.compile(
    rf"((?=[^/]{{1,253}}/){_DOMAIN}(\.{_DOMAIN})*/)?"
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>NoSchedule|NoExecute)")
# Labels and taints that AKS or Fairway set themselves.
_TAKEN = ("kubernetes.azure.com/", "kubernetes.io/", "k8s.io/", "fairway.dev/")
_TAKEN_KEYS = ("agentpool", "accelerator", SYSTEM_TAINT)


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


class SpotPool(Model, defer_build=True):
    """Maximum price of Spot nodes; `spot: true` allows up to the on-demand price.

    Azure takes such nodes away at any time. The pool then asks for new ones.

    >>> spot = SpotPool(max_price=12.5)
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

    def check(self, name: str, around: Surroundings) -> None:
        """Raises FieldError for a name that AKS does not allow."""
        with below_path("clusters", name):
            require_pool_name(name)

    def subnet_role(self, network: Network) -> str:
        """Returns the role of the subnet for node pools."""
        return network.kubernetes_role
