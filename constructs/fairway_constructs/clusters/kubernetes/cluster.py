"""A cluster of Azure Kubernetes Service that only Entra ID identities can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fairway_agent.kubernetes.settings import NODE_PROVISIONING
from fairway_constructs.azurerm import kubernetes_cluster as aks
from fairway_constructs.cdk import Lifecycle, Timeouts
from fairway_constructs.identity import Identity, IIdentity, assign_role, custom_role
from fairway_constructs.network_access import public_ranges
from fairway_constructs.researchers import assign_user_role
from fairway_constructs.scope import client_config
from fairway_constructs.service import Diagnostics, Service
from fairway_core.documents import FieldError
from fairway_core.environment.addresses import require_free
from fairway_core.environment.clusters.kubernetes.cluster import (
    NODES_GROUP,
    SYSTEM_GIB,
    SYSTEM_SURGE,
    Kubernetes,
    require_beside,
)
from fairway_core.environment.clusters.kubernetes.node_pool import (
    MAX_PODS,
    OS_SKU,
    SYSTEM_POOL,
    SYSTEM_POOL_MEANWHILE,
)
from fairway_core.environment.clusters.kubernetes.settings import SystemPool
from fairway_core.slurm.cluster import PLACES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.azure_scope import AzureScope
    from fairway_constructs.azurerm.role_assignment import RoleAssignment
    from fairway_constructs.cdk import Construct
    from fairway_constructs.monitoring import IMonitoring
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.environment.access import Researcher
    from fairway_core.environment.clusters.kubernetes.settings import UpgradeWindow
    from fairway_core.fields import Count
    from fairway_core.resource_ids import ObjectId
    from fairway_core.target import NodeRange

Outbound = Literal["userAssignedNATGateway", "userDefinedRouting"]

# For the address of the API server, at which kubectl then signs a user in.
USER_ROLE = "Azure Kubernetes Service Cluster User Role"
# No narrower role allows running a command in a pod.
WRITER_ROLE = "Azure Kubernetes Service RBAC Writer"
# The tenth address of the service range, by convention.
_DNS_ADDRESS = 10
# The default of AKS; the provider would send 0.
DRAIN_MINUTES = 30
LONG = Timeouts(create="2h", update="2h", delete="2h")


class KubernetesCluster(Service):
    """A cluster without local accounts, so that Terraform's state holds no credentials of it.

    Kubernetes itself acts as an identity that may put nodes into the subnet; nodes have another,
    `kubelet`, such as that of a `KubernetesSharedState`. With `api_server="private"`, the default,
    the API server only has an address in the subnet, to which its public name resolves; with
    "allowed" it has a public one for the public ranges in `allowed` and for `egress_address`, the
    source of the nodes' traffic. `admins` are object ids of Entra groups with full rights.

    `version` is a minor one, such as "1.36", by default Azure's choice. Without `upgrades` Azure
    updates neither Kubernetes nor nodes automatically. `pod_range`, with 256 addresses per node, is
    only visible inside the cluster, as is `service_range`.

    `outbound` is the egress of the subnet: a NAT gateway, or routes. `placements` are proximity
    placement groups for nodes, by the name of a pool. The system pods of AKS and Fairway run on
    `system_nodes` of `system_size`, jobs on those of each `KubernetesNodePool`. With `monitoring`
    nodes have the agent that sends data to its workspace, see
    `Monitoring.watch_kubernetes`. With `spot`, for a cluster with a pool of Spot nodes, Azure
    updates nodes automatically, but not Kubernetes.

    Raises UserError for settings that AKS does not support, such as a system pool without nodes,
    for ranges that overlap, and for a public API server that would be open to every address.

    >>> cluster = KubernetesCluster(stack, subnet=network.subnet("kubernetes"),
    ...                             kubelet=shared_state.kubelet)
    >>> cluster.issuer, cluster.name
    """

    # Changes and their authors, and the reasons why the autoscaler starts no node. Without reads
    # (kube-audit), which are most of the volume.
    DIAGNOSTICS = Diagnostics(categories=("cluster-autoscaler", "guard", "kube-audit-admin"))

    def __init__(
        self,
        scope: Construct,
        id: str = "kubernetes",
        *,
        subnet: SubnetRef,
        kubelet: IIdentity,
        version: str | None = None,
        tier: Literal["Free", "Standard"] | None = None,
        api_server: Literal["private", "allowed"] | None = None,
        admins: Sequence[ObjectId] = (),
        system_size: str | None = None,
        system_nodes: Count | NodeRange | None = None,
        upgrades: UpgradeWindow | None = None,
        pod_range: IPv4Network | str | None = None,
        service_range: IPv4Network | str | None = None,
        outbound: Outbound = "userAssignedNATGateway",
        allowed: Sequence[IPv4Network | str] = (),
        egress_address: str = "",
        placements: Mapping[str, str] | None = None,
        monitoring: IMonitoring | None = None,
        spot: bool = False,
    ) -> None:
        spec = Kubernetes.with_defaults(
            version=version,
            tier=tier,
            api_server=api_server,
            admins=admins,
            system=SystemPool.with_defaults(size=system_size, nodes=system_nodes),
            upgrades=upgrades,
            pod_range=pod_range,
            service_range=service_range,
        )
        require_free(subnet.range, "kubernetes", path=("subnet",))
        require_beside(spec, [("the subnet's", subnet.range, ("subnet",))], allowed)
        super().__init__(scope, id)
        azure = self.azure
        self.kubelet = kubelet
        control = _control(self, subnet.id, kubelet.id)
        self.name = azure.name("kubernetes_cluster")
        self.resource_group = azure.resource_group
        self.cluster = aks.KubernetesCluster(
            self,
            "kubernetes",
            name=self.name,
            **azure.common,
            node_resource_group=azure.name("resource_group", NODES_GROUP),
            dns_prefix=azure.environment,
            kubernetes_version=spec.version,
            sku_tier=spec.tier,
            **_identities(client_config(self).tenant_id, spec.admins, control, kubelet),
            **_api_server(spec, allowed, egress_address),
            network_profile=aks.NetworkProfile(
                network_plugin="azure",
                network_plugin_mode="overlay",
                network_data_plane="cilium",
                network_policy="cilium",
                outbound_type=outbound,
                pod_cidr=str(spec.pod_range),
                service_cidr=str(spec.service_range),
                dns_service_ip=str(spec.service_range[_DNS_ADDRESS]),
            ),
            oms_agent=(
                aks.OmsAgent(
                    log_analytics_workspace_id=monitoring.workspace_id,
                    msi_auth_for_monitoring_enabled=True,
                )
                if monitoring
                else None
            ),
            **_nodes(spec, azure, subnet.id),
            **_upgrades(spec.upgrades, spot=spot),
            timeouts=LONG,
            # Without them AKS cannot create the first node.
            depends_on=[*control.assignments, *self._let_place(control, placements or {})],
        )
        self.id, self.issuer = self.cluster.id, self.cluster.oidc_issuer_url
        self.version, self.upgrades = spec.version, spec.upgrades

    def _let_place(self, control: Identity, placements: Mapping[str, str]) -> list[RoleAssignment]:
        """Lets Kubernetes put nodes into proximity placement groups, by a role with one action."""
        azure = self.azure
        if not placements:
            return []
        role = custom_role(
            self,
            "kubernetes-role",
            "kubernetes",
            description=f"Kubernetes of {azure.environment} puts nodes into placement groups",
            actions=(PLACES,),
        )
        return [
            assign_role(
                self,
                f"kubernetes-places-{name}",
                on=group,
                role_id=role,
                principal_id=control.principal_id,
                why="Kubernetes puts nodes of a pool into this placement group",
            )
            for name, group in placements.items()
        ]

    def let_in(self, person: Researcher, *, namespace: str) -> None:
        """Lets a user or a group find the cluster, and submit in the namespace of jobs."""
        for name, role, over, reason in (
            ("found", USER_ROLE, self.id, "Finds the cluster by az aks get-credentials"),
            ("used", WRITER_ROLE, f"{self.id}/namespaces/{namespace}", "Submits jobs"),
        ):
            assign_user_role(
                self, f"kubernetes-{name}", on=over, person=person, role_name=role, reason=reason
            )


def _control(scope: Construct, subnet_id: str, kubelet_id: str) -> Identity:
    """Creates the identity of Kubernetes, with only the rights that AKS needs in our name. Source:
    Azure documentation, AKS: use managed identities, your own network and kubelet identity."""
    control = Identity(scope, "kubernetes")
    control.grant(
        "joins_subnet",
        "Network Contributor",
        on=subnet_id,
        reason="Kubernetes puts its nodes and its API server's address into the subnet",
    )
    control.grant(
        "gives_kubelet",
        "Managed Identity Operator",
        on=kubelet_id,
        reason="Kubernetes gives its nodes their identity",
    )
    return control


def _identities(
    tenant_id: str, admins: Sequence[ObjectId], control: IIdentity, kubelet: IIdentity
) -> dict[str, Any]:
    """Returns the identities of users, pods, Kubernetes and its nodes: always in Entra ID."""
    return {
        "local_account_disabled": True,
        "run_command_enabled": False,
        "azure_active_directory_role_based_access_control": (
            aks.AzureActiveDirectoryRoleBasedAccessControl(
                azure_rbac_enabled=True,
                # The provider requires this or administrators, although it could look it up.
                tenant_id=tenant_id,
                admin_group_object_ids=list(admins) or None,
            )
        ),
        "oidc_issuer_enabled": True,
        "workload_identity_enabled": True,
        "identity": aks.Identity(type="UserAssigned", identity_ids=[control.id]),
        "kubelet_identity": aks.KubeletIdentity(
            client_id=kubelet.client_id,
            object_id=kubelet.principal_id,
            user_assigned_identity_id=kubelet.id,
        ),
    }


def _api_server(
    spec: Kubernetes, allowed: Sequence[IPv4Network | str], egress_address: str
) -> dict[str, Any]:
    if spec.api_server == "private":
        return {
            "private_cluster_enabled": True,
            # Its public name resolves to the private address: no DNS server needs a zone for that.
            "private_cluster_public_fqdn_enabled": True,
            "private_dns_zone_id": "None",
        }
    ranges = public_ranges(allowed, egress_address)
    if not ranges:
        raise FieldError(
            "the API server would be open to every address: `allowed` names no public range",
            "name the ranges that you work from",
            ("allowed",),
        )
    return {"api_server_access_profile": aks.ApiServerAccessProfile(authorized_ip_ranges=ranges)}


def _nodes(spec: Kubernetes, azure: AzureScope, subnet_id: str) -> dict[str, Any]:
    """Returns the system pool, and the settings for starting nodes of all pools."""
    nodes = spec.system.node_range
    scales = nodes.scales
    system_pool = aks.DefaultNodePool(
        name=SYSTEM_POOL,
        # The provider upgrades nodes to this version, and not to that of the cluster.
        orchestrator_version=spec.version,
        vm_size=spec.system.size,
        vnet_subnet_id=subnet_id,
        zones=azure.zones,
        max_pods=MAX_PODS,
        os_sku=OS_SKU,
        os_disk_type="Managed",
        os_disk_size_gb=SYSTEM_GIB,
        auto_scaling_enabled=scales or None,
        min_count=nodes.min if scales else None,
        max_count=nodes.max if scales else None,
        node_count=nodes.min,
        # Another size then changes the pool instead of replacing the cluster.
        temporary_name_for_rotation=SYSTEM_POOL_MEANWHILE,
        # Users' pods stay off the nodes of the system pods.
        only_critical_addons_enabled=True,
        upgrade_settings=aks.DefaultNodePoolUpgradeSettings(
            max_surge=f"{SYSTEM_SURGE}%", drain_timeout_in_minutes=DRAIN_MINUTES
        ),
        tags=azure.tags,
    )
    return {
        "node_provisioning_profile": aks.NodeProvisioningProfile(mode="Manual"),
        "default_node_pool": system_pool,
        "auto_scaler_profile": aks.AutoScalerProfile(
            # Tasks on several nodes wait for as long too.
            max_node_provisioning_time=f"{NODE_PROVISIONING / 60:g}m",
            skip_nodes_with_local_storage=False,
        ),
        # File systems are mounted by their addresses, which needs no driver.
        "storage_profile": aks.StorageProfile(file_driver_enabled=False, blob_driver_enabled=False),
        "lifecycle": (
            Lifecycle(ignore_changes=["default_node_pool[0].node_count"]) if scales else None
        ),
    }


def _upgrades(window: UpgradeWindow | None, *, spot: bool) -> dict[str, Any]:
    """Returns Azure's automatic updates, and their window: an update of a node ends its pods.

    With a Spot pool AKS refuses to update Kubernetes in the control plane and in pools at once, as
    its patch channel does. https://learn.microsoft.com/azure/aks/spot-node-pool
    """
    if window is None:
        return {"node_os_upgrade_channel": "None"}
    when: dict[str, Any] = {
        "frequency": "Weekly",
        "interval": 1,
        "duration": window.hours,
        "day_of_week": window.day,
        "start_time": window.start,
        "utc_offset": "+00:00",
    }
    found: dict[str, Any] = {
        "node_os_upgrade_channel": window.nodes,
        "maintenance_window_node_os": aks.MaintenanceWindowNodeOs(**when),
    }
    if not spot:
        found["automatic_upgrade_channel"] = "patch"
        found["maintenance_window_auto_upgrade"] = aks.MaintenanceWindowAutoUpgrade(**when)
    return found
