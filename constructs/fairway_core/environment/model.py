"""The model of an environment file, which validates each field and then the fields together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fairway_core.catalog import limit
from fairway_core.documents import Check, FieldError, Model, matching, rule
from fairway_core.environment.access import Access, check_rules
from fairway_core.environment.addresses import require_nat, require_private
from fairway_core.environment.clusters import MANAGERS, AnyCluster, MachineCluster
from fairway_core.environment.clusters.batch.account import Batch
from fairway_core.environment.clusters.batch.pool import BatchCluster
from fairway_core.environment.clusters.kubernetes.cluster import Kubernetes
from fairway_core.environment.clusters.kubernetes.node_pool import KubernetesNodes
from fairway_core.environment.clusters.slurm.partition import SlurmNodes
from fairway_core.environment.clusters.slurm.scheduler import Slurm
from fairway_core.environment.clusters.ssh import Cluster
from fairway_core.environment.defaults import Defaults
from fairway_core.environment.filesystems import AnyFileSystem
from fairway_core.environment.filesystems.base import EnvironmentParts
from fairway_core.environment.filesystems.home_directories import check_people
from fairway_core.environment.filesystems.rules import check_filesystems
from fairway_core.environment.network import Network
from fairway_core.environment.services import (
    Budget,
    Checks,
    Monitoring,
    Policies,
    Registry,
    ResourceGroup,
    Vault,
    budget_contacts,
)
from fairway_core.environment.state import LocalState, State
from fairway_core.environment.storage import Storage
from fairway_core.environment.tags import NamePatterns, Tags, check_number
from fairway_core.environment.values import (
    DEVICE_FOLDERS,
    EnvironmentName,
    Location,
    Zone,
    are_nested,
    below_path,
    require_azure_names,
    unlike,
)
from fairway_core.environment.web import Web, check_web
from fairway_core.fields import NO_EQUAL
from fairway_core.naming import Naming
from fairway_core.resource_ids import check_id

if TYPE_CHECKING:
    from fairway_core.environment.clusters.base import Manager

Address = Annotated[
    str,
    matching(
        r"(?:(?:network|data|compute)/)?[a-z0-9_]+\.[A-Za-z0-9_-]+",
        "`{}` is not the address of a resource",
        "such as azurerm_virtual_network.vnet, or network/azurerm_resource_group.group",
    ),
]
# Without characters that Terraform would evaluate.
ResourceId = Annotated[
    str,
    matching(r"/[^\s${}%]+", "`{}` is not the id of a resource", "az resource list --query [].id"),
]


def _of_their_types(imports: dict[str, str]) -> None:
    for address, resource_id in imports.items():
        with below_path(address):
            check_id(address.rpartition("/")[2].partition(".")[0], resource_id)


class Environment(Model):
    """An environment file; only `name`, `location` and one cluster are required."""

    name: EnvironmentName
    """Part of every resource name: 2 to 12 lower-case letters, digits and hyphens."""
    location: Location
    """The Azure region, for example `southcentralus`."""
    zone: Annotated[Literal[1, 2, 3, "none"], NO_EQUAL] = 1
    """The availability zone of nodes, disks and file servers: one for all, because InfiniBand does
    not cross zones. Take `none` if the region has no zones, or offers the VM size only outside of
    them.
    """
    tags: Tags = Field(default_factory=dict)
    """Tags of every resource; `owner` says who is responsible."""
    naming: NamePatterns = Field(default_factory=NamePatterns)
    """Names of Azure resources; by default `{environment}-{type}-{name}`. A new pattern replaces
    what is deployed, because Azure renames nothing."""
    protect: bool = True
    """Make Terraform and Azure refuse to delete resources that hold data."""
    checks: Checks = Field(default_factory=Checks)
    """Checks to leave out."""
    policies: Policies = Field(default_factory=Policies)
    """Rules of your company's Azure Policies, for `fairway check` to refuse first; nothing without
    this section."""
    defaults: Defaults = Field(default_factory=Defaults)
    """Settings shared by several clusters or file systems."""
    state: State = LocalState()
    """The place where Terraform keeps its state."""
    imports: Annotated[dict[Address, ResourceId], Check(_of_their_types)] = Field(
        default_factory=dict
    )
    """Existing resources that Terraform is to take over: the address of each with its Azure id."""
    moved: dict[Address, Address] = Field(default_factory=dict)
    """Addresses that a resource had before, each with the one that it has now."""
    resource_group: ResourceGroup | None = None
    """An existing resource group for everything; by default each stack makes one."""
    access: Access = Field(default_factory=Access)
    """Who may log in."""
    network: Network = Field(default_factory=Network)
    """The virtual network."""
    storage: Storage = Field(default_factory=Storage)
    """The Blob storage account and its containers."""
    registry: Registry | None = None
    """A container registry; none without this section."""
    vault: Vault | None = None
    """A key vault; none without this section, unless a key is kept in it."""
    monitoring: Monitoring | None = None
    """Logs, metrics and alerts; none without this section."""
    budget: Budget | None = None
    """Monthly budget with alerts by mail; without this section there are none."""
    filesystems: Annotated[
        dict[str, AnyFileSystem],
        Check(require_azure_names),
        unlike(DEVICE_FOLDERS, "a folder of Linux's devices", ", for example {}-data"),
    ] = Field(default_factory=dict)
    """The shared file systems, by name."""
    batch: Batch | None = None
    """The Batch account, if a cluster has `engine: batch`."""
    slurm: Slurm | None = None
    """The Slurm scheduler, if a cluster has `engine: slurm`."""
    kubernetes: Kubernetes | None = None
    """The Kubernetes cluster, if a cluster has `engine: kubernetes`."""
    web: Web | None = None
    """Runs in a browser, on a login node behind a sign-in; none without this section."""
    clusters: Annotated[
        dict[str, AnyCluster],
        Check(require_azure_names),
        unlike({"local"}, "the target on your own machine"),
    ] = Field(min_length=1)
    """The clusters, by name."""

    @property
    def names(self) -> Naming:
        """The names of resources, by the patterns of `naming:`."""
        return Naming(self.naming.pattern, self.naming.unique)

    def resource_name(self, kind: str, *parts: str, suffix: str = "") -> str:
        """Returns the name of a resource; `kind` is Terraform's type without `azurerm_`."""
        return self.names.name(kind, self.name, *parts, region=self.location, suffix=suffix)

    @property
    def zone_number(self) -> Zone | None:
        """The availability zone, or None for `zone: none`."""
        return None if self.zone == "none" else self.zone

    @property
    def parts(self) -> EnvironmentParts:
        """The parts that kinds of clusters and file systems look at."""
        return EnvironmentParts(
            filesystems=self.filesystems,
            clusters=self.clusters,
            storage=self.storage,
            network=self.network,
            access=self.access,
            zone=self.zone_number,
            servers={name: each.source for name, each in self.filesystems.items() if each.source},
            monitored=self.monitoring is not None,
        )

    @property
    def managers(self) -> dict[str, Manager]:
        """The sections of engines with a cluster, or their defaults, by engine."""
        used = {cluster.engine for cluster in self.clusters.values()}
        kinds = {name: kind for name, kind in MANAGERS.items() if name in used}
        return {name: getattr(self, name) or kind() for name, kind in kinds.items()}

    @property
    def login_clusters(self) -> dict[str, Cluster | SlurmNodes]:
        """The clusters on the environment's own machines, by name: neither Batch's nor AKS's."""
        items = self.clusters.items()
        return {n: each for n, each in items if isinstance(each, Cluster | SlurmNodes)}

    @property
    def partitions(self) -> dict[str, SlurmNodes]:
        """The clusters that are partitions of Slurm, by name."""
        return self.parts.of(SlurmNodes)

    @property
    def pools(self) -> dict[str, BatchCluster]:
        """The clusters that are pools of Azure Batch, by name."""
        return self.parts.of(BatchCluster)

    @property
    def owns_pool_nodes(self) -> bool:
        """True if Batch creates the nodes of pools in the subscription, with its quota and disks,
        and the account has a vault."""
        return self.batch is not None and self.batch.mode == "UserSubscription"

    @property
    def node_pools(self) -> dict[str, KubernetesNodes]:
        """The clusters that are node pools of Kubernetes, by name."""
        return self.parts.of(KubernetesNodes)

    @property
    def machine_clusters(self) -> dict[str, MachineCluster]:
        """The clusters whose nodes boot an image that the environment chooses, by name: all except
        Kubernetes node pools, whose image AKS chooses."""
        items = self.clusters.items()
        return {n: each for n, each in items if not isinstance(each, KubernetesNodes)}

    @property
    def aks(self) -> Kubernetes | None:
        """The Kubernetes cluster of the node pools, or None without node pools."""
        return (self.kubernetes or Kubernetes()) if self.node_pools else None

    @property
    def node_roles(self) -> list[str]:
        """The subnets that contain clusters' nodes."""
        roles = (each.subnet_role(self.network) for each in self.clusters.values())
        return list(dict.fromkeys(("compute", *roles)))

    @property
    def first_machine(self) -> tuple[str, str] | None:
        """Section and name of the first VM or scale set, which takes SSH keys; None without one."""
        for name, cluster in self.clusters.items():
            if cluster.takes_logins:
                return ("clusters", name)
        for name, filesystem in self.filesystems.items():
            if filesystem.is_server:
                return ("filesystems", name)
        return ("access", "gateway") if self.access.gateway else None

    @property
    def scheduler(self) -> Slurm | None:
        """The scheduler of the clusters with `engine: slurm`, or None without any."""
        return (self.slurm or Slurm()) if self.partitions else None

    @property
    def new_registry(self) -> Registry | None:
        """The container registry to create, or None without one or with an existing one."""
        return None if self.registry is None or self.registry.existing else self.registry

    @property
    def has_vault(self) -> bool:
        """True if the environment has a vault, of its own or for the storage account's key."""
        return self.vault is not None or self.storage.customer_managed_key

    @rule
    def _parts_go_together(self) -> None:
        network, access, clusters, parts = self.network, self.access, self.clusters, self.parts
        check_number(self.tags, of_zone=network.makes_zones, ours=True)
        for field, message, hint in self.names.faults(self.name, self.location):
            raise FieldError(message, hint, ("naming", field))
        self._check_mounts()
        self._check_paths()
        self._check_machines()
        check_filesystems(parts)
        check_people(access.users, self.filesystems, clusters, gateway=bool(access.gateway))
        if self.budget is not None:
            budget_contacts(self.budget, self.monitoring)
        self.storage.check_network(network)
        if self.registry is not None:
            self.registry.check_network(private_endpoints=network.private_endpoints)
        for section in MANAGERS:
            if getattr(self, section) is not None and section not in self.managers:
                message = f"no cluster has `engine: {section}`"
                raise FieldError(message, f"leave `{section}:` out", (section,))
        check_web(self.web, self.slurm, access, network)
        for name, cluster in clusters.items():
            cluster.check(name, parts)
        for manager in self.managers.values():
            manager.check(parts)
        self._check_network()
        self._check_addresses()
        with below_path("network"):
            require_private(network.address_space, access.allowed)

    def _check_mounts(self) -> None:
        from fairway_core.suggestions import did_you_mean

        for name, cluster in self.clusters.items():
            for index, mount in enumerate(cluster.mounts):
                path = ("clusters", name, "mounts", index)
                if mount not in self.filesystems:
                    hint = did_you_mean(mount, self.filesystems) or "describe it there"
                    raise FieldError(f"no `{mount}` under `filesystems:`", hint, path)
                if mount in cluster.mounts[:index]:
                    raise FieldError(f"`{mount}` is mounted twice", "name it once", path)

    def _check_paths(self) -> None:
        seen: dict[str, str] = {}
        for name, filesystem in self.filesystems.items():
            for path, other in seen.items():
                if are_nested(filesystem.path, path):
                    raise FieldError(
                        f"`{filesystem.path}` and `{path}` of `{other}` are inside each other",
                        "give each file system a path of its own",
                        ("filesystems", name, "path"),
                    )
            seen[filesystem.path] = name

    def _check_machines(self) -> None:
        """Raises FieldError for two VMs of one name, where all stacks are in one group."""
        if self.resource_group is None:
            return
        taken = {"gateway"} if self.access.gateway else set()
        taken |= {name for manager in self.managers.values() for name in manager.vms}
        servers = {name: each for name, each in self.filesystems.items() if each.is_server}
        single = {name: each for name, each in self.clusters.items() if each.is_single}
        for section, machines in (("filesystems", servers), ("clusters", single)):
            for name in machines:
                if name in taken:
                    message = f"another VM in the resource group has the name `{name}`"
                    raise FieldError(message, "choose another name", (section, name), of_key=True)
            taken |= {*machines}

    def _check_network(self) -> None:
        """Raises FieldError if the network cannot do what the rest of the environment needs."""
        self._check_ways_in()
        network = self.network
        managers, registry = self.managers.values(), self.new_registry
        by_nat = 0 if network.private_endpoints else 1
        limited = {
            "storage": (not self.storage.existing, 0),
            "vault": (self.has_vault, by_nat),
            "registry": (registry is not None and registry.sku == "Premium", by_nat),
        }
        rules = {name: own for name, (there, own) in limited.items() if there}
        for manager in managers:
            rules |= manager.address_rules
        check_rules(self.access.allowed, rules)
        used = [*(["vault"] if self.has_vault else []), *(["registry"] if registry else [])]
        used += [link for manager in managers for link in manager.private_links]
        # The services with private endpoints, by their names in private_links.toml.
        linked = {*used, *(each.private_link for each in self.filesystems.values())} - {""}
        network.dns.check_zones({*linked, *(["blob"] if self.storage.has_endpoint else [])})
        if network.is_closed and self.monitoring is not None:
            raise FieldError(
                "nodes could not send their logs anywhere",
                "use another `egress:`, or leave `monitoring:` out",
                ("network", "egress"),
            )
        if used and not network.private_endpoints and not network.has_nat:
            service = "Batch account" if used[0] == "batch" else used[0]
            raise FieldError(
                f"nodes could not reach the {service}: without private endpoints it admits them "
                "by the address of the NAT gateway, and there is none",
                "leave `private_endpoints: false` out",
                ("network", "private_endpoints"),
            )
        if "vault" in used and by_nat:
            with below_path("network"):
                require_nat(network.service_endpoints)

    def _check_ways_in(self) -> None:
        network, access = self.network, self.access
        if access.gateway and not network.private_endpoints:
            raise FieldError(
                "storage and Batch have public addresses here: they need no gateway",
                "leave it out, or leave `private_endpoints: false` out",
                ("access", "gateway"),
            )
        if network.existing and access.bastion:
            raise FieldError(
                "a bastion needs a subnet and rules of its own, which an existing network does not "
                "get",
                "leave it out, and use the bastion of the network's owner",
                ("access", "bastion"),
            )

    def _check_addresses(self) -> None:
        network, nodes = self.network, Counter[str]()
        for cluster in self.clusters.values():
            nodes[cluster.subnet_role(network)] += cluster.node_range.max
        for manager in self.managers.values():
            nodes.update(manager.addresses(network))
        for role, count in nodes.items():
            subnet = network.subnet_range(role)
            free = subnet.num_addresses - limit("subnet_reserved_addresses")
            if count > free:
                message = f"the nodes need {count} addresses, and {subnet} has {free}"
                raise network.too_small(message)
