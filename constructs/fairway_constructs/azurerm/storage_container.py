"""Resource azurerm_storage_container of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class StorageContainer(Resource):
    """The resource azurerm_storage_container."""

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
        container_access_type: str | None = None,
        default_encryption_scope: str | None = None,
        encryption_scope_override_enabled: bool | None = None,
        metadata: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "storage_account_id": storage_account_id,
                "container_access_type": container_access_type,
                "default_encryption_scope": default_encryption_scope,
                "encryption_scope_override_enabled": encryption_scope_override_enabled,
                "metadata": metadata,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
