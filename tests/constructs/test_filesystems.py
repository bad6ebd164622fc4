"""File systems that Azure runs: reached from their own network alone, and well protected."""

import json
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Network
from typing import Any

import pytest

from fairway_constructs.azure_files import AzureFiles
from fairway_constructs.cdk import Stack
from fairway_constructs.file_system import Blobfuse
from fairway_constructs.lustre import BlobImport, Lustre
from fairway_constructs.netapp import NetApp
from fairway_constructs.network import Network
from fairway_constructs.network_access import SubnetRef
from fairway_constructs.nfs_server import NfsServer
from fairway_constructs.registry import Registry
from fairway_constructs.storage import Storage
from fairway_core.environment import Backup, Disks
from fairway_core.findings import UserError

Synthesize = Callable[..., dict[str, Any]]

FILES: dict[str, Any] = {"gib": 1024, "path": "/home"}
NETAPP: dict[str, Any] = {"tib": 4, "path": "/data"}
LUSTRE: dict[str, Any] = {"tib": 48, "path": "/lustre"}
GROUP = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers"
ACCOUNT = f"{GROUP}/Microsoft.Storage/storageAccounts/hub"
SUBNET_ID = f"{GROUP}/Microsoft.Network/virtualNetworks/hub/subnets/nodes"
PRINCIPAL = "11111111-2222-3333-4444-555555555555"
COMPUTE = IPv4Network("10.40.0.0/17")
SUBNET = SubnetRef("/s", COMPUTE, nodes=(COMPUTE,))


def _resources(synthesize: Synthesize, build: Callable[[Stack], object]) -> dict[str, Any]:
    resources: dict[str, Any] = synthesize(build)["resource"]
    return resources


def _rules(resources: dict[str, Any], role: str) -> dict[str, Any]:
    group = resources["azurerm_network_security_group"][f"{role}-rules"]
    return {rule["name"]: rule for rule in group["security_rule"]}


class TestAzureFiles:
    @pytest.mark.parametrize("subnet_ids", [[], [SUBNET_ID]], ids=["endpoint", "subnet"])
    def test_azure_files_account_is_reachable_from_its_subnets_only(
        self, synthesize: Synthesize, subnet_ids: list[str]
    ) -> None:
        resources = _resources(
            synthesize, lambda stack: AzureFiles(stack, "home", subnet_ids=subnet_ids, **FILES)
        )
        account = resources["azurerm_storage_account"]["files-home-account"]
        assert account["public_network_access_enabled"] is bool(subnet_ids)
        assert account["network_rules"]["default_action"] == "Deny"
        assert account["network_rules"].get("virtual_network_subnet_ids", []) == subnet_ids
        assert account["shared_access_key_enabled"] is False
        assert (account["account_kind"], account["account_tier"]) == ("FileStorage", "Premium")
        assert account["https_traffic_only_enabled"] is False, "NFS is refused with it"
        share = resources["azurerm_storage_share"]["files-home-share"]
        assert (share["enabled_protocol"], share["quota"]) == ("NFS", 1024)

    def test_azure_files_have_accounts_of_different_names_and_mount_by_nfs(
        self, synthesize: Synthesize
    ) -> None:
        made: list[AzureFiles] = []

        def build(stack: Stack) -> None:
            made.extend(AzureFiles(stack, name, **FILES) for name in ("home", "data"))

        accounts = _resources(synthesize, build)["azurerm_storage_account"].values()
        assert len({account["name"] for account in accounts}) == 2
        mount = made[0].mount
        assert mount.type == "nfs"
        assert mount.options.startswith("vers=4,minorversion=1,sec=sys,nconnect=4")
        assert mount.root, "nobody else could open a new share to users"
        assert (made[0].throughput_mbps, made[0].limited_by) == (212, "its size")


class TestNetApp:
    def test_netapp_volume_is_exported_to_the_nodes_only(self, synthesize: Synthesize) -> None:
        resources = _resources(synthesize, lambda s: NetApp(s, "data", subnet=SUBNET, **NETAPP))
        volume = resources["azurerm_netapp_volume"]["netapp-data-volume"]
        (rule,) = volume["export_policy_rule"]
        assert (rule["allowed_clients"], rule["protocol"]) == (["10.40.0.0/17"], ["NFSv4.1"])
        assert volume["protocols"] == ["NFSv4.1"]
        assert (volume["storage_quota_in_gb"], volume["network_features"]) == (4096, "Standard")
        assert volume["zone"] == "2"
        assert "throughput_in_mibps" not in volume
        pool = resources["azurerm_netapp_pool"]["netapp-data-pool"]
        assert (pool["size_in_tb"], pool["qos_type"]) == (4, "Auto")

    def test_a_flexible_pool_has_the_throughput_that_was_asked_for(
        self, synthesize: Synthesize
    ) -> None:
        flexible: dict[str, Any] = {**NETAPP, "service_level": "Flexible", "mibps": 1000}
        resources = _resources(synthesize, lambda s: NetApp(s, "data", subnet=SUBNET, **flexible))
        pool = resources["azurerm_netapp_pool"]["netapp-data-pool"]
        assert (pool["qos_type"], pool["custom_throughput_mibps"]) == ("Manual", 1000)
        assert (
            resources["azurerm_netapp_volume"]["netapp-data-volume"]["throughput_in_mibps"] == 1000
        )


