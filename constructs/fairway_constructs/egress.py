"""The egress of a virtual network: a NAT gateway of its own, or a firewall elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.nat_gateway import NatGateway
from fairway_constructs.azurerm.nat_gateway_public_ip_association import (
    NatGatewayPublicIpAssociation,
)
from fairway_constructs.azurerm.public_ip import PublicIp
from fairway_constructs.azurerm.route_table import Route, RouteTable
from fairway_constructs.azurerm.subnet_nat_gateway_association import SubnetNatGatewayAssociation
from fairway_constructs.azurerm.subnet_route_table_association import SubnetRouteTableAssociation
from fairway_constructs.cdk import Component

if TYPE_CHECKING:
    from ipaddress import IPv4Address

    from fairway_constructs.cdk import Construct, Resource


class NatEgress(Component):
    """A NAT gateway, whose public address is the source of all subnets' traffic to the internet.

    It accepts no inbound connections.

    >>> egress = NatEgress(stack)
    >>> egress.attach("compute", subnet.id)
    """

    def __init__(self, scope: Construct, id: str = "egress") -> None:
        super().__init__(scope, id)
        azure = self.azure
        address = PublicIp(
            self,
            "nat-address",
            name=azure.name("public_ip", "nat"),
            **azure.common,
            allocation_method="Static",
            sku="Standard",
            zones=azure.zones,
        )
        gateway = NatGateway(
            self,
            "nat",
            name=azure.name("nat_gateway"),
            **azure.common,
            sku_name="Standard",
            zones=azure.zones,
        )
        self._gateway_id = gateway.id
        self.address = address.ip_address
        NatGatewayPublicIpAssociation(
            self,
            "nat-address-of-gateway",
            nat_gateway_id=self._gateway_id,
            public_ip_address_id=address.id,
        )

    def attach(self, role: str, subnet_id: str) -> Resource:
        """Routes the outbound traffic of the subnet with that role through the gateway."""
        return SubnetNatGatewayAssociation(
            self, f"{role}-has-nat", subnet_id=subnet_id, nat_gateway_id=self._gateway_id
        )


class FirewallEgress(Component):
    """A route that sends internet traffic to a firewall in a connected network.

    The firewall determines the address by which services on the internet see the subnets.

    >>> egress = FirewallEgress(stack, next_hop=IPv4Address("10.0.0.4"))
    """

    address = ""

    def __init__(self, scope: Construct, id: str = "egress", *, next_hop: IPv4Address) -> None:
        super().__init__(scope, id)
        azure = self.azure
        self._table_id = RouteTable(
            self,
            "firewall-routes",
            name=azure.name("route_table"),
            **azure.common,
            route=[
                Route(
                    name="internet",
                    address_prefix="0.0.0.0/0",
                    next_hop_type="VirtualAppliance",
                    next_hop_in_ip_address=str(next_hop),
                )
            ],
        ).id

    def attach(self, role: str, subnet_id: str) -> Resource:
        """Routes the internet traffic of the subnet with that role to the firewall."""
        return SubnetRouteTableAssociation(
            self, f"{role}-has-routes", subnet_id=subnet_id, route_table_id=self._table_id
        )
