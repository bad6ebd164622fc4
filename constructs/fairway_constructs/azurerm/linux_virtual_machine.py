"""Resource azurerm_linux_virtual_machine of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class AdditionalCapabilities(Block):
    """The block `additional_capabilities`."""

    hibernation_enabled: bool | None = None
    ultra_ssd_enabled: bool | None = None


class AdminSshKey(Block):
    """The block `admin_ssh_key`."""

    public_key: str
    username: str


class BootDiagnostics(Block):
    """The block `boot_diagnostics`."""

    storage_account_uri: str | None = None


class GalleryApplication(Block):
    """The block `gallery_application`."""

    version_id: str
    automatic_upgrade_enabled: bool | None = None
    configuration_blob_uri: str | None = None
    order: float | None = None
    tag: str | None = None
    treat_failure_as_deployment_failure_enabled: bool | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class OsDiskDiffDiskSettings(Block):
    """The block `os_disk.diff_disk_settings`."""

    option: str
    placement: str | None = None


class OsDisk(Block):
    """The block `os_disk`."""

    caching: str
    disk_encryption_set_id: str | None = None
    disk_size_gb: float | None = None
    name: str | None = None
    secure_vm_disk_encryption_set_id: str | None = None
    security_encryption_type: str | None = None
    storage_account_type: str | None = None
    write_accelerator_enabled: bool | None = None
    diff_disk_settings: OsDiskDiffDiskSettings | None = None


class OsImageNotification(Block):
    """The block `os_image_notification`."""

    timeout: str | None = None


class Plan(Block):
    """The block `plan`."""

    name: str
    product: str
    publisher: str


class SecretCertificate(Block):
    """The block `secret.certificate`."""

    url: str


class Secret(Block):
    """The block `secret`."""

    key_vault_id: str
    certificate: Sequence[SecretCertificate]


class SourceImageReference(Block):
    """The block `source_image_reference`."""

    offer: str
    publisher: str
    sku: str
    version: str


class TerminationNotification(Block):
    """The block `termination_notification`."""

    enabled: bool
    timeout: str | None = None


class LinuxVirtualMachine(Resource):
    """The resource azurerm_linux_virtual_machine."""

    TYPE = "azurerm_linux_virtual_machine"

    admin_password = StringAttribute()
    admin_username = StringAttribute()
    allow_extension_operations = BooleanAttribute()
    availability_set_id = StringAttribute()
    bypass_platform_safety_checks_on_user_schedule_enabled = BooleanAttribute()
    capacity_reservation_group_id = StringAttribute()
    computer_name = StringAttribute()
    custom_data = StringAttribute()
    dedicated_host_group_id = StringAttribute()
    dedicated_host_id = StringAttribute()
    disable_password_authentication = BooleanAttribute()
    disk_controller_type = StringAttribute()
    edge_zone = StringAttribute()
    encryption_at_host_enabled = BooleanAttribute()
    eviction_policy = StringAttribute()
    extensions_time_budget = StringAttribute()
    id = StringAttribute()
    license_type = StringAttribute()
    location = StringAttribute()
    max_bid_price = NumberAttribute()
    name = StringAttribute()
    network_interface_ids = ListAttribute()
    os_managed_disk_id = StringAttribute()
    patch_assessment_mode = StringAttribute()
    patch_mode = StringAttribute()
    platform_fault_domain = NumberAttribute()
    priority = StringAttribute()
    private_ip_address = StringAttribute()
    private_ip_addresses = ListAttribute()
    provision_vm_agent = BooleanAttribute()
    proximity_placement_group_id = StringAttribute()
    public_ip_address = StringAttribute()
    public_ip_addresses = ListAttribute()
    reboot_setting = StringAttribute()
    resource_group_name = StringAttribute()
    secure_boot_enabled = BooleanAttribute()
    size = StringAttribute()
    source_image_id = StringAttribute()
    tags = MapAttribute()
    user_data = StringAttribute()
    virtual_machine_id = StringAttribute()
    virtual_machine_scale_set_id = StringAttribute()
    vm_agent_platform_updates_enabled = BooleanAttribute()
    vtpm_enabled = BooleanAttribute()
    zone = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        network_interface_ids: Sequence[str],
        resource_group_name: str,
        size: str,
        os_disk: OsDisk,
        admin_password: str | None = None,
        admin_username: str | None = None,
        allow_extension_operations: bool | None = None,
        availability_set_id: str | None = None,
        bypass_platform_safety_checks_on_user_schedule_enabled: bool | None = None,
        capacity_reservation_group_id: str | None = None,
        computer_name: str | None = None,
        custom_data: str | None = None,
        dedicated_host_group_id: str | None = None,
        dedicated_host_id: str | None = None,
        disable_password_authentication: bool | None = None,
        disk_controller_type: str | None = None,
        edge_zone: str | None = None,
        encryption_at_host_enabled: bool | None = None,
        eviction_policy: str | None = None,
        extensions_time_budget: str | None = None,
        license_type: str | None = None,
        max_bid_price: float | None = None,
        os_managed_disk_id: str | None = None,
        patch_assessment_mode: str | None = None,
        patch_mode: str | None = None,
        platform_fault_domain: float | None = None,
        priority: str | None = None,
        provision_vm_agent: bool | None = None,
        proximity_placement_group_id: str | None = None,
        reboot_setting: str | None = None,
        secure_boot_enabled: bool | None = None,
        source_image_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        user_data: str | None = None,
        virtual_machine_scale_set_id: str | None = None,
        vtpm_enabled: bool | None = None,
        zone: str | None = None,
        additional_capabilities: AdditionalCapabilities | None = None,
        admin_ssh_key: Sequence[AdminSshKey] | None = None,
        boot_diagnostics: BootDiagnostics | None = None,
        gallery_application: Sequence[GalleryApplication] | None = None,
        identity: Identity | None = None,
        os_image_notification: OsImageNotification | None = None,
        plan: Plan | None = None,
        secret: Sequence[Secret] | None = None,
        source_image_reference: SourceImageReference | None = None,
        termination_notification: TerminationNotification | None = None,
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
                "network_interface_ids": network_interface_ids,
                "resource_group_name": resource_group_name,
                "size": size,
                "os_disk": os_disk,
                "admin_password": admin_password,
                "admin_username": admin_username,
                "allow_extension_operations": allow_extension_operations,
                "availability_set_id": availability_set_id,
                "bypass_platform_safety_checks_on_user_schedule_enabled": bypass_platform_safety_checks_on_user_schedule_enabled,
                "capacity_reservation_group_id": capacity_reservation_group_id,
                "computer_name": computer_name,
                "custom_data": custom_data,
                "dedicated_host_group_id": dedicated_host_group_id,
                "dedicated_host_id": dedicated_host_id,
                "disable_password_authentication": disable_password_authentication,
                "disk_controller_type": disk_controller_type,
                "edge_zone": edge_zone,
                "encryption_at_host_enabled": encryption_at_host_enabled,
                "eviction_policy": eviction_policy,
                "extensions_time_budget": extensions_time_budget,
                "license_type": license_type,
                "max_bid_price": max_bid_price,
                "os_managed_disk_id": os_managed_disk_id,
                "patch_assessment_mode": patch_assessment_mode,
                "patch_mode": patch_mode,
                "platform_fault_domain": platform_fault_domain,
                "priority": priority,
                "provision_vm_agent": provision_vm_agent,
                "proximity_placement_group_id": proximity_placement_group_id,
                "reboot_setting": reboot_setting,
                "secure_boot_enabled": secure_boot_enabled,
                "source_image_id": source_image_id,
                "tags": tags,
                "user_data": user_data,
                "virtual_machine_scale_set_id": virtual_machine_scale_set_id,
                "vtpm_enabled": vtpm_enabled,
                "zone": zone,
                "additional_capabilities": additional_capabilities,
                "admin_ssh_key": admin_ssh_key,
                "boot_diagnostics": boot_diagnostics,
                "gallery_application": gallery_application,
                "identity": identity,
                "os_image_notification": os_image_notification,
                "plan": plan,
                "secret": secret,
                "source_image_reference": source_image_reference,
                "termination_notification": termination_notification,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
