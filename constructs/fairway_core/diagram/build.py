"""Drawing of an environment: networks with their subnets, boxes in them, and arrows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from fairway_core.diagram.model import Arrow, Group, Kind, Node, Picture
from fairway_core.environment.access import data_roles, researchers_of
from fairway_core.environment.addresses import EVERY_NETWORK, SUBNETS, subnet_plan
from fairway_core.environment.filesystems.rules import dedicated_subnets, scheduler_mounts
from fairway_core.naming import name_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_core.environment import AnyCluster, AnyFileSystem, Environment
    from fairway_core.environment.clusters.base import Box

EXISTING = "existing"
"""The line of resources that the environment refers to but does not create."""


def draw(environment: Environment, title: str) -> Picture:
    """Returns the picture of an environment; resources without a subnet are beside the networks."""
    drawing = _Drawing(environment, title)
    drawing.network()
    drawing.services()
    drawing.identities()
    for name, filesystem in environment.filesystems.items():
        drawing.filesystem(name, filesystem)
    drawing.managers()
    for name, cluster in environment.clusters.items():
        drawing.cluster(name, cluster)
    drawing.ways_in()
    for network in drawing.picture.groups:
        _fold_empty(network)
    return drawing.picture


class _Drawing:
    """A picture under construction; a box has the name of its resource in Azure, in which `…` is a
    part that only Terraform knows."""

    def __init__(self, environment: Environment, title: str) -> None:
        self.picture = Picture(title)
        self._environment = environment
        self._subnets: dict[str, Group] = {}
        self._nodes: dict[str, Node] = {}

    def _name(self, kind: str, *parts: str) -> str:
        rule = name_rule(kind)
        suffix = "…" if rule and rule.unique else ""
        return self._environment.resource_name(kind, *parts, suffix=suffix)

    def _box(self, id: str, kind: Kind, title: str, *lines: str, role: str = "") -> Node:  # noqa: A002
        """Adds a box to the subnet with that role, or beside the networks, and returns it."""
        node = self._nodes[id] = Node(id.replace("-", "_"), kind, title, lines)
        (self._subnets[role] if role else self.picture).nodes.append(node)
        return node

    def _arrow(self, source: str, label: str, target: str) -> None:
        """Adds an arrow between two boxes if both exist."""
        if source in self._nodes and target in self._nodes:
            ends = self._nodes[source].id, self._nodes[target].id
            self.picture.arrows.append(Arrow(*ends, label))

    def network(self) -> None:
        """Adds the network with its subnets, NAT gateway and peerings."""
        environment, spec = self._environment, self._environment.network
        if spec.existing:
            subnets = spec.existing.subnets.by_role
            title = subnets["compute"].id.split("/subnets/")[0].rpartition("/")[2]
            network = Group("network", title, (f"virtual network, {EXISTING}",))
            for role, subnet in subnets.items():
                range_ = str(subnet.range), EXISTING
                self._subnets[role] = Group(f"subnet_{role}", subnet.id.rpartition("/")[2], range_)
        else:
            space = str(spec.address_space)
            network = Group("network", self._name("virtual_network"), ("virtual network", space))
            roles = [*EVERY_NETWORK, *sorted(dedicated_subnets(environment.filesystems))]
            roles += ["endpoints"] if spec.private_endpoints else []
            roles += [role for role in environment.node_roles if role not in roles]
            roles += ["bastion"] if environment.access.bastion else []
            plan = subnet_plan(spec.address_space)
            for role in roles:
                # Azure requires this name for a bastion's subnet.
                title = "AzureBastionSubnet" if role == "bastion" else self._name("subnet", role)
                self._subnets[role] = Group(f"subnet_{role}", title, (str(plan[role]),))
        network.groups += self._subnets.values()
        self.picture.groups.append(network)
        if spec.has_nat:
            served = [
                role for role in self._subnets if role != "bastion" and not SUBNETS[role].delegated
            ]
            line = f"to the internet for {', '.join(served)}"
            network.nodes.append(
                Node("nat", Kind.NETWORK, self._name("nat_gateway"), ("NAT gateway", line))
            )
        for name, peering in spec.peerings.items():
            lines = ("peering", "through its gateway")[: 1 + peering.gateway]
            title = self._name("virtual_network_peering", name)
            here, other = f"peering-{name}", f"peered-{name}"
            self._nodes[here] = Node(here.replace("-", "_"), Kind.NETWORK, title, lines)
            network.nodes.append(self._nodes[here])
            title = peering.network.rpartition("/")[2]
            self._box(other, Kind.NETWORK, title, f"virtual network, {EXISTING}")
            self._arrow(here, "peering", other)

    def _endpoint(self, of: str, name: str, subresource: str) -> None:
        """Adds the private endpoint of a service if the network has private endpoints."""
        if self._environment.network.private_endpoints:
            title, line = self._name("private_endpoint", name), f"private endpoint: {subresource}"
            self._box(f"endpoint-{of}", Kind.NETWORK, title, line, role="endpoints")
            self._arrow(f"endpoint-{of}", "", of)

    def services(self) -> None:
        """Adds storage, registry, vaults and accounts, each with its private endpoints."""
        environment, storage = self._environment, self._environment.storage
        if storage.existing:
            title, what = storage.existing.rpartition("/")[2], EXISTING
        else:
            title, what = storage.account or self._name("storage_account"), "Blob storage"
        self._box("storage", Kind.SERVICE, title, what, *storage.containers)
        if storage.has_endpoint:
            self._endpoint("storage", "storage", "blob")
        if (registry := environment.registry) and registry.existing:
            title = registry.existing.rpartition("/")[2]
            self._box("registry", Kind.SERVICE, title, EXISTING)
        for id_, kind, line, subresources in self._made():
            self._box(id_, Kind.SERVICE, self._name(kind), line)
            if subresources:
                self._endpoint(id_, id_, subresources)
        self._arrow("kubernetes", "AcrPull", "registry")
        if storage.customer_managed_key:
            self._arrow("storage", "encrypted with its key", "vault")

    def _made(self) -> Iterator[Box]:
        """Yields the services that the environment creates, except storage."""
        environment = self._environment
        if environment.new_registry:
            yield "registry", "container_registry", "container registry", "registry"
        if environment.has_vault:
            yield "vault", "key_vault", "key vault", "vault"
        for manager in environment.managers.values():
            yield from manager.services
        if environment.monitoring and not environment.monitoring.workspace:
            yield "logs", "log_analytics_workspace", "Log Analytics workspace", ""

    def identities(self) -> None:
        """Adds the identities of jobs and of their submitters, with their roles."""
        environment = self._environment
        wanted = {cluster.acts_as[1] for cluster in environment.clusters.values()}
        for identity in ("nodes", "slurm-nodes"):
            if identity in wanted:
                name = self._name("user_assigned_identity", identity)
                self._box(identity, Kind.IDENTITY, name, "identity")
                self._use_data(identity, pools=False)
                self._arrow(identity, "AcrPull", "registry")
                if environment.vault:
                    self._arrow(identity, "Key Vault Secrets User", "vault")
        self._arrow("slurm-nodes", "Key Vault Secrets User", "slurm-vault")
        for person in researchers_of(environment.access.researchers):
            id_, title = f"person-{person.key}", person.object_id or "the deployer"
            self._box(id_, Kind.IDENTITY, title, f"user or group, {person.why}")
            self._use_data(id_, pools=bool(environment.pools))

    def _use_data(self, identity: str, *, pools: bool) -> None:
        """Adds an arrow for the role on all containers, and one for that on the Batch account."""
        for each in data_roles([", ".join(self._environment.storage.containers)], pools=pools):
            if each.container is None:
                self._arrow(identity, each.role, "batch")
            else:
                self._arrow(identity, f"{each.role}: {each.container}", "storage")

    def filesystem(self, name: str, spec: AnyFileSystem) -> None:
        """Adds a file system; one of blobs is the box of its storage account."""
        if spec.is_container:
            self._nodes[_files(name)] = self._nodes["storage"]
            return
        unique = name_rule(spec.resource_kind)
        parts = () if unique and unique.unique else (name,)
        title = spec.source or self._name(spec.resource_kind, *parts)
        self._box(_files(name), Kind.FILES, title, *spec.facts, role=spec.subnet_role or "")
        if spec.private_link:
            self._endpoint(_files(name), _files(name), spec.private_link)
        if spec.imported:
            self._arrow(_files(name), f"imports {spec.imported}", "storage")
        if spec.is_backed_up:
            if "backups" not in self._nodes:
                title = self._name("recovery_services_vault")
                self._box("backups", Kind.SERVICE, title, "backup vault")
            self._arrow(_files(name), "backed up", "backups")

    def managers(self) -> None:
        """Adds the machines of managers: Slurm's scheduler and its login nodes."""
        environment = self._environment
        mounts = scheduler_mounts(environment.filesystems, environment.clusters)
        sizes = (each.vms.items() for each in environment.managers.values())
        for name, size in chain.from_iterable(sizes):
            title = self._name("linux_virtual_machine", name)
            self._box(name, Kind.MACHINES, title, f"VM, {size}", role="compute")
            self._mount(name, mounts)

    def cluster(self, name: str, spec: AnyCluster) -> None:
        """Adds a cluster's machines, their mounts, and their identity."""
        id_, role = f"cluster-{name}", spec.subnet_role(self._environment.network)
        what, kind = spec.machines
        least, most = spec.node_range.min, spec.node_range.max
        lines = [what, f"{most if least == most else f'{least} to {most}'} × {spec.size}"]
        if spec.is_single:
            kind, lines = "linux_virtual_machine", [f"VM, {spec.size}"]
        title = self._name(kind, name) if kind else name
        spot = ["Spot"] if spec.spot else []
        self._box(id_, Kind.MACHINES, title, *lines, *spot, role=role)
        self._mount(id_, spec.mounts)
        self._arrow(id_, *spec.manager)
        self._arrow(id_, *spec.acts_as)

    def _mount(self, machine: str, names: Iterable[str]) -> None:
        for name in names:
            path = self._environment.filesystems[name].path
            self._arrow(machine, f"mounts {path}", _files(name))

    def ways_in(self) -> None:
        """Adds the gateway and the bastion, with arrows to the machines that they lead to."""
        environment = self._environment
        if size := environment.access.gateway_size:
            role = "management" if "management" in self._subnets else "compute"
            name = self._name("linux_virtual_machine", "gateway")
            self._box("gateway", Kind.MACHINES, name, f"VM, {size}", role=role)
        if environment.access.bastion:
            machines = [id_ for id_, node in self._nodes.items() if node.kind is Kind.MACHINES]
            servers = [name for name, spec in environment.filesystems.items() if spec.is_server]
            name = self._name("bastion_host")
            self._box("bastion", Kind.NETWORK, name, "Bastion", role="bastion")
            for machine in [*machines, *map(_files, servers)]:
                _, _, name = machine.partition("cluster-")
                if not name or environment.clusters[name].takes_logins:
                    self._arrow("bastion", "SSH", machine)


def _files(name: str) -> str:
    return f"files-{name}"


def _fold_empty(network: Group) -> None:
    """Replaces empty subnets by boxes: a group without boxes cannot be drawn."""
    for subnet in list(network.groups):
        if not subnet.nodes:
            network.groups.remove(subnet)
            lines = ("empty subnet", *subnet.lines)
            network.nodes.append(Node(subnet.id, Kind.NETWORK, subnet.title, lines))
