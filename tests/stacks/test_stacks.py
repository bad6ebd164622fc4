"""The three stacks of an environment: what they hold, how they refer to each other, and ids."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.environment import load_environment
from fairway_core.target import Target
from fairway_stacks.app import synthesize

if TYPE_CHECKING:
    from collections.abc import Callable

    Written = Callable[..., dict[str, dict[str, Any]]]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"
PAIR = "  pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}\n"
DATA = "  data: {kind: nfs_server, path: /data}\n"


def _file(clusters: str = PAIR, filesystems: str = DATA, more: str = "") -> str:
    return (
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\n{more}"
        f"filesystems:\n{filesystems}clusters:\n{clusters}"
    )


@pytest.fixture
def demo(written: Written, repository: Path) -> dict[str, dict[str, Any]]:
    """The demo environment."""
    return written(repository / "stacks" / "environments" / "demo.yaml")


def _instances(document: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{kind}.{name}": body
        for kind, instances in document.get("resource", {}).items()
        for name, body in instances.items()
    }


def test_stacks_keep_persistent_resources_out_of_compute(demo: dict[str, dict[str, Any]]) -> None:
    assert set(demo) == {"network", "data", "compute"}
    assert "azurerm_virtual_network" in demo["network"]["resource"]
    assert {"azurerm_storage_account", "azurerm_managed_disk"} <= set(demo["data"]["resource"])
    assert set(demo["compute"]["resource"]) == {
        "azurerm_resource_group",
        "azurerm_linux_virtual_machine_scale_set",
    }


def test_stacks_have_separate_resource_groups(demo: dict[str, dict[str, Any]]) -> None:
    for role, document in demo.items():
        assert document["resource"]["azurerm_resource_group"]["group"]["name"] == f"demo-rg-{role}"


def test_targets_are_what_the_runner_reads(demo: dict[str, dict[str, Any]]) -> None:
    (record,) = demo["compute"]["output"]["targets"]["value"]
    target = Target.model_validate_json(json.dumps(record))
    assert (target.name, target.environment, target.engine) == ("pair", "demo", "ssh")
    assert (target.nodes.min, target.nodes.max) == (2, 2)
    assert target.mounts == {"data": "/data"}
    assert target.ssh is not None
    assert target.ssh.host == (
        "${try(data.azurerm_virtual_machine_scale_set.instances-pair"
        '.instances[0].private_ip_address, "")}'
    )
    assert (target.ssh.user, target.ssh.shared) == ("azureuser", "/data/fairway")
    assert target.storage is not None
    assert "primary_blob_endpoint" in target.storage.account_url
    assert set(target.storage.containers) == {"datasets", "outputs", "code"}


def test_the_throughput_of_each_file_system_is_told(demo: dict[str, dict[str, Any]]) -> None:
    assert demo["data"]["output"]["filesystem_throughput_mbps"]["value"] == {"data": 1984}


def test_nodes_mount_the_server_by_a_reference_to_its_address(
    demo: dict[str, dict[str, Any]],
) -> None:
    cluster = demo["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]["cluster-pair"]
    assert cluster["custom_data"].startswith("${base64encode(replace(base64decode(")
    # A reference, and not its name in quotes.
    assert '"@@0@@", data.terraform_remote_state.' in cluster["custom_data"]


def test_the_public_address_is_the_nat_gateways_alone(demo: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(demo)
    addresses = [i for d in demo.values() for i in _instances(d) if "public_ip." in i]
    assert addresses == ["azurerm_public_ip.nat-address"]
    assert '"public_ip_address_id": "${azurerm_public_ip.nat-address.id}"' in text
    assert text.count('"public_ip_address_id"') == 1


def test_grants_open_one_container_each_and_say_why(demo: dict[str, dict[str, Any]]) -> None:
    grants = demo["data"]["resource"]["azurerm_role_assignment"]
    containers = ("datasets", "outputs", "code")
    nodes = {f"nodes-{name}" for name in containers}
    assert set(grants) == nodes | {f"container-{name}-used-by-deployer" for name in containers}
    for grant in grants.values():
        assert grant["scope"].startswith("${azurerm_storage_container.")
        assert grant["description"]


def test_stacks_tag_all_resources(demo: dict[str, dict[str, Any]]) -> None:
    for document in demo.values():
        for address, body in _instances(document).items():
            if "location" in body:
                roles = {k: v for k, v in body["tags"].items() if k.startswith("fairway-")}
                assert body["tags"] == {
                    "owner": "you@example.com",
                    "environment": "demo",
                    "managed-by": "fairway",
                    **roles,
                }, address


@pytest.mark.parametrize(
    ("clusters", "filesystems"),
    [
        (
            "  alpha: {engine: ssh, size: Standard_HB176rs_v4, nodes: 4, mounts: [data]}\n" + PAIR,
            DATA,
        ),
        (PAIR, "  alpha: {kind: nfs_server, path: /alpha}\n" + DATA),
    ],
    ids=["a cluster", "a file system"],
)
def test_stacks_with_an_added_cluster_or_file_system_keep_existing_resources(
    written: Written, clusters: str, filesystems: str
) -> None:
    before = written(_file())
    after = written(_file(clusters, filesystems))
    added = 0
    for role in before:
        old, new = _instances(before[role]), _instances(after[role])
        assert {address: new[address] for address in old} == old
        added += len(new) - len(old)
    assert added > 0


NAMES = ["group", "backend", "azurerm", "targets", "instances-pair", "interface-pair", "machine"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [1, 2])
def test_no_name_of_a_cluster_collides_with_another_id(
    written: Written, name: str, nodes: int
) -> None:
    size = "Standard_ND96isr_H100_v5"
    cluster = f"  {name}: {{engine: ssh, size: {size}, nodes: {nodes}, mounts: [data]}}\n"
    compute = written(_file(PAIR + cluster))["compute"]["resource"]
    made = {*compute["azurerm_linux_virtual_machine_scale_set"]}
    made |= {*compute.get("azurerm_linux_virtual_machine", {})}
    assert made == {"cluster-pair", f"cluster-{name}"}


@pytest.mark.parametrize("name", ["storage", "nodes", "backend", "azurerm", "group", "data-disk-0"])
def test_no_name_of_a_file_system_collides_with_another_id(written: Written, name: str) -> None:
    filesystem = f"  {name}: {{kind: nfs_server, path: /other}}\n"
    data = written(_file(filesystems=DATA + filesystem))["data"]["resource"]
    assert len(data["azurerm_linux_virtual_machine"]) == 2


def test_a_cluster_of_one_node_needs_no_file_system(written: Written) -> None:
    box = "  box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}\n"
    text = _file(box).replace(f"filesystems:\n{DATA}", "")
    document = written(text)["compute"]
    (record,) = document["output"]["targets"]["value"]
    assert record["ssh"]["shared"] == "/home/azureuser/fairway"


def test_data_is_protected_unless_the_file_says_otherwise(written: Written) -> None:
    data = written(_file())["data"]["resource"]
    assert set(data["azurerm_management_lock"]) == {
        "storage-lock",
        *(f"nfs-data-disk-{number}-lock" for number in range(4)),
    }
    assert data["azurerm_storage_account"]["storage"]["lifecycle"]["prevent_destroy"] is True
    open_data = written(_file(more="protect: false\n"))["data"]["resource"]
    assert "azurerm_management_lock" not in open_data


def test_the_state_lies_beside_cdktf_json_wherever_the_output_goes(
    tmp_path: Path, repository: Path
) -> None:
    project, outdir = tmp_path / "project", tmp_path / "far" / "away" / "out"
    project.mkdir()
    environment = load_environment(repository / "stacks" / "environments" / "demo.yaml")
    synthesize(environment, project=project, outdir=outdir)
    folder = outdir / "stacks" / "demo-compute"
    document = json.loads((folder / "cdk.tf.json").read_text())
    own = document["terraform"]["backend"]["local"]["path"]
    paths = [own] + [
        state["config"]["path"] for state in document["data"]["terraform_remote_state"].values()
    ]
    assert not any(path.startswith("/") for path in paths)
    assert {os.path.normpath(folder / path) for path in paths} == {
        str(project / f"terraform.demo-{role}.tfstate") for role in ("network", "data", "compute")
    }


def test_the_usual_place_is_written_the_same_on_every_machine(
    demo: dict[str, dict[str, Any]],
) -> None:
    assert demo["data"]["terraform"]["backend"]["local"] == {
        "path": "../../../terraform.demo-data.tfstate"
    }


def test_a_region_without_zones_gets_none(written: Written) -> None:
    file = Path(__file__).with_name("sections") / "regional.yaml"
    stacks = written(file)
    for stack in stacks.values():
        for type_, instances in stack["resource"].items():
            for name, body in instances.items():
                assert not {"zone", "zones"} & body.keys(), f"{type_}.{name}"
    account = stacks["data"]["resource"]["azurerm_storage_account"]
    assert {each["account_replication_type"] for each in account.values()} == {"LRS"}
