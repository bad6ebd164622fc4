"""Clusters and networks in the stacks: their resources, and independence of each other."""

import json
from pathlib import Path
from typing import Any

import pytest
from environment_files import KEY, load
from tests.stacks.documents import Stacks, Written, resources_of, targets_of

from fairway_core.checks import check_environment
from fairway_core.cost.environment import line_items_of
from fairway_core.findings import UserError
from fairway_runner.jobs.fabric import fabric_profile
from fairway_runner.jobs.job import Job
from fairway_runner.live.requirements import machines_of

ADMIN = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
NETWORK = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub"
    "/providers/Microsoft.Network/virtualNetworks/hub"
)
SCALE_SET = "azurerm_linux_virtual_machine_scale_set"
ND = "size: Standard_ND96isr_H100_v5"
CLUSTERS = {
    "pair": f"{{engine: ssh, {ND}, nodes: 2, mounts: [data], repair: {{}}}}",
    "spot": f"{{engine: ssh, {ND}, nodes: 4, mounts: [data], spot: true}}",
    "alma": f"{{engine: ssh, {ND}, nodes: 2, mounts: [data], image: almalinux-hpc-8, "
    "accept_terms: true}",
    "box": "{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1, mounts: [data]}",
    "pool": "{engine: batch, size: Standard_ND96asr_v4, nodes: {min: 0, max: 8}}",
}


def _file(clusters: dict[str, str], more: str = "", access: str = "") -> str:
    lines = "".join(f"  {name}: {text}\n" for name, text in clusters.items())
    return (
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']{access}}}\n{more}"
        f"filesystems:\n  data: {{kind: nfs_server, path: /data}}\nclusters:\n{lines}"
    )


def _resources(stacks: Stacks) -> dict[str, Any]:
    return {
        f"{role}:{address}": body
        for role, stack in stacks.items()
        for address, body in resources_of(stack).items()
    }


WATCHED = "monitoring: {emails: [a@example.com]}\n"


@pytest.fixture
def all_clusters(written: Written) -> Stacks:
    """Returns the stacks with every kind of cluster, monitored."""
    return written(_file(CLUSTERS, WATCHED))


@pytest.mark.parametrize("name", CLUSTERS)
def test_cluster_added_or_removed_changes_no_other(
    written: Written, all_clusters: Stacks, name: str
) -> None:
    whole = _resources(all_clusters)
    others = {other: text for other, text in CLUSTERS.items() if other != name}
    without = _resources(written(_file(others, WATCHED)))
    shared = {"pool": {"batch"}}.get(name, set())
    gone = {address for address in whole if address not in without}
    assert gone
    own = {name, "almalinux"} if name == "alma" else {name, *shared}
    assert all(any(word in address for word in own) for address in gone)
    assert {address: whole[address] for address in without} == without


def test_cluster_with_one_node_is_a_vm_and_with_more_a_scale_set(
    written: Written, all_clusters: Stacks
) -> None:
    turned = dict(reversed(CLUSTERS.items()))
    assert _resources(written(_file(turned, WATCHED))) == _resources(all_clusters)
    compute, targets = all_clusters["compute"]["resource"], targets_of(all_clusters)
    assert set(compute["azurerm_linux_virtual_machine"]) == {"cluster-box"}
    assert set(compute[SCALE_SET]) == {"cluster-pair", "cluster-spot", "cluster-alma"}
    box = targets["box"]
    assert box.ssh is not None
    assert box.ssh.host == "${azurerm_network_interface.interface-box.private_ip_address}"
    assert (box.nodes.min, box.nodes.max, box.spot) == (1, 1, False)
    assert targets["spot"].spot
    assert {targets[name].region for name in CLUSTERS} == {"westeurope"}
    watched = compute["azurerm_monitor_data_collection_rule_association"]["box-is-watched"]
    assert watched["target_resource_id"] == "${azurerm_linux_virtual_machine.cluster-box.id}"


BOX = {"box": CLUSTERS["box"]}


def test_cluster_with_bastion_grants_reader_to_admins(written: Written) -> None:
    stacks = written(_file(BOX, access=f", bastion: true, admins: [{ADMIN}]"))
    (there,) = (
        grant
        for grant in stacks["compute"]["resource"]["azurerm_role_assignment"].values()
        if grant["principal_id"] == ADMIN
    )
    assert there["scope"] == "${azurerm_resource_group.group.id}"
    assert there["role_definition_name"] == "Reader"
    assert stacks["network"]["output"]["bastion_host"]["value"]["name"] == (
        "${azurerm_bastion_host.bastion-host.name}"
    )


def _of_targets(stacks: Stacks, key: str) -> dict[str, Any]:
    records = stacks["compute"]["output"]["targets"]["value"]
    return {record["name"]: record.get(key) for record in records}


