"""Azure Batch: a closed account, valid pools, and their scaling."""

import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any, get_args

import pytest
from tests.stacks.documents import decoded

import fairway_constructs as az
from fairway_constructs.cloud_init.mounts import nfs_mount
from fairway_core.autoscale import Autoscale, ScenarioName, check_formula
from fairway_core.catalog import image, vm_size, vm_sizes
from fairway_core.environment.clusters.batch.pool import pool_image
from fairway_core.findings import UserError

Synthesize = Callable[..., dict[str, Any]]

PRINCIPAL = "00000000-1111-2222-3333-444444444444"
HOME = IPv4Network("203.0.113.0/24")
VPN = IPv4Network("10.0.0.0/8")


def _account(synthesize: Synthesize, **arguments: Any) -> dict[str, Any]:
    document = synthesize(lambda stack: az.BatchAccount(stack, **arguments))
    account: dict[str, Any] = document["resource"]["azurerm_batch_account"]["batch"]
    return account


def test_batch_account_is_closed_to_the_public_network_by_default(
    synthesize: Synthesize, azure: az.AzureScope
) -> None:
    account = _account(synthesize)
    assert account["allowed_authentication_modes"] == ["AAD"]
    assert account["public_network_access_enabled"] is False
    assert "network_profile" not in account
    assert account["pool_allocation_mode"] == "BatchService"
    assert account["name"].startswith("labba${substr(sha256(")
    assert account["tags"] == azure.tags
    assert account["lifecycle"] == {"prevent_destroy": True}
    assert "storage_account_id" not in account
    assert "identity" not in account


def test_batch_account_admits_allowed_ranges_and_egress_address_of_nodes(
    synthesize: Synthesize,
) -> None:
    account = _account(synthesize, allowed=[HOME, VPN], egress_address="198.51.100.7")
    assert account["public_network_access_enabled"] is True
    named, out = ([{"ip_range": each}] for each in ("203.0.113.0/24", "198.51.100.7"))
    assert account["network_profile"] == {
        "account_access": {"default_action": "Deny", "ip_rule": named},
        "node_management_access": {"default_action": "Deny", "ip_rule": out},
    }
    # Nodes with a private endpoint need no access from outside.
    profile = _account(synthesize, allowed=[HOME])["network_profile"]
    assert profile["node_management_access"] == {"default_action": "Deny"}
    assert _account(synthesize, allowed=[VPN])["public_network_access_enabled"] is False


def test_batch_account_uses_auto_storage_without_a_key(synthesize: Synthesize) -> None:
    def build(stack: az.Stack) -> None:
        storage = az.Storage.from_id(stack, "st", ACCOUNT)
        own, nodes = az.Identity(stack, "a"), az.Identity(stack, "n")
        auto = az.AutoStorage(storage=storage, account_identity=own, node_identity=nodes)
        az.BatchAccount(stack, auto_storage=auto)

    account = synthesize(build, protect=False)["resource"]["azurerm_batch_account"]["batch"]
    identity = "${azurerm_user_assigned_identity.%s.id}"
    assert account["storage_account_authentication_mode"] == "BatchAccountManagedIdentity"
    assert account["storage_account_id"] == ACCOUNT
    assert account["storage_account_node_identity"] == identity % "n"
    assert account["identity"] == {"type": "UserAssigned", "identity_ids": [identity % "a"]}
    assert "lifecycle" not in account


def test_batch_account_in_user_subscription_mode_needs_roles_and_closed_vault(
    synthesize: Synthesize,
) -> None:
    def build(stack: az.Stack) -> None:
        first = az.BatchUserSubscription(stack, service_principal=PRINCIPAL)
        az.BatchAccount(stack, user_subscription=first)

    own: dict[str, Any] = synthesize(build)["resource"]
    account = own["azurerm_batch_account"]["batch"]
    assert account["pool_allocation_mode"] == "UserSubscription"
    id_ = "${azurerm_key_vault.batch-vault.id}"
    reference = {"id": id_, "url": "${azurerm_key_vault.batch-vault.vault_uri}"}
    assert account["key_vault_reference"] == reference
    roles = own["azurerm_role_assignment"]
    assert set(account["depends_on"]) == {f"azurerm_role_assignment.{name}" for name in roles}
    assert {role["principal_id"] for role in roles.values()} == {PRINCIPAL}
    assert all(role["description"] for role in roles.values())
    # The principal is not new, so the check against the directory stays.
    assert not any("skip_service_principal_aad_check" in role for role in roles.values())
    subscription = "${data.azurerm_client_config.current.subscription_id}"
    assert roles["batch-orchestrates"]["scope"] == f"/subscriptions/{subscription}"
    assert roles["batch-keeps-secrets"]["scope"] == id_
    vault = own["azurerm_key_vault"]["batch-vault"]
    assert vault["network_acls"] == {"default_action": "Deny", "bypass": "AzureServices"}
    assert vault["rbac_authorization_enabled"] is True
    assert vault["purge_protection_enabled"] is True
    assert vault["enabled_for_deployment"] is True
    assert vault["enabled_for_template_deployment"] is True
    assert vault["name"].startswith("lab-kvb")
    assert vault["lifecycle"] == {"prevent_destroy": True}
    (lock,) = own["azurerm_management_lock"].values()
    assert lock["scope"] == id_


