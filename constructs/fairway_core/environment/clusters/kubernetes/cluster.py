"""The cluster of Azure Kubernetes Service: its settings, and what it needs from its environment."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import AddressValueError, IPv4Network
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fairway_core.catalog import limit, vm_size
from fairway_core.cost.line_items import LineItem, api_server, disks, vms
from fairway_core.documents import Check, FieldError, rule
from fairway_core.environment.addresses import require_free, require_no_overlap, require_private
from fairway_core.environment.clusters.base import Manager
from fairway_core.environment.clusters.kubernetes.node_pool import KubernetesNodes
from fairway_core.environment.clusters.kubernetes.settings import (
    SERVICES,
    WHOLE_MINUTES,
    Operators,
    SystemPool,
    UpgradeWindow,
    check_minor,
    check_namespace,
    check_quota,
)
from fairway_core.environment.network import Firewall
from fairway_core.environment.values import Range
from fairway_core.fields import Span
from fairway_core.light_fields import Amount, ExactImage
from fairway_core.public_ranges import internet_ranges
from fairway_core.resource_ids import ObjectId
from fairway_core.target import HEAD_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fairway_core.environment.access import Access
    from fairway_core.environment.clusters.base import Box, Surroundings
    from fairway_core.environment.clusters.kubernetes.node_pool import NodePool
    from fairway_core.environment.network import Network
    from fairway_core.yaml_text import DataPath

# The last part of the name of the resource group in which AKS creates the machines of all pools.
NODES_GROUP = "kubernetes-nodes"
# The storage container of the manifests that Flux applies: longer than the name of any other
# container can be.
CONFIGURATION = "cluster-configuration"
# By how many percent AKS may raise the number of system nodes while it replaces them. Other pools
# are replaced in place, and those of Spot nodes without further ones.
SYSTEM_SURGE = 10
# The disk of a system node, for container images and logs.
SYSTEM_GIB = 128
# Ranges of the section, and whose they are.
RANGES = {"pod_range": "the pods'", "service_range": "the services'"}
OTHER_RANGE = "set `{}:` to a private range that nothing in the network uses"


class Kubernetes(Manager, defer_build=True):
    """The cluster of Azure Kubernetes Service, in which each cluster with `engine: kubernetes` is a
    node pool.

    People sign in with Entra ID, and there are no local accounts. What runs in the cluster is
    described by manifests in a container of the storage account, which Flux applies.
    """

    version: Annotated[str, Check(check_minor)] | None = None
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
    namespace: Annotated[str, Check(check_namespace)] = "fairway"
    """The namespace of jobs."""
    quota: Annotated[dict[str, Amount], Check(check_quota)] = Field(default_factory=dict)
    """Limits of this namespace, written as in a ResourceQuota, for example
    `requests.nvidia.com/gpu: "64"`."""
    wait_for_pods: Annotated[Span, WHOLE_MINUTES] | None = None
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
    service_range: Annotated[Range, SERVICES] = IPv4Network("10.245.0.0/16")
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

    @property
    def services(self) -> tuple[Box, ...]:
        """The cluster."""
        return (("kubernetes", "kubernetes_cluster", "Kubernetes cluster", ""),)

    @property
    def address_rules(self) -> dict[str, int]:
        """The rules of a public API server, one of them for the nodes themselves."""
        return {"kubernetes": 1} if self.api_server == "allowed" else {}

    def check(self, around: Surroundings) -> None:
        """Raises FieldError if node pools, their cluster and the network do not fit together."""
        if around.storage.existing:
            raise FieldError(
                "the cluster's manifests are in a container of their own, and Fairway creates "
                "none in an existing account",
                "leave it out",
                ("storage", "existing"),
            )
        pools = around.of(KubernetesNodes)
        _check_ranges(self, around.network, around.access, around.servers)
        _check_room(self, pools)
        _check_network(self, around.network, around.access)

    def addresses(self, network: Network) -> dict[str, int]:
        """Returns two for each of the system's nodes, see `most_nodes`, and one for a private API
        server."""
        own = 2 * self.system.node_range.max + (self.api_server == "private")
        return {network.kubernetes_role: own}

    def cost(self, endpoint: list[LineItem]) -> Iterator[tuple[str, list[LineItem]]]:
        """Yields the API server, and the system's nodes with their disks."""
        yield "Kubernetes", api_server(self.tier)
        counts = self.system.counts
        parts = [vms(self.system.size, counts), *disks("premium", SYSTEM_GIB, counts)]
        yield "Kubernetes system nodes", parts

    def egress(self, around: Surroundings) -> Iterator[str]:
        """Yields the kinds of rows for AKS, its updates, drivers and logs."""
        yield "kubernetes"
        if self.upgrades is not None and self.upgrades.nodes == "SecurityPatch":
            yield "kubernetes-patches"
        sizes = [vm_size(pool.size) for pool in around.of(KubernetesNodes).values()]
        if any(size.gpu or size.rdma for size in sizes):
            yield "operators"
        if around.monitored:
            yield "kubernetes-monitoring"


