"""The stack `NAME-compute`: the clusters, and the facts that the runner needs about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_constructs.bastion import grant_connections
from fairway_constructs.cloud_init import ADMIN_USERNAME
from fairway_constructs.network_access import public_ranges
from fairway_constructs.nodes import sends_gpu_metrics
from fairway_constructs.targets import storage_of
from fairway_core.catalog import vm_size
from fairway_core.environment import BatchCluster, KubernetesNodes
from fairway_core.target import Gateway, Reach, Target
from fairway_stacks.boot_data import folders_of, node_spec
from fairway_stacks.stack import RoleStack

if TYPE_CHECKING:
    from fairway_constructs.network import INetwork
    from fairway_core.environment import Cluster, Environment, Schedule, SlurmNodes
    from fairway_stacks.data import DataStack
    from fairway_stacks.slurm import SlurmResources
    from fairway_stacks.stack import Project


class ComputeStack(RoleStack):
    """A scale set, VM or pool for each cluster, and the output `targets`: Target records."""

    def __init__(
        self,
        project: Project,
        environment: Environment,
        network: INetwork,
        data: DataStack,
        *,
        gateway: str = "",
    ) -> None:
        super().__init__(project, environment, "compute")
        self._environment = environment
        self._data = data
        if self.place.proxy:
            self.place = replace(self.place, proxy=self.place.proxy.past(data.direct_hosts))
        self._storage = storage_of(data.storage)
        self._reach = _reach(environment, network)
        self._slurm = self._scheduler(network) if environment.scheduler else None
        self._scheduled: dict[str, tuple[Schedule, str]] = {}
        self._stops_itself: dict[str, str] = {}
        self._gateway_host = gateway or (self._slurm.hosts[0] if self._slurm else "")
        targets = self._targets(network)
        if self._slurm:
            self._slurm.let_scheduler_scale()
        if self._slurm and data.page:
            self._slurm.serve_page(data.page, list(targets.values()))
        if self._scheduled:
            alerts = None
            if data.monitoring is not None:
                alerts = az.Alerts(self, "alerts-of-schedules", monitoring=data.monitoring)
            az.WorkingHours(self, clusters=self._scheduled, alerts=alerts)
        if self._stops_itself:
            az.IdleStop(self, identity=self._identity, clusters=self._stops_itself)
        # The machines of Batch and AKS belong to Azure: Fairway sends no metrics from them.
        sizes = [vm_size(cluster.size) for cluster in self._own.values()]
        if data.monitoring is not None and any(sends_gpu_metrics(size) for size in sizes):
            az.Alerts(self, monitoring=data.monitoring).gpus_idle()
        # Lets admins see the nodes in Azure; the bastion itself is in the network stack.
        for admin in environment.access.admins:
            assert self.place.group_id is not None
            grant_connections(
                self, "nodes", admin, resource_id=self.place.group_id, what="the nodes"
            )
        az.Targets(self, [targets[name] for name in environment.clusters])

    @property
    def _identity(self) -> az.Identity:
        """The identity of nodes, except Slurm's, see `SlurmResources.partition`."""
        assert self._data.identity is not None, "an environment with such clusters has one"
        return self._data.identity

    @property
    def _own(self) -> dict[str, Cluster | SlurmNodes]:
        """The clusters on the environment's own machines, by name: neither Batch's nor AKS's."""
        return {
            name: cluster
            for name, cluster in self._environment.clusters.items()
            if not isinstance(cluster, BatchCluster | KubernetesNodes)
        }

    def _targets(self, network: INetwork) -> dict[str, Target]:
        """Returns the target of each cluster; pools are last, as a cluster may be their gateway."""
        found = {name: self._cluster(name, each, network) for name, each in self._own.items()}
        hosts = [target.access.host for target in found.values() if target.access]
        other_host = hosts[0] if hosts else ""
        pools = {
            name: self._pool(name, cluster, network, other_host)
            for name, cluster in self._environment.pools.items()
        }
        return found | pools | self._node_pools(network)

    def _target(
        self,
        cluster: az.TakesJobs,
        *,
        gateway: Gateway | None,
        users: dict[str, str] | None = None,
        is_reached: bool = True,
    ) -> Target:
        """Returns the record of a cluster; a Kubernetes API server needs no bastion."""
        vault = self._data.vault
        return cluster.target(
            storage=self._storage,
            # "" if the environment keeps no secrets of jobs.
            vault_url=vault.url if vault and self._environment.vault else "",
            reach=self._reach if is_reached else None,
            gateway=gateway,
            users=users,
        )

    def _node_pools(self, network: INetwork) -> dict[str, Target]:
        if not self._environment.node_pools:
            return {}
        from fairway_stacks.kubernetes import AksResources

        kubernetes = AksResources(self, self._environment, network, self._data)
        gateway = self._gateway("")
        found = {}
        for name, spec in self._environment.node_pools.items():
            mounts = self._data.mounts(spec.mounts)
            pool = kubernetes.pool(name, spec, mounts)
            found[name] = self._target(pool, gateway=gateway, is_reached=gateway is not None)
        kubernetes.configure(list(found.values()))
        return found

    def _gateway(self, other_host: str) -> Gateway | None:
        """Returns the host through which users' machines reach closed storage and Batch: the
        gateway, else a cluster's host. Returns None if they are open."""
        environment = self._environment
        host = self._gateway_host or other_host
        is_open = public_ranges(environment.access.allowed)
        if not host or is_open or not environment.network.private_endpoints:
            return None
        return Gateway(host=host, user=ADMIN_USERNAME)

    def _scheduler(self, network: INetwork) -> SlurmResources:
        from fairway_stacks.slurm import SlurmResources

        slurm = SlurmResources(self, self._environment, network, self._data)
        if self._data.monitoring is not None:
            machines = {"slurm-scheduler": slurm.scheduler.id}
            machines |= {f"slurm-login-{n}": each.id for n, each in enumerate(slurm.login)}
            for name, resource_id in machines.items():
                self._data.monitoring.watch(self, name, resource_id=resource_id)
        return slurm

    def _cluster(self, name: str, spec: Cluster | SlurmNodes, network: INetwork) -> Target:
        """Returns the target of a scale set, or of a VM if the cluster is exactly one node."""
        mounts = self._data.mounts(spec.mounts)
        nodes = node_spec(
            self._environment,
            name,
            spec,
            subnet=network.subnets["compute"],
            mounts=mounts,
        )
        cluster: az.GpuCluster | az.SingleVm
        if spec.engine == "slurm":
            assert self._slurm is not None, "an environment with partitions has a scheduler"
            cluster = self._slurm.partition(name, nodes)
        elif spec.nodes == 1:
            reserved = replace(nodes, capacity_reservation_group_id=spec.capacity_reservation)
            cluster = az.SingleVm(self, name, identity=self._identity, **vars(reserved))
        else:
            cluster = az.GpuCluster(
                self,
                name,
                identity=self._identity,
                nodes=spec.nodes,
                repair=spec.repair,
                **nodes.of_scale_set(),
            )
        if spec.engine == "ssh" and spec.schedule:
            self._scheduled[name] = (spec.schedule, cluster.id)
        if spec.engine == "ssh" and spec.idle:
            self._stops_itself[name] = cluster.id
        if self._data.monitoring is not None:
            self._data.monitoring.watch(self, name, resource_id=cluster.id)
        place: az.TakesJobs = cluster
        if self._slurm is not None and spec.engine == "slurm":
            place = self._slurm.scheduler.partition(name, mounts=mounts)
        users = folders_of(self._environment, spec.mounts)
        return self._target(place, gateway=self._gateway(cluster.main_host), users=users)

    def _pool(self, name: str, spec: BatchCluster, network: INetwork, other_host: str) -> Target:
        account = self._data.batch
        assert account is not None, "an environment with pools has an account"
        mounts, registry = self._data.mounts(spec.mounts), self._data.registry
        containers = az.Containers(
            images=spec.pulled_images, registries=[registry.login_server] if registry else []
        )
        pool = az.BatchPool(
            self,
            name,
            account=account,
            subnet=network.subnets["compute"],
            identity=self._identity,
            size=vm_size(spec.size),
            image=spec.chosen_image,
            image_id=spec.image_id,
            minimum=spec.node_range.min,
            maximum=spec.node_range.max,
            spot=spec.spot,
            mpi=spec.mpi,
            task_slots=spec.task_slots,
            autoscale=spec.autoscaling,
            resized_by_hand=spec.resized_by_hand,
            mounts=mounts,
            containers=containers if spec.runs_containers else None,
        )
        users = folders_of(self._environment, None)
        return self._target(pool, gateway=self._gateway(other_host), users=users)


def _reach(environment: Environment, network: INetwork) -> Reach | None:
    """Returns the way from users' machines to the nodes, or None if ssh connects directly."""
    chosen = environment.access.reach
    if isinstance(chosen, Reach):
        return chosen
    if chosen == "direct" or network.bastion is None:
        return None
    return Reach(bastion=network.bastion.id)