def test_cluster_targets_name_bastion_or_jump_host(written: Written) -> None:
    """Hosts are reached through the environment's bastion unless the file says otherwise."""

    def reach(access: str) -> Any:
        return _of_targets(written(_file(BOX, access=f", {access}")), "ssh_route")["box"]

    found = reach("bastion: true")
    assert set(found) == {"bastion"}
    assert "azurerm_bastion_host" in found["bastion"]
    assert found["bastion"].startswith("${")
    assert reach("bastion: true, ssh_route: direct") is None
    assert reach("allowed: [203.0.113.0/24]") is None
    jump = reach("allowed: [203.0.113.0/24], ssh_route: {jump: [me@gate]}")
    assert jump == {"jump": ["me@gate"]}


POOL = {"pool": CLUSTERS["pool"]}


def test_cluster_targets_use_a_host_as_gateway_to_closed_services(written: Written) -> None:
    """A cluster that is reached by ssh also serves pools, and open services need no gateway."""
    bastion, opened = ", bastion: true", ", allowed: [203.0.113.0/24]"
    found = _of_targets(written(_file(POOL | BOX, access=bastion)), "gateway")
    assert found["pool"] == found["box"]
    assert found["pool"]["user"] == "azureuser"
    assert "interface-box.private_ip_address" in found["pool"]["host"]
    public = _file(BOX, "network: {private_endpoints: false}\n", bastion)
    for text in (_file(POOL, access=bastion), _file(POOL | BOX, access=opened), public):
        assert set(_of_targets(written(text), "gateway").values()) == {None}


def test_gateway_is_a_small_vm_without_identity(written: Written) -> None:
    stacks = written(_file(POOL, access=", bastion: true, gateway: true"))
    resources = stacks["network"]["resource"]
    machine = resources["azurerm_linux_virtual_machine"]["gateway"]
    assert machine["size"] == "Standard_D2s_v6"
    assert machine["admin_ssh_key"][0]["public_key"] == KEY
    assert "identity" not in machine  # logging in there gives no further rights
    subnet = resources["azurerm_network_interface"]["gateway-nic"]["ip_configuration"][0]
    assert subnet["subnet_id"] == "${azurerm_subnet.management.id}"
    assert "gateway-nic" in json.dumps(stacks["network"]["output"])
    assert "gateway-nic" in _of_targets(stacks, "gateway")["pool"]["host"]


def test_network_with_peering_and_firewall_has_no_nat_gateway(written: Written) -> None:
    more = (
        f"network: {{egress: {{next_hop: 10.0.0.4}}, peerings: {{hub: {{network: {NETWORK}}}}}}}\n"
    )
    network = written(_file(BOX, more))["network"]
    halves = network["resource"]["azurerm_virtual_network_peering"]
    assert halves["peering-to-hub"]["allow_forwarded_traffic"] is True
    assert "azurerm_nat_gateway" not in network["resource"]


@pytest.mark.parametrize("private", [True, False])
def test_cluster_in_an_existing_network_uses_its_subnets(written: Written, private: bool) -> None:
    subnets = ", ".join(
        f"{role}: {{id: {NETWORK}/subnets/{role}, range: 10.1.{number}.0/24}}"
        for number, role in enumerate(("compute", "storage", "endpoints"))
    )
    more = (
        f"network: {{private_endpoints: {str(private).lower()}, "
        f"existing: {{subnets: {{{subnets}}}}}}}\n"
    )
    stacks = written(_file(BOX, more))
    network = set(stacks["network"].get("resource", {}))
    zones = {"azurerm_private_dns_zone", "azurerm_private_dns_zone_virtual_network_link"}
    assert network == {"azurerm_resource_group", *(zones if private else ())}
    interface = stacks["compute"]["resource"]["azurerm_network_interface"]["interface-box"]
    assert interface["ip_configuration"][0]["subnet_id"] == f"{NETWORK}/subnets/compute"
    server = stacks["data"]["resource"]["azurerm_network_interface"]["nfs-data-nic"]
    assert server["ip_configuration"][0]["subnet_id"] == f"{NETWORK}/subnets/storage"
    rules = stacks["data"]["resource"]["azurerm_storage_account"]["storage"]["network_rules"]
    assert (f"{NETWORK}/subnets/compute" in json.dumps(rules)) is not private


