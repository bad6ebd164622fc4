"""Resource azurerm_private_dns_zone_virtual_network_link of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class PrivateDnsZoneVirtualNetworkLink(Resource):
    """The resource azurerm_private_dns_zone_virtual_network_link."""

    TYPE = "azurerm_private_dns_zone_virtual_network_link"

    id = StringAttribute()
    name = StringAttribute()
    private_dns_zone_id = StringAttribute()
    registration_enabled = BooleanAttribute()
    resolution_policy = StringAttribute()
    tags = MapAttribute()
    virtual_network_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        private_dns_zone_id: str,
        virtual_network_id: str,
        registration_enabled: bool | None = None,
        resolution_policy: str | None = None,
        tags: Mapping[str, str] | None = None,
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
                "private_dns_zone_id": private_dns_zone_id,
                "virtual_network_id": virtual_network_id,
                "registration_enabled": registration_enabled,
                "resolution_policy": resolution_policy,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
