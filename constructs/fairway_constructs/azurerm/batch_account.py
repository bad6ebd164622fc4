"""Resource azurerm_batch_account of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Encryption(ObjectValue):
    """An object in `encryption`."""

    key_vault_key_id: str | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class KeyVaultReference(Block):
    """The block `key_vault_reference`."""

    id: str
    url: str


class NetworkProfileAccountAccessIpRule(Block):
    """The block `network_profile.account_access.ip_rule`."""

    ip_range: str
    action: str | None = None


class NetworkProfileAccountAccess(Block):
    """The block `network_profile.account_access`."""

    default_action: str | None = None
    ip_rule: Sequence[NetworkProfileAccountAccessIpRule] | None = None


class NetworkProfileNodeManagementAccessIpRule(Block):
    """The block `network_profile.node_management_access.ip_rule`."""

    ip_range: str
    action: str | None = None


class NetworkProfileNodeManagementAccess(Block):
    """The block `network_profile.node_management_access`."""

    default_action: str | None = None
    ip_rule: Sequence[NetworkProfileNodeManagementAccessIpRule] | None = None


class NetworkProfile(Block):
    """The block `network_profile`."""

    account_access: NetworkProfileAccountAccess | None = None
    node_management_access: NetworkProfileNodeManagementAccess | None = None


class BatchAccount(Resource):
    """The resource azurerm_batch_account."""

    TYPE = "azurerm_batch_account"

    account_endpoint = StringAttribute()
    allowed_authentication_modes = ListAttribute()
    encryption = ObjectAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    pool_allocation_mode = StringAttribute()
    primary_access_key = StringAttribute()
    public_network_access_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    secondary_access_key = StringAttribute()
    storage_account_authentication_mode = StringAttribute()
    storage_account_id = StringAttribute()
    storage_account_node_identity = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        allowed_authentication_modes: Sequence[str] | None = None,
        encryption: Sequence[Encryption] | None = None,
        pool_allocation_mode: str | None = None,
        public_network_access_enabled: bool | None = None,
        storage_account_authentication_mode: str | None = None,
        storage_account_id: str | None = None,
        storage_account_node_identity: str | None = None,
        tags: Mapping[str, str] | None = None,
        identity: Identity | None = None,
        key_vault_reference: KeyVaultReference | None = None,
        network_profile: NetworkProfile | None = None,
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
                "allowed_authentication_modes": allowed_authentication_modes,
                "encryption": encryption,
                "pool_allocation_mode": pool_allocation_mode,
                "public_network_access_enabled": public_network_access_enabled,
                "storage_account_authentication_mode": storage_account_authentication_mode,
                "storage_account_id": storage_account_id,
                "storage_account_node_identity": storage_account_node_identity,
                "tags": tags,
                "identity": identity,
                "key_vault_reference": key_vault_reference,
                "network_profile": network_profile,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
