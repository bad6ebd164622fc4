"""Node pools of Kubernetes in the stacks: the cluster, its permissions, and Flux's manifests."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from environment_files import KEY
from ruamel.yaml import YAML
from tests.stacks.documents import FILES, Stacks, Written, only, targets_of

from fairway_agent.kubernetes.api import CONDITION
from fairway_core.review.attributes import masked
from fairway_simulator.azure.deployment import Deployment

OURS, PODS = FILES["h100-kubernetes"], FILES["pods"]
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
MANIFESTS = "container-cluster-configuration"
CHECKED = {f"fairway-health-{name}" for name in ("nd", "spot", "cpu")}


def _all(stacks: Stacks, type_: str, role: str = "compute") -> dict[str, Any]:
    found: dict[str, Any] = stacks[role]["resource"].get(type_, {})
    return found


def _cluster(stacks: Stacks) -> dict[str, Any]:
    return only(stacks["compute"], "azurerm_kubernetes_cluster")


def test_kubernetes_cluster_disables_local_accounts_and_run_command(written: Written) -> None:
    """With local accounts, Azure issues a certificate that Terraform would keep in the state."""
    for file in (OURS, PODS):
        cluster = _cluster(written(file))
        assert cluster["local_account_disabled"] is True
        assert cluster["run_command_enabled"] is False
        assert cluster["oidc_issuer_enabled"] is True
        assert cluster["workload_identity_enabled"] is True
        rbac = cluster["azure_active_directory_role_based_access_control"]
        assert rbac["azure_rbac_enabled"] is True
        assert rbac["tenant_id"] == "${data.azurerm_client_config.current.tenant_id}"


def test_kubernetes_api_server_is_private_or_open_to_named_ranges(written: Written) -> None:
    ours = _cluster(written(OURS))
    ranges = ours["api_server_access_profile"]["authorized_ip_ranges"]
    assert ranges[0] == "203.0.113.0/24"
    assert ranges[1].endswith("azurerm_public_ipnat-addressip_address}/32"), "nodes' own"
    assert "private_cluster_enabled" not in ours
    assert ours["network_profile"]["outbound_type"] == "userAssignedNATGateway"

    private = only(written(PODS)["compute"], "azurerm_kubernetes_cluster")
    assert private["private_cluster_enabled"] is True
    assert "api_server_access_profile" not in private
    assert private["network_profile"]["outbound_type"] == "userDefinedRouting"
    assert private["network_profile"]["dns_service_ip"] == "10.246.0.10"
    assert private["sku_tier"] == "Free"
    rbac = private["azure_active_directory_role_based_access_control"]
    assert rbac["admin_group_object_ids"] == ["bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"]


FIXED = ("vm_size", "vnet_subnet_id", "os_disk_type", "os_disk_size_gb")
UPGRADES = {
    "max_unavailable": "1",
    "drain_timeout_in_minutes": 30,
    "undrainable_node_behavior": "Schedule",
}


def _free_without_spot() -> str:
    """Returns the environment without Spot nodes and without a Kubernetes version."""
    text = re.sub(r"\n +spot: \{.*\}", "", PODS.read_text())
    return text.replace('  version: "1.90"\n', "")


def _newer_without_upgrades() -> str:
    """Returns the environment with another version and without the section `upgrades`."""
    text = re.sub(r"\n +upgrades: \{.*\}", "", PODS.read_text())
    return text.replace('version: "1.90"', 'version: "1.91"')


def test_kubernetes_updates_follow_maintenance_window_or_are_manual(
    written: Written, pods: Stacks
) -> None:
    cluster = _cluster(written(_free_without_spot()))
    assert cluster["automatic_upgrade_channel"] == "patch"
    for window in ("maintenance_window_auto_upgrade", "maintenance_window_node_os"):
        assert cluster[window]["day_of_week"] == "Saturday"
        assert (cluster[window]["start_time"], cluster[window]["duration"]) == ("22:00", 6)
    cluster = _cluster(written(_newer_without_upgrades()))
    assert cluster["node_os_upgrade_channel"] == "None"
    assert "automatic_upgrade_channel" not in cluster
    # AKS cannot update Kubernetes in the control plane and in pools at once beside a Spot pool.
    cluster = _cluster(pods)
    assert cluster["node_os_upgrade_channel"] == "NodeImage"
    assert cluster["maintenance_window_node_os"]["day_of_week"] == "Saturday"
    assert not {"automatic_upgrade_channel", "maintenance_window_auto_upgrade"} & cluster.keys()
    # Without a setting for images, nodes get security patches.
    ours = written(OURS)
    assert _cluster(ours)["node_os_upgrade_channel"] == "SecurityPatch"
    nd = _all(ours, "azurerm_kubernetes_cluster_node_pool")["cluster-nd"]
    assert nd["upgrade_settings"] == UPGRADES


def test_kubernetes_drivers_and_images_have_versions_of_the_file(pods: Stacks) -> None:
    blobs = _all(pods, "azurerm_storage_blob")
    texts = "".join(each["source_content"] for each in blobs.values())
    versions = ("580.105.08", "doca3.2.1-25.10-1.7.1.0-0", "network-operator-v26.4.0")
    for version in (*versions, "tag: v0.4.1"):
        assert texts.count(version) == 1, version
    image, checks = "contoso.azurecr.io/python:3.13.2", _of_kind(pods, "DaemonSet")
    assert checks.keys() == {"node-setup", *CHECKED}
    for name, each in {**checks, **_of_kind(pods, "Deployment")}.items():
        spec = each["spec"]["template"]["spec"]
        containers = [*spec.get("initContainers", ()), *spec["containers"]]
        assert {container["image"] for container in containers} == {image}, name
    assert _of_kind(pods, "Deployment").keys() == {"fairway-head"}
    # The pods of runs, which the runner creates, use the same image.
    for target in targets_of(pods).values():
        assert target.kubernetes is not None
        assert target.kubernetes.head_image == image


@pytest.fixture
def pods(written: Written) -> Stacks:
    return written(PODS)


def test_kubernetes_pools_have_the_described_settings(pods: Stacks) -> None:
    made = _all(pods, "azurerm_kubernetes_cluster_node_pool")
    assert set(made) == {"cluster-nd", "cluster-spot", "cluster-cpu"}
    nd, spot, cpu = (made[f"cluster-{name}"] for name in ("nd", "spot", "cpu"))
    assert (nd["auto_scaling_enabled"], nd["min_count"], nd["max_count"]) == (True, 0, 8)
    assert "node_count" not in nd
    assert nd["lifecycle"]["ignore_changes"] == ["node_count"]
    assert (nd["os_disk_type"], nd["os_disk_size_gb"], nd["zones"]) == ("Ephemeral", 512, ["1"])
    (role,) = _all(pods, "azurerm_role_definition").values()
    assert role["permissions"] == [
        {"actions": ["Microsoft.Compute/proximityPlacementGroups/write"]}
    ]
    placed = _all(pods, "azurerm_role_assignment")["kubernetes-places-nd"]
    assert placed["scope"].endswith("/near")
    assert nd["gpu_driver"] == "None", "the operator in the cluster brings it"
    assert nd["proximity_placement_group_id"].endswith("/near")
    assert nd["node_taints"] == ["fairway.dev/pool=nd:NoSchedule"]
    template = "k8s.io_cluster-autoscaler_node-template_resources_rdma_ib"
    assert nd["tags"][template] == "8", "the autoscaler may look there"

    assert (spot["priority"], spot["eviction_policy"]) == ("Spot", "Delete")
    assert spot["spot_max_price"] == 0.2
    assert "upgrade_settings" not in spot, "Azure takes none for Spot"
    assert spot["zones"] == ["1", "2"]
    scale = "kubernetes.azure.com/scalesetpriority"
    assert spot["node_labels"] == {scale: "spot", "team": "vision"}
    assert spot["node_taints"] == [
        "fairway.dev/pool=spot:NoSchedule",
        f"{scale}=spot:NoSchedule",
        "team=vision:NoSchedule",
    ]
    assert template not in spot["tags"]

    assert cpu["node_labels"] == {}, "without it, those of before would stay"
    marker = _all(pods, "terraform_data")["fixed-nd"]["input"]
    assert marker == {key: nd[key] for key in (*FIXED, "zones")}

    assert cpu["node_count"] == 2
    assert "auto_scaling_enabled" not in cpu
    assert "gpu_driver" not in cpu
    assert cpu["upgrade_settings"] == {**UPGRADES, "node_soak_duration_in_minutes": 30}
    assert {each["lifecycle"]["replace_triggered_by"][0] for each in (nd, spot, cpu)} == {
        f"terraform_data.fixed-{name}" for name in ("nd", "spot", "cpu")
    }


def test_kubernetes_nodes_have_one_os_and_the_requested_version(
    written: Written, pods: Stacks
) -> None:
    """The provider leaves nodes at their version if only the cluster's version changes."""
    newer, free = written(_newer_without_upgrades()), written(_free_without_spot())
    for stacks, version in ((pods, "1.90"), (newer, "1.91"), (free, None)):
        cluster = _cluster(stacks)
        made = _all(stacks, "azurerm_kubernetes_cluster_node_pool").values()
        nodes = [cluster["default_node_pool"], *made]
        assert {each.get("orchestrator_version") for each in nodes} == {version}
        assert cluster.get("kubernetes_version") == version
        assert {each["os_sku"] for each in nodes} == {"Ubuntu2404"}


