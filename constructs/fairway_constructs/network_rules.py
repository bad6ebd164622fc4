"""What may reach each subnet: explicit rules, and a last one that refuses everything else."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from fairway_constructs import nfs_ports
from fairway_constructs.azurerm.network_security_group import SecurityRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from ipaddress import IPv4Network

    # A rule without its priority, which its place in a list gives.
    Unnumbered: TypeAlias = partial[SecurityRule]

_SSH = "22"
_NFS = str(nfs_ports.NFS)
_HTTPS = "443"

# Source: Azure documentation, configure a network security group for Azure Managed Lustre.
_LUSTRE = ("988", "1019-1023")

# What stands in these subnets is Azure's, or AKS': nobody logs in there.
_MANAGED = frozenset({"endpoints", "netapp", "lustre", "kubernetes"})

_SERVER_NFS_3 = tuple(map(str, nfs_ports.SERVER_NFS_3))
_CLIENT_NFS_3 = tuple(map(str, nfs_ports.CLIENT_NFS_3))
_LAST_PRIORITY = 4096


def security_rules(
    role: str,
    subnets: Mapping[str, IPv4Network],
    allowed: Sequence[IPv4Network],
    *,
    bastion: bool = False,
    lustre: bool = False,
    nfs_3: bool = False,
    pods: IPv4Network | None = None,
    web: Sequence[IPv4Network] = (),
) -> list[SecurityRule]:
    """The inbound rules of the subnet with that role; `allowed` are ranges that may use SSH.

    Nodes of the compute subnet talk to each other on any port, as MPI and NCCL need; file
    servers are reached over NFS from there alone. Private endpoints are reached from all
    subnets, over HTTPS, and over NFS where they lead to a file share. With `bastion` SSH is
    allowed from its subnet too.

    With `lustre` there is Managed Lustre, whose servers and clients reach each other; with
    `nfs_3` there are file servers that speak this old version, and call their clients back. With
    `pods`, the range of these, there are nodes of Kubernetes in a subnet of their own. Ranges of
    `web` reach a login node over HTTPS.
    """
    clients = ["compute", *(["kubernetes"] if pods else [])]
    rules = [
        *_service_rules(role, subnets, clients, lustre=lustre, pods=pods),
        *(_ssh_rules(role, subnets, allowed, bastion=bastion) if role not in _MANAGED else ()),
        # At the end, so that those before keep their priorities.
        *_callback_rules(role, subnets, clients, lustre=lustre, nfs_3=nfs_3),
        *_web_rules(role, subnets, web),
    ]
    return [*numbered(rules), DENY_THE_REST]


def numbered(rules: Iterable[Unnumbered]) -> list[SecurityRule]:
    """The rules with priorities by their order."""
    return [rule(priority=100 + 10 * index) for index, rule in enumerate(rules)]


def _service_rules(
    role: str,
    subnets: Mapping[str, IPv4Network],
    clients: Sequence[str],
    *,
    lustre: bool,
    pods: IPv4Network | None,
) -> list[Unnumbered]:
    """What the subnet is there for."""
    own, compute = [subnets[role]], [subnets[each] for each in clients]
    nfs = allow("NfsFromCompute", compute, own, port=_NFS)
    match role:
        case "compute":
            return [allow("ComputeToCompute", own, own, port="*", protocol="*")]
        case "kubernetes":
            # Rules see the addresses of pods. Source: Azure documentation, Azure CNI Overlay,
            # network security groups.
            inside = [*own, *([pods] if pods else [])]
            return [allow("NodesAndPods", inside, inside, port="*", protocol="*")]
        case "storage" | "netapp":
            return [nfs]
        case "endpoints":
            readers = (*clients, "storage", "management", *(("lustre",) if lustre else ()))
            inside = [subnets[each] for each in readers]
            return [allow("HttpsFromInside", inside, own, port=_HTTPS), nfs]
        case "lustre":
            return [
                allow("LustreToLustre", own, own, port="*", protocol="*"),
                allow("LustreFromCompute", compute, own, port=_LUSTRE),
                # Azure watches the health of its servers from there.
                allow("AzureMonitor", "AzureMonitor", own, port="*"),
            ]
    return []


def _ssh_rules(
    role: str,
    subnets: Mapping[str, IPv4Network],
    allowed: Sequence[IPv4Network],
    *,
    bastion: bool,
) -> list[Unnumbered]:
    own, rules = [subnets[role]], []
    if role != "management":
        rules.append(allow("SshFromManagement", [subnets["management"]], own, port=_SSH))
    if bastion:
        rules.append(allow("SshFromBastion", [subnets["bastion"]], own, port=_SSH))
    if allowed:
        rules.append(allow("SshFromNamedRanges", allowed, own, port=_SSH))
    return rules


def _callback_rules(
    role: str,
    subnets: Mapping[str, IPv4Network],
    clients: Sequence[str],
    *,
    lustre: bool,
    nfs_3: bool,
) -> list[Unnumbered]:
    """What file servers need beyond NFS 4, where clients open every connection."""
    own, rules = [subnets[role]], []
    if nfs_3 and role == "storage":
        compute = [subnets[each] for each in clients]
        rules.append(allow("Nfs3FromCompute", compute, own, port=_SERVER_NFS_3, protocol="*"))
    if nfs_3 and role in clients:
        storage = [subnets["storage"]]
        rules.append(allow("Nfs3FromStorage", storage, own, port=_CLIENT_NFS_3, protocol="*"))
    if lustre and role in clients:
        rules.append(allow("LustreToCompute", [subnets["lustre"]], own, port=_LUSTRE))
    return rules


def _web_rules(
    role: str, subnets: Mapping[str, IPv4Network], web: Sequence[IPv4Network]
) -> list[Unnumbered]:
    if role != "compute" or not web:
        return []
    return [allow("HttpsFromNamedRanges", web, [subnets[role]], port=_HTTPS)]


def allow(
    name: str,
    sources: Sequence[IPv4Network] | str,
    destination: Sequence[IPv4Network],
    *,
    port: str | Sequence[str],
    protocol: str = "Tcp",
) -> Unnumbered:
    """A rule without its priority, which its place in the list gives.

    `sources` are ranges, or one service tag of Azure's.
    """
    return partial(
        SecurityRule,
        name=f"Allow{name}",
        direction="Inbound",
        access="Allow",
        protocol=protocol,
        source_address_prefix=sources if isinstance(sources, str) else None,
        source_address_prefixes=(
            None if isinstance(sources, str) else [str(source) for source in sources]
        ),
        source_port_range="*",
        destination_address_prefixes=[str(network) for network in destination],
        destination_port_range=port if isinstance(port, str) else None,
        destination_port_ranges=None if isinstance(port, str) else list(port),
    )


# Azure's own last rules would still let the whole virtual network and its load balancer in.
DENY_THE_REST = SecurityRule(
    name="DenyEverythingElse",
    priority=_LAST_PRIORITY,
    direction="Inbound",
    access="Deny",
    protocol="*",
    source_address_prefix="*",
    source_port_range="*",
    destination_address_prefix="*",
    destination_port_range="*",
)
