"""Data source azurerm_subnet of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataSubnet(DataSource):
    """The data source azurerm_subnet."""

    TYPE = "azurerm_subnet"

    address_prefix = StringAttribute()
    address_prefixes = ListAttribute()
    default_outbound_access_enabled = BooleanAttribute()
    id = StringAttribute()
    name = StringAttribute()
    network_security_group_id = StringAttribute()
    private_endpoint_network_policies = StringAttribute()
    private_link_service_network_policies_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    route_table_id = StringAttribute()
    service_endpoint = ObjectAttribute()
    virtual_network_name = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        resource_group_name: str,
        virtual_network_name: str,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "resource_group_name": resource_group_name,
                "virtual_network_name": virtual_network_name,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
