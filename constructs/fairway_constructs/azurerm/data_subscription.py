"""Data source azurerm_subscription of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataSubscription(DataSource):
    """The data source azurerm_subscription."""

    TYPE = "azurerm_subscription"

    display_name = StringAttribute()
    id = StringAttribute()
    location_placement_id = StringAttribute()
    quota_id = StringAttribute()
    spending_limit = StringAttribute()
    state = StringAttribute()
    subscription_id = StringAttribute()
    tags = MapAttribute()
    tenant_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        subscription_id: str | None = None,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "subscription_id": subscription_id,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
