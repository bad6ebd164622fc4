"""File systems run by Azure: reachable only from their own network, and protected."""

from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Network
from typing import Any

import pytest

import fairway_constructs as az
from fairway_core.environment.filesystems.nfs_server import Backup, Disks
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
SUBNET = az.SubnetRef("/s", COMPUTE, nodes=(COMPUTE,))


class TestAzureFiles:
    @pytest.mark.parametrize("subnets", [[], [SUBNET]], ids=["endpoint", "subnet"])
    def test_azure_files_account_is_reachable_from_its_subnets_only(
        self, synthesize: Synthesize, subnets: list[az.SubnetRef]
    ) -> None:
        made: list[az.AzureFiles] = []

        def build(stack: az.Stack) -> None:
            files = (az.AzureFiles(stack, n, subnets=subnets, **FILES) for n in ("home", "data"))
            made.extend(files)

        resources = synthesize(build)["resource"]
        accounts = resources["azurerm_storage_account"]
        assert len({each["name"] for each in accounts.values()}) == 2
        account = accounts["files-home-account"]
        assert account["public_network_access_enabled"] is bool(subnets)
        assert account["network_rules"]["default_action"] == "Deny"
        assert account["network_rules"].get("virtual_network_subnet_ids", []) == [
            each.id for each in subnets
        ]
        assert account["shared_access_key_enabled"] is False
        assert (account["account_kind"], account["account_tier"]) == ("FileStorage", "Premium")
        assert account["https_traffic_only_enabled"] is False, "NFS is refused with it"
        share = resources["azurerm_storage_share"]["files-home-share"]
        assert (share["enabled_protocol"], share["quota"]) == ("NFS", 1024)
        assert made[0].mount.options.startswith("vers=4,minorversion=1,sec=sys,nconnect=4")


class TestNetApp:
    @pytest.mark.parametrize(
        ("more", "qos", "mibps"),
        [({}, "Auto", None), ({"service_level": "Flexible", "mibps": 1000}, "Manual", 1000)],
    )
    def test_netapp_volume_is_exported_to_the_nodes_only(
        self, synthesize: Synthesize, more: Any, qos: str, mibps: int | None
    ) -> None:
        spec = {**NETAPP, **more}
        resources = synthesize(lambda s: az.NetApp(s, "data", subnet=SUBNET, **spec))["resource"]
        volume = resources["azurerm_netapp_volume"]["netapp-data-volume"]
        (rule,) = volume["export_policy_rule"]
        assert (rule["allowed_clients"], rule["protocol"]) == (["10.40.0.0/17"], ["NFSv4.1"])
        assert volume["protocols"] == ["NFSv4.1"]
        assert (volume["storage_quota_in_gb"], volume["network_features"]) == (4096, "Standard")
        assert volume["zone"] == "2"
        pool = resources["azurerm_netapp_pool"]["netapp-data-pool"]
        assert (pool["size_in_tb"], pool["qos_type"]) == (4, qos)
        speeds = (volume.get("throughput_in_mibps"), pool.get("custom_throughput_mibps"))
        assert speeds == (mibps, mibps)


