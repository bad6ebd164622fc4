"""The stack `NAME-data`: everything that must survive when the clusters are destroyed on Friday."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_constructs.cloud_init import export_path
from fairway_constructs.filesystems.base import Site, from_section
from fairway_constructs.researchers import grant_submit, page_identity
from fairway_core.environment.clusters.kubernetes.cluster import CONFIGURATION, NODES_GROUP
from fairway_core.environment.services import budget_contacts
from fairway_core.review.plan import ROLES
from fairway_stacks.stack import RoleStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_constructs.network import INetwork
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.registry import IRegistry
    from fairway_constructs.storage import IStorage
    from fairway_core.environment import Budget as BudgetSpec
    from fairway_core.environment import Environment, Slurm
    from fairway_stacks.stack import Project


class DataStack(RoleStack):
    """Blob storage, file servers, vault and registry, and the identity by which nodes reach them.

    The Batch account is here without its pools: it holds the history of jobs, its quota is granted
    by account name, and idle it costs nothing. Slurm's vault with the munge key and its disk with
    jobs and history are here without the scheduler; so are Kubernetes' manifests and the identity
    of its nodes. Azure deletes no role assignment under a lock: so every role on a locked resource
    is here too.

    `monitoring`, if the environment has it, is here too: its logs outlive the clusters.
    """

    def __init__(self, project: Project, environment: Environment, network: INetwork) -> None:
        super().__init__(project, environment, "data")
        self._environment = environment
        self._network = network
        self.vault = self._vault() if environment.has_vault else None
        self.storage = self._storage()
        self.registry = self._registry() if environment.registry else None
        self.identity = self._nodes_identity()
        self.filesystems = self._filesystems()
        self.kubernetes = (
            az.KubernetesSharedState(
                self, storage=self.storage, name=CONFIGURATION, registry=self.registry
            )
            if environment.node_pools
            else None
        )
        self.pools_subscription: az.BatchUserSubscription | None = None
        self.batch = self._batch() if environment.pools else None
        containers = {name: each.id for name, each in self.storage.containers.items()}
        batch_id = self.batch.id if self.batch else None
        grant_submit(
            self, environment.access.researchers, containers=containers, batch_account_id=batch_id
        )
        self.slurm = self._slurm(environment.scheduler) if environment.scheduler else None
        self.page = (
            page_identity(
                self, web=environment.web, containers=containers, batch_account_id=batch_id
            )
            if environment.web
            else None
        )
        self.monitoring = self._monitoring()
        if environment.budget:
            self._budget(environment.budget)
        self.publish(
            "filesystem_throughput_mbps",
            {name: each.throughput_mbps for name, each in self.filesystems.items()},
            "Maximum throughput of each file system in MB/s "
            "(lowest of disk, VM and network limits)",
        )
        self.publish(
            "filesystem_limited_by",
            {name: each.limited_by for name, each in self.filesystems.items()},
            "Bottleneck of each file system",
        )

    def mounts(self, names: Iterable[str]) -> list[Mount]:
        """Returns the mounts of the file systems with these names."""
        return [self.filesystems[name].mount for name in names]

    def _nodes_identity(self) -> az.Identity | None:
        """Returns the identity of nodes, or None if all are Slurm's, which have their own."""
        if all(cluster.is_partition for cluster in self._environment.clusters.values()):
            return None
        nodes = az.Identity(self, "nodes")
        self._let_work(nodes)
        return nodes

    def _storage(self) -> IStorage:
        environment, network = self._environment, self._network
        spec = environment.storage
        storage: IStorage
        if spec.existing:
            names = list(spec.containers)
            storage = az.Storage.from_id(self, "storage", spec.existing, containers=names)
        else:
            storage = az.Storage(
                self,
                containers=list(spec.containers),
                replication=spec.replication,
                account=spec.account,
                # Without an endpoint of its own the network gets access by its subnet.
                subnets=[] if network.endpoints else self._readers_of_blobs(),
                allowed=environment.access.allowed,
                expire_days={
                    name: container.expire
                    for name, container in spec.containers.items()
                    if container.expire
                },
                customer_managed_key=(
                    self.vault.customer_managed_key("storage")
                    if self.vault and spec.customer_managed_key
                    else None
                ),
                account_keys=spec.account_keys,
            )
        self._storage_endpoints = self._connect(storage) if spec.has_endpoint else []
        return storage

    def _readers_of_blobs(self) -> list[SubnetRef]:
        """Returns the subnets with access to Blob storage: of nodes, and of importing systems."""
        subnets, filesystems = self._network.subnets, self._environment.filesystems.values()
        importing = [each.subnet_role for each in filesystems if each.imported]
        roles = dict.fromkeys([*self._environment.node_roles, *filter(None, importing)])
        return [subnets[role] for role in roles]

    def _filesystems(self) -> dict[str, az.FileSystem]:
        """Returns the file systems by name; each construct has the name of its section's class."""
        site = Site(
            network=self._network,
            node_roles=self._environment.node_roles,
            storage=self.storage,
            storage_endpoints=self._storage_endpoints,
            monitored=self._environment.monitoring is not None,
        )
        found = {}
        for name, section in self._environment.filesystems.items():
            kind: type[az.FileSystem] = getattr(az, type(section).__name__)
            found[name] = from_section(kind, self, name, section, site)
        return found

    def _vault(self) -> az.Vault:
        environment = self._environment
        vault = az.Vault(
            self,
            sku=environment.vault.sku if environment.vault else "standard",
            allowed=environment.access.allowed,
            egress_address=self._egress_address(),
        )
        self._connect(vault)
        self.publish("vault_url", vault.url, "Key vault with the secrets of jobs")
        return vault

    def _registry(self) -> IRegistry:
        environment = self._environment
        spec = environment.registry
        assert spec is not None
        if spec.existing:
            return az.Registry.from_id(
                self, "registry", spec.existing, login_server=spec.login_server or ""
            )
        registry = az.Registry(
            self,
            sku=spec.sku,
            retention_days=spec.retention_days,
            allowed=environment.access.allowed,
            egress_address=self._egress_address(),
        )
        if spec.sku == "Premium":
            self._connect(registry)
        self.publish(
            "registry_login_server",
            registry.login_server,
            "Registry to push images to; their names start with it",
        )
        return registry

    def _batch(self) -> az.BatchAccount:
        """Creates the account, and what Batch needs to create pools in this subscription."""
        environment = self._environment
        if environment.batch and (principal := environment.batch.service_principal):
            self.pools_subscription = az.BatchUserSubscription(self, service_principal=principal)
        account = az.BatchAccount(
            self,
            allowed=environment.access.allowed,
            egress_address=self._egress_address(),
            user_subscription=self.pools_subscription,
        )
        self._connect(account)
        return account

    @property
    def direct_hosts(self) -> list[str]:
        """The hosts of the environment's own services, which machines reach without the proxy."""
        environment, found = self._environment, []
        if not environment.storage.existing or environment.storage.private_endpoint:
            found.append(self.storage.host)
        if isinstance(self.registry, az.Registry):
            found += [self.registry.login_server, ".data.azurecr.io"]
        if self.vault or self.slurm:
            found.append(".vault.azure.net")
        if self.batch:
            found.append(".batch.azure.com")
        return found

    def _slurm(self, spec: Slurm) -> az.SlurmSharedState:
        shared_state = az.SlurmSharedState(
            self, disk_gib=spec.disk_gib, egress_address=self._egress_address()
        )
        self._let_work(shared_state.nodes)
        self._connect(shared_state)
        return shared_state

    def _monitoring(self) -> az.Monitoring | None:
        """Creates the workspace, diagnostic settings, and alerts on file servers and pools."""
        spec = self._environment.monitoring
        if spec is None:
            return None
        monitoring = az.Monitoring(
            self, emails=spec.emails, retention_days=spec.retention, workspace_id=spec.workspace
        )
        alerts = az.Alerts(self, monitoring=monitoring)
        for service in self._recorded():
            service.diagnostic_settings(monitoring)
        if self.batch:
            ranges = [pool.node_range for pool in self._environment.pools.values()]
            kept = sum(each.min for each in ranges if each.scales)
            alerts.batch_account(self.batch.id, kept=kept)
        machines = {name: each.virtual_machine for name, each in self.filesystems.items()}
        servers = {name: machine.id for name, machine in machines.items() if machine}
        for name, machine_id in servers.items():
            monitoring.collect_metrics(self, name, resource_id=machine_id)
            alerts.file_server_down(name, machine_id)
        if servers:
            alerts.file_servers_full(export_path(""))
        return monitoring

    def _recorded(self) -> Iterator[az.Service]:
        """Yields the services with logs of their own: an existing one is monitored by its owner."""
        for each in (
            *(self.storage, self.vault, self.registry, self.batch),
            *(self.pools_subscription, self.slurm, *self.filesystems.values()),
        ):
            is_new = type(each) not in (az.IStorage, az.IRegistry)
            if isinstance(each, az.Service) and is_new and each.DIAGNOSTICS.usual:
                yield each

    def _budget(self, spec: BudgetSpec) -> None:
        environment = self._environment
        shared = environment.resource_group is not None
        roles = [*(() if shared else ROLES), *([NODES_GROUP] if environment.node_pools else ())]
        groups = [self.azure.name("resource_group", role) for role in roles]
        budget = partial(
            az.Budget,
            self,
            amount=spec.monthly,
            alerts=spec.alerts,
            emails=budget_contacts(spec, environment.monitoring),
        )
        budget(
            resource_groups=[self.azure.resource_group, *groups] if shared else groups,
            tags={"environment": environment.name} if shared else None,
        )
        # Batch puts VMs of this subscription into groups that it names itself, and tags them only
        # with their account. No one filter covers both: so these nodes have a budget of their own.
        # Source: Azure documentation, plan to manage costs for Azure Batch.
        if self.batch is not None and environment.owns_pool_nodes:
            budget("budget-pools", tags={"batchaccountname": self.batch.name})

    def _connect(self, service: az.Service) -> list[PrivateEndpoint]:
        """Creates a service's private endpoints, if the environment has those."""
        return service.private_endpoints(self._network) if self._network.endpoints else []

    def _egress_address(self) -> str:
        """Returns the address by which services know the nodes, or "" with private endpoints."""
        return "" if self._network.endpoints else self._network.egress_address

    def _let_work(self, nodes: az.Identity) -> None:
        """Grants nodes the roles that jobs need."""
        self.storage.grant_read_write(nodes)
        if self.registry:
            self.registry.grant_pull(nodes)
        # Nodes need no access to a vault that only holds the storage account's key.
        if self.vault and self._environment.vault:
            self.vault.grant_read(nodes)
