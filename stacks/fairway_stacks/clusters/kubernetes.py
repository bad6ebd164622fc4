"""Kubernetes in the compute stack: one AKS cluster, and its node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_constructs.azurerm.federated_identity_credential import FederatedIdentityCredential
from fairway_core.environment.access import researchers_of
from fairway_core.environment.network import Firewall
from fairway_core.kubernetes import health
from fairway_core.kubernetes.credentials import credentials
from fairway_core.kubernetes.manifests import manifests
from fairway_core.kubernetes.pools import Volume
from fairway_stacks.compute import EngineClusters
from fairway_stacks.stack import referenced_ids

if TYPE_CHECKING:
    from fairway_constructs.network import INetwork
    from fairway_core.environment import KubernetesNodes
    from fairway_core.target import Target
    from fairway_stacks.compute import ComputeStack

# The Kubernetes service account of jobs' pods, which Azure accepts as the identity of nodes.
_ACCOUNT = "fairway-task"
_AUDIENCE = "api://AzureADTokenExchange"


class Clusters(EngineClusters):
    """The AKS cluster of an environment, and a node pool for each cluster with that engine."""

    def __init__(self, stack: ComputeStack) -> None:
        super().__init__(stack)
        environment, data, network = stack.environment, stack.data, stack.network
        assert data.kubernetes is not None, "an environment with node pools has one"
        self._shared_state = data.kubernetes
        assert environment.aks is not None, "an environment with node pools has one"
        self._spec = environment.aks
        self._subnet = network.subnets[environment.network.kubernetes_role]
        self.cluster = self._cluster(network)
        # Pods of jobs may access what nodes of other engines do, without a key.
        FederatedIdentityCredential(
            stack,
            "kubernetes-tasks",
            name=f"{self._spec.namespace}-{_ACCOUNT}",
            user_assigned_identity_id=self.stack.identity.id,
            issuer=self.cluster.issuer,
            subject=f"system:serviceaccount:{self._spec.namespace}:{_ACCOUNT}",
            audience=[_AUDIENCE],
        )
        if data.monitoring is not None:
            data.monitoring.collect_kubernetes_metrics(stack, cluster_id=self.cluster.id)
            self.cluster.diagnostic_settings(data.monitoring)
        for person in researchers_of(environment.access.researchers):
            self.cluster.let_in(person, namespace=self._spec.namespace)
        stack.publish(
            "kubernetes_cluster",
            {
                "name": self.cluster.name,
                "resource_group": self.cluster.resource_group,
                # Not `credentials`: a review hides values with that name.
                "command": credentials(self.cluster.name, self.cluster.resource_group),
            },
            "AKS cluster, and the command that gets its credentials",
        )

    def _cluster(self, network: INetwork) -> az.KubernetesCluster:
        environment, spec = self.stack.environment, self._spec
        monitoring = self.stack.data.monitoring
        # The routes of an existing network are unknown; its owner writes them.
        routes = environment.network.existing or isinstance(environment.network.egress, Firewall)
        return az.KubernetesCluster(
            self.stack,
            subnet=self._subnet,
            kubelet=self._shared_state.kubelet,
            version=spec.version,
            tier=spec.tier,
            api_server=spec.api_server,
            admins=spec.admins,
            system_size=spec.system.size,
            system_nodes=spec.system.nodes,
            upgrades=spec.upgrades,
            pod_range=spec.pod_range,
            service_range=spec.service_range,
            outbound="userDefinedRouting" if routes else "userAssignedNATGateway",
            allowed=environment.access.allowed,
            egress_address=network.egress_address,
            placements=referenced_ids(environment.node_pools, "proximity_placement_group"),
            monitoring=monitoring,
            spot=any(pool.spot for pool in environment.node_pools.values()),
        )

    def finish(self) -> None:
        """Deploys the objects that jobs on these pools need into the cluster, by Flux."""
        environment, data = self.stack.environment, self.stack.data
        targets = [self.stack.targets[name] for name in environment.node_pools]
        mounted = {mount for pool in environment.node_pools.values() for mount in pool.mounts}
        volumes = []
        for name, section in environment.filesystems.items():
            if name in mounted:
                mount = data.filesystems[name].mount
                kind = {"type": mount.type, "source": mount.source, "options": mount.options}
                volumes.append(Volume(name=name, gib=section.size_gib, **kind))
        texts = manifests(targets, volumes, self._spec, client_id=self.stack.identity.client_id)
        if data.monitoring is not None and health.objects(targets):
            alerts = az.Alerts(self.stack, "alerts-of-kubernetes", monitoring=data.monitoring)
            alerts.nodes_broken()
        az.KubernetesConfiguration(
            self.stack,
            cluster=self.cluster,
            container=self._shared_state.container,
            manifests=texts,
        )

    def create(self, name: str, spec: KubernetesNodes) -> Target:
        """Creates the node pool of a cluster."""
        pool = az.KubernetesNodePool(
            self.stack,
            name,
            cluster=self.cluster,
            subnet=self._subnet,
            size=spec.size,
            nodes=spec.nodes,
            spot=spec.spot,
            zones=spec.zones,
            os_disk=spec.os_disk,
            os_disk_gib=spec.os_disk_gib,
            infiniband=spec.infiniband,
            labels=spec.labels,
            taints=spec.taints,
            proximity_placement_group_id=spec.proximity_placement_group,
            job_image=spec.job_image,
            mounts=self.stack.data.mounts(spec.mounts),
            namespace=self._spec.namespace,
            head_image=self._spec.head_image,
        )
        gateway = self.stack.gateway()
        return self.stack.target(pool, gateway=gateway, is_reached=gateway is not None)