class TestLustre:
    def test_lustre_sku_capacity_and_mount_are_those_asked_for(
        self, synthesize: Synthesize
    ) -> None:
        made: list[Lustre] = []
        resources = _resources(
            synthesize, lambda s: made.append(Lustre(s, "fast", subnet=SUBNET, **LUSTRE))
        )
        lustre = resources["azurerm_managed_lustre_file_system"]["lustre-fast-system"]
        assert lustre["sku_name"] == "AMLFS-Durable-Premium-250"
        assert (lustre["storage_capacity_in_tb"], lustre["zones"]) == (48, ["2"])
        window = {"day_of_week": "Sunday", "time_of_day_in_utc": "22:00"}
        assert lustre["maintenance_window"] == window
        assert "hsm_setting" not in lustre
        assert "azurerm_role_assignment" not in resources
        mount = made[0].mount
        assert (mount.type, mount.options) == ("lustre", "noatime,flock,_netdev")
        assert mount.source.endswith("@tcp0:/lustrefs")
        assert made[0].throughput_mbps == 12000

    def test_blobs_are_imported_once_it_may_read_them(self, synthesize: Synthesize) -> None:
        given = {"account_id": ACCOUNT, "container_id": "/container"}
        blobs = BlobImport(**given, service_principal=PRINCIPAL)
        resources = _resources(
            synthesize, lambda s: Lustre(s, "fast", subnet=SUBNET, blob_import=blobs, **LUSTRE)
        )
        lustre = resources["azurerm_managed_lustre_file_system"]["lustre-fast-system"]
        assert lustre["hsm_setting"] == {
            "container_id": "/container",
            "logging_container_id": "${azurerm_storage_container.lustre-fast-logs.id}",
        }
        grants = resources["azurerm_role_assignment"]
        assert {grant["role_definition_name"] for grant in grants.values()} == {
            "Storage Account Contributor",
            "Storage Blob Data Contributor",
        }
        assert all(grant["principal_id"] == PRINCIPAL for grant in grants.values())
        assert all(grant["description"] for grant in grants.values())
        assert {f"azurerm_role_assignment.{name}" for name in grants} <= set(lustre["depends_on"])


@pytest.mark.parametrize("protect", [True, False])
def test_what_holds_data_is_protected_from_destruction(
    synthesize: Synthesize, protect: bool
) -> None:
    def build(stack: Stack) -> None:
        AzureFiles(stack, "a", **FILES)
        NetApp(stack, "b", subnet=SUBNET, **NETAPP)
        Lustre(stack, "c", subnet=SUBNET, **LUSTRE)
        NfsServer(stack, "d", path="/d", backup=Backup(), subnet=SUBNET)
        Storage(stack, containers=["datasets"])
        Registry(stack)

    resources = _resources(partial(synthesize, protect=protect), build)
    holders = {
        "azurerm_managed_disk.nfs-d-disk-0",
        "azurerm_storage_account.storage",
        "azurerm_container_registry.registry",
        "azurerm_storage_account.files-a-account",
        "azurerm_netapp_volume.netapp-b-volume",
        "azurerm_managed_lustre_file_system.lustre-c-system",
        "azurerm_recovery_services_vault.backup-vault",
    }
    locks = {lock["scope"] for lock in resources.get("azurerm_management_lock", {}).values()}
    for holder in holders:
        kind, name = holder.split(".")
        kept = resources[kind][name].get("lifecycle", {}).get("prevent_destroy", False)
        assert kept is protect
        assert (f"${{{holder}.id}}" in locks) is protect
    inside = resources["azurerm_storage_share"] | resources["azurerm_storage_container"]
    for body in inside.values():
        assert ("lifecycle" in body) is protect


def test_nfs_backup_of_servers_starts_after_every_disk_and_outlives_the_vm(
    synthesize: Synthesize,
) -> None:
    backup = Backup(keep=14, at="01:30")

    def build(stack: Stack) -> None:
        for name in ("one", "two"):
            NfsServer(stack, name, path="/d", backup=backup, subnet=SUBNET)

    resources = _resources(synthesize, build)
    # Servers share a vault and keep what each asks for.
    assert list(resources["azurerm_recovery_services_vault"]) == ["backup-vault"]
    policy = resources["azurerm_backup_policy_vm"]["nfs-one-backup-policy"]
    assert policy["policy_type"] == "V2", "the other takes no Premium SSD v2 disks"
    assert policy["backup"] == {"frequency": "Daily", "time": "01:30"}
    assert policy["retention_daily"] == {"count": 14}
    made = resources["azurerm_backup_protected_vm"]["nfs-one-backup"]
    attached = "azurerm_virtual_machine_data_disk_attachment"
    own = {f"{attached}.{name}" for name in resources[attached] if name.startswith("nfs-one-")}
    assert own <= set(made["depends_on"])
    # A reference to the VM is unknown while it is replaced, and would replace the backup.
    assert "azurerm_linux_virtual_machine." not in made["source_vm_id"]
    machine = resources["azurerm_linux_virtual_machine"]["nfs-one-server"]
    assert made["source_vm_id"].endswith(f"/virtualMachines/{machine['name']}")


