"""Resource azurerm_key_vault_key of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ReleasePolicy(Block):
    """The block `release_policy`."""

    json: str
    immutable: bool | None = None


class RotationPolicyAutomatic(Block):
    """The block `rotation_policy.automatic`."""

    time_after_creation: str | None = None
    time_before_expiry: str | None = None


class RotationPolicy(Block):
    """The block `rotation_policy`."""

    expire_after: str | None = None
    notify_before_expiry: str | None = None
    automatic: RotationPolicyAutomatic | None = None


class KeyVaultKey(Resource):
    """The resource azurerm_key_vault_key."""

    TYPE = "azurerm_key_vault_key"

    curve = StringAttribute()
    e = StringAttribute()
    expiration_date = StringAttribute()
    id = StringAttribute()
    key_opts = ListAttribute()
    key_size = NumberAttribute()
    key_type = StringAttribute()
    key_vault_id = StringAttribute()
    n = StringAttribute()
    name = StringAttribute()
    not_before_date = StringAttribute()
    public_key_openssh = StringAttribute()
    public_key_pem = StringAttribute()
    resource_id = StringAttribute()
    resource_versionless_id = StringAttribute()
    tags = MapAttribute()
    version = StringAttribute()
    versionless_id = StringAttribute()
    x = StringAttribute()
    y = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key_opts: Sequence[str],
        key_type: str,
        key_vault_id: str,
        name: str,
        curve: str | None = None,
        expiration_date: str | None = None,
        key_size: float | None = None,
        not_before_date: str | None = None,
        tags: Mapping[str, str] | None = None,
        release_policy: ReleasePolicy | None = None,
        rotation_policy: RotationPolicy | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "key_opts": key_opts,
                "key_type": key_type,
                "key_vault_id": key_vault_id,
                "name": name,
                "curve": curve,
                "expiration_date": expiration_date,
                "key_size": key_size,
                "not_before_date": not_before_date,
                "tags": tags,
                "release_policy": release_policy,
                "rotation_policy": rotation_policy,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
