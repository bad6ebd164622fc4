"""Data source azurerm_platform_image of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataPlatformImage(DataSource):
    """The data source azurerm_platform_image."""

    TYPE = "azurerm_platform_image"

    id = StringAttribute()
    location = StringAttribute()
    offer = StringAttribute()
    publisher = StringAttribute()
    sku = StringAttribute()
    version = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        offer: str,
        publisher: str,
        sku: str,
        version: str | None = None,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "offer": offer,
                "publisher": publisher,
                "sku": sku,
                "version": version,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