class TestDisks:
    @pytest.mark.parametrize(
        ("disks", "sku", "chosen"),
        [
            ({"kind": "premium", "gib": 2048}, "Premium_LRS", None),
            ({"kind": "standard_ssd"}, "StandardSSD_LRS", None),
            ({"kind": "ultra", "iops": 9000, "mbps": 900}, "UltraSSD_LRS", (9000, 900)),
            ({}, "PremiumV2_LRS", (3000, 125)),
        ],
    )
    def test_nfs_disks_are_made_with_sku_and_performance_of_their_kind(
        self,
        synthesize: Synthesize,
        disks: dict[str, Any],
        sku: str,
        chosen: tuple[int, int] | None,
    ) -> None:
        resources = _resources(
            synthesize, lambda s: NfsServer(s, "d", path="/d", disks=Disks(**disks), subnet=SUBNET)
        )
        disk = resources["azurerm_managed_disk"]["nfs-d-disk-0"]
        assert disk["storage_account_type"] == sku
        speed = (disk.get("disk_iops_read_write"), disk.get("disk_mbps_read_write"))
        assert speed == (chosen or (None, None))
        machine = resources["azurerm_linux_virtual_machine"]["nfs-d-server"]
        assert ("additional_capabilities" in machine) is (sku == "UltraSSD_LRS")


class TestNetwork:
    SPACE = IPv4Network("10.40.0.0/16")

    def _network(self, synthesize: Synthesize, **more: Any) -> dict[str, Any]:
        return _resources(
            synthesize,
            lambda s: Network(s, address_space=self.SPACE, private_endpoints=True, **more),
        )

    def test_subnets_for_them_move_no_other(self, synthesize: Synthesize) -> None:
        before = self._network(synthesize)["azurerm_subnet"]
        after = self._network(synthesize, filesystems={"netapp", "lustre"})
        assert {name: after["azurerm_subnet"][name] for name in before} == before
        assert set(after["azurerm_subnet"]) - set(before) == {"netapp", "lustre"}

    def test_netapp_is_delegated_and_has_no_way_out(self, synthesize: Synthesize) -> None:
        resources = self._network(synthesize, filesystems={"netapp"})
        (delegation,) = resources["azurerm_subnet"]["netapp"]["delegation"]
        assert delegation["service_delegation"] == {"name": "Microsoft.Netapp/volumes"}
        assert "netapp-has-nat" not in json.dumps(resources)
        rules = _rules(resources, "netapp")
        assert set(rules) == {"AllowNfsFromCompute", "DenyEverythingElse"}

    def test_lustre_and_nodes_reach_each_other(self, synthesize: Synthesize) -> None:
        resources = self._network(
            synthesize, filesystems={"lustre"}, allowed=[IPv4Network("203.0.113.0/24")]
        )
        rules = _rules(resources, "lustre")
        assert set(rules) == {
            "AllowLustreToLustre",
            "AllowLustreFromCompute",
            "AllowAzureMonitor",
            "DenyEverythingElse",
        }
        ports = ["988", "1019-1023"]
        assert rules["AllowLustreFromCompute"]["destination_port_ranges"] == ports
        back = _rules(resources, "compute")["AllowLustreToCompute"]
        assert back["destination_port_ranges"] == ports
        assert back["source_address_prefixes"] == ["10.40.168.0/21"]
        inside = _rules(resources, "endpoints")["AllowHttpsFromInside"]
        assert "10.40.168.0/21" in inside["source_address_prefixes"], "it reads Blob storage"

    def test_nfs_3_opens_its_fixed_ports_and_no_others(self, synthesize: Synthesize) -> None:
        before, after = (self._network(synthesize, nfs_3=on) for on in (False, True))
        for role, rule, ports in (
            ("storage", "AllowNfs3FromCompute", ["111", "20048", "32765", "32803"]),
            ("compute", "AllowNfs3FromStorage", ["111", "32765", "32803"]),
        ):
            old, new = _rules(before, role), _rules(after, role)
            assert {name: new[name] for name in old} == old
            assert set(new) - set(old) == {rule}
            assert new[rule]["destination_port_ranges"] == ports


def test_blobs_are_of_a_container_of_the_account(synthesize: Synthesize) -> None:
    def build(stack: Stack, container: str, *, read_only: bool | None = None) -> None:
        storage = Storage(stack, containers=["datasets"])
        blobs = Blobfuse(
            stack, "sets", path="/sets", storage=storage, container=container, read_only=read_only
        )
        assert blobs.mount.source == f"{storage.host}/datasets"
        assert blobs.mount.options == ("rw" if read_only is False else "ro")

    synthesize(partial(build, container="datasets"))
    synthesize(partial(build, container="datasets", read_only=False))
    with pytest.raises(UserError, match="dataset"):
        synthesize(partial(build, container="dataset"))
