"""Azure Batch in the stacks: an account that stays, pools that come and go, and their targets."""

import json
from typing import Any

import pytest
from environment_files import KEY
from tests.stacks.documents import Stacks, Written, targets_of

HEAD = (
    f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}'], allowed: [203.0.113.0/24]}}\n"
)
DATA = "filesystems:\n  data: {kind: nfs_server, path: /data}\n"
SPOT = (
    "  spot: {engine: batch, size: Standard_ND96asr_v4, nodes: {min: 0, max: 8}, spot: true, "
    "mounts: [data]}\n"
)
SWEEP = "  sweep: {engine: batch, size: Standard_D16s_v6, nodes: {min: 0, max: 9}, mpi: false}\n"
BOX = "  box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}\n"


def _text(*clusters: str, more: str = "") -> str:
    return f"{HEAD}{more}{DATA}clusters:\n{''.join(clusters)}"


def _pool(stacks: Stacks, name: str = "spot") -> dict[str, Any]:
    found: dict[str, Any] = stacks["compute"]["resource"]["azurerm_batch_pool"][f"cluster-{name}"]
    return found


def test_batch_account_is_in_data_stack_and_pools_are_in_compute_stack(written: Written) -> None:
    stacks = written(_text(SPOT))
    data, pool = stacks["data"]["resource"], _pool(stacks)
    parts = {
        tuple(endpoint["private_service_connection"]["subresource_names"])
        for endpoint in data["azurerm_private_endpoint"].values()
    }
    assert {("batchAccount",), ("nodeManagement",)} <= parts
    profile = data["azurerm_batch_account"]["batch"]["network_profile"]
    assert profile["account_access"]["ip_rule"] == [{"ip_range": "203.0.113.0/24"}]
    assert "ip_rule" not in profile["node_management_access"]
    kinds = {"azurerm_resource_group", "azurerm_batch_pool", "terraform_data"}
    assert stacks["compute"]["resource"].keys() == kinds
    assert not any("batch" in type_ for type_ in stacks["network"]["resource"])
    # A pool is in the resource group of its account.
    assert "outputs.cross-stack-output-azurerm_batch_account" in pool["account_name"]
    group = "lab-data.outputs.cross-stack-output-azurerm_resource_group"
    assert group in pool["resource_group_name"]
    assert "container_configuration" not in pool, "nobody says so"
    others = written(_text(BOX))
    assert not any("azurerm_batch" in json.dumps(document) for document in others.values())


def test_batch_nodes_without_endpoints_connect_through_nat_gateway(written: Written) -> None:
    data = written(_text(SPOT, more="network: {private_endpoints: false}\n"))["data"]["resource"]
    assert "azurerm_private_endpoint" not in data
    profile = data["azurerm_batch_account"]["batch"]["network_profile"]
    (rule,) = profile["node_management_access"]["ip_rule"]
    assert rule["ip_range"].endswith("azurerm_public_ipnat-addressip_address}")


def test_batch_targets_are_readable_by_the_runner(written: Written) -> None:
    spot, box, sweep = targets_of(written(_text(SPOT, BOX, SWEEP))).values()
    assert (spot.name, spot.engine, spot.spot) == ("spot", "batch", True)
    assert (spot.nodes.min, spot.nodes.max) == (0, 8)
    assert spot.mounts == {"data": "/data"}
    assert spot.storage is not None
    assert spot.batch is not None
    assert spot.batch.pool == "lab-spot"
    assert spot.batch.mpi
    assert spot.batch.endpoint.startswith("https://${data.terraform_remote_state.")
    assert "batchaccount_endpoint" in spot.batch.endpoint
    assert "identitynodesid" in spot.batch.identity
    assert box.engine == "ssh"
    assert sweep.batch is not None
    assert not sweep.batch.mpi


_DEPLOYER = "${data.azurerm_client_config.current.object_id}"


