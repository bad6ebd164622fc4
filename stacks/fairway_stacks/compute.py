"""The stack `NAME-compute`: the clusters, and the facts that the runner needs about them."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import fairway_constructs as az
from fairway_constructs.bastion import grant_connections
from fairway_constructs.cloud_init import ADMIN_USERNAME
from fairway_constructs.clusters.nodes import sends_gpu_metrics
from fairway_constructs.network_access import public_ranges
from fairway_constructs.targets import storage_of
from fairway_core.catalog import vm_size
from fairway_core.target import Gateway, SshRoute
from fairway_stacks.boot_data import folders_of, node_spec
from fairway_stacks.stack import RoleStack

if TYPE_CHECKING:
    from fairway_constructs.clusters.nodes import NodeSpec
    from fairway_constructs.network import INetwork
    from fairway_core.environment import Environment
    from fairway_core.target import Target
    from fairway_stacks.data import DataStack
    from fairway_stacks.stack import Project

# The engines in the order of their clusters; those of a group are in the order of the file. A
# cluster may be the gateway to pools after it.
_GROUPS = (("ssh", "slurm"), ("batch",), ("kubernetes",))


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
        self.environment, self.network, self.data = environment, network, data
        if self.azure.proxy:
            self.azure = replace(self.azure, proxy=self.azure.proxy.past(data.direct_hosts))
        self.targets: dict[str, Target] = {}
        self.gateway_host = gateway
        self._storage = storage_of(data.storage)
        self._ssh_route = _ssh_route(environment, network)
        self._create_clusters()
        # The machines of Batch and AKS belong to Azure: Fairway sends no metrics from them.
        sizes = [vm_size(cluster.size) for cluster in environment.login_clusters.values()]
        if data.monitoring is not None and any(sends_gpu_metrics(size) for size in sizes):
            az.Alerts(self, monitoring=data.monitoring).gpus_idle()
        # Lets admins see the nodes in Azure; the bastion itself is in the network stack.
        for admin in environment.access.admins:
            assert self.azure.group_id is not None
            grant_connections(
                self, "nodes", admin, resource_id=self.azure.group_id, what="the nodes"
            )
        named = [self.targets[name] for name in environment.clusters]
        self._job_targets = az.Targets(self, named)

    def add_target(self, cluster: az.TakesJobs) -> None:
        """Makes a cluster that an extension has created a target of jobs, like those of the file.

        Raises UserError if another cluster has its name.
        """
        self._job_targets.add(self.target(cluster, gateway=self.gateway()))

    @property
    def identity(self) -> az.Identity:
        """The identity of nodes, except Slurm's, see `fairway_stacks.clusters.slurm`."""
        assert self.data.identity is not None, "an environment with such clusters has one"
        return self.data.identity

    def _create_clusters(self) -> None:
        """Creates the clusters of each engine, and then what refers to all of them."""
        engines: dict[str, EngineClusters] = {}
        for group in _GROUPS:
            own = {n: each for n, each in self.environment.clusters.items() if each.engine in group}
            for engine in sorted({each.engine for each in own.values()}):
                # Only this environment's, to save time.
                module = import_module(f"fairway_stacks.clusters.{engine}")
                engines[engine] = module.Clusters(self)
            for name, spec in own.items():
                self.targets[name] = engines[spec.engine].create(name, spec)
        for each in reversed(engines.values()):
            each.finish()

    def target(
        self,
        cluster: az.TakesJobs,
        *,
        gateway: Gateway | None,
        users: dict[str, str] | None = None,
        is_reached: bool = True,
    ) -> Target:
        """Returns the record of a cluster; a Kubernetes API server needs no bastion."""
        vault = self.data.vault
        return cluster.target(
            storage=self._storage,
            # "" if the environment keeps no secrets of jobs.
            vault_url=vault.url if vault and self.environment.vault else "",
            ssh_route=self._ssh_route if is_reached else None,
            gateway=gateway,
            users=users,
        )

    def gateway(self, other_host: str = "") -> Gateway | None:
        """Returns the host through which users' machines reach closed storage and Batch: the
        gateway, else a cluster's host. Returns None if they are open."""
        environment = self.environment
        host = self.gateway_host or other_host
        is_open = public_ranges(environment.access.allowed)
        if not host or is_open or not environment.network.private_endpoints:
            return None
        return Gateway(host=host, user=ADMIN_USERNAME)

    def collect_metrics(self, name: str, resource_id: str) -> None:
        """Sends the logs of a machine or scale set to the workspace, if there is one."""
        if self.data.monitoring is not None:
            self.data.monitoring.collect_metrics(self, name, resource_id=resource_id)


class EngineClusters:
    """Base of the clusters of one engine; what they share is created first, with it."""

    def __init__(self, stack: ComputeStack) -> None:
        self.stack = stack

    def create(self, name: str, spec: Any) -> Target:
        """Creates a cluster, and returns its target."""
        raise NotImplementedError

    def finish(self) -> None:
        """Creates what refers to all clusters."""


class MachineClusters(EngineClusters):
    """Base of clusters on the environment's own machines: scale sets, or VMs of a single node."""

    def create(self, name: str, spec: Any) -> Target:
        """Creates the machines, and returns the target of what takes their jobs."""
        stack = self.stack
        nodes = node_spec(
            stack.environment,
            name,
            spec,
            subnet=stack.network.subnets["compute"],
            mounts=stack.data.mounts(spec.mounts),
        )
        cluster = self.machines(name, spec, nodes)
        stack.collect_metrics(name, cluster.id)
        users = folders_of(stack.environment, spec.mounts)
        taker = self.taker(cluster, name, nodes)
        return stack.target(taker, gateway=stack.gateway(cluster.main_host), users=users)

    def machines(self, name: str, spec: Any, nodes: NodeSpec) -> az.ScaleSetCluster | az.SingleVm:
        """Creates the scale set or VM of a cluster."""
        raise NotImplementedError

    def taker(self, cluster: az.TakesJobs, name: str, nodes: NodeSpec) -> az.TakesJobs:
        """Returns the construct to which the cluster's jobs come."""
        return cluster


def _ssh_route(environment: Environment, network: INetwork) -> SshRoute | None:
    """Returns the way from users' machines to the nodes, or None if ssh connects directly."""
    chosen = environment.access.ssh_route
    if isinstance(chosen, SshRoute):
        return chosen
    if chosen == "direct" or network.bastion is None:
        return None
    return SshRoute(bastion=network.bastion.id)
