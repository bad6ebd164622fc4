"""A pool of nodes of one size in an AKS cluster, on which only jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fairway_agent.kubernetes.settings import patience
from fairway_constructs.azurerm import kubernetes_cluster_node_pool as aks_pool
from fairway_constructs.cdk import Lifecycle
from fairway_constructs.cloud_init import shared_folder
from fairway_constructs.cloud_init.mounts import mounts_of
from fairway_constructs.clusters.kubernetes.cluster import DRAIN_MINUTES, LONG
from fairway_constructs.targets import TakesJobs, job_facts
from fairway_constructs.terraform_data import TerraformData
from fairway_core.catalog import vm_size
from fairway_core.environment.clusters.kubernetes.node_pool import (
    MAX_PODS,
    OS_SKU,
    NodePool,
    SpotPool,
)
from fairway_core.findings import UserError
from fairway_core.kubernetes.drivers import RDMA
from fairway_core.kubernetes.node_setup import SCRATCH
from fairway_core.kubernetes.queues import PRIORITIES
from fairway_core.target import HEAD_IMAGE, POOL_TAINT, SYSTEM_TAINT, KubernetesAccess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mounts
    from fairway_constructs.clusters.kubernetes.cluster import KubernetesCluster
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.environment.clusters.kubernetes.node_pool import PoolName
    from fairway_core.environment.clusters.kubernetes.settings import UpgradeWindow
    from fairway_core.environment.values import Zone
    from fairway_core.fields import Count, Number
    from fairway_core.resource_ids import PlacementGroupId
    from fairway_core.target import NodeRange

# AKS puts this label and taint on Spot nodes; the provider requires both.
_SPOT = "kubernetes.azure.com/scalesetpriority"
_ANY_PRICE = -1
# The tag from which the autoscaler of an empty pool knows a node's resources. Source: Kubernetes
# autoscaler, cloudprovider/azure. It is unverified that AKS passes a pool's tags on to it.
_TEMPLATE = "k8s.io_cluster-autoscaler_node-template_resources_rdma_ib"


class KubernetesNodePool(TakesJobs):
    """A node pool, all dedicated or all Spot, tainted so that only jobs for it run there.

    Drivers of GPUs and InfiniBand are installed by operators in the cluster, not by AKS: its own
    cannot be combined with theirs. With a range of `nodes` AKS starts and deletes them. A change of
    the size, the zones, the subnet or the system disk replaces the pool, and ends its jobs.

    `zones` are by default the stack's. The system disk, of `os_disk_gib`, is on the node itself if
    it has room, unless `os_disk` says otherwise. `infiniband` says whether pods get the adapters:
    by default if at least one node always stays. `taints` are written as `key=value:NoSchedule`.

    Jobs run in `namespace`, in `job_image` unless they name another, and see `mounts` as the claims
    of these names, which a `KubernetesConfiguration` creates. Without an image and a file system
    the pool has no target.

    Raises UserError for settings that such a pool does not support.

    >>> KubernetesNodePool(stack, "nd", cluster=cluster, subnet=network.subnet("kubernetes"),
    ...                    size="Standard_ND96isr_H100_v5", nodes=2)
    """

    def __init__(
        self,
        scope: Construct,
        name: PoolName,
        *,
        cluster: KubernetesCluster,
        subnet: SubnetRef,
        size: str,
        nodes: Number | NodeRange,
        spot: bool | SpotPool = False,
        zones: Sequence[Zone] | None = None,
        os_disk: Literal["local", "managed"] | None = None,
        os_disk_gib: Count | None = None,
        infiniband: bool | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[str] = (),
        proximity_placement_group_id: PlacementGroupId | None = None,
        job_image: str = "",
        mounts: Mounts = (),
        namespace: str = "fairway",
        head_image: str | None = None,
    ) -> None:
        spec = NodePool.with_defaults(
            size=size,
            nodes=nodes,
            spot=spot,
            zones=zones,
            os_disk=os_disk,
            os_disk_gib=os_disk_gib,
            infiniband=infiniband,
            labels=labels,
            taints=taints,
            proximity_placement_group=proximity_placement_group_id,
        )
        super().__init__(scope, f"cluster-{name}")
        self._joins(vm_size(size), spec.nodes_of_a_job)
        fixed = _fixed(spec, self.azure.zone, subnet)
        # The provider would temporarily create a second pool of that size, for which no quota has
        # room.
        marker = TerraformData(self, f"fixed-{name}", input=fixed)
        nodes = spec.node_range
        counts: dict[str, Any] = {"node_count": nodes.min}
        if nodes.scales:
            counts = {"auto_scaling_enabled": True, "min_count": nodes.min, "max_count": nodes.max}
        tags, adapters = self.azure.labelled("cluster", name), vm_size(spec.size).infiniband
        if spec.offers_infiniband and adapters and nodes.min == 0:
            tags[_TEMPLATE] = str(adapters.adapters)
        self.pool = aks_pool.KubernetesClusterNodePool(
            self,
            f"cluster-{name}",
            name=name,
            kubernetes_cluster_id=cluster.id,
            # Otherwise nodes keep the version of their creation.
            orchestrator_version=cluster.version,
            proximity_placement_group_id=spec.proximity_placement_group,
            **fixed,
            **_nodes(name, spec),
            **counts,
            **_priority(spec, cluster.upgrades),
            tags=tags,
            timeouts=LONG,
            lifecycle=Lifecycle(
                replace_triggered_by=[marker],
                ignore_changes=["node_count"] if nodes.scales else (),
            ),
        )
        self.id = self.pool.id
        self._name, self._pool, self._cluster, self._mounts = name, spec, cluster, mounts_of(mounts)
        images = {"image": job_image, "head_image": head_image or HEAD_IMAGE}
        self._jobs: dict[str, Any] = {"namespace": namespace, **images}

    def _facts(self) -> dict[str, Any]:
        spec, mounts, range_ = self._pool, self._mounts, self._pool.node_range
        if not self._jobs["image"] or not shared_folder(mounts):
            raise UserError.of(
                "no-target",
                f"no job can run on `{self._name}`: it has no image, or no folder for runs",
                "pass `job_image=` and `mounts=` to the node pool",
            )
        access = KubernetesAccess(
            context=self._cluster.name,
            shared=shared_folder(mounts),
            volumes={mount.name: mount.name for mount in mounts},
            # The label that AKS gives the nodes of a pool.
            selector={"agentpool": self._name},
            tolerations=spec.tainted_keys,
            rdma=RDMA if spec.offers_infiniband else "",
            # On the local disks that `node_setup` mounts, else at most half of the system disk,
            # which has images too: when it is nearly full, Kubernetes evicts other pods.
            scratch=SCRATCH if vm_size(spec.size).nvme_disks else f"{spec.os_gib // 2}Gi",
            queue=self._name,
            cluster=self._cluster.id,
            priorities=dict(PRIORITIES),
            patience=patience(range_.min, range_.max),
            head_tolerations=(SYSTEM_TAINT,),
            **self._jobs,
        )
        return job_facts(
            self._name,
            "kubernetes",
            access,
            size=spec.size,
            nodes=range_,
            spot=bool(spec.spot),
            mounts=mounts,
        )


def _fixed(spec: NodePool, zone: Zone | None, subnet: SubnetRef) -> dict[str, Any]:
    """Returns the arguments whose change replaces the pool."""
    return {
        "vm_size": vm_size(spec.size).name,
        "zones": spec.node_zones(zone),
        "vnet_subnet_id": subnet.id,
        # It has the images too. They could be on the temporary disk beside a managed one
        # (`kubelet_disk_type`), but only for subscriptions with the preview feature
        # Microsoft.ContainerService/KubeletDisk. Source: Cluster API Provider Azure, API
        # reference, KubeletDiskType; no guide or release note of AKS lists it as available.
        "os_disk_type": "Ephemeral" if spec.has_local_disk else "Managed",
        "os_disk_size_gb": spec.os_gib,
    }


def _nodes(name: str, spec: NodePool) -> dict[str, Any]:
    spot = {_SPOT: "spot"} if spec.spot else {}
    return {
        "mode": "User",
        "os_type": "Linux",
        "os_sku": OS_SKU,
        "max_pods": MAX_PODS,
        "gpu_driver": "None" if vm_size(spec.size).gpu else None,
        # Without this argument the nodes of a pool would keep the labels that they have.
        "node_labels": {**spot, **spec.labels},
        "node_taints": [
            f"{POOL_TAINT}={name}:NoSchedule",
            *(f"{key}={value}:NoSchedule" for key, value in spot.items()),
            *spec.taints,
        ],
    }


def _priority(spec: NodePool, window: UpgradeWindow | None) -> dict[str, Any]:
    if not spec.spot:
        settings = aks_pool.UpgradeSettings(
            # One node after another: no quota has room for extra nodes. The provider sends
            # `maxSurge: 0` with it, and accepts only one of the two.
            max_unavailable="1",
            drain_timeout_in_minutes=DRAIN_MINUTES,
            # A node that is not drained in time ends the update: without extra nodes there is none
            # to replace it, as `Cordon` would.
            undrainable_node_behavior="Schedule",
            node_soak_duration_in_minutes=(window.soak if window else 0) or None,
        )
        return {"upgrade_settings": settings}
    price = spec.spot.max_price if isinstance(spec.spot, SpotPool) else _ANY_PRICE
    return {"priority": "Spot", "eviction_policy": "Delete", "spot_max_price": price}