@pytest.mark.parametrize("pools", [True, False])
@pytest.mark.parametrize("who", ["", "00000000-0000-0000-0000-000000000004"])
def test_batch_researchers_may_use_data_and_submit(written: Written, pools: bool, who: str) -> None:
    """Named people, or the deployer, get roles on the containers and on nothing around them."""
    named = f"access: {{researchers: [{who}], " if who else "access: {"
    text = _text(SPOT if pools else BOX).replace("access: {", named)
    roles = written(text)["data"]["resource"]["azurerm_role_assignment"].values()
    own = [each for each in roles if each["principal_id"] == (who or _DEPLOYER)]
    wanted = {
        ("Storage Blob Data Contributor", f"${{azurerm_storage_container.container-{name}.id}}")
        for name in ("datasets", "outputs", "code")
    }
    if pools:
        wanted.add(("Azure Batch Data Contributor", "${azurerm_batch_account.batch.id}"))
    assert {(each["role_definition_name"], each["scope"]) for each in own} == wanted
    assert len(own) == len(wanted)
    kept = {"ignore_changes": ["principal_id"]}
    for each in own:
        assert each.get("lifecycle") == (None if who else kept), "the first keeps them"
    if who:
        assert not [each for each in roles if each["principal_id"] == _DEPLOYER]
        nobody = written(text.replace(who, ""))["data"]["resource"]["azurerm_role_assignment"]
        assert not [key for key in nobody if "-used-by-" in key]


@pytest.mark.parametrize("registry", [False, True])
def test_batch_pool_runs_containers_from_registries(written: Written, registry: bool) -> None:
    more = "registry: {}\n" if registry else ""
    pool = SPOT.replace("spot: true", "spot: true, containers: ['ghcr.io/team/train:3']")
    containers = _pool(written(_text(pool, more=more)))["container_configuration"]
    assert containers["type"] == "DockerCompatible"
    assert containers["container_image_names"] == ["ghcr.io/team/train:3"]
    servers = [each["registry_server"] for each in containers.get("container_registries", ())]
    assert len(servers) == registry
    assert all("login_server" in server for server in servers)


def test_batch_pool_resized_by_hand_is_ignored_by_terraform(written: Written) -> None:
    by_hand = SPOT.replace("spot: true", "autoscale: manual")
    pool = _pool(written(_text(by_hand)))
    assert pool["lifecycle"]["ignore_changes"] == ["fixed_scale"]
    assert pool["fixed_scale"]["target_dedicated_nodes"] == 0


@pytest.mark.parametrize("mode", ["BatchService", "UserSubscription"])
def test_batch_user_subscription_mode_grants_roles_and_counts_nodes_in_a_budget(
    written: Written, mode: str
) -> None:
    own, principal = mode == "UserSubscription", "00000000-0000-0000-0000-000000000001"
    given = f", service_principal: {principal}" if own else ""
    more = f"batch: {{mode: {mode}{given}}}\nbudget: {{monthly: 10, emails: [a@b.example]}}\n"
    data = written(_text(SPOT, more=more))["data"]["resource"]
    assert data["azurerm_batch_account"]["batch"]["pool_allocation_mode"] == mode
    roles = data["azurerm_role_assignment"]
    granted = {name for name, role in roles.items() if role["principal_id"] == principal}
    assert granted == ({"batch-orchestrates", "batch-keeps-secrets"} if own else set())
    budgets = data["azurerm_consumption_budget_subscription"]
    assert set(budgets) == {"budget", *(["budget-pools"] if own else [])}
    if own:
        (tag,) = budgets["budget-pools"]["filter"]["tag"]
        assert tag["name"] == "batchaccountname"
        assert tag["values"] == ["${azurerm_batch_account.batch.name}"]
        assert budgets["budget-pools"]["amount"] == budgets["budget"]["amount"]
        assert len({each["name"] for each in budgets.values()}) == 2


def test_batch_target_has_task_slots_only_if_nodes_are_divided(written: Written) -> None:
    """The key is omitted otherwise, as older clients also read the target."""
    divided = SWEEP.replace("mpi: false", "mpi: false, task_slots: 16")
    for text, slots in ((SWEEP, None), (divided, 16)):
        stacks = written(_text(text))
        [record] = stacks["compute"]["output"]["targets"]["value"]
        assert record["batch"].get("task_slots") == slots
        assert ("task_slots" in record["batch"]) is (slots is not None)
        pool = _pool(stacks, "sweep")
        assert pool["max_tasks_per_node"] == (slots or 1)