def test_kubernetes_pool_added_or_removed_changes_no_other(written: Written, pods: Stacks) -> None:
    text = PODS.read_text()
    without = written(text[: text.index("  cpu:\n")].replace("  home:", "  homes:"))
    for type_ in ("azurerm_kubernetes_cluster_node_pool", "azurerm_kubernetes_cluster"):
        before, after = _all(pods, type_), _all(without, type_)
        assert {name: before[name] for name in after} == after
        assert set(before) - set(after) <= {"cluster-cpu"}


def test_kubernetes_targets_are_readable_by_the_engine(pods: Stacks) -> None:
    targets = targets_of(pods)
    nd, spot, cpu = (targets[name].kubernetes for name in ("nd", "spot", "cpu"))
    assert nd is not None
    assert spot is not None
    assert cpu is not None
    assert (nd.context, nd.namespace, nd.queue) == ("pods-aks", "training", "nd")
    assert nd.cluster == "${azurerm_kubernetes_cluster.kubernetes.id}"
    assert nd.image == "contoso.azurecr.io/train:1"
    assert (nd.selector, nd.rdma, spot.rdma) == ({"agentpool": "nd"}, "rdma/ib", "")
    # Scratch is on local disks, or else on half of the system disk.
    assert nd.scratch == cpu.scratch == "/mnt/resource_nvme/fairway"
    assert spot.scratch == "128Gi"
    assert nd.volumes == {"data": "data", "fast": "fast"}
    assert nd.shared == "/data/fairway"
    assert spot.tolerations == ("fairway.dev/pool", "team")
    assert targets["spot"].spot
    # Only these pods and those of AKS itself run on the system nodes.
    assert nd.head_tolerations == cpu.head_tolerations == ("CriticalAddonsOnly",)
    system = _cluster(pods)["default_node_pool"]
    assert system["only_critical_addons_enabled"] is True
    assert targets["cpu"].mounts == {"data": "/data", "home": "/home"}
    assert cpu.service_account == nd.service_account
    assert targets["nd"].vault_url
    said = pods["compute"]["output"]["kubernetes_cluster"]["value"]
    assert said["command"].startswith("az aks get-credentials --name pods-aks ")
    assert masked(said, None) == said, "a review shows it"
    # Contexts of other clusters stay unchanged.
    assert said["command"].endswith(
        "kubelogin convert-kubeconfig --context pods-aks --login azurecli"
    )


