"""The virtual network: a subnet for each role, closed by default, with one way out."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Literal

from fairway_constructs.azurerm.network_security_group import NetworkSecurityGroup
from fairway_constructs.azurerm.subnet import (
    Delegation,
    DelegationServiceDelegation,
    ServiceEndpoint,
    Subnet,
)
from fairway_constructs.azurerm.subnet_network_security_group_association import (
    SubnetNetworkSecurityGroupAssociation,
)
from fairway_constructs.azurerm.virtual_network import VirtualNetwork
from fairway_constructs.cdk import Component
from fairway_constructs.egress import FirewallEgress, NatEgress
from fairway_constructs.network_access import PlacedSubnet
from fairway_constructs.network_rules import security_rules
from fairway_core.catalog.tables import look_up
from fairway_core.documents import FieldError
from fairway_core.environment.addresses import check_space, subnet_plan
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fairway_constructs.bastion import Bastion
    from fairway_constructs.cdk import Construct
    from fairway_constructs.private_endpoint import PrivateEndpoints
    from fairway_core.environment import Dns, Firewall

# The subnets of every network; those of services stand where there is such a service.
_ALWAYS = ["compute", "storage", "management"]

# Who reads and writes Blob storage and secrets.
_USES_SERVICES = frozenset({"compute", "lustre", "kubernetes"})

# Whose clients are in the network and need a subnet that holds nothing else.
_OWN_SUBNETS = {"netapp": "Azure NetApp Files", "lustre": "Azure Managed Lustre"}

# Who makes what stands in a subnet, and needs no way out of it.
_DELEGATED = {"netapp": "Microsoft.Netapp/volumes"}


class Network(Component):
    """A virtual network with subnets for compute, storage and management.

    With `private_endpoints` there is one for these too, and `endpoints` makes them.

    Nodes reach the internet by a NAT gateway, which alone has a public address; with another
    `egress` by a firewall in a connected network, or not at all. Nothing comes in but what
    `network_rules` says. `allowed` are ranges that may use SSH, for example those of a VPN.
    With `bastion` there is one, through which the `admins` come: see `Bastion`. `filesystems`
    are those that need a subnet of their own, `netapp` and `lustre`; with `nfs_3` servers in
    the storage subnet speak that too. `dns` says whose servers resolve names, and in whose zones.
    With `pods`, the range of these, there is a subnet for nodes of Kubernetes; ranges of `web`
    reach the compute subnet over HTTPS.

    Raises UserError for an address space that cannot be cut into them, an unknown `egress`, and a
    file system without a subnet of its own; ValueError for what is no range of addresses.

    >>> network = Network(stack, address_space="10.40.0.0/16",
    ...                   allowed=["203.0.113.0/24"])  # doctest: +SKIP
    >>> network.subnets["compute"].id  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "network",  # noqa: A002
        *,
        address_space: IPv4Network | str,
        allowed: Sequence[IPv4Network | str] = (),
        private_endpoints: bool = False,
        egress: Literal["nat", "none"] | Firewall = "nat",
        service_endpoints: Sequence[str] = ("Microsoft.Storage",),
        bastion: bool = False,
        admins: Sequence[str] = (),
        filesystems: Collection[str] = (),
        nfs_3: bool = False,
        dns: Dns | None = None,
        pods: IPv4Network | None = None,
        web: Sequence[IPv4Network] = (),
    ) -> None:
        super().__init__(scope, id)
        place = self.place
        self._web = web
        self._zones = dns.existing_zones if dns else None
        address_space = _checked_space(address_space)
        ranges = [IPv4Network(each) for each in allowed]
        for each in filesystems:
            look_up(each, _OWN_SUBNETS, "file-system-with-a-subnet")
        self._filesystems = filesystems
        self._nfs_3 = nfs_3
        self._pods = pods
        self.virtual_network = VirtualNetwork(
            self,
            "vnet",
            name=place.name("virtual_network"),
            **place.common,
            address_space=[str(address_space)],
            dns_servers=[str(each) for each in dns.servers] or None if dns else None,
        )
        self._service_endpoints = service_endpoints
        self._egress = self._way_out(egress)
        self.egress_address = self._egress.address if self._egress else ""
        self._has_bastion = bastion
        plan = subnet_plan(address_space)
        vnet_name = self.virtual_network.name
        roles = [*_ALWAYS, *(["endpoints"] if private_endpoints else []), *sorted(filesystems)]
        roles += ["kubernetes"] if pods else []
        self.subnets: Mapping[str, PlacedSubnet] = {
            role: self._subnet(role, plan, ranges, vnet_name) for role in roles
        }
        self.endpoints = self._endpoints() if private_endpoints else None
        self.bastion = self._bastion(plan["bastion"], ranges, admins) if bastion else None

    def _endpoints(self) -> PrivateEndpoints:
        from fairway_constructs.private_endpoint import PrivateEndpoints

        return PrivateEndpoints(
            self,
            subnet_id=self.subnets["endpoints"].id,
            virtual_network_id=self.virtual_network.id,
            existing_zones=self._zones,
        )

    def _bastion(
        self, addresses: IPv4Network, allowed: Sequence[IPv4Network], admins: Sequence[str]
    ) -> Bastion:
        from fairway_constructs.bastion import Bastion

        return Bastion(
            self,
            virtual_network_name=self.virtual_network.name,
            addresses=addresses,
            allowed=allowed,
            admins=admins,
        )

    def _way_out(
        self, egress: Literal["nat", "none"] | Firewall
    ) -> NatEgress | FirewallEgress | None:
        if egress == "none":
            return None
        if egress == "nat":
            return NatEgress(self)
        if isinstance(egress, str):
            raise UserError.of(
                "unknown-egress",
                f"`{egress}` is no way out of a network",
                'use "nat", "none", or a Firewall of fairway_core.environment',
            )
        return FirewallEgress(self, next_hop=egress.next_hop)

    def _subnet(
        self,
        role: str,
        plan: Mapping[str, IPv4Network],
        allowed: Sequence[IPv4Network],
        vnet_name: str,
    ) -> PlacedSubnet:
        place = self.place
        group = NetworkSecurityGroup(
            self,
            f"{role}-rules",
            name=place.name("network_security_group", role),
            **place.common,
            security_rule=security_rules(
                role,
                plan,
                allowed,
                bastion=self._has_bastion,
                lustre="lustre" in self._filesystems,
                nfs_3=self._nfs_3,
                pods=self._pods,
                web=self._web,
            ),
        )
        subnet = Subnet(
            self,
            role,
            name=place.name("subnet", role),
            resource_group_name=place.resource_group,
            virtual_network_name=vnet_name,
            address_prefixes=[str(plan[role])],
            default_outbound_access_enabled=False,
            # Without it the rules would not hold for private endpoints.
            private_endpoint_network_policies=(
                "NetworkSecurityGroupEnabled" if role == "endpoints" else None
            ),
            service_endpoint=(
                [ServiceEndpoint(service=name) for name in self._service_endpoints] or None
                if role in _USES_SERVICES
                else None
            ),
            delegation=_delegation(_DELEGATED[role]) if role in _DELEGATED else None,
        )
        subnet_id = subnet.id
        SubnetNetworkSecurityGroupAssociation(
            self,
            f"{role}-has-rules",
            subnet_id=subnet_id,
            network_security_group_id=group.id,
        )
        if self._egress and role not in _DELEGATED:
            self._egress.attach(role, subnet_id)
        return PlacedSubnet(subnet_id, plan[role])


def _checked_space(text: IPv4Network | str) -> IPv4Network:
    """The range, where it holds all subnets that a network may ever have."""
    space = IPv4Network(text)
    try:
        check_space(space)
    except FieldError as error:
        raise UserError.of("bad-address-space", str(error), error.hint) from None
    return space


def _delegation(service: str) -> list[Delegation]:
    return [
        Delegation(name="service", service_delegation=DelegationServiceDelegation(name=service))
    ]