ACCOUNT = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub/providers"
    "/Microsoft.Storage/storageAccounts/hub"
)
NODES = "${azurerm_user_assigned_identity.nodes.id}"
A100, CPU = "Standard_ND96asr_v4", "Standard_D16s_v6"
MOUNT = nfs_mount(name="data", server="10.40.128.4", export="/srv/fairway/data", path="/data")
# One size for each image and kind of networking.
WITH_INFINIBAND = {
    (pool_image(size).alias, size.accelerated_networking): size.name
    for size in vm_sizes().values()
    if size.rdma and size.status != "retired"
}


def _resources(synthesize: Synthesize, *, own: bool = False, **arguments: Any) -> dict[str, Any]:
    size = vm_size(arguments.pop("size", A100))
    values: dict[str, Any] = {
        "subnet": az.SubnetRef("/subnets/compute", IPv4Network("10.40.0.0/17")),
        "size": size,
        "image": arguments.pop("image", None) or pool_image(size),
        "minimum": 0,
        "maximum": 8,
        **arguments,
    }

    def build(stack: az.Stack) -> az.BatchPool:
        first = az.BatchUserSubscription(stack, service_principal=PRINCIPAL) if own else None
        account = az.BatchAccount(stack, user_subscription=first)
        identity = az.Identity(stack, "nodes")
        return az.BatchPool(stack, "spot", account=account, identity=identity, **values)

    resources: dict[str, Any] = synthesize(build)["resource"]
    return resources


def _pool(synthesize: Synthesize, **arguments: Any) -> dict[str, Any]:
    pools = _resources(synthesize, **arguments)["azurerm_batch_pool"]
    pool: dict[str, Any] = pools["cluster-spot"]
    return pool


@pytest.mark.parametrize("size", WITH_INFINIBAND.values())
def test_batch_pool_on_sizes_with_infiniband_allows_multi_node_jobs(
    synthesize: Synthesize, azure: az.AzureScope, size: str
) -> None:
    pool = _pool(synthesize, size=size)
    assert pool["inter_node_communication"] == "Enabled"
    assert pool["max_tasks_per_node"] == 1
    assert pool["task_scheduling_policy"] == [{"node_fill_type": "Pack"}]
    assert pool["target_node_communication_mode"] == "Simplified"
    assert pool["vm_size"] == size
    chosen = pool_image(vm_size(size))
    assert pool["node_agent_sku_id"] == chosen.node_agent
    assert pool["storage_image_reference"]["sku"] == chosen.sku
    assert pool["network_configuration"] == {
        "subnet_id": "/subnets/compute",
        "public_address_provisioning_type": "NoPublicIPAddresses",
        "accelerated_networking_enabled": vm_size(size).accelerated_networking,
    }
    assert pool["identity"] == {"type": "UserAssigned", "identity_ids": [NODES]}
    assert not {"user_accounts", "mount"} & pool.keys()
    assert pool["name"] == "lab-spot"
    assert pool["account_name"] == "${azurerm_batch_account.batch.name}"
    assert pool["metadata"] == azure.labelled("cluster", "spot")


MIXES = Autoscale(scenario="workday_with_offpeak_max_spot")


@pytest.mark.parametrize(("spot", "by_hand"), [(True, False), (False, True)])
def test_batch_pool_with_fixed_nodes_has_only_dedicated_or_spot(
    synthesize: Synthesize, spot: bool, by_hand: bool
) -> None:
    pool = _pool(synthesize, minimum=3, spot=spot, resized_by_hand=by_hand)
    scale = pool["fixed_scale"]
    assert scale["target_dedicated_nodes"] == (0 if spot else 3)
    assert scale["target_low_priority_nodes"] == (3 if spot else 0)
    assert scale["node_deallocation_method"] == "TaskCompletion"
    assert "auto_scale" not in pool
    ignored = pool["lifecycle"].get("ignore_changes")
    assert ignored == (["fixed_scale"] if by_hand else None)


@pytest.mark.parametrize("scenario", get_args(ScenarioName))
def test_batch_pool_scenario_becomes_a_formula(synthesize: Synthesize, scenario: Any) -> None:
    autoscale = Autoscale(scenario=scenario, every="10m")  # type: ignore[arg-type]
    mpi = not autoscale.mixes
    given = {"size": A100 if mpi else CPU, "autoscale": autoscale, "spot": True, "mpi": mpi}
    resources = _resources(synthesize, **given)
    pool = resources["azurerm_batch_pool"]["cluster-spot"]
    assert pool["auto_scale"]["evaluation_interval"] == "PT10M"
    check_formula(pool["auto_scale"]["formula"], spot=True, mpi=mpi)
    assert "fixed_scale" not in pool
    assert "ignore_changes" not in pool["lifecycle"]
    # A higher maximum does not replace the pool.
    grown = _resources(synthesize, maximum=9, **given)
    assert grown["terraform_data"] == resources["terraform_data"]