def _of_kind(stacks: Stacks, kind: str) -> dict[str, dict[str, Any]]:
    """Returns the objects of a kind that Flux applies, by name."""
    reader = YAML(typ="safe", pure=True)
    return {
        each["metadata"]["name"]: each
        for blob in _all(stacks, "azurerm_storage_blob").values()
        for each in reader.load_all(blob["source_content"].replace("$${", "${"))
        if each and each["kind"] == kind
    }


def test_kubernetes_monitoring_collects_nodes_and_pods_but_no_job_logs(
    written: Written, pods: Stacks
) -> None:
    """The agent is part of AKS, and finds its rule by a fixed name."""
    cluster = "${azurerm_kubernetes_cluster.kubernetes.id}"
    workspace = _cluster(pods)["oms_agent"]
    assert workspace["msi_auth_for_monitoring_enabled"] is True
    rule = only(pods["compute"], "azurerm_monitor_data_collection_rule")
    [agent] = rule["data_sources"]["extension"]
    assert agent["extension_name"] == "ContainerInsights"
    assert agent["streams"] == rule["data_flow"][0]["streams"]
    assert "Microsoft-KubePodInventory" in agent["streams"]
    assert not [each for each in agent["streams"] if "ContainerLog" in each]
    [sent] = rule["destinations"]["log_analytics"]
    recorded = only(pods["compute"], "azurerm_monitor_diagnostic_setting")
    found = {
        workspace["log_analytics_workspace_id"],
        sent["workspace_resource_id"],
        recorded["log_analytics_workspace_id"],
    }
    assert len(found) == 1
    watched = only(pods["compute"], "azurerm_monitor_data_collection_rule_association")
    assert watched["name"] == "ContainerInsightsExtension"
    assert watched["target_resource_id"] == recorded["target_resource_id"] == cluster
    categories = {each["category"] for each in recorded["enabled_log"]}
    assert "cluster-autoscaler" in categories
    assert "kube-audit" not in categories
    assert "oms_agent" not in _cluster(written(OURS))


