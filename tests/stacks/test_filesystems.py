"""File systems of every kind in the stacks of an environment, mounted by name by its clusters."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

import pytest
from ruamel.yaml import YAML
from tests.stacks.documents import resources_of

from fairway_core.target import Target

if TYPE_CHECKING:
    from tests.stacks.documents import Stacks, Written


PRINCIPAL = "11111111-2222-3333-4444-555555555555"
HEAD = """\
name: lab
location: westeurope
tags: {owner: me}
access:
  ssh_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"]
"""
KINDS = {
    "data": "{kind: nfs_server, path: /data, versions: [3, 4.1], backup: {}}",
    "home": "{kind: azure_files, path: /home}",
    "team": "{kind: netapp, path: /team}",
    "fast": f"{{kind: lustre, tib: 8, path: /lustre, import: datasets, "
    f"service_principal: {PRINCIPAL}}}",
    "sets": "{kind: blobfuse, container: datasets, path: /datasets}",
}
KEYS = "storage: {account_keys: true}\n"


# What more is let in, in place: Lustre reads the account with its keys, and both it and NFS 3
# call nodes back.
_RULES = "azurerm_network_security_group"
CHANGES = {
    "data": {f"{_RULES}.storage-rules", f"{_RULES}.compute-rules"},
    "fast": {
        "azurerm_storage_account.storage",
        "azurerm_management_lock.storage-lock",  # after what lies below it
        f"{_RULES}.compute-rules",
        f"{_RULES}.endpoints-rules",
    },
}


def _text(*names: str, more: str = "") -> str:
    filesystems = "".join(f"  {name}: {KINDS[name]}\n" for name in names)
    keys = KEYS if "fast" in names else ""
    return (
        f"{HEAD}{more}{keys}filesystems:\n{filesystems}clusters:\n  pair: {{engine: ssh, "
        f"size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [{', '.join(names)}]}}\n"
    )


def _mounts(stacks: Stacks) -> list[list[str]]:
    """Mounts of the cluster's nodes, with `@@0@@` for what Terraform fills in."""
    cluster = stacks["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
    encoded = re.search(r'base64decode\("([^"]+)"\)', cluster["cluster-pair"]["custom_data"])
    assert encoded
    files = YAML(typ="safe", pure=True).load(base64.b64decode(encoded[1]))["write_files"]
    (mounts,) = (file["content"] for file in files if file["path"] == "/etc/fairway/mounts")
    return [line.split() for line in mounts.splitlines()]


def test_a_cluster_mounts_every_kind_by_name(written: Written) -> None:
    stacks = written(_text(*KINDS))
    mounts = _mounts(stacks)
    assert [(line[0], line[3]) for line in mounts] == [
        ("nfs", "/data"),
        ("nfs", "/home"),
        ("nfs", "/team"),
        ("lustre", "/lustre"),
        ("blobs", "/datasets"),
    ]
    assert [line[4] for line in mounts] == ["squashed", "root", "root", "root", "squashed"]
    assert mounts[-1][1] == "ro"
    assert re.fullmatch(r"@@\d@@\.blob\.core\.windows\.net/datasets", mounts[-1][2])
    (record,) = stacks["compute"]["output"]["targets"]["value"]
    target = Target.model_validate_json(json.dumps(record))
    assert target.mounts == {
        "data": "/data",
        "home": "/home",
        "team": "/team",
        "fast": "/lustre",
        "sets": "/datasets",
    }


def test_the_throughput_of_every_kind_is_told_with_its_limit(written: Written) -> None:
    outputs = written(_text(*KINDS))["data"]["output"]
    assert outputs["filesystem_throughput_mbps"]["value"] == {
        "data": 500,
        "home": 212,
        "team": 268,
        "fast": 2000,
        "sets": 6250,
    }
    limits = outputs["filesystem_limited_by"]["value"]
    assert (limits["data"], limits["fast"]) == ("its disks", "its size")


@pytest.mark.parametrize("name", list(KINDS))
def test_file_system_added_changes_no_resource_that_holds_data(written: Written, name: str) -> None:
    others = [other for other in KINDS if other not in (name, "fast")]
    before, after = written(_text(*others)), written(_text(*others, name))
    for role in ("network", "data"):
        old, new = resources_of(before[role]), resources_of(after[role])
        changed = {address for address in old if new[address] != old[address]}
        assert changed <= CHANGES.get(name, set())
        assert new.keys() >= old.keys()


def test_keys_are_off_unless_lustre_needs_them(written: Written) -> None:
    for names, on in ((("team",), False), (("fast",), True)):
        data = written(_text(*names))["data"]["resource"]
        assert data["azurerm_storage_account"]["storage"]["shared_access_key_enabled"] is on


def test_lustre_waits_for_its_roles_and_the_endpoint(written: Written) -> None:
    data = written(_text("fast"))["data"]["resource"]
    lustre = data["azurerm_managed_lustre_file_system"]["lustre-fast-system"]
    assert set(lustre["depends_on"]) == {
        "azurerm_role_assignment.lustre-fast-account",
        "azurerm_role_assignment.lustre-fast-blobs",
        "azurerm_private_endpoint.storage-endpoint",
    }


def test_without_private_endpoints_subnets_are_let_in(written: Written) -> None:
    more = "network: {private_endpoints: false}\n"
    data = written(_text("home", "fast", more=more))["data"]["resource"]
    accounts = data["azurerm_storage_account"]
    files = accounts["files-home-account"]["network_rules"]["virtual_network_subnet_ids"]
    blobs = accounts["storage"]["network_rules"]["virtual_network_subnet_ids"]
    assert (len(files), len(blobs)) == (1, 2), "the nodes, and for blobs Lustre too"
    assert "azurerm_private_endpoint" not in data


def test_a_share_has_an_endpoint_in_the_network(written: Written) -> None:
    data = written(_text("home"))["data"]["resource"]
    endpoint = data["azurerm_private_endpoint"]["files-home-endpoint"]
    connection = endpoint["private_service_connection"]
    assert connection["subresource_names"] == ["file"]
    assert connection["private_connection_resource_id"] == (
        "${azurerm_storage_account.files-home-account.id}"
    )


def test_no_name_collides_with_another_id(written: Written) -> None:
    others = """\
  account: {kind: netapp, path: /a}
  team-pool: {kind: netapp, path: /b}
  home-share: {kind: azure_files, path: /c}
  home-account: {kind: azure_files, path: /d}
  fast-logs: {kind: lustre, tib: 8, path: /e}
  backup-vault: {kind: nfs_server, path: /f, backup: {}}
"""
    data = written(_text(*KINDS).replace("clusters:", f"{others}clusters:"))["data"]["resource"]
    for kind, count in (("netapp_volume", 3), ("storage_share", 3), ("managed_disk", 8)):
        assert len(data[f"azurerm_{kind}"]) == count, kind
    assert len(data["azurerm_managed_lustre_file_system"]) == 2
