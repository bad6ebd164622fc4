"""Peerings: connections between a virtual network and existing ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.provider import AzurermProvider
from fairway_constructs.azurerm.virtual_network_peering import VirtualNetworkPeering
from fairway_constructs.cdk import Component, context_of
from fairway_constructs.scope import azure_scope_of
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from fairway_constructs.azurerm.virtual_network import VirtualNetwork
    from fairway_constructs.cdk import Construct
    from fairway_constructs.network import Network
    from fairway_core.resource_ids import VirtualNetworkId


class Peering(Component):
    """Both halves of a peering, the second one in the other network's subscription.

    Without `both_ways` the owner of the other network creates its half; until then no traffic
    passes. With `gateway` the other network's VPN or ExpressRoute gateway is used. The security
    rules decide which traffic may come in over it.

    >>> Peering(stack, "hub", network=network, remote_id=VNET)
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
        azure = self.azure
        back = (
            _other_half(self, name, network.virtual_network, remote_id, gateway)
            if both_ways
            else None
        )
        VirtualNetworkPeering(
            self,
            f"peering-to-{name}",
            name=azure.name("virtual_network_peering", name),
            resource_group_name=azure.resource_group,
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
    azure = azure_scope_of(scope)
    other = parts_of("virtual network", remote_id)
    # Aliases are unique in the entire stack, as addresses are.
    alias = name if scope.short_addresses else "-".join(context_of(scope).path)
    provider = AzurermProvider(
        scope, f"subscription-of-{name}", alias=alias, subscription_id=other["subscription"]
    )
    return VirtualNetworkPeering(
        scope,
        f"peering-from-{name}",
        name=azure.name("virtual_network_peering", name),
        resource_group_name=other["resource_group"],
        virtual_network_name=other["name"],
        remote_virtual_network_id=virtual_network.id,
        allow_virtual_network_access=True,
        allow_forwarded_traffic=False,
        allow_gateway_transit=gateway,
        use_remote_gateways=False,
        provider=provider,
    )
