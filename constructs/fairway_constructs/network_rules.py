"""What each subnet lets in: explicit rules, and a last one that refuses everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm.network_security_group import SecurityRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

_SSH = "22"
_NFS = "2049"
_HTTPS = "443"
_LAST_PRIORITY = 4096


def security_rules(
    role: str,
    subnets: Mapping[str, IPv4Network],
    allowed: Sequence[IPv4Network],
    *,
    bastion: bool = False,
) -> list[SecurityRule]:
    """The inbound rules of the subnet with that role; `allowed` are ranges that may use SSH.

    Nodes of the compute subnet talk to each other on any port, as MPI and NCCL need; file
    servers are reached over NFS from there alone. Private endpoints are reached from all
    subnets, over HTTPS, and over NFS where they lead to a file share. With `bastion` SSH is
    let in from the subnet of that too.
    """
    own, compute = [subnets[role]], [subnets["compute"]]
    rules = []
    if role == "compute":
        rules.append(_allow("ComputeToCompute", compute, own, port="*", protocol="*"))
    if role == "storage":
        rules.append(_allow("NfsFromCompute", compute, own, port=_NFS))
    if role == "endpoints":
        inside = [subnets[each] for each in ("compute", "storage", "management")]
        rules.append(_allow("HttpsFromInside", inside, own, port=_HTTPS))
        rules.append(_allow("NfsFromCompute", compute, own, port=_NFS))
    if role not in ("management", "endpoints"):
        rules.append(_allow("SshFromManagement", [subnets["management"]], own, port=_SSH))
    if bastion and role != "endpoints":
        rules.append(_allow("SshFromBastion", [subnets["bastion"]], own, port=_SSH))
    if allowed and role != "endpoints":
        rules.append(_allow("SshFromNamedRanges", allowed, own, port=_SSH))
    numbered = [{**rule, "priority": 100 + 10 * index} for index, rule in enumerate(rules)]
    return [*(SecurityRule(**rule) for rule in numbered), DENY_THE_REST]


def _allow(
    name: str,
    sources: Sequence[IPv4Network],
    destination: Sequence[IPv4Network],
    *,
    port: str,
    protocol: str = "Tcp",
) -> dict[str, Any]:
    """A rule without its priority, which its place in the list gives."""
    return {
        "name": f"Allow{name}",
        "direction": "Inbound",
        "access": "Allow",
        "protocol": protocol,
        "source_address_prefixes": [str(source) for source in sources],
        "source_port_range": "*",
        "destination_address_prefixes": [str(network) for network in destination],
        "destination_port_range": port,
    }


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
