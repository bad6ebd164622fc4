"""Resource azurerm_netapp_volume of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class CoolAccess(Block):
    """The block `cool_access`."""

    coolness_period_in_days: float
    retrieval_policy: str
    tiering_policy: str


class DataProtectionAdvancedRansomware(Block):
    """The block `data_protection_advanced_ransomware`."""

    protection_enabled: bool


class DataProtectionBackupPolicy(Block):
    """The block `data_protection_backup_policy`."""

    backup_policy_id: str
    backup_vault_id: str
    policy_enabled: bool | None = None


class DataProtectionReplication(Block):
    """The block `data_protection_replication`."""

    remote_volume_location: str
    remote_volume_resource_id: str
    replication_frequency: str
    endpoint_type: str | None = None


class DataProtectionSnapshotPolicy(Block):
    """The block `data_protection_snapshot_policy`."""

    snapshot_policy_id: str


class ExportPolicyRule(Block):
    """The block `export_policy_rule`."""

    allowed_clients: Sequence[str]
    rule_index: float
    kerberos_5_read_only_enabled: bool | None = None
    kerberos_5_read_write_enabled: bool | None = None
    kerberos_5i_read_only_enabled: bool | None = None
    kerberos_5i_read_write_enabled: bool | None = None
    kerberos_5p_read_only_enabled: bool | None = None
    kerberos_5p_read_write_enabled: bool | None = None
    protocol: Sequence[str] | None = None
    root_access_enabled: bool | None = None
    unix_read_only: bool | None = None
    unix_read_write: bool | None = None


class NetappVolume(Resource):
    """The resource azurerm_netapp_volume."""

    TYPE = "azurerm_netapp_volume"

    accept_grow_capacity_pool_for_short_term_clone_split = StringAttribute()
    account_name = StringAttribute()
    azure_vmware_data_store_enabled = BooleanAttribute()
    create_from_snapshot_resource_id = StringAttribute()
    encryption_key_source = StringAttribute()
    id = StringAttribute()
    kerberos_enabled = BooleanAttribute()
    key_vault_private_endpoint_id = StringAttribute()
    large_volume_enabled = BooleanAttribute()
    location = StringAttribute()
    mount_target = ObjectAttribute()
    name = StringAttribute()
    network_features = StringAttribute()
    pool_name = StringAttribute()
    protocols = ListAttribute()
    resource_group_name = StringAttribute()
    security_style = StringAttribute()
    service_level = StringAttribute()
    smb3_protocol_encryption_enabled = BooleanAttribute()
    smb_access_based_enumeration_enabled = BooleanAttribute()
    smb_continuous_availability_enabled = BooleanAttribute()
    smb_non_browsable_enabled = BooleanAttribute()
    snapshot_directory_visible = BooleanAttribute()
    storage_quota_in_gb = NumberAttribute()
    subnet_id = StringAttribute()
    tags = MapAttribute()
    throughput_in_mibps = NumberAttribute()
    volume_path = StringAttribute()
    zone = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        account_name: str,
        location: str,
        name: str,
        pool_name: str,
        resource_group_name: str,
        service_level: str,
        storage_quota_in_gb: float,
        subnet_id: str,
        volume_path: str,
        accept_grow_capacity_pool_for_short_term_clone_split: str | None = None,
        azure_vmware_data_store_enabled: bool | None = None,
        create_from_snapshot_resource_id: str | None = None,
        encryption_key_source: str | None = None,
        kerberos_enabled: bool | None = None,
        key_vault_private_endpoint_id: str | None = None,
        large_volume_enabled: bool | None = None,
        network_features: str | None = None,
        protocols: Sequence[str] | None = None,
        security_style: str | None = None,
        smb3_protocol_encryption_enabled: bool | None = None,
        smb_access_based_enumeration_enabled: bool | None = None,
        smb_continuous_availability_enabled: bool | None = None,
        smb_non_browsable_enabled: bool | None = None,
        snapshot_directory_visible: bool | None = None,
        tags: Mapping[str, str] | None = None,
        throughput_in_mibps: float | None = None,
        zone: str | None = None,
        cool_access: CoolAccess | None = None,
        data_protection_advanced_ransomware: DataProtectionAdvancedRansomware | None = None,
        data_protection_backup_policy: DataProtectionBackupPolicy | None = None,
        data_protection_replication: DataProtectionReplication | None = None,
        data_protection_snapshot_policy: DataProtectionSnapshotPolicy | None = None,
        export_policy_rule: Sequence[ExportPolicyRule] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "account_name": account_name,
                "location": location,
                "name": name,
                "pool_name": pool_name,
                "resource_group_name": resource_group_name,
                "service_level": service_level,
                "storage_quota_in_gb": storage_quota_in_gb,
                "subnet_id": subnet_id,
                "volume_path": volume_path,
                "accept_grow_capacity_pool_for_short_term_clone_split": accept_grow_capacity_pool_for_short_term_clone_split,
                "azure_vmware_data_store_enabled": azure_vmware_data_store_enabled,
                "create_from_snapshot_resource_id": create_from_snapshot_resource_id,
                "encryption_key_source": encryption_key_source,
                "kerberos_enabled": kerberos_enabled,
                "key_vault_private_endpoint_id": key_vault_private_endpoint_id,
                "large_volume_enabled": large_volume_enabled,
                "network_features": network_features,
                "protocols": protocols,
                "security_style": security_style,
                "smb3_protocol_encryption_enabled": smb3_protocol_encryption_enabled,
                "smb_access_based_enumeration_enabled": smb_access_based_enumeration_enabled,
                "smb_continuous_availability_enabled": smb_continuous_availability_enabled,
                "smb_non_browsable_enabled": smb_non_browsable_enabled,
                "snapshot_directory_visible": snapshot_directory_visible,
                "tags": tags,
                "throughput_in_mibps": throughput_in_mibps,
                "zone": zone,
                "cool_access": cool_access,
                "data_protection_advanced_ransomware": data_protection_advanced_ransomware,
                "data_protection_backup_policy": data_protection_backup_policy,
                "data_protection_replication": data_protection_replication,
                "data_protection_snapshot_policy": data_protection_snapshot_policy,
                "export_policy_rule": export_policy_rule,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
