"""The three stacks of an environment: content, references to each other, and ids."""

import json
import os
from pathlib import Path

import pytest
from environment_files import KEY
from tests.stacks.documents import FILES, Stacks, Written, resources_of, targets_of

from fairway_core.environment import load_environment
from fairway_stacks.app import synthesize

PAIR = "  pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}\n"
DATA = "filesystems:\n  data: {kind: nfs_server, path: /data}\n"
HEAD = f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\n"


@pytest.fixture
def demo(written: Written) -> Stacks:
    """Returns the stacks of the demo environment."""
    return written(FILES["demo"])


def test_stacks_have_separate_resource_groups(demo: Stacks) -> None:
    for role, document in demo.items():
        assert document["resource"]["azurerm_resource_group"]["group"]["name"] == f"demo-rg-{role}"


def test_stacks_targets_are_readable_by_the_runner(demo: Stacks) -> None:
    (target,) = targets_of(demo).values()
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


def test_stacks_nodes_mount_the_server_by_reference_to_its_address(
    demo: Stacks,
) -> None:
    cluster = demo["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]["cluster-pair"]
    assert cluster["custom_data"].startswith("${base64encode(replace(base64decode(")
    # A reference, and not its name in quotes.
    assert '"@@0@@", data.terraform_remote_state.' in cluster["custom_data"]


def test_stacks_have_no_public_address_but_that_of_the_nat_gateway(demo: Stacks) -> None:
    text = json.dumps(demo)
    addresses = [i for d in demo.values() for i in resources_of(d) if "public_ip." in i]
    assert addresses == ["azurerm_public_ip.nat-address"]
    assert '"public_ip_address_id": "${azurerm_public_ip.nat-address.id}"' in text
    assert text.count('"public_ip_address_id"') == 1


def test_stacks_tag_all_resources(demo: Stacks) -> None:
    for document in demo.values():
        for address, body in resources_of(document).items():
            if "location" in body:
                roles = {k: v for k, v in body["tags"].items() if k.startswith("fairway-")}
                assert body["tags"] == {
                    "owner": "you@example.com",
                    "environment": "demo",
                    "managed-by": "fairway",
                    **roles,
                }, address


@pytest.mark.parametrize("nodes", [1, 2])
def test_stacks_cluster_names_never_collide_with_other_ids(written: Written, nodes: int) -> None:
    names = ["group", "backend", "azurerm", "targets", "machine"]
    names += ["instances-pair", "interface-pair"]
    rest = f"{{engine: ssh, size: Standard_ND96isr_H100_v5, nodes: {nodes}, mounts: [data]}}\n"
    clusters = "".join(f"  {name}: {rest}" for name in names)
    compute = written(f"{HEAD}{DATA}clusters:\n{PAIR}{clusters}")["compute"]["resource"]
    made = {*compute["azurerm_linux_virtual_machine_scale_set"]}
    made |= {*compute.get("azurerm_linux_virtual_machine", {})}
    assert made == {f"cluster-{name}" for name in ("pair", *names)}


def test_stacks_cluster_of_one_node_needs_no_file_system(written: Written) -> None:
    box = "  box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}\n"
    document = written(f"{HEAD}clusters:\n{box}")["compute"]
    (record,) = document["output"]["targets"]["value"]
    assert record["ssh"]["shared"] == "/home/azureuser/fairway"


def test_stacks_local_state_is_beside_cdktf_json_for_any_outdir(tmp_path: Path) -> None:
    project, outdir = tmp_path / "project", tmp_path / "far" / "away" / "out"
    project.mkdir()
    synthesize(load_environment(FILES["demo"]), project=project, outdir=outdir)
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


def test_stacks_in_a_region_without_zones_set_none(written: Written) -> None:
    stacks = written(FILES["regional"])
    for stack in stacks.values():
        for type_, instances in stack["resource"].items():
            for name, body in instances.items():
                assert not {"zone", "zones"} & body.keys(), f"{type_}.{name}"
    account = stacks["data"]["resource"]["azurerm_storage_account"]
    assert {each["account_replication_type"] for each in account.values()} == {"LRS"}
