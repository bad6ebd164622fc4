"""The virtual network: a subnet for each role, closed by default, with one way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.nat_gateway import NatGateway
from fairway_constructs.azurerm.nat_gateway_public_ip_association import (
    NatGatewayPublicIpAssociation,
)
from fairway_constructs.azurerm.network_security_group import NetworkSecurityGroup
from fairway_constructs.azurerm.public_ip import PublicIp
from fairway_constructs.azurerm.subnet import ServiceEndpoint, Subnet
from fairway_constructs.azurerm.subnet_nat_gateway_association import SubnetNatGatewayAssociation
from fairway_constructs.azurerm.subnet_network_security_group_association import (
    SubnetNetworkSecurityGroupAssociation,
)
from fairway_constructs.azurerm.virtual_network import VirtualNetwork
from fairway_constructs.network_rules import security_rules
from fairway_core.environment.addresses import subnet_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement
    from fairway_constructs.private_endpoint import PrivateEndpoints

# Who reads and writes Blob storage; its traffic then stays on Azure's own network.
_USES_BLOB = frozenset({"compute"})


@dataclass(frozen=True)
class PlacedSubnet:
    """A subnet as others need it: its id, to be put in, and its range, to be let in."""

    id: str
    range: IPv4Network

    @property
    def address_pattern(self) -> str:
        """Its addresses as OpenSSH matches host names: whole octets, then a star.

        >>> from ipaddress import IPv4Network
        >>> PlacedSubnet("id", IPv4Network("10.40.0.0/17")).address_pattern
        '10.40.*'
        """
        octets = str(self.range.network_address).split(".")[: self.range.prefixlen // 8]
        return ".".join([*octets, "*"])


class Network:
    """A virtual network with subnets for compute, storage and management.

    With `private_endpoints` there is one for these too, and `endpoints` makes them.

    Nothing has a public address but the NAT gateway, through which all subnets reach the
    internet; nothing comes in but what `network_rules` says. `allowed` are ranges that may
    use SSH, for example those of a VPN.

    >>> network = Network(stack, place=place, address_space=IPv4Network("10.40.0.0/16"),
    ...                   allowed=[IPv4Network("203.0.113.0/24")])  # doctest: +SKIP
    >>> network.subnets["compute"].id  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        *,
        place: Placement,
        address_space: IPv4Network,
        allowed: Sequence[IPv4Network] = (),
        private_endpoints: bool = False,
    ) -> None:
        self._scope = scope
        self._place = place
        self.virtual_network = VirtualNetwork(
            scope,
            "vnet",
            name=place.name("virtual_network"),
            resource_group_name=place.resource_group,
            location=place.location,
            address_space=[str(address_space)],
            tags=place.tags,
        )
        plan = subnet_plan(address_space)
        vnet_name = self.virtual_network.name
        gateway_id = self._nat_gateway()
        self.subnets: Mapping[str, PlacedSubnet] = {
            role: self._subnet(role, plan, allowed, vnet_name, gateway_id)
            for role in plan
            if role != "endpoints" or private_endpoints
        }
        self.endpoints = self._endpoints() if private_endpoints else None

    def _endpoints(self) -> PrivateEndpoints:
        from fairway_constructs.private_endpoint import PrivateEndpoints

        return PrivateEndpoints(
            self._scope,
            place=self._place,
            subnet_id=self.subnets["endpoints"].id,
            virtual_network_id=self.virtual_network.id,
        )

    def _nat_gateway(self) -> str:
        """The id of a NAT gateway with its address: the only way out, and no way in."""
        place = self._place
        address = PublicIp(
            self._scope,
            "nat-address",
            name=place.name("public_ip", "nat"),
            resource_group_name=place.resource_group,
            location=place.location,
            allocation_method="Static",
            sku="Standard",
            zones=place.zones,
            tags=place.tags,
        )
        gateway = NatGateway(
            self._scope,
            "nat",
            name=place.name("nat_gateway"),
            resource_group_name=place.resource_group,
            location=place.location,
            sku_name="Standard",
            zones=place.zones,
            tags=place.tags,
        )
        gateway_id = gateway.id
        self.egress_address = address.ip_address
        NatGatewayPublicIpAssociation(
            self._scope,
            "nat-address-of-gateway",
            nat_gateway_id=gateway_id,
            public_ip_address_id=address.id,
        )
        return gateway_id

    def _subnet(
        self,
        role: str,
        plan: Mapping[str, IPv4Network],
        allowed: Sequence[IPv4Network],
        vnet_name: str,
        gateway_id: str,
    ) -> PlacedSubnet:
        place = self._place
        group = NetworkSecurityGroup(
            self._scope,
            f"{role}-rules",
            name=place.name("network_security_group", role),
            resource_group_name=place.resource_group,
            location=place.location,
            security_rule=security_rules(role, plan, allowed),
            tags=place.tags,
        )
        subnet = Subnet(
            self._scope,
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
                [ServiceEndpoint(service="Microsoft.Storage")] if role in _USES_BLOB else None
            ),
        )
        subnet_id = subnet.id
        SubnetNetworkSecurityGroupAssociation(
            self._scope,
            f"{role}-has-rules",
            subnet_id=subnet_id,
            network_security_group_id=group.id,
        )
        SubnetNatGatewayAssociation(
            self._scope, f"{role}-has-nat", subnet_id=subnet_id, nat_gateway_id=gateway_id
        )
        return PlacedSubnet(subnet_id, plan[role])
