"""Services, monitoring and budget in their stacks: network access and permissions."""

import json

import pytest
from tests.stacks.documents import FILES, Stacks, Written, only


@pytest.fixture
def full(written: Written, everything: str) -> Stacks:
    """Returns the stacks with every service."""
    return written(everything)


def test_services_admit_private_endpoints_and_named_ranges(full: Stacks) -> None:
    data = full["data"]
    endpoints = data["resource"]["azurerm_private_endpoint"]
    assert {
        name: each["private_service_connection"]["private_connection_resource_id"]
        for name, each in endpoints.items()
    } == {
        "storage-endpoint": "${azurerm_storage_account.storage.id}",
        "vault-endpoint": "${azurerm_key_vault.vault.id}",
        "registry-endpoint": "${azurerm_container_registry.registry.id}",
        "batch-endpoint": "${azurerm_batch_account.batch.id}",
        "batch-nodes-endpoint": "${azurerm_batch_account.batch.id}",
    }
    # The zones are in the stack of the network that resolves names with them.
    assert len(full["network"]["resource"]["azurerm_private_dns_zone"]) == 4
    assert "azurerm_private_dns_zone" not in data["resource"]
    range_ = ["203.0.113.0/24"]
    assert only(data, "azurerm_storage_account")["network_rules"] == {
        "default_action": "Deny",
        "bypass": ["AzureServices"],
        "virtual_network_subnet_ids": [],
        "ip_rules": range_,
    }
    assert only(data, "azurerm_key_vault")["network_acls"]["ip_rules"] == range_
    (rules,) = only(data, "azurerm_container_registry")["network_rule_set"]
    assert rules["default_action"] == "Deny"
    assert [rule["ip_range"] for rule in rules["ip_rule"]] == range_


def test_services_without_endpoints_admit_subnet_and_egress_address(
    written: Written, everything: str
) -> None:
    stacks = written(everything + "network: {private_endpoints: false}\n")
    data = stacks["data"]
    assert "azurerm_private_endpoint" not in data["resource"]
    assert "azurerm_private_dns_zone" not in stacks["network"]["resource"]
    assert "endpoints" not in json.dumps(stacks["network"]["resource"]["azurerm_subnet"])
    rules = only(data, "azurerm_storage_account")["network_rules"]
    assert rules["default_action"] == "Deny"
    assert len(rules["virtual_network_subnet_ids"]) == 1
    vault = only(data, "azurerm_key_vault")["network_acls"]
    for rules in (vault, only(data, "azurerm_container_registry")["network_rule_set"][0]):
        assert rules["default_action"] == "Deny"
        assert "ip_address}/32" in json.dumps(rules)


def test_services_vault_serves_jobs_only_if_requested(
    full: Stacks, written: Written, everything: str
) -> None:
    targets = full["compute"]["output"]["targets"]["value"]
    assert all("vault_uri" in target["vault_url"] for target in targets)
    alone = written(everything.replace("vault: {}\n", ""))
    targets = alone["compute"]["output"]["targets"]["value"]
    assert all(target["vault_url"] == "" for target in targets)
    data = alone["data"]["resource"]
    assert "azurerm_key_vault" in data
    roles = {grant["role_definition_name"] for grant in data["azurerm_role_assignment"].values()}
    assert "Key Vault Secrets User" not in roles
    assert "Key Vault Crypto Service Encryption User" in roles


@pytest.mark.parametrize("section", ["registry", "vault", "monitoring", "budget"])
def test_services_section_added_changes_no_data_resource(
    written: Written, everything: str, section: str
) -> None:
    lines = [line for line in everything.splitlines() if not line.startswith(f"{section}:")]
    # The budget's alerts need a recipient.
    without = "\n".join(lines).replace("monthly: 50000", "monthly: 50000, emails: [a@b.de]") + "\n"
    withal = everything.replace("monthly: 50000", "monthly: 50000, emails: [a@b.de]")
    before, after = written(without), written(withal)
    for role, stack in before.items():
        for kind, instances in stack["resource"].items():
            for name, body in instances.items():
                now = after[role]["resource"][kind][name]
                if kind in (
                    "azurerm_linux_virtual_machine",
                    "azurerm_linux_virtual_machine_scale_set",
                ):
                    continue  # with monitoring a machine has an identity, and the agent
                # A lock also depends on added resources below it, which changes no existing one.
                order = {"depends_on": []} if kind == "azurerm_management_lock" else {}
                assert {**now, **order} == {**body, **order}, f"{role}: {kind}.{name}"


