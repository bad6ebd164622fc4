"""Data source azurerm_client_config of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataClientConfig(DataSource):
    """The data source azurerm_client_config."""

    TYPE = "azurerm_client_config"

    client_id = StringAttribute()
    id = StringAttribute()
    object_id = StringAttribute()
    subscription_id = StringAttribute()
    tenant_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
