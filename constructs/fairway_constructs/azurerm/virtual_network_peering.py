"""Resource azurerm_virtual_network_peering of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class VirtualNetworkPeering(Resource):
    """The resource azurerm_virtual_network_peering."""

    TYPE = "azurerm_virtual_network_peering"

    allow_forwarded_traffic = BooleanAttribute()
    allow_gateway_transit = BooleanAttribute()
    allow_virtual_network_access = BooleanAttribute()
    id = StringAttribute()
    local_subnet_names = ListAttribute()
    name = StringAttribute()
    only_ipv6_peering_enabled = BooleanAttribute()
    peer_complete_virtual_networks_enabled = BooleanAttribute()
    remote_subnet_names = ListAttribute()
    remote_virtual_network_id = StringAttribute()
    resource_group_name = StringAttribute()
    triggers = MapAttribute()
    use_remote_gateways = BooleanAttribute()
    virtual_network_name = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        remote_virtual_network_id: str,
        resource_group_name: str,
        virtual_network_name: str,
        allow_forwarded_traffic: bool | None = None,
        allow_gateway_transit: bool | None = None,
        allow_virtual_network_access: bool | None = None,
        local_subnet_names: Sequence[str] | None = None,
        only_ipv6_peering_enabled: bool | None = None,
        peer_complete_virtual_networks_enabled: bool | None = None,
        remote_subnet_names: Sequence[str] | None = None,
        triggers: Mapping[str, str] | None = None,
        use_remote_gateways: bool | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "remote_virtual_network_id": remote_virtual_network_id,
                "resource_group_name": resource_group_name,
                "virtual_network_name": virtual_network_name,
                "allow_forwarded_traffic": allow_forwarded_traffic,
                "allow_gateway_transit": allow_gateway_transit,
                "allow_virtual_network_access": allow_virtual_network_access,
                "local_subnet_names": local_subnet_names,
                "only_ipv6_peering_enabled": only_ipv6_peering_enabled,
                "peer_complete_virtual_networks_enabled": peer_complete_virtual_networks_enabled,
                "remote_subnet_names": remote_subnet_names,
                "triggers": triggers,
                "use_remote_gateways": use_remote_gateways,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
