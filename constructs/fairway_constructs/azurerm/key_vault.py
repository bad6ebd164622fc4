"""Resource azurerm_key_vault of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    MapAttribute,
    NumberAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class AccessPolicy(ObjectValue):
    """An object in `access_policy`."""

    application_id: str | None = None
    certificate_permissions: Sequence[str] | None = None
    key_permissions: Sequence[str] | None = None
    object_id: str | None = None
    secret_permissions: Sequence[str] | None = None
    storage_permissions: Sequence[str] | None = None
    tenant_id: str | None = None


class NetworkAcls(Block):
    """The block `network_acls`."""

    bypass: str
    default_action: str
    ip_rules: Sequence[str] | None = None
    virtual_network_subnet_ids: Sequence[str] | None = None


class KeyVault(Resource):
    """The resource azurerm_key_vault."""

    TYPE = "azurerm_key_vault"

    access_policy = ObjectAttribute()
    enabled_for_deployment = BooleanAttribute()
    enabled_for_disk_encryption = BooleanAttribute()
    enabled_for_template_deployment = BooleanAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    public_network_access_enabled = BooleanAttribute()
    purge_protection_enabled = BooleanAttribute()
    rbac_authorization_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    sku_name = StringAttribute()
    soft_delete_retention_days = NumberAttribute()
    tags = MapAttribute()
    tenant_id = StringAttribute()
    vault_uri = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        rbac_authorization_enabled: bool,
        resource_group_name: str,
        sku_name: str,
        tenant_id: str,
        access_policy: Sequence[AccessPolicy] | None = None,
        enabled_for_deployment: bool | None = None,
        enabled_for_disk_encryption: bool | None = None,
        enabled_for_template_deployment: bool | None = None,
        public_network_access_enabled: bool | None = None,
        purge_protection_enabled: bool | None = None,
        soft_delete_retention_days: float | None = None,
        tags: Mapping[str, str] | None = None,
        network_acls: NetworkAcls | None = None,
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
                "rbac_authorization_enabled": rbac_authorization_enabled,
                "resource_group_name": resource_group_name,
                "sku_name": sku_name,
                "tenant_id": tenant_id,
                "access_policy": access_policy,
                "enabled_for_deployment": enabled_for_deployment,
                "enabled_for_disk_encryption": enabled_for_disk_encryption,
                "enabled_for_template_deployment": enabled_for_template_deployment,
                "public_network_access_enabled": public_network_access_enabled,
                "purge_protection_enabled": purge_protection_enabled,
                "soft_delete_retention_days": soft_delete_retention_days,
                "tags": tags,
                "network_acls": network_acls,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
