"""Resource azurerm_managed_disk of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class EncryptionSettingsDiskEncryptionKey(Block):
    """The block `encryption_settings.disk_encryption_key`."""

    secret_url: str
    source_vault_id: str


class EncryptionSettingsKeyEncryptionKey(Block):
    """The block `encryption_settings.key_encryption_key`."""

    key_url: str
    source_vault_id: str


class EncryptionSettings(Block):
    """The block `encryption_settings`."""

    disk_encryption_key: EncryptionSettingsDiskEncryptionKey
    key_encryption_key: EncryptionSettingsKeyEncryptionKey | None = None


class ManagedDisk(Resource):
    """The resource azurerm_managed_disk."""

    TYPE = "azurerm_managed_disk"

    create_option = StringAttribute()
    disk_access_id = StringAttribute()
    disk_encryption_set_id = StringAttribute()
    disk_iops_read_only = NumberAttribute()
    disk_iops_read_write = NumberAttribute()
    disk_mbps_read_only = NumberAttribute()
    disk_mbps_read_write = NumberAttribute()
    disk_size_gb = NumberAttribute()
    edge_zone = StringAttribute()
    gallery_image_reference_id = StringAttribute()
    hyper_v_generation = StringAttribute()
    id = StringAttribute()
    image_reference_id = StringAttribute()
    location = StringAttribute()
    logical_sector_size = NumberAttribute()
    max_shares = NumberAttribute()
    name = StringAttribute()
    network_access_policy = StringAttribute()
    on_demand_bursting_enabled = BooleanAttribute()
    optimized_frequent_attach_enabled = BooleanAttribute()
    os_type = StringAttribute()
    performance_plus_enabled = BooleanAttribute()
    public_network_access_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    secure_vm_disk_encryption_set_id = StringAttribute()
    security_type = StringAttribute()
    source_resource_id = StringAttribute()
    source_uri = StringAttribute()
    storage_account_id = StringAttribute()
    storage_account_type = StringAttribute()
    tags = MapAttribute()
    tier = StringAttribute()
    trusted_launch_enabled = BooleanAttribute()
    upload_size_bytes = NumberAttribute()
    zone = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        create_option: str,
        location: str,
        name: str,
        resource_group_name: str,
        storage_account_type: str,
        disk_access_id: str | None = None,
        disk_encryption_set_id: str | None = None,
        disk_iops_read_only: float | None = None,
        disk_iops_read_write: float | None = None,
        disk_mbps_read_only: float | None = None,
        disk_mbps_read_write: float | None = None,
        disk_size_gb: float | None = None,
        edge_zone: str | None = None,
        gallery_image_reference_id: str | None = None,
        hyper_v_generation: str | None = None,
        image_reference_id: str | None = None,
        logical_sector_size: float | None = None,
        max_shares: float | None = None,
        network_access_policy: str | None = None,
        on_demand_bursting_enabled: bool | None = None,
        optimized_frequent_attach_enabled: bool | None = None,
        os_type: str | None = None,
        performance_plus_enabled: bool | None = None,
        public_network_access_enabled: bool | None = None,
        secure_vm_disk_encryption_set_id: str | None = None,
        security_type: str | None = None,
        source_resource_id: str | None = None,
        source_uri: str | None = None,
        storage_account_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        tier: str | None = None,
        trusted_launch_enabled: bool | None = None,
        upload_size_bytes: float | None = None,
        zone: str | None = None,
        encryption_settings: EncryptionSettings | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "create_option": create_option,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "storage_account_type": storage_account_type,
                "disk_access_id": disk_access_id,
                "disk_encryption_set_id": disk_encryption_set_id,
                "disk_iops_read_only": disk_iops_read_only,
                "disk_iops_read_write": disk_iops_read_write,
                "disk_mbps_read_only": disk_mbps_read_only,
                "disk_mbps_read_write": disk_mbps_read_write,
                "disk_size_gb": disk_size_gb,
                "edge_zone": edge_zone,
                "gallery_image_reference_id": gallery_image_reference_id,
                "hyper_v_generation": hyper_v_generation,
                "image_reference_id": image_reference_id,
                "logical_sector_size": logical_sector_size,
                "max_shares": max_shares,
                "network_access_policy": network_access_policy,
                "on_demand_bursting_enabled": on_demand_bursting_enabled,
                "optimized_frequent_attach_enabled": optimized_frequent_attach_enabled,
                "os_type": os_type,
                "performance_plus_enabled": performance_plus_enabled,
                "public_network_access_enabled": public_network_access_enabled,
                "secure_vm_disk_encryption_set_id": secure_vm_disk_encryption_set_id,
                "security_type": security_type,
                "source_resource_id": source_resource_id,
                "source_uri": source_uri,
                "storage_account_id": storage_account_id,
                "tags": tags,
                "tier": tier,
                "trusted_launch_enabled": trusted_launch_enabled,
                "upload_size_bytes": upload_size_bytes,
                "zone": zone,
                "encryption_settings": encryption_settings,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