def most_nodes(spec: Kubernetes, pools: Mapping[str, NodePool]) -> int:
    """Returns for how many nodes there must be addresses: the provider makes a second pool of the
    system before it deletes the first."""
    return _all_nodes(spec, pools) + spec.system.node_range.max


def _all_nodes(spec: Kubernetes, pools: Mapping[str, NodePool]) -> int:
    return spec.system.node_range.max + sum(each.node_range.max for each in pools.values())


def require_beside(
    spec: Kubernetes,
    used: Iterable[tuple[str, IPv4Network, DataPath]],
    allowed: Sequence[IPv4Network | str],
    section: DataPath = (),
) -> None:
    """Raises FieldError if pods or services would have addresses that others use, by whose and
    where they are written, or public ones that `allowed` does not name: at the range in this
    `section` if it is given, and else at the other one."""
    offices = [IPv4Network(each) for each in allowed]
    for field, whose in RANGES.items():
        own: IPv4Network = getattr(spec, field)
        path = (*section, field)
        hint = OTHER_RANGE.format(".".join(map(str, path)))
        require_private(own, offices, path=path, hint=hint)
        for others, other, elsewhere in used:
            if field in spec.model_fields_set:
                require_no_overlap(own, other, others, path=path, hint=hint)
            else:
                require_no_overlap(other, own, whose, path=elsewhere, hint=hint)


def _check_ranges(
    spec: Kubernetes, network: Network, access: Access, servers: Mapping[str, str]
) -> None:
    used: list[tuple[str, IPv4Network, DataPath]] = []
    for place, each in network.ranges.items():
        require_free(each, "kubernetes", path=("network", *place))
        used.append(("the network's", each, ("network", *place)))
    if isinstance(network.egress, Firewall):
        next_hop = IPv4Network(network.egress.next_hop)
        used.append(("the firewall's", next_hop, ("network", "egress", "next_hop")))
    for index, server in enumerate(network.dns.servers):
        path = ("network", "dns", "servers", index)
        used.append(("a DNS server's", IPv4Network(server), path))
    for name, source in servers.items():
        with suppress(AddressValueError):  # a host's name
            host = IPv4Network(source.partition(":")[0])
            used.append(("a file server's", host, ("filesystems", name)))
    for index, office in enumerate(access.allowed):
        # A wider one is that of a company, whose network is elsewhere in it.
        if any(office.subnet_of(getattr(spec, field)) for field in RANGES):
            used.append(("`access.allowed`'s", office, ("access", "allowed", index)))
    require_beside(spec, used, access.allowed, ("kubernetes",))


def _check_room(spec: Kubernetes, pools: Mapping[str, KubernetesNodes]) -> None:
    """Raises FieldError if the pods' range is too small: each node takes a part of it."""
    nodes, most = _all_nodes(spec, pools), limit(f"kubernetes_nodes_{spec.tier.lower()}")
    if nodes > most:
        raise FieldError(
            f"the pools have {nodes} nodes, and a cluster of `tier: {spec.tier}` has {most} at "
            "most",
            "lower `nodes:`, or make several environments"
            + (", or use `tier: Standard`" if spec.tier == "Free" else ""),
            ("clusters",),
        )
    nodes = most_nodes(spec, pools)
    # Source: Azure documentation, Azure CNI Overlay: a /24 for each node.
    room = 2 ** max(0, 24 - spec.pod_range.prefixlen)
    if nodes > room:
        raise FieldError(
            f"the pods of {nodes} nodes do not fit in `{spec.pod_range}`, which has room "
            f"for {room}",
            "write a larger `pod_range:`, for example 10.244.0.0/14",
            ("kubernetes", "pod_range"),
        )


def _check_network(spec: Kubernetes, network: Network, access: Access) -> None:
    if network.egress == "none" or network.proxy is not None:
        field, what, hint = "egress", "`egress: none` closes", "use another `egress:`"
        if network.proxy is not None:
            field, what, hint = "proxy", "`proxy:` is the way to", "leave `proxy:` out"
            hint += ", and use another `egress:`" if network.egress == "none" else ""
        raise FieldError(
            f"nodes of Kubernetes fetch their system from the internet, which {what}",
            f"{hint}, or use another engine",
            ("network", field),
        )
    if spec.api_server == "private":
        return
    path = ("kubernetes", "api_server")
    if not internet_ranges(access.allowed):
        raise FieldError(
            "nobody could reach the API server: `access.allowed` names no public range",
            "name the ranges that you work from there, or leave `api_server:` out",
            path,
        )
    if not network.has_nat:
        raise FieldError(
            "nodes could not reach the API server: it admits them by the address of the "
            "NAT gateway, and there is none",
            "leave `api_server:` out",
            path,
        )
