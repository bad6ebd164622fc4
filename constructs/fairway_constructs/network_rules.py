"""Inbound rules of each subnet: explicit ones, and a last one that refuses everything else."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, TypeAlias

from fairway_agent.quick import dataclass
from fairway_constructs import network_access
from fairway_constructs.azurerm.network_security_group import SecurityRule
from fairway_core.public_ranges import drop_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    # A rule without its priority, which its index in a list determines.
    Unnumbered: TypeAlias = partial[SecurityRule]

_SSH = "22"
_NFS = str(network_access.NFS)
_HTTPS = "443"

# Source: Azure documentation, configure a network security group for Azure Managed Lustre.
_LUSTRE = ("988", "1019-1023")

# The machines in these subnets are managed by Azure or AKS: nobody logs in to them.
_MANAGED = frozenset({"endpoints", "netapp", "lustre", "kubernetes"})

_SERVER_NFS_3 = tuple(map(str, network_access.SERVER_NFS_3))
_CLIENT_NFS_3 = tuple(map(str, network_access.CLIENT_NFS_3))
_LAST_PRIORITY = 4096
MOST_RULES = 400
"""The most rules of a subnet: their priorities, from 100 in steps of ten, precede the last one."""


@dataclass(frozen=True, kw_only=True)
class NetworkRules:
    """The inbound rules of a network, whose ranges `subnets` are by role.

    Nodes of the compute subnet communicate on any port, as MPI and NCCL need; only they reach file
    servers, over NFS. Private endpoints are reached from all subnets, over HTTPS, and over NFS if
    they lead to a file share. Ranges of `allowed` may use SSH, and with `bastion` its subnet may
    too.

    With `lustre` there is Managed Lustre, whose servers and clients reach each other; with `nfs_3`
    there are file servers with this old version, which call their clients back. With `pods`, the
    address range of pods, there are Kubernetes nodes in a subnet of their own. Ranges of `web`
    reach a login node over HTTPS.
    """

    subnets: Mapping[str, IPv4Network]
    allowed: Sequence[IPv4Network]
    bastion: bool = False
    lustre: bool = False
    nfs_3: bool = False
    pods: IPv4Network | None = None
    web: Sequence[IPv4Network] = ()

    def of(self, role: str) -> list[SecurityRule]:
        """Returns the inbound rules of the subnet with that role."""
        rules = [
            *self._service_rules(role),
            *(self._ssh_rules(role) if role not in _MANAGED else ()),
            # At the end, so that the rules before keep their priorities.
            *self._callback_rules(role),
        ]
        if role == "compute" and self.web:
            rules.append(allow("HttpsFromNamedRanges", self.web, self._of(role), port=_HTTPS))
        return [*numbered(rules), DENY_THE_REST]

    def _of(self, *roles: str) -> list[IPv4Network]:
        return [self.subnets[role] for role in roles]

    @property
    def _clients(self) -> list[str]:
        return ["compute", *(["kubernetes"] if self.pods else [])]

    def _service_rules(self, role: str) -> list[Unnumbered]:
        """Returns the rules for the traffic that the subnet exists for."""
        own, compute = self._of(role), self._of(*self._clients)
        nfs = allow("NfsFromCompute", compute, own, port=_NFS)
        match role:
            case "compute":
                return [allow("ComputeToCompute", own, own, port="*", protocol="*")]
            case "kubernetes":
                # Rules see the addresses of pods. Source: Azure documentation, Azure CNI Overlay,
                # network security groups.
                inside = [*own, *([self.pods] if self.pods else [])]
                return [allow("NodesAndPods", inside, inside, port="*", protocol="*")]
            case "storage" | "netapp":
                return [nfs]
            case "endpoints":
                lustre = ["lustre"] if self.lustre else []
                inside = self._of(*self._clients, "storage", "management", *lustre)
                return [allow("HttpsFromInside", inside, own, port=_HTTPS), nfs]
            case "lustre":
                return [
                    allow("LustreToLustre", own, own, port="*", protocol="*"),
                    allow("LustreFromCompute", compute, own, port=_LUSTRE),
                    # Azure monitors the health of its servers from there.
                    allow("AzureMonitor", "AzureMonitor", own, port="*"),
                ]
        return []

    def _ssh_rules(self, role: str) -> Iterator[Unnumbered]:
        own = self._of(role)
        if role != "management":
            yield allow("SshFromManagement", self._of("management"), own, port=_SSH)
        if self.bastion:
            yield allow("SshFromBastion", self._of("bastion"), own, port=_SSH)
        if self.allowed:
            yield allow("SshFromNamedRanges", self.allowed, own, port=_SSH)

    def _callback_rules(self, role: str) -> Iterator[Unnumbered]:
        """Yields the rules for servers that open connections to clients; NFS 4 servers do not."""
        own, is_client = self._of(role), role in self._clients
        if self.nfs_3 and role == "storage":
            compute = self._of(*self._clients)
            yield allow("Nfs3FromCompute", compute, own, port=_SERVER_NFS_3, protocol="*")
        if self.nfs_3 and is_client:
            storage = self._of("storage")
            yield allow("Nfs3FromStorage", storage, own, port=_CLIENT_NFS_3, protocol="*")
        if self.lustre and is_client:
            yield allow("LustreToCompute", self._of("lustre"), own, port=_LUSTRE)


def numbered(rules: Iterable[Unnumbered]) -> list[SecurityRule]:
    """Returns the rules with priorities by their order."""
    return [rule(priority=priority(index)) for index, rule in enumerate(rules)]


def priority(index: int) -> int:
    """Returns the priority of a rule by its index in the list."""
    return 100 + 10 * index


def allow(
    name: str,
    sources: Sequence[IPv4Network | str] | str,
    destination: Sequence[IPv4Network] | str,
    *,
    port: str | Sequence[str],
    protocol: str = "Tcp",
    direction: str = "Inbound",
) -> Unnumbered:
    """Returns a rule without its priority, which its index in the list determines.

    `sources` and `destination` are ranges, or one service tag: Azure takes no lists of tags. A
    source inside another is left out.
    """
    if not isinstance(sources, str):
        sources = drop_nested([IPv4Network(each) for each in sources])
    return partial(
        SecurityRule,
        name=f"Allow{name}",
        direction=direction,
        access="Allow",
        protocol=protocol,
        source_address_prefix=_one(sources),
        source_address_prefixes=_several(sources),
        source_port_range="*",
        destination_address_prefix=_one(destination),
        destination_address_prefixes=_several(destination),
        destination_port_range=_one(port),
        destination_port_ranges=_several(port),
    )


def _one(given: Sequence[IPv4Network | str] | str) -> str | None:
    return given if isinstance(given, str) else None


def _several(given: Sequence[IPv4Network | str] | str) -> list[str] | None:
    return None if isinstance(given, str) else [str(each) for each in given]


# Azure's own last rules would still admit the entire virtual network and its load balancer.
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