def test_cluster_size_missing_in_catalog_is_described_by_a_listed_one(
    written: Written, tmp_path: Path
) -> None:
    size = "{name: Standard_HB200rs_v9, like: Standard_HB176rs_v4, vcpus: 200}"
    clusters = {
        name: f"{{engine: {engine}, size: {size}, nodes: {nodes}, mounts: [data]}}"
        for name, engine, nodes in (("pair", "ssh", 2), ("nd", "slurm", 2), ("pool", "batch", 2))
    }
    text = _file(clusters)
    stacks = written(text)
    sold = {each["sku"] for each in stacks["compute"]["resource"][SCALE_SET].values()}
    assert sold == {"Standard_HB200rs_v9"}
    (pool,) = stacks["compute"]["resource"]["azurerm_batch_pool"].values()
    assert pool["vm_size"] == "Standard_HB200rs_v9"
    for name in clusters:
        job = Job.model_validate({"name": "x", "command": "true", "nodes": 2})
        profile = fabric_profile(targets_of(stacks)[name], job)
        assert profile is not None
        assert (profile.size.name, profile.size.rdma) == ("Standard_HB200rs_v9", True)
    environment = load(tmp_path, text)
    assert [each.id for each in check_environment(environment) if each.severity == "error"] == []
    assert {each.vcpus for each in machines_of(environment) if "HB200" in each.size} == {400}


def test_cluster_with_custom_image_may_have_sizes_without_catalog_driver(written: Written) -> None:
    """Covers every engine, with NVIDIA's GRID driver and AMD's for Radeon PRO."""
    image = (
        "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/images/providers"
        "/Microsoft.Compute/galleries/ours/images/grid/versions/1.0.0"
    )
    own = f"image: ubuntu-hpc-2404, image_id: {image}, mounts: [data], nodes: 2"
    grid = "size: Standard_NC128ds_xl_RTXPRO6000BSE_v6"
    stacks = written(
        _file(
            {
                "pair": f"{{engine: ssh, size: Standard_NV36ads_A10_v5, {own}}}",
                "nd": f"{{engine: slurm, {grid}, {own}}}",
                "pool": f"{{engine: batch, size: Standard_NV24ads_V710_v5, {own}, mpi: false}}",
            }
        )
    )
    compute = stacks["compute"]["resource"]
    assert {each["source_image_id"] for each in compute[SCALE_SET].values()} == {image}
    (pool,) = compute["azurerm_batch_pool"].values()
    assert (pool["vm_size"], pool["storage_image_reference"]["id"]) == (
        "Standard_NV24ads_V710_v5",
        image,
    )


def test_file_server_may_have_a_described_size(written: Written) -> None:
    """File servers may also have sizes newer than the catalogue."""
    text = _file({"pair": "{engine: ssh, size: Standard_HB176rs_v4, nodes: 2, mounts: [data]}"})
    server = "size: {name: Standard_D32s_v9, like: Standard_D32s_v6}"
    text = text.replace("kind: nfs_server", f"kind: nfs_server, {server}")
    stacks = written(text)
    machines = stacks["data"]["resource"]["azurerm_linux_virtual_machine"]
    assert [each["size"] for each in machines.values()] == ["Standard_D32s_v9"]
    with pytest.raises(UserError) as raised:
        written(text.replace("like: Standard_D32s_v6", "like: Standard_HC44rs"))
    assert raised.value.findings[0].path == "filesystems.data.size"
    assert "is not known" in raised.value.findings[0].message


def test_scheduler_login_node_and_gateway_may_have_described_sizes(
    written: Written, tmp_path: Path
) -> None:
    """They run no jobs, but a region may offer only sizes of a new generation."""
    described = "{name: Standard_D%ss_v9, like: Standard_D4s_v6, vcpus: %s}"
    sizes = {name: described % (vcpus, vcpus) for name, vcpus in (("s", 8), ("l", 16), ("g", 2))}
    text = _file(
        {"nd": f"{{engine: slurm, {ND}, nodes: 2, mounts: [data]}}"},
        f"slurm: {{scheduler_size: {sizes['s']}, login: {{size: {sizes['l']}}}}}\n",
        access=f", gateway: {{size: {sizes['g']}}}",
    )
    stacks = written(text)
    sold = {
        name: each["size"]
        for role in ("network", "compute")
        for name, each in stacks[role]["resource"]["azurerm_linux_virtual_machine"].items()
    }
    assert sorted(sold.values()) == ["Standard_D16s_v9", "Standard_D2s_v9", "Standard_D8s_v9"], sold
    environment = load(tmp_path, text)
    assert [each.id for each in check_environment(environment) if each.severity == "error"] == []
    asked = {each.path: each.vcpus for each in machines_of(environment)}
    assert (asked["access.gateway"], asked["slurm"]) == (2, 16)
    meters = {part.meter for part in line_items_of(environment)}
    assert {f"vm/Standard_D{vcpus}s_v9" for vcpus in (2, 8, 16)} <= meters
