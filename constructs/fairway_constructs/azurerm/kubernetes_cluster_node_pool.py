"""Resource azurerm_kubernetes_cluster_node_pool of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

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


class KubeletConfig(Block):
    """The block `kubelet_config`."""

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


class LinuxOsConfigSysctlConfig(Block):
    """The block `linux_os_config.sysctl_config`."""

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


class LinuxOsConfig(Block):
    """The block `linux_os_config`."""

    swap_file_size_mb: float | None = None
    transparent_huge_page: str | None = None
    transparent_huge_page_defrag: str | None = None
    sysctl_config: LinuxOsConfigSysctlConfig | None = None


class NodeNetworkProfileAllowedHostPorts(Block):
    """The block `node_network_profile.allowed_host_ports`."""

    port_end: float | None = None
    port_start: float | None = None
    protocol: str | None = None


class NodeNetworkProfile(Block):
    """The block `node_network_profile`."""

    application_security_group_ids: Sequence[str] | None = None
    node_public_ip_tags: Mapping[str, str] | None = None
    allowed_host_ports: Sequence[NodeNetworkProfileAllowedHostPorts] | None = None


class UpgradeSettings(Block):
    """The block `upgrade_settings`."""

    drain_timeout_in_minutes: float | None = None
    max_surge: str | None = None
    max_unavailable: str | None = None
    node_soak_duration_in_minutes: float | None = None
    undrainable_node_behavior: str | None = None


class WindowsProfile(Block):
    """The block `windows_profile`."""

    outbound_nat_enabled: bool | None = None


class KubernetesClusterNodePool(Resource):
    """The resource azurerm_kubernetes_cluster_node_pool."""

    TYPE = "azurerm_kubernetes_cluster_node_pool"

    auto_scaling_enabled = BooleanAttribute()
    capacity_reservation_group_id = StringAttribute()
    eviction_policy = StringAttribute()
    fips_enabled = BooleanAttribute()
    gpu_driver = StringAttribute()
    gpu_instance = StringAttribute()
    host_encryption_enabled = BooleanAttribute()
    host_group_id = StringAttribute()
    id = StringAttribute()
    kubelet_disk_type = StringAttribute()
    kubernetes_cluster_id = StringAttribute()
    max_count = NumberAttribute()
    max_pods = NumberAttribute()
    min_count = NumberAttribute()
    mode = StringAttribute()
    name = StringAttribute()
    node_count = NumberAttribute()
    node_image_version = StringAttribute()
    node_labels = MapAttribute()
    node_public_ip_enabled = BooleanAttribute()
    node_public_ip_prefix_id = StringAttribute()
    node_taints = ListAttribute()
    orchestrator_version = StringAttribute()
    os_disk_size_gb = NumberAttribute()
    os_disk_type = StringAttribute()
    os_sku = StringAttribute()
    os_type = StringAttribute()
    pod_subnet_id = StringAttribute()
    priority = StringAttribute()
    proximity_placement_group_id = StringAttribute()
    scale_down_mode = StringAttribute()
    snapshot_id = StringAttribute()
    spot_max_price = NumberAttribute()
    tags = MapAttribute()
    temporary_name_for_rotation = StringAttribute()
    ultra_ssd_enabled = BooleanAttribute()
    vm_size = StringAttribute()
    vnet_subnet_id = StringAttribute()
    workload_runtime = StringAttribute()
    zones = ListAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        kubernetes_cluster_id: str,
        name: str,
        auto_scaling_enabled: bool | None = None,
        capacity_reservation_group_id: str | None = None,
        eviction_policy: str | None = None,
        fips_enabled: bool | None = None,
        gpu_driver: str | None = None,
        gpu_instance: str | None = None,
        host_encryption_enabled: bool | None = None,
        host_group_id: str | None = None,
        kubelet_disk_type: str | None = None,
        max_count: float | None = None,
        max_pods: float | None = None,
        min_count: float | None = None,
        mode: str | None = None,
        node_count: float | None = None,
        node_labels: Mapping[str, str] | None = None,
        node_public_ip_enabled: bool | None = None,
        node_public_ip_prefix_id: str | None = None,
        node_taints: Sequence[str] | None = None,
        orchestrator_version: str | None = None,
        os_disk_size_gb: float | None = None,
        os_disk_type: str | None = None,
        os_sku: str | None = None,
        os_type: str | None = None,
        pod_subnet_id: str | None = None,
        priority: str | None = None,
        proximity_placement_group_id: str | None = None,
        scale_down_mode: str | None = None,
        snapshot_id: str | None = None,
        spot_max_price: float | None = None,
        tags: Mapping[str, str] | None = None,
        temporary_name_for_rotation: str | None = None,
        ultra_ssd_enabled: bool | None = None,
        vm_size: str | None = None,
        vnet_subnet_id: str | None = None,
        workload_runtime: str | None = None,
        zones: Sequence[str] | None = None,
        kubelet_config: KubeletConfig | None = None,
        linux_os_config: LinuxOsConfig | None = None,
        node_network_profile: NodeNetworkProfile | None = None,
        upgrade_settings: UpgradeSettings | None = None,
        windows_profile: WindowsProfile | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "kubernetes_cluster_id": kubernetes_cluster_id,
                "name": name,
                "auto_scaling_enabled": auto_scaling_enabled,
                "capacity_reservation_group_id": capacity_reservation_group_id,
                "eviction_policy": eviction_policy,
                "fips_enabled": fips_enabled,
                "gpu_driver": gpu_driver,
                "gpu_instance": gpu_instance,
                "host_encryption_enabled": host_encryption_enabled,
                "host_group_id": host_group_id,
                "kubelet_disk_type": kubelet_disk_type,
                "max_count": max_count,
                "max_pods": max_pods,
                "min_count": min_count,
                "mode": mode,
                "node_count": node_count,
                "node_labels": node_labels,
                "node_public_ip_enabled": node_public_ip_enabled,
                "node_public_ip_prefix_id": node_public_ip_prefix_id,
                "node_taints": node_taints,
                "orchestrator_version": orchestrator_version,
                "os_disk_size_gb": os_disk_size_gb,
                "os_disk_type": os_disk_type,
                "os_sku": os_sku,
                "os_type": os_type,
                "pod_subnet_id": pod_subnet_id,
                "priority": priority,
                "proximity_placement_group_id": proximity_placement_group_id,
                "scale_down_mode": scale_down_mode,
                "snapshot_id": snapshot_id,
                "spot_max_price": spot_max_price,
                "tags": tags,
                "temporary_name_for_rotation": temporary_name_for_rotation,
                "ultra_ssd_enabled": ultra_ssd_enabled,
                "vm_size": vm_size,
                "vnet_subnet_id": vnet_subnet_id,
                "workload_runtime": workload_runtime,
                "zones": zones,
                "kubelet_config": kubelet_config,
                "linux_os_config": linux_os_config,
                "node_network_profile": node_network_profile,
                "upgrade_settings": upgrade_settings,
                "windows_profile": windows_profile,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