def test_batch_pool_escapes_custom_formula_for_terraform(synthesize: Synthesize) -> None:
    formula = "// ${x} and %{y}\n$TargetDedicatedNodes = 1;"
    pool = _pool(synthesize, autoscale=Autoscale(formula=formula))
    assert pool["auto_scale"]["formula"] == "// $${x} and %%{y}\n$TargetDedicatedNodes = 1;"


def test_batch_pool_is_replaced_when_unsent_settings_change(synthesize: Synthesize) -> None:
    """azurerm reads these settings only at creation: without the trigger a change would be lost."""
    inputs = []
    for arguments in (
        {"size": CPU},
        {"size": CPU, "mpi": False},
        {"size": CPU, "containers": az.Containers(images=["ubuntu"])},
    ):
        resources = _resources(synthesize, **arguments)
        pool = resources["azurerm_batch_pool"]["cluster-spot"]
        assert pool["lifecycle"]["replace_triggered_by"] == ["terraform_data.fixed-spot"]
        fixed = resources["terraform_data"]["fixed-spot"]["input"]
        assert fixed["inter_node_communication"] == pool["inter_node_communication"]
        network = pool["network_configuration"]
        provisioning = network["public_address_provisioning_type"]
        assert fixed["public_address_provisioning_type"] == provisioning
        containers = pool.get("container_configuration", {"type": ""})
        assert fixed["container_type"] == containers["type"]
        inputs.append(tuple(fixed.values()))
    assert len(set(inputs)) == 3
    # No other setting that the provider sends only at creation is used.
    assert not {"extensions", "disk_encryption", "node_placement"} & pool.keys()
    assert not {"os_disk_placement", "license_type"} & pool.keys()


def test_batch_pool_start_task_runs_as_root_and_must_succeed(synthesize: Synthesize) -> None:
    task = _pool(synthesize, mounts=[MOUNT])["start_task"]
    assert task["wait_for_success"] is True
    assert task["user_identity"] == {"auto_user": {"elevation_level": "Admin", "scope": "Pool"}}
    assert task["task_retry_maximum"] > 0
    script = decoded(task["command_line"])
    assert "/etc/fairway/identity" not in script
    assert "10.40.128.4:/srv/fairway/data /data" in script
    assert "vers=4.1,proto=tcp,rsize=262144" in script
    assert "ssh-ed25519" not in script
    # A start task that mounts blobs names the identity.
    blobs = az.Mount(name="sets", type="blobs", options="ro", source="a.b/sets", path="/sets")
    script = decoded(_pool(synthesize, mounts=[MOUNT, blobs])["start_task"]["command_line"])
    assert "blobs ro a.b/sets /sets squashed" in script
    assert re.search(r"/etc/fairway/identity .*\n@@\d@@\n", script)


def test_batch_pool_pulls_containers_with_node_identity(synthesize: Synthesize) -> None:
    containers = az.Containers(images=["team.azurecr.io/train:3"], registries=["team.azurecr.io"])
    pool = _pool(synthesize, containers=containers)
    identity = {"user_assigned_identity_id": NODES}
    nobody = dict.fromkeys(("user_name", "password"), "${null}")
    assert pool["container_configuration"] == {
        "type": "DockerCompatible",
        "container_image_names": ["team.azurecr.io/train:3"],
        "container_registries": [{"registry_server": "team.azurecr.io", **identity, **nobody}],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"maximum": 0}, "pool `spot`: `maximum`: expected a number of at least 1, found the"),
        ({"minimum": 9}, "min 9 is above max 8"),
        ({"minimum": -1}, "-1 is no number of at least 0"),
        ({"maximum": 101}, "pool `spot`: a pool holds at most 100 nodes, not 101"),
        ({"own": True, "maximum": 81}, "holds at most 80 nodes"),
        ({"size": CPU, "mpi": False, "maximum": 2001}, "holds at most 2000"),
        ({"size": CPU, "mpi": False, "spot": True, "maximum": 1001}, "holds at most 1000"),
        ({"image": image("ubuntu-2404")}, "image"),
        ({"spot": True, "autoscale": MIXES}, "a pool for MPI holds only one kind"),
        ({"task_slots": 8}, "run only where a node has one task slot"),
    ],
)
def test_batch_pool_arguments_that_azure_would_refuse_are_refused(
    synthesize: Synthesize, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        _pool(synthesize, **arguments)
    if limits := re.search("at most (80|100) nodes", message):
        _pool(synthesize, **{**arguments, "maximum": int(limits[1])})


def test_batch_pool_image_id_replaces_azure_image(synthesize: Synthesize) -> None:
    own = (
        f"/subscriptions/{PRINCIPAL}/resourceGroups/lab/providers"
        "/Microsoft.Compute/galleries/lab/images/a/versions/1.0.0"
    )
    size = "Standard_NC4as_T4_v3"
    pool = _pool(synthesize, size=size, mpi=False, image_id=own, task_slots=8)
    assert pool["storage_image_reference"] == {"id": own}
    assert pool["node_agent_sku_id"] == "batch.node.ubuntu 22.04"
    assert pool["max_tasks_per_node"] == 8
    assert pool["inter_node_communication"] == "Disabled"
