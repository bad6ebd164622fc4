"""Existing resources of a company: DNS servers and zones, registry, storage, resource group."""

import json
import re
from typing import Any

import pytest
from tests.stacks.documents import FILES, Written, boot_data, decoded

from fairway_core.findings import UserError

_OWN_ZONES = {"azurerm_private_dns_zone", "azurerm_private_dns_zone_virtual_network_link"}


def _endpoints(stack: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stack["resource"]["azurerm_private_endpoint"]
    return found


def test_company_hub_zones_dns_servers_and_workspace_are_used(written: Written) -> None:
    """No zone is created or linked: a network accepts one link per zone name."""
    stacks = written(FILES["hub"])
    network, data = stacks["network"]["resource"], stacks["data"]["resource"]
    assert network["azurerm_virtual_network"]["vnet"]["dns_servers"] == ["10.0.0.10", "10.0.0.11"]
    assert not _OWN_ZONES & set(network)
    for name, endpoint in _endpoints(stacks["data"]).items():
        (zone,) = endpoint["private_dns_zone_group"]["private_dns_zone_ids"]
        assert "/resourceGroups/hub/" in zone, name
        assert "lifecycle" not in endpoint
    assert "azurerm_log_analytics_workspace" not in data
    (rule,) = data["azurerm_monitor_data_collection_rule"].values()
    (destination,) = rule["destinations"]["log_analytics"]
    assert destination["workspace_resource_id"].endswith("/workspaces/logs")
    for setting in data["azurerm_monitor_diagnostic_setting"].values():
        assert setting["log_analytics_workspace_id"].endswith("/workspaces/logs")
    text = FILES["hub"].read_text()
    kept = text.replace("  workspace:", "  retention: 60d\n  workspace:")
    with pytest.raises(UserError, match="the owner of an existing workspace decides how long"):
        written(kept)


def test_company_zones_may_be_left_to_policy_and_existing_registry_is_used(
    written: Written,
) -> None:
    """Zone groups set by the policy are not drift."""
    stacks = written(FILES["sweeps"])
    assert not _OWN_ZONES & set(stacks["network"]["resource"])
    data, endpoints = stacks["data"]["resource"], _endpoints(stacks["data"])
    assert endpoints
    for endpoint in endpoints.values():
        assert "private_dns_zone_group" not in endpoint
        assert endpoint["lifecycle"]["ignore_changes"] == ["private_dns_zone_group"]
    assert "azurerm_container_registry" not in data
    assert "registry-endpoint" not in endpoints
    grants = data["azurerm_role_assignment"].values()
    (pull,) = [each for each in grants if each["role_definition_name"] == "AcrPull"]
    assert pull["scope"].endswith("/registries/Contoso")
    # Pools refer to the registry by its name or its login server.
    text = FILES["sweeps"].read_text()
    text = text.replace("spot: true,", "spot: true, containers: true,")
    unnamed = text.replace(", login_server: contoso-abc.azurecr.io", "")
    for given, server in ((text, "contoso-abc.azurecr.io"), (unnamed, "contoso.azurecr.io")):
        stack = written(given)["compute"]["resource"]["azurerm_batch_pool"]
        assert json.dumps(server) in json.dumps(stack), server


_INSIDE = {
    "azurerm_management_lock",
    "azurerm_private_dns_zone_virtual_network_link",
    "azurerm_subnet",
    "azurerm_virtual_machine_extension",
    "azurerm_virtual_network_peering",
}
LAKE = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/lake/providers"
LAKE += "/Microsoft.Storage/storageAccounts/contosolake"


def test_company_existing_storage_account_is_used_without_keys(written: Written) -> None:
    """No part of the account is created and no key is read: it is used by roles and by name."""
    stacks = written(FILES["company"])
    data = stacks["data"]
    for made in ("account", "container", "management_policy"):
        assert f"azurerm_storage_{made}" not in data["resource"], made
    found = data["data"]
    assert "azurerm_storage_account" not in found
    containers = found["azurerm_storage_container"].values()
    names = {each["name"] for each in containers}
    assert names == {"datasets", "outputs", "code"}
    assert {each["storage_account_id"] for each in containers} == {LAKE}
    for kind in ("nodes", "slurm-nodes"):
        for name in names:
            grant = data["resource"]["azurerm_role_assignment"][f"{kind}-{name}"]
            assert grant["scope"] == f"{LAKE}/blobServices/default/containers/{name}"
            assert grant["role_definition_name"] == "Storage Blob Data Contributor"
    recorded = data["resource"]["azurerm_monitor_diagnostic_setting"]
    assert set(recorded) == {f"{name}-is-recorded" for name in ("batch", "vault", "slurm")}
    for target in stacks["compute"]["output"]["targets"]["value"]:
        assert target["storage"] == {
            "account_url": "https://contosolake.blob.core.windows.net/",
            "containers": ["datasets", "outputs", "code"],
        }


def test_company_existing_storage_account_has_endpoint_only_if_requested(written: Written) -> None:
    text = FILES["company"].read_text()
    asked = written(text)
    (connection,) = [_endpoints(asked["data"])["storage-endpoint"]["private_service_connection"]]
    assert connection["private_connection_resource_id"] == LAKE
    assert connection["subresource_names"] == ["blob"]
    stacks = written(text.replace("  private_endpoint: true\n", ""))
    assert "storage-endpoint" not in _endpoints(stacks["data"])
    zones = stacks["network"]["resource"]["azurerm_private_dns_zone"]
    assert "privatelink-blob-core-windows-net" not in zones, "it would hide the company's own"


def test_company_resources_are_all_in_the_existing_resource_group(written: Written) -> None:
    """No group is created, and no two resources of all stacks share a name."""
    stacks = written(FILES["company"])
    seen: set[tuple[str, str]] = set()
    for stack in stacks.values():
        assert "azurerm_resource_group" not in stack["resource"]
        verified = stack["output"]["resource_group"]
        assert verified["precondition"]["condition"] == (
            "${lower(data.azurerm_resource_group.group.id) == "
            '"/subscriptions/00000000-0000-0000-0000-000000000000/resourcegroups/team"}'
        )
        for type_, instances in stack["resource"].items():
            for key, each in instances.items():
                if "resource_group_name" in each and key != "peering-from-hub":
                    assert each["resource_group_name"] == "Team"
                name = each.get("name")
                # Resources of these types are named within a parent.
                if name is None or type_ in _INSIDE:
                    continue
                assert (type_, name) not in seen, key
                seen.add((type_, name))
                assert "role" in type_ or "zone" in type_ or name.startswith("team"), key
    scope = stacks["compute"]["resource"]["azurerm_role_assignment"]
    (seen_by,) = [each["scope"] for key, each in scope.items() if key.startswith("nodes-seen-by")]
    assert seen_by.endswith("/resourceGroups/Team")


def test_company_budget_and_deployments_in_shared_group_are_separate(written: Written) -> None:
    text = FILES["company"].read_text()
    alone = re.sub(r"(?m)^resource_group:.*\n", "", text)
    tag = [{"name": "environment", "values": ["team"]}]
    for given, groups, tags, prefix in (
        (text, ["Team"], tag, "team-"),
        (alone, ["team-rg-network", "team-rg-data", "team-rg-compute"], None, ""),
    ):
        stacks = written(given)
        budget = stacks["data"]["resource"]["azurerm_consumption_budget_subscription"]
        (counted,) = [each["filter"] for each in budget.values()]
        assert counted["dimension"][0]["values"] == groups
        assert counted.get("tag") == tags
        found = stacks["compute"]["resource"]["azurerm_resource_group_template_deployment"]
        assert found["schedule-box-stop"]["name"] == f"{prefix}schedule-box-stop"


def test_company_proxy_is_set_on_every_machine(written: Written) -> None:
    """Machines also bypass it for services of the environment, whose names are known at boot."""
    text = FILES["company"].read_text()
    stacks = written(text)
    found = {}
    for stack in stacks.values():
        resources = stack["resource"]
        for type_ in ("azurerm_linux_virtual_machine", "azurerm_linux_virtual_machine_scale_set"):
            for key, each in resources.get(type_, {}).items():
                found[key] = boot_data(each)
        for key, each in resources.get("azurerm_batch_pool", {}).items():
            found[key] = decoded(each["start_task"]["command_line"])
    assert set(found) == {
        *("cluster-box", "cluster-nd", "cluster-pool", "nfs-data-server", "slurm-scheduler")
    }
    direct = "10.40.0.0/16,.example.com,10.0.0.0/8"
    services = ",contosolake.blob.core.windows.net,.vault.azure.net,.batch.azure.com"
    for key, boot in found.items():
        more = "" if key == "nfs-data-server" else services
        assert "http_proxy=http://10.0.0.8:3128\n" in boot, key
        (line,) = re.findall(r"^ *no_proxy=(.*)$", boot, re.MULTILINE)
        assert line.startswith("localhost,127.0.0.1,::1,169.254.169.254,168.63.129.16,"), key
        assert line.endswith(direct + more), key
    extension = stacks["compute"]["resource"]["azurerm_virtual_machine_extension"]
    for each in extension.values():
        assert json.loads(each["settings"])["proxy"]["address"] == "http://10.0.0.8:3128"
    (agent,) = stacks["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"][
        "cluster-nd"
    ]["extension"]
    assert json.loads(agent["settings"])["proxy"]["mode"] == "application"


def test_company_proxy_is_bypassed_for_new_storage_account_and_registry(written: Written) -> None:
    text = FILES["company"].read_text()
    start, _, rest = text.partition("storage:\n")
    made = f"{start}registry: {{}}\n{rest[rest.index('vault:') :]}"
    boot = written(made)["compute"]["resource"]["azurerm_linux_virtual_machine"]["cluster-box"]
    (line,) = re.findall(r"^ *no_proxy=(.*)$", boot_data(boot), re.MULTILINE)
    assert re.search(r",@@\d+@@\.blob\.core\.windows\.net,@@\d+@@,\.data\.azurecr\.io,", line)
    assert re.search(r"azurerm_storage_account\w*name", boot["custom_data"])
