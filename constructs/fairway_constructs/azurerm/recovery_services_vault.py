"""Resource azurerm_recovery_services_vault of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Encryption(Block):
    """The block `encryption`."""

    infrastructure_encryption_enabled: bool
    key_id: str
    use_system_assigned_identity: bool | None = None
    user_assigned_identity_id: str | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class Monitoring(Block):
    """The block `monitoring`."""

    alerts_for_all_failover_issues_enabled: bool | None = None
    alerts_for_all_job_failures_enabled: bool | None = None
    alerts_for_all_replication_issues_enabled: bool | None = None
    alerts_for_critical_operation_failures_enabled: bool | None = None
    email_notifications_for_site_recovery_enabled: bool | None = None


class RecoveryServicesVault(Resource):
    """The resource azurerm_recovery_services_vault."""

    TYPE = "azurerm_recovery_services_vault"

    classic_vmware_replication_enabled = BooleanAttribute()
    cross_region_restore_enabled = BooleanAttribute()
    id = StringAttribute()
    immutability = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    public_network_access_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    sku = StringAttribute()
    storage_mode_type = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        sku: str,
        classic_vmware_replication_enabled: bool | None = None,
        cross_region_restore_enabled: bool | None = None,
        immutability: str | None = None,
        public_network_access_enabled: bool | None = None,
        storage_mode_type: str | None = None,
        tags: Mapping[str, str] | None = None,
        encryption: Encryption | None = None,
        identity: Identity | None = None,
        monitoring: Monitoring | None = None,
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
                "sku": sku,
                "classic_vmware_replication_enabled": classic_vmware_replication_enabled,
                "cross_region_restore_enabled": cross_region_restore_enabled,
                "immutability": immutability,
                "public_network_access_enabled": public_network_access_enabled,
                "storage_mode_type": storage_mode_type,
                "tags": tags,
                "encryption": encryption,
                "identity": identity,
                "monitoring": monitoring,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
