"""Resource azurerm_route_table of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Route(ObjectValue):
    """An object in `route`."""

    address_prefix: str | None = None
    name: str | None = None
    next_hop_in_ip_address: str | None = None
    next_hop_type: str | None = None


class RouteTable(Resource):
    """The resource azurerm_route_table."""

    TYPE = "azurerm_route_table"

    bgp_route_propagation_enabled = BooleanAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    route = ObjectAttribute()
    subnets = ListAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        bgp_route_propagation_enabled: bool | None = None,
        route: Sequence[Route] | None = None,
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
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "bgp_route_propagation_enabled": bgp_route_propagation_enabled,
                "route": route,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
