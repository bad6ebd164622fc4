"""Resource azurerm_nat_gateway of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class NatGateway(Resource):
    """The resource azurerm_nat_gateway."""

    TYPE = "azurerm_nat_gateway"

    id = StringAttribute()
    idle_timeout_in_minutes = NumberAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    resource_guid = StringAttribute()
    sku_name = StringAttribute()
    tags = MapAttribute()
    zones = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        idle_timeout_in_minutes: float | None = None,
        sku_name: str | None = None,
        tags: Mapping[str, str] | None = None,
        zones: Sequence[str] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "idle_timeout_in_minutes": idle_timeout_in_minutes,
                "sku_name": sku_name,
                "tags": tags,
                "zones": zones,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
