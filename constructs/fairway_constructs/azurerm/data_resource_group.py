"""Data source azurerm_resource_group of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataResourceGroup(DataSource):
    """The data source azurerm_resource_group."""

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
        name: str,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