def test_kubernetes_broken_node_alert_uses_health_condition(written: Written, pods: Stacks) -> None:
    """It reads data that the agent sends anyway, and the condition set by the health check."""
    alert = _all(pods, "azurerm_monitor_scheduled_query_rules_alert_v2")["node-broken-alert"]
    [criteria] = alert["criteria"]
    table, condition = criteria["query"].splitlines()[:2]
    [agent] = only(pods["compute"], "azurerm_monitor_data_collection_rule")["data_sources"][
        "extension"
    ]
    assert f"Microsoft-{table}" in agent["streams"]
    assert condition == f'| where Status has "{CONDITION}"'
    assert (criteria["metric_measure_column"], criteria["threshold"]) == ("Faults", 0)
    text = re.sub(r"(?ms)^  (nd|spot):\n.*?(?=^  \w)", "", PODS.read_text())
    without = written(text.replace("HB176rs_v4", "D64s_v6"))
    assert "health-check" not in json.dumps(without["compute"])
    assert not _all(without, "azurerm_monitor_scheduled_query_rules_alert_v2")


def test_kubernetes_flux_manifests_match_targets_and_pools(pods: Stacks) -> None:
    assert "training" in _of_kind(pods, "Namespace")
    assert _of_kind(pods, "PersistentVolumeClaim").keys() == {"data", "fast", "home"}
    assert _of_kind(pods, "LocalQueue").keys() == {"nd", "spot", "cpu"}
    for target in targets_of(pods).values():
        assert target.kubernetes is not None
        assert set(target.kubernetes.priorities) == {"low", "normal", "high"}
        named = set(target.kubernetes.priorities.values())
        assert named == _of_kind(pods, "WorkloadPriorityClass").keys()
    (quota,) = _of_kind(pods, "ResourceQuota").values()
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "64"
    account = _of_kind(pods, "ServiceAccount")["fairway-task"]
    client = account["metadata"]["annotations"]["azure.workload.identity/client-id"]
    assert client.endswith("azurerm_user_assigned_identitynodesclient_id}")
    trusted = only(pods["compute"], "azurerm_federated_identity_credential")
    assert trusted["subject"] == "system:serviceaccount:training:fairway-task"
    assert trusted["issuer"] == "${azurerm_kubernetes_cluster.kubernetes.oidc_issuer_url}"
    volume = _of_kind(pods, "PersistentVolume")["training-data"]
    assert "nfs-data-nic" in volume["spec"]["nfs"]["server"]


def test_kubernetes_pool_provisions_all_nodes_of_a_job_unless_disabled(written: Written) -> None:
    assert _of_kind(written(OURS), "AdmissionCheck").keys() == {"fairway-nodes"}
    assert not _of_kind(written(PODS), "AdmissionCheck")


def test_kubernetes_task_patience_exceeds_node_provisioning_time(pods: Stacks) -> None:
    profile = _cluster(pods)["auto_scaler_profile"]
    minutes = float(profile["max_node_provisioning_time"].removesuffix("m"))
    for target in targets_of(pods).values():
        assert target.kubernetes is not None
        assert target.kubernetes.patience is not None
        assert (target.kubernetes.patience > 60 * minutes) is target.nodes.scales


def test_kubernetes_flux_applies_all_folders_in_order_and_deletes_nothing(pods: Stacks) -> None:
    flux = only(pods["compute"], "azurerm_kubernetes_flux_configuration")
    blobs = _all(pods, "azurerm_storage_blob")
    folders = {each["name"].partition("/")[0] for each in blobs.values()}
    assert {each["name"] for each in flux["kustomizations"]} == folders
    after = {each["name"]: each.get("depends_on", []) for each in flux["kustomizations"]}
    assert set(after["queues"]) == {"jobs", "kueue"}
    assert not any(each["garbage_collection_enabled"] for each in flux["kustomizations"])
    # The provider expects the URL of the container, not its id.
    assert flux["blob_storage"]["container_id"].endswith("cluster-configurationurl}")
    assert {f"azurerm_storage_blob.{name}" for name in blobs} < set(flux["depends_on"])


