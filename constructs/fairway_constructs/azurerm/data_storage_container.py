"""Data source azurerm_storage_container of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, DataSource, ITerraformDependable, Provider


class DataStorageContainer(DataSource):
    """The data source azurerm_storage_container."""

    TYPE = "azurerm_storage_container"

    container_access_type = StringAttribute()
    default_encryption_scope = StringAttribute()
    encryption_scope_override_enabled = BooleanAttribute()
    has_immutability_policy = BooleanAttribute()
    has_legal_hold = BooleanAttribute()
    id = StringAttribute()
    metadata = MapAttribute()
    name = StringAttribute()
    storage_account_id = StringAttribute()
    url = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        storage_account_id: str,
        metadata: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "storage_account_id": storage_account_id,
                "metadata": metadata,
                "timeouts": timeouts,
            },
            depends_on=depends_on,
            provider=provider,
        )
