"""Resource azurerm_disk_encryption_set of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class DiskEncryptionSet(Resource):
    """The resource azurerm_disk_encryption_set."""

    TYPE = "azurerm_disk_encryption_set"

    auto_key_rotation_enabled = BooleanAttribute()
    encryption_type = StringAttribute()
    federated_client_id = StringAttribute()
    id = StringAttribute()
    key_vault_key_id = StringAttribute()
    key_vault_key_url = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key_vault_key_id: str,
        location: str,
        name: str,
        resource_group_name: str,
        identity: Identity,
        auto_key_rotation_enabled: bool | None = None,
        encryption_type: str | None = None,
        federated_client_id: str | None = None,
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
                "key_vault_key_id": key_vault_key_id,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "identity": identity,
                "auto_key_rotation_enabled": auto_key_rotation_enabled,
                "encryption_type": encryption_type,
                "federated_client_id": federated_client_id,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
