"""Resource azurerm_proximity_placement_group of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import ListAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ProximityPlacementGroup(Resource):
    """The resource azurerm_proximity_placement_group."""

    TYPE = "azurerm_proximity_placement_group"

    allowed_vm_sizes = ListAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()
    zone = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        allowed_vm_sizes: Sequence[str] | None = None,
        tags: Mapping[str, str] | None = None,
        zone: str | None = None,
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
                "allowed_vm_sizes": allowed_vm_sizes,
                "tags": tags,
                "zone": zone,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
