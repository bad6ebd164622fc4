"""File systems of every kind in an environment's stacks, mounted by name in its clusters."""

import re
from dataclasses import dataclass
from typing import get_args

import pytest
from environment_files import KEY
from tests.stacks.documents import Written, files_at_boot, resources_of, targets_of

import fairway_constructs as az
from fairway_core.environment import AnyFileSystem
from fairway_core.environment.filesystems.nfs_export import NfsExport

PRINCIPAL = "11111111-2222-3333-4444-555555555555"
HUB = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/hub"
    "/providers/Microsoft.Network/virtualNetworks/hub"
)
HEAD = f"""\
name: lab
location: westeurope
tags: {{owner: me}}
network:
  peerings: {{hub: {{network: {HUB}}}}}
access: {{ssh_keys: ["{KEY}"]}}
"""
KEYS = "storage: {account_keys: true}\n"
_RULES = "azurerm_network_security_group"


@dataclass(frozen=True)
class Kind:
    """A file system of one kind: its section, the type and opener of its mount, MB/s and their
    limit, and the existing resources that adding it changes."""

    section: str
    mount: tuple[str, str]
    limit: tuple[int, str]
    changes: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The path at which nodes mount it."""
        return self.section.rpartition("path: ")[2].rstrip("}")


# A new kind is a row here, and its messages are in tests/golden/messages/filesystems.txt. Both
# NFS 3 and Lustre call nodes back, and Lustre reads the account with its keys.
KINDS = {
    "data": Kind(
        "{kind: nfs_server, versions: [3, 4.1], backup: {}, path: /data}",
        ("nfs", "squashed"),
        (500, "its disks"),
        frozenset({f"{_RULES}.storage-rules", f"{_RULES}.compute-rules"}),
    ),
    "lab": Kind(
        "{kind: nfs, host: nfs.example.com, export: /srv/lab, mbps: 2000, path: /lab}",
        ("nfs", "squashed"),
        (2000, "its server"),
    ),
    "home": Kind("{kind: azure_files, path: /home}", ("nfs", "root"), (212, "its size")),
    "team": Kind(
        "{kind: netapp, path: /team}", ("nfs", "root"), (268, "its service level and size")
    ),
    "fast": Kind(
        f"{{kind: lustre, tib: 8, import: datasets, service_principal: {PRINCIPAL}, "
        "path: /lustre}",
        ("lustre", "root"),
        (2000, "its size"),
        frozenset(
            {
                "azurerm_storage_account.storage",
                "azurerm_management_lock.storage-lock",  # depends on resources below it
                f"{_RULES}.compute-rules",
                f"{_RULES}.endpoints-rules",
            }
        ),
    ),
    "sets": Kind(
        "{kind: blobfuse, container: datasets, path: /datasets}",
        ("blobs", "squashed"),
        (6250, "its storage account"),
    ),
}


def _text(*names: str) -> str:
    filesystems = "".join(f"  {name}: {KINDS[name].section}\n" for name in names)
    keys = KEYS if "fast" in names else ""
    return (
        f"{HEAD}{keys}filesystems:\n{filesystems}clusters:\n  pair: {{engine: ssh, "
        f"size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [{', '.join(names)}]}}\n"
    )


def test_file_systems_of_every_kind_are_mounted_by_name(written: Written) -> None:
    stacks = written(_text(*KINDS))
    nodes = stacks["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
    text = files_at_boot(nodes["cluster-pair"])["/etc/fairway/mounts"]
    mounts = [line.split() for line in text.splitlines()]
    assert [(line[0], line[4], line[3]) for line in mounts] == [
        (*kind.mount, kind.path) for kind in KINDS.values()
    ]
    options, source = {line[3]: (line[1], line[2]) for line in mounts}["/datasets"]
    assert options == "ro"
    assert re.fullmatch(r"@@\d@@\.blob\.core\.windows\.net/datasets", source)
    assert targets_of(stacks)["pair"].mounts == {name: kind.path for name, kind in KINDS.items()}


def test_file_systems_outputs_have_throughput_and_limit(written: Written) -> None:
    outputs = written(_text(*KINDS))["data"]["output"]
    speeds, limits = (
        outputs[f"filesystem_{name}"]["value"] for name in ("throughput_mbps", "limited_by")
    )
    assert {name: (speeds[name], limits[name]) for name in speeds} == {
        name: kind.limit for name, kind in KINDS.items()
    }


def test_file_systems_with_logs_of_their_own_send_them(written: Written) -> None:
    stacks = written(f"{_text(*KINDS)}monitoring: {{emails: [a@example.com]}}\n")
    sent = stacks["data"]["resource"]["azurerm_monitor_diagnostic_setting"]
    names = {"storage", "files-home", "lustre-fast"}
    assert set(sent) == {f"{name}-is-recorded" for name in names}


def test_file_systems_table_covers_every_kind() -> None:
    union, _ = get_args(AnyFileSystem)
    kinds = {get_args(each.model_fields["kind"].annotation)[0] for each in get_args(union)}
    assert {re.findall(r"kind: (\w+)", kind.section)[0] for kind in KINDS.values()} == kinds


def test_file_systems_have_constructs_in_modules_of_the_same_name() -> None:
    union, _ = get_args(AnyFileSystem)
    for kind in get_args(union):
        module = kind.__module__.removeprefix("fairway_core.environment")
        assert getattr(az, kind.__name__).__module__ == f"fairway_constructs{module}"


@pytest.mark.parametrize("name", list(KINDS))
def test_file_systems_added_change_no_existing_data_resource(written: Written, name: str) -> None:
    whole = [other for other in KINDS if other in (name, *(KINDS.keys() - {"fast"}))]
    others = [other for other in whole if other != name]
    before, after = written(_text(*others)), written(_text(*whole))
    for role in ("network", "data"):
        old, new = resources_of(before[role]), resources_of(after[role])
        changed = {address for address in old if new[address] != old[address]}
        assert changed <= KINDS[name].changes
        assert new.keys() >= old.keys()


def test_storage_account_keys_are_off_unless_lustre_needs_them(written: Written) -> None:
    for names, on in ((("team",), False), (("fast",), True)):
        data = written(_text(*names))["data"]["resource"]
        assert data["azurerm_storage_account"]["storage"]["shared_access_key_enabled"] is on


def test_lustre_depends_on_its_roles_and_the_storage_endpoint(written: Written) -> None:
    data = written(_text("fast"))["data"]["resource"]
    lustre = data["azurerm_managed_lustre_file_system"]["lustre-fast-system"]
    assert set(lustre["depends_on"]) == {
        "azurerm_role_assignment.lustre-fast-account",
        "azurerm_role_assignment.lustre-fast-blobs",
        "azurerm_private_endpoint.storage-endpoint",
    }


def test_storage_without_private_endpoints_admits_subnets(written: Written) -> None:
    text = _text("home", "fast").replace("network:\n", "network:\n  private_endpoints: false\n")
    data = written(text)["data"]["resource"]
    accounts = data["azurerm_storage_account"]
    files = accounts["files-home-account"]["network_rules"]["virtual_network_subnet_ids"]
    blobs = accounts["storage"]["network_rules"]["virtual_network_subnet_ids"]
    assert (len(files), len(blobs)) == (1, 2), "the nodes, and for blobs Lustre too"
    assert "azurerm_private_endpoint" not in data


def test_file_systems_may_have_names_like_ids_of_others(written: Written) -> None:
    others = """\
  account: {kind: netapp, path: /a}
  team-pool: {kind: netapp, path: /b}
  home-share: {kind: azure_files, path: /c}
  home-account: {kind: azure_files, path: /d}
  fast-logs: {kind: lustre, tib: 8, path: /e}
  backup-vault: {kind: nfs_server, path: /f, backup: {}}
"""
    servers = ("storage", "nodes", "backend", "azurerm", "group", "data-disk-0")
    others += "".join(f"  {name}: {{kind: nfs_server, path: /{name}}}\n" for name in servers)
    data = written(_text(*KINDS).replace("clusters:", f"{others}clusters:"))["data"]["resource"]
    for kind, count in (("netapp_volume", 3), ("storage_share", 3), ("managed_disk", 32)):
        assert len(data[f"azurerm_{kind}"]) == count, kind
    assert len(data["azurerm_managed_lustre_file_system"]) == 2
    assert data["azurerm_linux_virtual_machine"].keys() == {
        f"nfs-{name}-server" for name in ("data", "backup-vault", *servers)
    }


def test_nfs_export_may_be_the_root_of_the_server() -> None:
    """NFS 4 has one root folder above all exports of a server."""
    found = NfsExport(kind="nfs", path="/lab", host="10.0.0.4", export="/", mbps=1)
    assert found.source == "10.0.0.4:/"