def test_monitoring_covers_machines_and_services(
    full: Stacks, written: Written, everything: str
) -> None:
    data, compute = full["data"]["resource"], full["compute"]["resource"]
    recorded = {f"{name}-is-recorded" for name in ("storage", "vault", "registry", "batch")}
    assert data["azurerm_monitor_diagnostic_setting"].keys() == recorded
    kinds = ("unusable-nodes", "start-task-failed", "preempted-nodes", "idle-nodes")
    alerts = {"data-down-alert", *(f"batch-{kind}-alert" for kind in kinds)}
    assert data["azurerm_monitor_metric_alert"].keys() == alerts
    (server,) = data["azurerm_monitor_data_collection_rule_association"].values()
    assert server["target_resource_id"].startswith("${azurerm_linux_virtual_machine.")
    (nodes,) = compute["azurerm_monitor_data_collection_rule_association"].values()
    assert nodes["target_resource_id"].startswith("${azurerm_linux_virtual_machine_scale_set.")
    queries = "azurerm_monitor_scheduled_query_rules_alert_v2"
    assert set(data[queries]) == {"file-server-full-alert"}
    assert set(compute[queries]) == {"gpus-idle-alert"}
    # The agent signs in with an identity without roles.
    (machine,) = data["azurerm_linux_virtual_machine"].values()
    (identity,) = machine["identity"]["identity_ids"]
    principal = identity.replace(".id}", ".principal_id}")
    assert principal not in json.dumps(data["azurerm_role_assignment"])
    # The nodes that a pool which scales always keeps may be idle; those of a fixed one cost money.
    keeping, fixed = (
        written(everything.replace("{min: 0, max: 8}", nodes))["data"]
        for nodes in ("{min: 2, max: 8}", "2")
    )
    for resources, kept in ((data, 0), (keeping["resource"], 2), (fixed["resource"], 0)):
        idle = resources["azurerm_monitor_metric_alert"]["batch-idle-nodes-alert"]
        assert idle["criteria"][0]["threshold"] == kept
    text = everything.replace("Standard_ND96isr_H100_v5", "Standard_HB176rs_v4")
    without = written(text)["compute"]["resource"]
    assert queries not in without
    assert "azurerm_monitor_data_collection_rule_association" in without


def test_budget_counts_all_resource_groups_of_the_environment(full: Stacks) -> None:
    budget = only(full["data"], "azurerm_consumption_budget_subscription")
    (groups,) = budget["filter"]["dimension"]
    assert groups["values"] == [
        stack["resource"]["azurerm_resource_group"]["group"]["name"] for stack in full.values()
    ]
    assert budget["notification"][0]["contact_emails"] == ["team@example.com"]


def test_budget_counts_the_node_resource_group_of_aks(written: Written) -> None:
    text = FILES["pods"].read_text() + "budget: {monthly: 10}\n"
    group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/Team"
    for given in (text, f"{text}resource_group: {{existing: {group}}}\n"):
        stacks = written(given)
        budget = only(stacks["data"], "azurerm_consumption_budget_subscription")
        cluster = only(stacks["compute"], "azurerm_kubernetes_cluster")
        assert cluster["node_resource_group"] in budget["filter"]["dimension"][0]["values"]
        pools = stacks["compute"]["resource"]["azurerm_kubernetes_cluster_node_pool"].values()
        for tag in budget["filter"].get("tag", ()):
            (value,) = tag["values"]
            tags = [each["tags"] for each in (cluster["default_node_pool"], *pools)]
            assert {each[tag["name"]] for each in tags} == {value}
