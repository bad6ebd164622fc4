"""Rules on a Kubernetes cluster and what is around it: its pools, the network, addresses in use."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import AddressValueError, IPv4Network
from typing import TYPE_CHECKING

from fairway_core.catalog import limit
from fairway_core.documents import FieldError
from fairway_core.environment.addresses import require_no_overlap, require_private
from fairway_core.environment.kubernetes import OTHER_RANGE, RANGES, require_pool_name
from fairway_core.environment.network import Firewall, require_free
from fairway_core.environment.values import below_path
from fairway_core.public_ranges import internet_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fairway_core.environment.access import Access
    from fairway_core.environment.kubernetes import Kubernetes, KubernetesNodes, NodePool
    from fairway_core.environment.network import Network
    from fairway_core.environment.storage import Storage
    from fairway_core.yaml_text import DataPath


def check_kubernetes(
    pools: Mapping[str, KubernetesNodes],
    spec: Kubernetes,
    *,
    network: Network,
    access: Access,
    storage: Storage,
    servers: Mapping[str, str],
) -> None:
    """Raises FieldError if node pools, their cluster and the network do not fit together. `servers`
    are the sources of file systems that exist already, by name."""
    for name in pools:
        with below_path("clusters", name):
            require_pool_name(name)
    if storage.existing:
        raise FieldError(
            "the cluster's manifests are in a container of their own, and Fairway creates "
            "none in an existing account",
            "leave it out",
            ("storage", "existing"),
        )
    _check_ranges(spec, network, access, servers)
    _check_room(spec, pools)
    _check_network(spec, network, access)


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
