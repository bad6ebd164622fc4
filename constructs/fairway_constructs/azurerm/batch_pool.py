"""Resource azurerm_batch_pool of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class AutoScale(Block):
    """The block `auto_scale`."""

    formula: str
    evaluation_interval: str | None = None


class ContainerConfigurationContainerRegistries(ObjectValue):
    """An object in `container_configuration.container_registries`."""

    password: str | None = None
    registry_server: str | None = None
    user_assigned_identity_id: str | None = None
    user_name: str | None = None


class ContainerConfiguration(Block):
    """The block `container_configuration`."""

    container_image_names: Sequence[str] | None = None
    container_registries: Sequence[ContainerConfigurationContainerRegistries] | None = None
    type: str | None = None


class DataDisks(Block):
    """The block `data_disks`."""

    disk_size_gb: float
    lun: float
    caching: str | None = None
    storage_account_type: str | None = None


class DiskEncryption(Block):
    """The block `disk_encryption`."""

    disk_encryption_target: str


class Extensions(Block):
    """The block `extensions`."""

    name: str
    publisher: str
    type: str
    auto_upgrade_minor_version: bool | None = None
    automatic_upgrade_enabled: bool | None = None
    protected_settings: str | None = None
    provision_after_extensions: Sequence[str] | None = None
    settings_json: str | None = None
    type_handler_version: str | None = None


class FixedScale(Block):
    """The block `fixed_scale`."""

    node_deallocation_method: str | None = None
    resize_timeout: str | None = None
    target_dedicated_nodes: float | None = None
    target_low_priority_nodes: float | None = None


class Identity(Block):
    """The block `identity`."""

    identity_ids: Sequence[str]
    type: str


class MountAzureBlobFileSystem(Block):
    """The block `mount.azure_blob_file_system`."""

    account_name: str
    container_name: str
    relative_mount_path: str
    account_key: str | None = None
    blobfuse_options: str | None = None
    identity_id: str | None = None
    sas_key: str | None = None


class MountAzureFileShare(Block):
    """The block `mount.azure_file_share`."""

    account_key: str
    account_name: str
    azure_file_url: str
    relative_mount_path: str
    mount_options: str | None = None


class MountCifsMount(Block):
    """The block `mount.cifs_mount`."""

    password: str
    relative_mount_path: str
    source: str
    user_name: str
    mount_options: str | None = None


class MountNfsMount(Block):
    """The block `mount.nfs_mount`."""

    relative_mount_path: str
    source: str
    mount_options: str | None = None


class Mount(Block):
    """The block `mount`."""

    azure_blob_file_system: MountAzureBlobFileSystem | None = None
    azure_file_share: Sequence[MountAzureFileShare] | None = None
    cifs_mount: Sequence[MountCifsMount] | None = None
    nfs_mount: Sequence[MountNfsMount] | None = None


class NetworkConfigurationEndpointConfigurationNetworkSecurityGroupRules(Block):
    """The block `network_configuration.endpoint_configuration.network_security_group_rules`."""

    access: str
    priority: float
    source_address_prefix: str
    source_port_ranges: Sequence[str] | None = None


class NetworkConfigurationEndpointConfiguration(Block):
    """The block `network_configuration.endpoint_configuration`."""

    backend_port: float
    frontend_port_range: str
    name: str
    protocol: str
    network_security_group_rules: Sequence[NetworkConfigurationEndpointConfigurationNetworkSecurityGroupRules] | None = None


class NetworkConfiguration(Block):
    """The block `network_configuration`."""

    accelerated_networking_enabled: bool | None = None
    dynamic_vnet_assignment_scope: str | None = None
    public_address_provisioning_type: str | None = None
    public_ips: Sequence[str] | None = None
    subnet_id: str | None = None
    endpoint_configuration: Sequence[NetworkConfigurationEndpointConfiguration] | None = None


class NodePlacement(Block):
    """The block `node_placement`."""

    policy: str | None = None


class SecurityProfile(Block):
    """The block `security_profile`."""

    host_encryption_enabled: bool | None = None
    secure_boot_enabled: bool | None = None
    security_type: str | None = None
    vtpm_enabled: bool | None = None


class StartTaskContainerRegistry(Block):
    """The block `start_task.container.registry`."""

    registry_server: str
    password: str | None = None
    user_assigned_identity_id: str | None = None
    user_name: str | None = None


class StartTaskContainer(Block):
    """The block `start_task.container`."""

    image_name: str
    run_options: str | None = None
    working_directory: str | None = None
    registry: Sequence[StartTaskContainerRegistry] | None = None


class StartTaskResourceFile(Block):
    """The block `start_task.resource_file`."""

    auto_storage_container_name: str | None = None
    blob_prefix: str | None = None
    file_mode: str | None = None
    file_path: str | None = None
    http_url: str | None = None
    storage_container_url: str | None = None
    user_assigned_identity_id: str | None = None


class StartTaskUserIdentityAutoUser(Block):
    """The block `start_task.user_identity.auto_user`."""

    elevation_level: str | None = None
    scope: str | None = None


class StartTaskUserIdentity(Block):
    """The block `start_task.user_identity`."""

    user_name: str | None = None
    auto_user: StartTaskUserIdentityAutoUser | None = None


class StartTask(Block):
    """The block `start_task`."""

    command_line: str
    user_identity: StartTaskUserIdentity
    common_environment_properties: Mapping[str, str] | None = None
    task_retry_maximum: float | None = None
    wait_for_success: bool | None = None
    container: Sequence[StartTaskContainer] | None = None
    resource_file: Sequence[StartTaskResourceFile] | None = None


class StorageImageReference(Block):
    """The block `storage_image_reference`."""

    id: str | None = None
    offer: str | None = None
    publisher: str | None = None
    sku: str | None = None
    version: str | None = None


class TaskSchedulingPolicy(Block):
    """The block `task_scheduling_policy`."""

    node_fill_type: str | None = None


class UserAccountsLinuxUserConfiguration(Block):
    """The block `user_accounts.linux_user_configuration`."""

    gid: float | None = None
    ssh_private_key: str | None = None
    uid: float | None = None


class UserAccountsWindowsUserConfiguration(Block):
    """The block `user_accounts.windows_user_configuration`."""

    login_mode: str


class UserAccounts(Block):
    """The block `user_accounts`."""

    elevation_level: str
    name: str
    password: str
    linux_user_configuration: Sequence[UserAccountsLinuxUserConfiguration] | None = None
    windows_user_configuration: Sequence[UserAccountsWindowsUserConfiguration] | None = None


class Windows(Block):
    """The block `windows`."""

    enable_automatic_updates: bool | None = None


class BatchPool(Resource):
    """The resource azurerm_batch_pool."""

    TYPE = "azurerm_batch_pool"

    account_name = StringAttribute()
    display_name = StringAttribute()
    id = StringAttribute()
    inter_node_communication = StringAttribute()
    license_type = StringAttribute()
    max_tasks_per_node = NumberAttribute()
    metadata = MapAttribute()
    name = StringAttribute()
    node_agent_sku_id = StringAttribute()
    os_disk_placement = StringAttribute()
    resource_group_name = StringAttribute()
    stop_pending_resize_operation = BooleanAttribute()
    target_node_communication_mode = StringAttribute()
    vm_size = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        account_name: str,
        name: str,
        node_agent_sku_id: str,
        resource_group_name: str,
        vm_size: str,
        storage_image_reference: StorageImageReference,
        display_name: str | None = None,
        inter_node_communication: str | None = None,
        license_type: str | None = None,
        max_tasks_per_node: float | None = None,
        metadata: Mapping[str, str] | None = None,
        os_disk_placement: str | None = None,
        stop_pending_resize_operation: bool | None = None,
        target_node_communication_mode: str | None = None,
        auto_scale: AutoScale | None = None,
        container_configuration: ContainerConfiguration | None = None,
        data_disks: Sequence[DataDisks] | None = None,
        disk_encryption: Sequence[DiskEncryption] | None = None,
        extensions: Sequence[Extensions] | None = None,
        fixed_scale: FixedScale | None = None,
        identity: Identity | None = None,
        mount: Sequence[Mount] | None = None,
        network_configuration: NetworkConfiguration | None = None,
        node_placement: Sequence[NodePlacement] | None = None,
        security_profile: SecurityProfile | None = None,
        start_task: StartTask | None = None,
        task_scheduling_policy: Sequence[TaskSchedulingPolicy] | None = None,
        user_accounts: Sequence[UserAccounts] | None = None,
        windows: Sequence[Windows] | None = None,
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
                "name": name,
                "node_agent_sku_id": node_agent_sku_id,
                "resource_group_name": resource_group_name,
                "vm_size": vm_size,
                "storage_image_reference": storage_image_reference,
                "display_name": display_name,
                "inter_node_communication": inter_node_communication,
                "license_type": license_type,
                "max_tasks_per_node": max_tasks_per_node,
                "metadata": metadata,
                "os_disk_placement": os_disk_placement,
                "stop_pending_resize_operation": stop_pending_resize_operation,
                "target_node_communication_mode": target_node_communication_mode,
                "auto_scale": auto_scale,
                "container_configuration": container_configuration,
                "data_disks": data_disks,
                "disk_encryption": disk_encryption,
                "extensions": extensions,
                "fixed_scale": fixed_scale,
                "identity": identity,
                "mount": mount,
                "network_configuration": network_configuration,
                "node_placement": node_placement,
                "security_profile": security_profile,
                "start_task": start_task,
                "task_scheduling_policy": task_scheduling_policy,
                "user_accounts": user_accounts,
                "windows": windows,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