def test_kubernetes_manifest_blobs_have_the_md5_of_their_content(pods: Stacks) -> None:
    """Otherwise the service sets an MD5, for which the provider would replace the blob."""
    for blob in _all(pods, "azurerm_storage_blob").values():
        found = re.fullmatch(r'\$\{md5\(join\("", \[(.*)\]\)\)\}', blob["content_md5"])
        assert found
        parts = re.findall(r'"(?:[^"\\]|\\.)*"|data\.[\w.-]+', found[1])
        assert ", ".join(parts) == found[1]
        text = (json.loads(part) if part[0] == '"' else f"${{{part}}}" for part in parts)
        assert "".join(text) == blob["source_content"]


@pytest.mark.parametrize("file", [OURS, PODS], ids=lambda file: file.stem)
def test_kubernetes_identities_have_only_the_rights_they_need(written: Written, file: Path) -> None:
    """Pods of jobs use data and control nothing; only the deployer writes what Flux applies."""
    deployed = Deployment(written(file), "localhost")
    trusted = deployed.identity_of_tasks
    tasks = deployed.principal_of(trusted)
    kubelet = _principal(deployed, "kubelet")
    control = _principal(deployed, "kubernetes")
    for each in deployed.resources:
        if each.type == "azurerm_storage_container":
            write = (f"{BLOBS}/write", each.id)
            own = each.key == MANIFESTS
            assert deployed.rights.allow(tasks, *write, data=True) is not own
            assert not deployed.rights.allow(kubelet, *write, data=True)
            read = (f"{BLOBS}/read", each.id)
            assert deployed.rights.allow(kubelet, *read, data=True) is own
        if each.type == "azurerm_container_registry":
            pull = "Microsoft.ContainerRegistry/registries/pull/read"
            assert deployed.rights.allow(kubelet, pull, each.id)
        if each.type == "azurerm_subnet":
            join = "Microsoft.Network/virtualNetworks/subnets/join/action"
            assert deployed.rights.allow(control, join, each.id) is (each.key == "kubernetes")
        if each.type == "azurerm_kubernetes_cluster":
            rule = "Microsoft.ContainerService/managedClusters/write"
            for who in (tasks, kubelet, control):
                assert not deployed.rights.allow(who, rule, each.id)


def _principal(deployed: Deployment, key: str) -> str:
    return deployed.principal_of(deployed.resource("azurerm_user_assigned_identity", key).id)


def test_kubernetes_nodes_have_their_own_subnet_and_rules(pods: Stacks) -> None:
    groups = _all(pods, "azurerm_network_security_group", "network")
    rules = {each["name"]: each for each in groups["kubernetes-rules"]["security_rule"]}
    inside = rules["AllowNodesAndPods"]
    assert inside["source_address_prefixes"] == ["10.40.176.0/21", "10.244.0.0/15"]
    assert inside["destination_address_prefixes"] == ["10.40.176.0/21", "10.244.0.0/15"]
    assert "AllowLustreToCompute" in rules
    assert "AllowNfs3FromStorage" in rules
    assert not [name for name in rules if "Ssh" in name], "nobody logs in there"
    storage = {each["name"]: each for each in groups["storage-rules"]["security_rule"]}
    assert "10.40.176.0/21" in storage["AllowNfsFromCompute"]["source_address_prefixes"]
    endpoints = {each["name"]: each for each in groups["endpoints-rules"]["security_rule"]}
    assert "10.40.176.0/21" in endpoints["AllowHttpsFromInside"]["source_address_prefixes"]
    associations = _all(pods, "azurerm_subnet_route_table_association", "network")
    assert "kubernetes-has-routes" in associations


def test_kubernetes_storage_without_endpoints_admits_subnet_of_nodes(written: Written) -> None:
    text = OURS.read_text() + "network: {private_endpoints: false}\n"
    stacks = written(text)
    account = _all(stacks, "azurerm_storage_account", "data")["storage"]
    subnets = account["network_rules"]["virtual_network_subnet_ids"]
    assert len(subnets) == 2
    assert subnets[1].endswith("azurerm_subnetkubernetesid}")
    subnet = _all(stacks, "azurerm_subnet", "network")["kubernetes"]
    assert subnet["service_endpoint"] == [{"service": "Microsoft.Storage"}]


def test_kubernetes_closed_storage_is_reached_through_the_gateway(written: Written) -> None:
    text = OURS.read_text().replace("  allowed: [203.0.113.0/24]\n", f"  ssh_keys: ['{KEY}']\n")
    text = text.replace("api_server: allowed", "api_server: private")
    stacks = written(text.replace("access:\n", "access:\n  gateway: true\n  bastion: true\n"))
    target = targets_of(stacks)["nd"]
    assert target.gateway is not None
    assert "gateway" in target.gateway.host
    assert target.ssh_route is not None
    assert target.ssh_route.bastion
