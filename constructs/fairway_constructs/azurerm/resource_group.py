"""Resource azurerm_resource_group of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ResourceGroup(Resource):
    """The resource azurerm_resource_group."""

    TYPE = "azurerm_resource_group"

    id = StringAttribute()
    location = StringAttribute()
    managed_by = StringAttribute()
    name = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        managed_by: str | None = None,
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
                "managed_by": managed_by,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
