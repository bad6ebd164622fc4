"""The stack `NAME-compute`: the clusters, and what the runner must know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Output
from fairway_constructs.cloud_init import ADMIN_USERNAME, shared_folder
from fairway_constructs.gpu_cluster import GpuCluster, sends_gpu_metrics
from fairway_core.catalog import vm_size
from fairway_core.target import NodeRange, SshAccess, StorageAccount, Target
from fairway_stacks.stack import EnvironmentStack

if TYPE_CHECKING:
    from fairway_constructs.network import Network
    from fairway_core.environment import Cluster, Environment
    from fairway_stacks.data import DataStack
    from fairway_stacks.stack import Project


class ComputeStack(EnvironmentStack):
    """One scale set a cluster, and the output `targets`: a list of Target records."""

    def __init__(
        self, project: Project, environment: Environment, network: Network, data: DataStack
    ) -> None:
        super().__init__(project, environment, "compute")
        self._environment = environment
        self._data = data
        self._identity_id = data.identity.id
        self._storage = StorageAccount(
            account_url=data.storage.account_url, containers=tuple(data.storage.containers)
        )
        targets = [
            self._cluster(name, cluster, network) for name, cluster in environment.clusters.items()
        ]
        sizes = [vm_size(cluster.size) for cluster in environment.clusters.values()]
        if data.monitoring is not None and any(sends_gpu_metrics(size) for size in sizes):
            from fairway_stacks.watching import alert_on_idle_gpus

            alert_on_idle_gpus(self, data.monitoring, place=self.place)
        Output(
            self,
            "targets",
            value=[target.record() for target in targets],
            description="What the runner knows of each cluster",
            static_id=True,
        )

    def _cluster(self, name: str, spec: Cluster, network: Network) -> Target:
        mounts = [self._data.filesystems[mount].mount for mount in spec.mounts]
        cluster = GpuCluster(
            self,
            name,
            place=self.place,
            size=vm_size(spec.size),
            nodes=spec.nodes,
            image=spec.chosen_image,
            subnet=network.subnets["compute"],
            identity_id=self._identity_id,
            ssh_keys=self._environment.access.ssh_keys or (),
            mounts=mounts,
            monitored=self._data.monitoring is not None,
        )
        if self._data.monitoring is not None:
            self._data.monitoring.watch(
                self, name, place=self.place, resource_id=cluster.scale_set.id
            )
        return Target(
            name=name,
            environment=self._environment.name,
            engine=spec.engine,
            vm_size=spec.size,
            nodes=NodeRange(min=spec.nodes, max=spec.nodes),
            mounts={mount.name: mount.path for mount in mounts},
            storage=self._storage,
            ssh=SshAccess(
                host=cluster.main_host,
                user=ADMIN_USERNAME,
                shared=shared_folder(mounts) or f"/home/{ADMIN_USERNAME}/fairway",
            ),
        )