@pytest.mark.parametrize("imports", [False, True])
def test_lustre_has_requested_size_and_imports_blobs_after_grants(
    synthesize: Synthesize, imports: bool
) -> None:
    made: list[az.Lustre] = []

    def build(stack: az.Stack) -> None:
        hub = az.Storage.from_id(stack, "hub", ACCOUNT, containers=["raw"])
        given: dict[str, Any] = {"storage": hub, "service_principal": PRINCIPAL}
        blobs = az.BlobImport(container="raw", **given) if imports else None
        made.append(az.Lustre(stack, "fast", subnet=SUBNET, blob_import=blobs, **LUSTRE))

    resources = synthesize(build)["resource"]
    assert made[0].mount.source.endswith("@tcp0:/lustrefs")
    assert made[0].mount.options == "noatime,flock,_netdev"
    lustre = resources["azurerm_managed_lustre_file_system"]["lustre-fast-system"]
    assert lustre["sku_name"] == "AMLFS-Durable-Premium-250"
    assert (lustre["storage_capacity_in_tb"], lustre["zones"]) == (48, ["2"])
    window = {"day_of_week": "Sunday", "time_of_day_in_utc": "22:00"}
    assert lustre["maintenance_window"] == window
    grants = resources.get("azurerm_role_assignment", {})
    if not imports:
        assert "hsm_setting" not in lustre
        assert not grants
        return
    assert lustre["hsm_setting"] == {
        "container_id": f"{ACCOUNT}/blobServices/default/containers/raw",
        "logging_container_id": "${azurerm_storage_container.lustre-fast-logs.id}",
    }
    assert {grant["role_definition_name"] for grant in grants.values()} == {
        "Storage Account Contributor",
        "Storage Blob Data Contributor",
    }
    assert {grant["principal_id"] for grant in grants.values()} == {PRINCIPAL}
    assert {f"azurerm_role_assignment.{name}" for name in grants} <= set(lustre["depends_on"])


@pytest.mark.parametrize("protect", [True, False])
def test_data_resources_are_protected_from_destruction(
    synthesize: Synthesize, protect: bool
) -> None:
    def build(stack: az.Stack) -> None:
        az.AzureFiles(stack, "a", **FILES)
        az.NetApp(stack, "b", subnet=SUBNET, **NETAPP)
        az.Lustre(stack, "c", subnet=SUBNET, **LUSTRE)
        az.NfsServer(stack, "d", path="/d", backup=Backup(), subnet=SUBNET)
        az.Storage(stack, containers=["datasets"])
        az.Registry(stack)

    resources = synthesize(build, protect=protect)["resource"]
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

    def build(stack: az.Stack) -> None:
        for name in ("one", "two"):
            az.NfsServer(stack, name, path="/d", backup=backup, subnet=SUBNET)

    resources = synthesize(build)["resource"]
    # Servers share a vault, but each has its own retention.
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


@pytest.mark.parametrize(
    ("disks", "sku", "chosen"),
    [
        ({"kind": "premium", "gib": 2048}, "Premium_LRS", (None, None)),
        ({"kind": "standard_ssd"}, "StandardSSD_LRS", (None, None)),
        ({"kind": "ultra", "iops": 9000, "mbps": 900}, "UltraSSD_LRS", (9000, 900)),
        ({}, "PremiumV2_LRS", (3000, 125)),
    ],
)
def test_nfs_disks_are_made_with_sku_and_performance_of_their_kind(
    synthesize: Synthesize, disks: dict[str, Any], sku: str, chosen: tuple[Any, Any]
) -> None:
    given: dict[str, Any] = {"path": "/d", "disks": Disks(**disks), "subnet": SUBNET}
    resources = synthesize(lambda s: az.NfsServer(s, "d", **given))["resource"]
    disk = resources["azurerm_managed_disk"]["nfs-d-disk-0"]
    assert disk["storage_account_type"] == sku
    assert (disk.get("disk_iops_read_write"), disk.get("disk_mbps_read_write")) == chosen
    machine = resources["azurerm_linux_virtual_machine"]["nfs-d-server"]
    assert ("additional_capabilities" in machine) is (sku == "UltraSSD_LRS")


def test_blobfuse_mounts_an_existing_container_of_the_account(synthesize: Synthesize) -> None:
    def build(stack: az.Stack, container: str, *, read_only: bool | None = None) -> None:
        storage = az.Storage(stack, containers=["datasets"])
        blobs = az.Blobfuse(
            stack, "sets", path="/sets", storage=storage, container=container, read_only=read_only
        )
        assert blobs.mount.source == f"{storage.host}/datasets"
        assert blobs.mount.options == ("rw" if read_only is False else "ro")

    synthesize(partial(build, container="datasets"))
    synthesize(partial(build, container="datasets", read_only=False))
    with pytest.raises(UserError, match="dataset"):
        synthesize(partial(build, container="dataset"))
