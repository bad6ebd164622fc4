"""Resource azurerm_kubernetes_cluster of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

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


class AciConnectorLinux(Block):
    """The block `aci_connector_linux`."""

    subnet_name: str


class ApiServerAccessProfile(Block):
    """The block `api_server_access_profile`."""

    authorized_ip_ranges: Sequence[str] | None = None
    subnet_id: str | None = None
    virtual_network_integration_enabled: bool | None = None


class AutoScalerProfile(Block):
    """The block `auto_scaler_profile`."""

    balance_similar_node_groups: bool | None = None
    daemonset_eviction_for_empty_nodes_enabled: bool | None = None
    daemonset_eviction_for_occupied_nodes_enabled: bool | None = None
    empty_bulk_delete_max: str | None = None
    expander: str | None = None
    ignore_daemonsets_utilization_enabled: bool | None = None
    max_graceful_termination_sec: str | None = None
    max_node_provisioning_time: str | None = None
    max_unready_nodes: float | None = None
    max_unready_percentage: float | None = None
    new_pod_scale_up_delay: str | None = None
    scale_down_delay_after_add: str | None = None
    scale_down_delay_after_delete: str | None = None
    scale_down_delay_after_failure: str | None = None
    scale_down_unneeded: str | None = None
    scale_down_unready: str | None = None
    scale_down_utilization_threshold: str | None = None
    scan_interval: str | None = None
    skip_nodes_with_local_storage: bool | None = None
    skip_nodes_with_system_pods: bool | None = None


class AzureActiveDirectoryRoleBasedAccessControl(Block):
    """The block `azure_active_directory_role_based_access_control`."""

    admin_group_object_ids: Sequence[str] | None = None
    azure_rbac_enabled: bool | None = None
    tenant_id: str | None = None


class BootstrapProfile(Block):
    """The block `bootstrap_profile`."""

    artifact_source: str | None = None
    container_registry_id: str | None = None


class ConfidentialComputing(Block):
    """The block `confidential_computing`."""

    sgx_quote_helper_enabled: bool


class DefaultNodePoolKubeletConfig(Block):
    """The block `default_node_pool.kubelet_config`."""

    allowed_unsafe_sysctls: Sequence[str] | None = None
    container_log_max_files: float | None = None
    container_log_max_size_mb: float | None = None
    cpu_cfs_quota_enabled: bool | None = None
    cpu_cfs_quota_period: str | None = None
    cpu_manager_policy: str | None = None
    image_gc_high_threshold: float | None = None
    image_gc_low_threshold: float | None = None
    pod_max_pid: float | None = None
    topology_manager_policy: str | None = None


class DefaultNodePoolLinuxOsConfigSysctlConfig(Block):
    """The block `default_node_pool.linux_os_config.sysctl_config`."""

    fs_aio_max_nr: float | None = None
    fs_file_max: float | None = None
    fs_inotify_max_user_watches: float | None = None
    fs_nr_open: float | None = None
    kernel_threads_max: float | None = None
    net_core_netdev_max_backlog: float | None = None
    net_core_optmem_max: float | None = None
    net_core_rmem_default: float | None = None
    net_core_rmem_max: float | None = None
    net_core_somaxconn: float | None = None
    net_core_wmem_default: float | None = None
    net_core_wmem_max: float | None = None
    net_ipv4_ip_local_port_range_max: float | None = None
    net_ipv4_ip_local_port_range_min: float | None = None
    net_ipv4_neigh_default_gc_thresh1: float | None = None
    net_ipv4_neigh_default_gc_thresh2: float | None = None
    net_ipv4_neigh_default_gc_thresh3: float | None = None
    net_ipv4_tcp_fin_timeout: float | None = None
    net_ipv4_tcp_keepalive_intvl: float | None = None
    net_ipv4_tcp_keepalive_probes: float | None = None
    net_ipv4_tcp_keepalive_time: float | None = None
    net_ipv4_tcp_max_syn_backlog: float | None = None
    net_ipv4_tcp_max_tw_buckets: float | None = None
    net_ipv4_tcp_tw_reuse: bool | None = None
    net_netfilter_nf_conntrack_buckets: float | None = None
    net_netfilter_nf_conntrack_max: float | None = None
    vm_max_map_count: float | None = None
    vm_swappiness: float | None = None
    vm_vfs_cache_pressure: float | None = None


class DefaultNodePoolLinuxOsConfig(Block):
    """The block `default_node_pool.linux_os_config`."""

    swap_file_size_mb: float | None = None
    transparent_huge_page: str | None = None
    transparent_huge_page_defrag: str | None = None
    sysctl_config: DefaultNodePoolLinuxOsConfigSysctlConfig | None = None


class DefaultNodePoolNodeNetworkProfileAllowedHostPorts(Block):
    """The block `default_node_pool.node_network_profile.allowed_host_ports`."""

    port_end: float | None = None
    port_start: float | None = None
    protocol: str | None = None


class DefaultNodePoolNodeNetworkProfile(Block):
    """The block `default_node_pool.node_network_profile`."""

    application_security_group_ids: Sequence[str] | None = None
    node_public_ip_tags: Mapping[str, str] | None = None
    allowed_host_ports: Sequence[DefaultNodePoolNodeNetworkProfileAllowedHostPorts] | None = None


class DefaultNodePoolUpgradeSettings(Block):
    """The block `default_node_pool.upgrade_settings`."""

    max_surge: str
    drain_timeout_in_minutes: float | None = None
    node_soak_duration_in_minutes: float | None = None
    undrainable_node_behavior: str | None = None


class DefaultNodePool(Block):
    """The block `default_node_pool`."""

    name: str
    auto_scaling_enabled: bool | None = None
    capacity_reservation_group_id: str | None = None
    fips_enabled: bool | None = None
    gpu_driver: str | None = None
    gpu_instance: str | None = None
    host_encryption_enabled: bool | None = None
    host_group_id: str | None = None
    kubelet_disk_type: str | None = None
    max_count: float | None = None
    max_pods: float | None = None
    min_count: float | None = None
    node_count: float | None = None
    node_labels: Mapping[str, str] | None = None
    node_public_ip_enabled: bool | None = None
    node_public_ip_prefix_id: str | None = None
    only_critical_addons_enabled: bool | None = None
    orchestrator_version: str | None = None
    os_disk_size_gb: float | None = None
    os_disk_type: str | None = None
    os_sku: str | None = None
    pod_subnet_id: str | None = None
    proximity_placement_group_id: str | None = None
    scale_down_mode: str | None = None
    snapshot_id: str | None = None
    tags: Mapping[str, str] | None = None
    temporary_name_for_rotation: str | None = None
    type: str | None = None
    ultra_ssd_enabled: bool | None = None
    vm_size: str | None = None
    vnet_subnet_id: str | None = None
    workload_runtime: str | None = None
    zones: Sequence[str] | None = None
    kubelet_config: DefaultNodePoolKubeletConfig | None = None
    linux_os_config: DefaultNodePoolLinuxOsConfig | None = None
    node_network_profile: DefaultNodePoolNodeNetworkProfile | None = None
    upgrade_settings: DefaultNodePoolUpgradeSettings | None = None


class HttpProxyConfig(Block):
    """The block `http_proxy_config`."""

    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: Sequence[str] | None = None
    trusted_ca: str | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class IngressApplicationGateway(Block):
    """The block `ingress_application_gateway`."""

    gateway_id: str | None = None
    gateway_name: str | None = None
    subnet_cidr: str | None = None
    subnet_id: str | None = None


class KeyManagementService(Block):
    """The block `key_management_service`."""

    key_vault_key_id: str
    key_vault_network_access: str | None = None


class KeyVaultSecretsProvider(Block):
    """The block `key_vault_secrets_provider`."""

    secret_rotation_enabled: bool | None = None
    secret_rotation_interval: str | None = None


class KubeletIdentity(Block):
    """The block `kubelet_identity`."""

    client_id: str | None = None
    object_id: str | None = None
    user_assigned_identity_id: str | None = None


class LinuxProfileSshKey(Block):
    """The block `linux_profile.ssh_key`."""

    key_data: str


class LinuxProfile(Block):
    """The block `linux_profile`."""

    admin_username: str
    ssh_key: LinuxProfileSshKey


class MaintenanceWindowAllowed(Block):
    """The block `maintenance_window.allowed`."""

    day: str
    hours: Sequence[float]


class MaintenanceWindowNotAllowed(Block):
    """The block `maintenance_window.not_allowed`."""

    end: str
    start: str


class MaintenanceWindow(Block):
    """The block `maintenance_window`."""

    allowed: Sequence[MaintenanceWindowAllowed] | None = None
    not_allowed: Sequence[MaintenanceWindowNotAllowed] | None = None


class MaintenanceWindowAutoUpgradeNotAllowed(Block):
    """The block `maintenance_window_auto_upgrade.not_allowed`."""

    end: str
    start: str


class MaintenanceWindowAutoUpgrade(Block):
    """The block `maintenance_window_auto_upgrade`."""

    duration: float
    frequency: str
    interval: float
    day_of_month: float | None = None
    day_of_week: str | None = None
    start_date: str | None = None
    start_time: str | None = None
    utc_offset: str | None = None
    week_index: str | None = None
    not_allowed: Sequence[MaintenanceWindowAutoUpgradeNotAllowed] | None = None


class MaintenanceWindowNodeOsNotAllowed(Block):
    """The block `maintenance_window_node_os.not_allowed`."""

    end: str
    start: str


class MaintenanceWindowNodeOs(Block):
    """The block `maintenance_window_node_os`."""

    duration: float
    frequency: str
    interval: float
    day_of_month: float | None = None
    day_of_week: str | None = None
    start_date: str | None = None
    start_time: str | None = None
    utc_offset: str | None = None
    week_index: str | None = None
    not_allowed: Sequence[MaintenanceWindowNodeOsNotAllowed] | None = None


class MicrosoftDefender(Block):
    """The block `microsoft_defender`."""

    log_analytics_workspace_id: str


class MonitorMetrics(Block):
    """The block `monitor_metrics`."""

    annotations_allowed: str | None = None
    labels_allowed: str | None = None


class NetworkProfileAdvancedNetworking(Block):
    """The block `network_profile.advanced_networking`."""

    observability_enabled: bool | None = None
    security_enabled: bool | None = None


class NetworkProfileLoadBalancerProfile(Block):
    """The block `network_profile.load_balancer_profile`."""

    backend_pool_type: str | None = None
    idle_timeout_in_minutes: float | None = None
    managed_outbound_ip_count: float | None = None
    managed_outbound_ipv6_count: float | None = None
    outbound_ip_address_ids: Sequence[str] | None = None
    outbound_ip_prefix_ids: Sequence[str] | None = None
    outbound_ports_allocated: float | None = None


class NetworkProfileNatGatewayProfile(Block):
    """The block `network_profile.nat_gateway_profile`."""

    idle_timeout_in_minutes: float | None = None
    managed_outbound_ip_count: float | None = None


class NetworkProfile(Block):
    """The block `network_profile`."""

    network_plugin: str
    dns_service_ip: str | None = None
    ip_versions: Sequence[str] | None = None
    load_balancer_sku: str | None = None
    network_data_plane: str | None = None
    network_mode: str | None = None
    network_plugin_mode: str | None = None
    network_policy: str | None = None
    outbound_type: str | None = None
    pod_cidr: str | None = None
    pod_cidrs: Sequence[str] | None = None
    service_cidr: str | None = None
    service_cidrs: Sequence[str] | None = None
    advanced_networking: NetworkProfileAdvancedNetworking | None = None
    load_balancer_profile: NetworkProfileLoadBalancerProfile | None = None
    nat_gateway_profile: NetworkProfileNatGatewayProfile | None = None


class NodeProvisioningProfile(Block):
    """The block `node_provisioning_profile`."""

    default_node_pools: str | None = None
    mode: str | None = None


class OmsAgent(Block):
    """The block `oms_agent`."""

    log_analytics_workspace_id: str
    msi_auth_for_monitoring_enabled: bool | None = None


class ServiceMeshProfileCertificateAuthority(Block):
    """The block `service_mesh_profile.certificate_authority`."""

    cert_chain_object_name: str
    cert_object_name: str
    key_object_name: str
    key_vault_id: str
    root_cert_object_name: str


class ServiceMeshProfile(Block):
    """The block `service_mesh_profile`."""

    mode: str
    revisions: Sequence[str]
    external_ingress_gateway_enabled: bool | None = None
    internal_ingress_gateway_enabled: bool | None = None
    certificate_authority: ServiceMeshProfileCertificateAuthority | None = None


class ServicePrincipal(Block):
    """The block `service_principal`."""

    client_id: str
    client_secret: str


class StorageProfile(Block):
    """The block `storage_profile`."""

    blob_driver_enabled: bool | None = None
    disk_driver_enabled: bool | None = None
    file_driver_enabled: bool | None = None
    snapshot_controller_enabled: bool | None = None


class UpgradeOverride(Block):
    """The block `upgrade_override`."""

    force_upgrade_enabled: bool
    effective_until: str | None = None


class WebAppRouting(Block):
    """The block `web_app_routing`."""

    dns_zone_ids: Sequence[str]
    default_nginx_controller: str | None = None


class WindowsProfileGmsa(Block):
    """The block `windows_profile.gmsa`."""

    dns_server: str
    root_domain: str


class WindowsProfile(Block):
    """The block `windows_profile`."""

    admin_password: str
    admin_username: str
    license: str | None = None
    gmsa: WindowsProfileGmsa | None = None


class WorkloadAutoscalerProfile(Block):
    """The block `workload_autoscaler_profile`."""

    keda_enabled: bool | None = None
    vertical_pod_autoscaler_enabled: bool | None = None


class KubernetesCluster(Resource):
    """The resource azurerm_kubernetes_cluster."""

    TYPE = "azurerm_kubernetes_cluster"

    ai_toolchain_operator_enabled = BooleanAttribute()
    automatic_upgrade_channel = StringAttribute()
    azure_policy_enabled = BooleanAttribute()
    cost_analysis_enabled = BooleanAttribute()
    current_kubernetes_version = StringAttribute()
    custom_ca_trust_certificates_base64 = ListAttribute()
    disk_encryption_set_id = StringAttribute()
    dns_prefix = StringAttribute()
    dns_prefix_private_cluster = StringAttribute()
    edge_zone = StringAttribute()
    fqdn = StringAttribute()
    http_application_routing_enabled = BooleanAttribute()
    http_application_routing_zone_name = StringAttribute()
    id = StringAttribute()
    image_cleaner_enabled = BooleanAttribute()
    image_cleaner_interval_hours = NumberAttribute()
    kube_admin_config = ObjectAttribute()
    kube_admin_config_raw = StringAttribute()
    kube_config = ObjectAttribute()
    kube_config_raw = StringAttribute()
    kubernetes_version = StringAttribute()
    local_account_disabled = BooleanAttribute()
    location = StringAttribute()
    name = StringAttribute()
    node_os_upgrade_channel = StringAttribute()
    node_resource_group = StringAttribute()
    node_resource_group_id = StringAttribute()
    oidc_issuer_enabled = BooleanAttribute()
    oidc_issuer_url = StringAttribute()
    open_service_mesh_enabled = BooleanAttribute()
    portal_fqdn = StringAttribute()
    private_cluster_enabled = BooleanAttribute()
    private_cluster_public_fqdn_enabled = BooleanAttribute()
    private_dns_zone_id = StringAttribute()
    private_fqdn = StringAttribute()
    resource_group_name = StringAttribute()
    role_based_access_control_enabled = BooleanAttribute()
    run_command_enabled = BooleanAttribute()
    sku_tier = StringAttribute()
    support_plan = StringAttribute()
    tags = MapAttribute()
    workload_identity_enabled = BooleanAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        default_node_pool: DefaultNodePool,
        node_provisioning_profile: NodeProvisioningProfile,
        ai_toolchain_operator_enabled: bool | None = None,
        automatic_upgrade_channel: str | None = None,
        azure_policy_enabled: bool | None = None,
        cost_analysis_enabled: bool | None = None,
        custom_ca_trust_certificates_base64: Sequence[str] | None = None,
        disk_encryption_set_id: str | None = None,
        dns_prefix: str | None = None,
        dns_prefix_private_cluster: str | None = None,
        edge_zone: str | None = None,
        http_application_routing_enabled: bool | None = None,
        image_cleaner_enabled: bool | None = None,
        image_cleaner_interval_hours: float | None = None,
        kubernetes_version: str | None = None,
        local_account_disabled: bool | None = None,
        node_os_upgrade_channel: str | None = None,
        node_resource_group: str | None = None,
        oidc_issuer_enabled: bool | None = None,
        open_service_mesh_enabled: bool | None = None,
        private_cluster_enabled: bool | None = None,
        private_cluster_public_fqdn_enabled: bool | None = None,
        private_dns_zone_id: str | None = None,
        role_based_access_control_enabled: bool | None = None,
        run_command_enabled: bool | None = None,
        sku_tier: str | None = None,
        support_plan: str | None = None,
        tags: Mapping[str, str] | None = None,
        workload_identity_enabled: bool | None = None,
        aci_connector_linux: AciConnectorLinux | None = None,
        api_server_access_profile: ApiServerAccessProfile | None = None,
        auto_scaler_profile: AutoScalerProfile | None = None,
        azure_active_directory_role_based_access_control: AzureActiveDirectoryRoleBasedAccessControl | None = None,
        bootstrap_profile: BootstrapProfile | None = None,
        confidential_computing: ConfidentialComputing | None = None,
        http_proxy_config: HttpProxyConfig | None = None,
        identity: Identity | None = None,
        ingress_application_gateway: IngressApplicationGateway | None = None,
        key_management_service: KeyManagementService | None = None,
        key_vault_secrets_provider: KeyVaultSecretsProvider | None = None,
        kubelet_identity: KubeletIdentity | None = None,
        linux_profile: LinuxProfile | None = None,
        maintenance_window: MaintenanceWindow | None = None,
        maintenance_window_auto_upgrade: MaintenanceWindowAutoUpgrade | None = None,
        maintenance_window_node_os: MaintenanceWindowNodeOs | None = None,
        microsoft_defender: MicrosoftDefender | None = None,
        monitor_metrics: MonitorMetrics | None = None,
        network_profile: NetworkProfile | None = None,
        oms_agent: OmsAgent | None = None,
        service_mesh_profile: ServiceMeshProfile | None = None,
        service_principal: ServicePrincipal | None = None,
        storage_profile: StorageProfile | None = None,
        upgrade_override: UpgradeOverride | None = None,
        web_app_routing: WebAppRouting | None = None,
        windows_profile: WindowsProfile | None = None,
        workload_autoscaler_profile: WorkloadAutoscalerProfile | None = None,
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
                "default_node_pool": default_node_pool,
                "node_provisioning_profile": node_provisioning_profile,
                "ai_toolchain_operator_enabled": ai_toolchain_operator_enabled,
                "automatic_upgrade_channel": automatic_upgrade_channel,
                "azure_policy_enabled": azure_policy_enabled,
                "cost_analysis_enabled": cost_analysis_enabled,
                "custom_ca_trust_certificates_base64": custom_ca_trust_certificates_base64,
                "disk_encryption_set_id": disk_encryption_set_id,
                "dns_prefix": dns_prefix,
                "dns_prefix_private_cluster": dns_prefix_private_cluster,
                "edge_zone": edge_zone,
                "http_application_routing_enabled": http_application_routing_enabled,
                "image_cleaner_enabled": image_cleaner_enabled,
                "image_cleaner_interval_hours": image_cleaner_interval_hours,
                "kubernetes_version": kubernetes_version,
                "local_account_disabled": local_account_disabled,
                "node_os_upgrade_channel": node_os_upgrade_channel,
                "node_resource_group": node_resource_group,
                "oidc_issuer_enabled": oidc_issuer_enabled,
                "open_service_mesh_enabled": open_service_mesh_enabled,
                "private_cluster_enabled": private_cluster_enabled,
                "private_cluster_public_fqdn_enabled": private_cluster_public_fqdn_enabled,
                "private_dns_zone_id": private_dns_zone_id,
                "role_based_access_control_enabled": role_based_access_control_enabled,
                "run_command_enabled": run_command_enabled,
                "sku_tier": sku_tier,
                "support_plan": support_plan,
                "tags": tags,
                "workload_identity_enabled": workload_identity_enabled,
                "aci_connector_linux": aci_connector_linux,
                "api_server_access_profile": api_server_access_profile,
                "auto_scaler_profile": auto_scaler_profile,
                "azure_active_directory_role_based_access_control": azure_active_directory_role_based_access_control,
                "bootstrap_profile": bootstrap_profile,
                "confidential_computing": confidential_computing,
                "http_proxy_config": http_proxy_config,
                "identity": identity,
                "ingress_application_gateway": ingress_application_gateway,
                "key_management_service": key_management_service,
                "key_vault_secrets_provider": key_vault_secrets_provider,
                "kubelet_identity": kubelet_identity,
                "linux_profile": linux_profile,
                "maintenance_window": maintenance_window,
                "maintenance_window_auto_upgrade": maintenance_window_auto_upgrade,
                "maintenance_window_node_os": maintenance_window_node_os,
                "microsoft_defender": microsoft_defender,
                "monitor_metrics": monitor_metrics,
                "network_profile": network_profile,
                "oms_agent": oms_agent,
                "service_mesh_profile": service_mesh_profile,
                "service_principal": service_principal,
                "storage_profile": storage_profile,
                "upgrade_override": upgrade_override,
                "web_app_routing": web_app_routing,
                "windows_profile": windows_profile,
                "workload_autoscaler_profile": workload_autoscaler_profile,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
