"""Ways out of a virtual network: a NAT gateway, a firewall elsewhere, and peerings with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.nat_gateway import NatGateway
from fairway_constructs.azurerm.nat_gateway_public_ip_association import (
    NatGatewayPublicIpAssociation,
)
from fairway_constructs.azurerm.provider import AzurermProvider
from fairway_constructs.azurerm.public_ip import PublicIp
from fairway_constructs.azurerm.route_table import Route, RouteTable
from fairway_constructs.azurerm.subnet_nat_gateway_association import SubnetNatGatewayAssociation
from fairway_constructs.azurerm.subnet_route_table_association import SubnetRouteTableAssociation
from fairway_constructs.azurerm.virtual_network_peering import VirtualNetworkPeering
from fairway_constructs.cdk import Component, surroundings
from fairway_constructs.scope import place_of
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from ipaddress import IPv4Address

    from fairway_constructs.azurerm.virtual_network import VirtualNetwork
    from fairway_constructs.cdk import Construct, Resource
    from fairway_constructs.network import Network
    from fairway_core.resource_ids import VirtualNetworkId


class NatEgress(Component):
    """A NAT gateway, whose public address is the source of all subnets' traffic to the internet.

    It accepts no inbound connections.

    >>> egress = NatEgress(stack)  # doctest: +SKIP
    >>> egress.attach("compute", subnet.id)  # doctest: +SKIP
    """

    def __init__(self, scope: Construct, id: str = "egress") -> None:
        super().__init__(scope, id)
        place = self.place
        address = PublicIp(
            self,
            "nat-address",
            name=place.name("public_ip", "nat"),
            **place.common,
            allocation_method="Static",
            sku="Standard",
            zones=place.zones,
        )
        gateway = NatGateway(
            self,
            "nat",
            name=place.name("nat_gateway"),
            **place.common,
            sku_name="Standard",
            zones=place.zones,
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
    ... # doctest: +SKIP
    """

    address = ""

    def __init__(self, scope: Construct, id: str = "egress", *, next_hop: IPv4Address) -> None:
        super().__init__(scope, id)
        place = self.place
        self._table_id = RouteTable(
            self,
            "firewall-routes",
            name=place.name("route_table"),
            **place.common,
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


class Peering(Component):
    """Both halves of a peering, the second one in the other network's subscription.

    Without `both_ways` the owner of the other network creates its half; until then no traffic
    passes. With `gateway` the other network's VPN or ExpressRoute gateway is used. The security
    rules decide which traffic may come in over it.

    >>> Peering(stack, "hub", network=network, remote_id="/subscriptions/…")
    ... # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        network: Network,
        remote_id: VirtualNetworkId,
        both_ways: bool = True,
        gateway: bool = False,
        forwarded: bool = False,
    ) -> None:
        super().__init__(scope, f"peering-{name}")
        place = self.place
        back = (
            _other_half(self, name, network.virtual_network, remote_id, gateway)
            if both_ways
            else None
        )
        VirtualNetworkPeering(
            self,
            f"peering-to-{name}",
            name=place.name("virtual_network_peering", name),
            resource_group_name=place.resource_group,
            virtual_network_name=network.virtual_network.name,
            remote_virtual_network_id=remote_id,
            allow_virtual_network_access=True,
            # Responses from the internet that a firewall there forwards.
            allow_forwarded_traffic=forwarded,
            allow_gateway_transit=False,
            use_remote_gateways=gateway,
            # The other half must offer its gateway before this one uses it.
            depends_on=[back] if back else (),
        )


def _other_half(
    scope: Component, name: str, virtual_network: VirtualNetwork, remote_id: str, gateway: bool
) -> VirtualNetworkPeering:
    place = place_of(scope)
    other = parts_of("virtual network", remote_id)
    # Aliases are unique in the entire stack, as addresses are.
    alias = name if scope.short_addresses else "-".join(surroundings(scope).path)
    provider = AzurermProvider(
        scope, f"subscription-of-{name}", alias=alias, subscription_id=other["subscription"]
    )
    return VirtualNetworkPeering(
        scope,
        f"peering-from-{name}",
        name=place.name("virtual_network_peering", name),
        resource_group_name=other["resource_group"],
        virtual_network_name=other["name"],
        remote_virtual_network_id=virtual_network.id,
        allow_virtual_network_access=True,
        allow_forwarded_traffic=False,
        allow_gateway_transit=gateway,
        use_remote_gateways=False,
        provider=provider,
    )
