"""Resource azurerm_linux_virtual_machine_scale_set of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

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

    ultra_ssd_enabled: bool | None = None


class AdminSshKey(Block):
    """The block `admin_ssh_key`."""

    public_key: str
    username: str


class AutomaticInstanceRepair(Block):
    """The block `automatic_instance_repair`."""

    enabled: bool
    action: str | None = None
    grace_period: str | None = None


class AutomaticOsUpgradePolicy(Block):
    """The block `automatic_os_upgrade_policy`."""

    automatic_os_upgrade_enabled: bool
    automatic_rollback_enabled: bool


class BootDiagnostics(Block):
    """The block `boot_diagnostics`."""

    storage_account_uri: str | None = None


class DataDisk(Block):
    """The block `data_disk`."""

    caching: str
    disk_size_gb: float
    lun: float
    storage_account_type: str
    create_option: str | None = None
    disk_encryption_set_id: str | None = None
    disk_iops_read_write: float | None = None
    disk_mbps_read_write: float | None = None
    name: str | None = None
    write_accelerator_enabled: bool | None = None


class ExtensionProtectedSettingsFromKeyVault(Block):
    """The block `extension.protected_settings_from_key_vault`."""

    secret_url: str
    source_vault_id: str


class Extension(Block):
    """The block `extension`."""

    name: str
    publisher: str
    type: str
    type_handler_version: str
    auto_upgrade_minor_version: bool | None = None
    automatic_upgrade_enabled: bool | None = None
    force_update_tag: str | None = None
    protected_settings: str | None = None
    provision_after_extensions: Sequence[str] | None = None
    settings: str | None = None
    protected_settings_from_key_vault: ExtensionProtectedSettingsFromKeyVault | None = None


class GalleryApplication(Block):
    """The block `gallery_application`."""

    version_id: str
    configuration_blob_uri: str | None = None
    order: float | None = None
    tag: str | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class NetworkInterfaceIpConfigurationPublicIpAddressIpTag(Block):
    """The block `network_interface.ip_configuration.public_ip_address.ip_tag`."""

    tag: str
    type: str


class NetworkInterfaceIpConfigurationPublicIpAddress(Block):
    """The block `network_interface.ip_configuration.public_ip_address`."""

    name: str
    domain_name_label: str | None = None
    idle_timeout_in_minutes: float | None = None
    public_ip_prefix_id: str | None = None
    version: str | None = None
    ip_tag: Sequence[NetworkInterfaceIpConfigurationPublicIpAddressIpTag] | None = None


class NetworkInterfaceIpConfiguration(Block):
    """The block `network_interface.ip_configuration`."""

    name: str
    application_gateway_backend_address_pool_ids: Sequence[str] | None = None
    application_security_group_ids: Sequence[str] | None = None
    load_balancer_backend_address_pool_ids: Sequence[str] | None = None
    load_balancer_inbound_nat_rules_ids: Sequence[str] | None = None
    primary: bool | None = None
    subnet_id: str | None = None
    version: str | None = None
    public_ip_address: Sequence[NetworkInterfaceIpConfigurationPublicIpAddress] | None = None


class NetworkInterface(Block):
    """The block `network_interface`."""

    name: str
    ip_configuration: Sequence[NetworkInterfaceIpConfiguration]
    accelerated_networking_enabled: bool | None = None
    auxiliary_mode: str | None = None
    auxiliary_sku: str | None = None
    dns_servers: Sequence[str] | None = None
    ip_forwarding_enabled: bool | None = None
    network_security_group_id: str | None = None
    primary: bool | None = None


class OsDiskDiffDiskSettings(Block):
    """The block `os_disk.diff_disk_settings`."""

    option: str
    placement: str | None = None


class OsDisk(Block):
    """The block `os_disk`."""

    caching: str
    storage_account_type: str
    disk_encryption_set_id: str | None = None
    disk_size_gb: float | None = None
    secure_vm_disk_encryption_set_id: str | None = None
    security_encryption_type: str | None = None
    write_accelerator_enabled: bool | None = None
    diff_disk_settings: OsDiskDiffDiskSettings | None = None


class Plan(Block):
    """The block `plan`."""

    name: str
    product: str
    publisher: str


class RollingUpgradePolicy(Block):
    """The block `rolling_upgrade_policy`."""

    max_batch_instance_percent: float
    max_unhealthy_instance_percent: float
    max_unhealthy_upgraded_instance_percent: float
    pause_time_between_batches: str
    cross_zone_upgrades_enabled: bool | None = None
    maximum_surge_instances_enabled: bool | None = None
    prioritize_unhealthy_instances_enabled: bool | None = None


class ScaleIn(Block):
    """The block `scale_in`."""

    force_deletion_enabled: bool | None = None
    rule: str | None = None


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


class SpotRestore(Block):
    """The block `spot_restore`."""

    enabled: bool | None = None
    timeout: str | None = None


class TerminationNotification(Block):
    """The block `termination_notification`."""

    enabled: bool
    timeout: str | None = None


class LinuxVirtualMachineScaleSet(Resource):
    """The resource azurerm_linux_virtual_machine_scale_set."""

    TYPE = "azurerm_linux_virtual_machine_scale_set"

    admin_password = StringAttribute()
    admin_username = StringAttribute()
    capacity_reservation_group_id = StringAttribute()
    computer_name_prefix = StringAttribute()
    custom_data = StringAttribute()
    disable_password_authentication = BooleanAttribute()
    do_not_run_extensions_on_overprovisioned_machines = BooleanAttribute()
    edge_zone = StringAttribute()
    encryption_at_host_enabled = BooleanAttribute()
    eviction_policy = StringAttribute()
    extension_operations_enabled = BooleanAttribute()
    extensions_time_budget = StringAttribute()
    health_probe_id = StringAttribute()
    host_group_id = StringAttribute()
    id = StringAttribute()
    instances = NumberAttribute()
    location = StringAttribute()
    max_bid_price = NumberAttribute()
    name = StringAttribute()
    overprovision = BooleanAttribute()
    platform_fault_domain_count = NumberAttribute()
    priority = StringAttribute()
    provision_vm_agent = BooleanAttribute()
    proximity_placement_group_id = StringAttribute()
    resilient_vm_creation_enabled = BooleanAttribute()
    resilient_vm_deletion_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    secure_boot_enabled = BooleanAttribute()
    single_placement_group = BooleanAttribute()
    sku = StringAttribute()
    source_image_id = StringAttribute()
    tags = MapAttribute()
    unique_id = StringAttribute()
    upgrade_mode = StringAttribute()
    user_data = StringAttribute()
    vtpm_enabled = BooleanAttribute()
    zone_balance = BooleanAttribute()
    zones = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        admin_username: str,
        location: str,
        name: str,
        resource_group_name: str,
        sku: str,
        network_interface: Sequence[NetworkInterface],
        os_disk: OsDisk,
        admin_password: str | None = None,
        capacity_reservation_group_id: str | None = None,
        computer_name_prefix: str | None = None,
        custom_data: str | None = None,
        disable_password_authentication: bool | None = None,
        do_not_run_extensions_on_overprovisioned_machines: bool | None = None,
        edge_zone: str | None = None,
        encryption_at_host_enabled: bool | None = None,
        eviction_policy: str | None = None,
        extension_operations_enabled: bool | None = None,
        extensions_time_budget: str | None = None,
        health_probe_id: str | None = None,
        host_group_id: str | None = None,
        instances: float | None = None,
        max_bid_price: float | None = None,
        overprovision: bool | None = None,
        platform_fault_domain_count: float | None = None,
        priority: str | None = None,
        provision_vm_agent: bool | None = None,
        proximity_placement_group_id: str | None = None,
        resilient_vm_creation_enabled: bool | None = None,
        resilient_vm_deletion_enabled: bool | None = None,
        secure_boot_enabled: bool | None = None,
        single_placement_group: bool | None = None,
        source_image_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        upgrade_mode: str | None = None,
        user_data: str | None = None,
        vtpm_enabled: bool | None = None,
        zone_balance: bool | None = None,
        zones: Sequence[str] | None = None,
        additional_capabilities: AdditionalCapabilities | None = None,
        admin_ssh_key: Sequence[AdminSshKey] | None = None,
        automatic_instance_repair: AutomaticInstanceRepair | None = None,
        automatic_os_upgrade_policy: AutomaticOsUpgradePolicy | None = None,
        boot_diagnostics: BootDiagnostics | None = None,
        data_disk: Sequence[DataDisk] | None = None,
        extension: Sequence[Extension] | None = None,
        gallery_application: Sequence[GalleryApplication] | None = None,
        identity: Identity | None = None,
        plan: Plan | None = None,
        rolling_upgrade_policy: RollingUpgradePolicy | None = None,
        scale_in: ScaleIn | None = None,
        secret: Sequence[Secret] | None = None,
        source_image_reference: SourceImageReference | None = None,
        spot_restore: SpotRestore | None = None,
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
                "admin_username": admin_username,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "sku": sku,
                "network_interface": network_interface,
                "os_disk": os_disk,
                "admin_password": admin_password,
                "capacity_reservation_group_id": capacity_reservation_group_id,
                "computer_name_prefix": computer_name_prefix,
                "custom_data": custom_data,
                "disable_password_authentication": disable_password_authentication,
                "do_not_run_extensions_on_overprovisioned_machines": do_not_run_extensions_on_overprovisioned_machines,
                "edge_zone": edge_zone,
                "encryption_at_host_enabled": encryption_at_host_enabled,
                "eviction_policy": eviction_policy,
                "extension_operations_enabled": extension_operations_enabled,
                "extensions_time_budget": extensions_time_budget,
                "health_probe_id": health_probe_id,
                "host_group_id": host_group_id,
                "instances": instances,
                "max_bid_price": max_bid_price,
                "overprovision": overprovision,
                "platform_fault_domain_count": platform_fault_domain_count,
                "priority": priority,
                "provision_vm_agent": provision_vm_agent,
                "proximity_placement_group_id": proximity_placement_group_id,
                "resilient_vm_creation_enabled": resilient_vm_creation_enabled,
                "resilient_vm_deletion_enabled": resilient_vm_deletion_enabled,
                "secure_boot_enabled": secure_boot_enabled,
                "single_placement_group": single_placement_group,
                "source_image_id": source_image_id,
                "tags": tags,
                "upgrade_mode": upgrade_mode,
                "user_data": user_data,
                "vtpm_enabled": vtpm_enabled,
                "zone_balance": zone_balance,
                "zones": zones,
                "additional_capabilities": additional_capabilities,
                "admin_ssh_key": admin_ssh_key,
                "automatic_instance_repair": automatic_instance_repair,
                "automatic_os_upgrade_policy": automatic_os_upgrade_policy,
                "boot_diagnostics": boot_diagnostics,
                "data_disk": data_disk,
                "extension": extension,
                "gallery_application": gallery_application,
                "identity": identity,
                "plan": plan,
                "rolling_upgrade_policy": rolling_upgrade_policy,
                "scale_in": scale_in,
                "secret": secret,
                "source_image_reference": source_image_reference,
                "spot_restore": spot_restore,
                "termination_notification": termination_notification,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
