"""The GPU cluster: InfiniBand kept by construction, and a cloud-config that is right."""

from __future__ import annotations

import inspect
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from fairway_constructs.cloud_init import nfs_mount
from fairway_constructs.gpu_cluster import GpuCluster
from fairway_constructs.network_access import SubnetRef
from fairway_constructs.nodes import NodeSpec
from fairway_core.catalog import default_image, image, vm_size, vm_sizes
from fairway_core.environment import Spot
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_constructs.cdk import Stack

    Synthesize = Callable[..., dict[str, Any]]

H100 = "Standard_ND96isr_H100_v5"
MOUNT = nfs_mount(name="data", server="10.40.128.4", export="/srv/fairway/data", path="/data")
ON_OFFER = [size.name for size in vm_sizes().values() if size.rdma and size.status != "retired"]


def _cluster(
    synthesize: Synthesize, size: str = H100, nodes: int = 2, **arguments: Any
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "size": vm_size(size),
        "image": default_image(vm_size(size)),
        "subnet": SubnetRef("/subnets/compute", IPv4Network("10.40.0.0/17")),
        "identity_id": "/identities/nodes",
        "mounts": [MOUNT],
        **arguments,
    }

    def build(stack: Stack) -> GpuCluster:
        return GpuCluster(stack, "pair", nodes=nodes, spec=NodeSpec(**values))

    document = synthesize(build)
    cluster: dict[str, Any] = document["resource"]["azurerm_linux_virtual_machine_scale_set"]
    return {**cluster["cluster-pair"], "document": document}


@pytest.mark.parametrize("size", ON_OFFER)
def test_infiniband_is_kept_on_every_size_that_has_it(synthesize: Synthesize, size: str) -> None:
    cluster = _cluster(synthesize, size)
    assert cluster["single_placement_group"] is True
    assert cluster["overprovision"] is False
    assert cluster["upgrade_mode"] == "Manual"
    assert cluster["zones"] == ["2"]
    assert cluster["platform_fault_domain_count"] == 1
    assert "capacity_reservation_group_id" not in cluster
    assert cluster["network_interface"][0]["accelerated_networking_enabled"] is True
    assert cluster["sku"] == size
    assert cluster["instances"] == 2


def test_gpu_cluster_takes_no_argument_that_could_lose_placement_or_nodes() -> None:
    arguments = set(inspect.signature(GpuCluster.__init__).parameters)
    arguments |= set(inspect.signature(NodeSpec).parameters)
    assert not arguments & {"single_placement_group", "zones", "overprovision", "capacity"}


def test_a_region_without_zones_gets_none(synthesize: Callable[..., dict[str, Any]]) -> None:
    assert "zones" not in _cluster(partial(synthesize, zone=None))


@pytest.mark.parametrize("nodes", [0, 101])
def test_a_cluster_fits_one_placement_group(synthesize: Synthesize, nodes: int) -> None:
    with pytest.raises(UserError, match="placement group holds 1 to 100") as caught:
        _cluster(synthesize, nodes=nodes)
    assert "does not cross scale sets" in caught.value.findings[0].hint


def test_an_image_that_does_not_fit_is_refused(synthesize: Synthesize) -> None:
    with pytest.raises(UserError, match="ubuntu-hpc-2404-rocm does not fit") as caught:
        _cluster(synthesize, image=image("ubuntu-hpc-2404-rocm"))
    assert caught.value.findings[0].hint == "take ubuntu-hpc-2404"


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            {"os_gib": 20},
            "cluster `pair`: image ubuntu-hpc-2404 needs [0-9]+ GiB, not 20",
            "leave `os_gib` out",
        ),
        (
            {"os_gib": 4000, "local_os_disk": True},
            f"cluster `pair`: no room for 4000 GiB on the disk of {H100}",
            "local_os_disk=False",
        ),
        (
            {"local_os_disk": True, "spot": Spot(eviction="deallocate")},
            "cluster `pair`: a local system disk does not outlive a stop",
            "use the eviction `delete`",
        ),
    ],
)
def test_a_system_disk_that_cannot_be_is_refused(
    synthesize: Synthesize, arguments: dict[str, Any], said: str, hint: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        _cluster(synthesize, **arguments)
    assert hint in caught.value.findings[0].hint


def test_more_file_systems_than_fit_the_boot_data_are_not_blamed_on_people(
    synthesize: Synthesize,
) -> None:
    with pytest.raises(UserError, match="cluster `pair`: its nodes boot with") as caught:
        _cluster(synthesize, mounts=[MOUNT] * 1000)
    assert caught.value.findings[0].hint == "mount fewer file systems"


def test_nodes_have_no_public_address_and_let_only_keys_in(synthesize: Synthesize) -> None:
    cluster = _cluster(synthesize)
    (configuration,) = cluster["network_interface"][0]["ip_configuration"]
    assert "public_ip_address" not in configuration
    assert cluster["disable_password_authentication"] is True
    assert cluster["identity"] == {"type": "UserAssigned", "identity_ids": ["/identities/nodes"]}
    assert cluster["termination_notification"]["enabled"] is True
    assert cluster["boot_diagnostics"] == {}


def test_the_image_is_pinned(synthesize: Synthesize) -> None:
    reference = _cluster(synthesize)["source_image_reference"]
    assert reference["version"] == image("ubuntu-hpc-2404").version != "latest"


def test_an_image_with_a_plan_names_it(synthesize: Synthesize) -> None:
    cluster = _cluster(synthesize, image=image("almalinux-hpc-8"))
    assert cluster["plan"] == {
        "name": "8_10-hpc-gen2",
        "product": "almalinux-hpc",
        "publisher": "almalinux",
    }
    assert "plan" not in _cluster(synthesize)


def test_the_system_disk_is_local_where_it_has_room(synthesize: Synthesize) -> None:
    disk = _cluster(synthesize)["os_disk"]
    assert disk["diff_disk_settings"] == {"option": "Local", "placement": "ResourceDisk"}
    assert disk["caching"] == "ReadOnly"


@pytest.mark.parametrize("size", ["Standard_NC24ads_A100_v4", "Standard_ND96is_H100_v5"])
def test_the_system_disk_is_remote_where_it_has_not(synthesize: Synthesize, size: str) -> None:
    disk = _cluster(synthesize, size)["os_disk"]
    assert "diff_disk_settings" not in disk
    assert disk["storage_account_type"] == "Premium_LRS"


def test_the_main_host_is_read_from_the_scale_set(synthesize: Synthesize) -> None:
    data = _cluster(synthesize)["document"]["data"]
    assert data["azurerm_virtual_machine_scale_set"]["instances-pair"]["name"] == (
        "${azurerm_linux_virtual_machine_scale_set.cluster-pair.name}"
    )


@pytest.mark.parametrize("alias", ["ubuntu-hpc-2404", "almalinux-hpc-8"])
def test_the_cloud_config_is_valid(
    synthesize: Synthesize,
    alias: str,
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
) -> None:
    cluster = _cluster(synthesize, image=image(alias))
    check_cloud_config(cloud_config(cluster["custom_data"])["text"])


def test_the_cloud_config_says_what_it_should(
    synthesize: Synthesize, cloud_config: Callable[[str], dict[str, Any]]
) -> None:
    config = cloud_config(_cluster(synthesize)["custom_data"])
    files = {entry["path"]: entry["content"] for entry in config["write_files"]}
    assert "10.40.128.4:/srv/fairway/data /data " in files["/etc/fairway/mounts"]
    assert "SHARED=/data/fairway\n" in files["/etc/fairway/settings"]
    assert "memlock  unlimited" in files["/etc/security/limits.d/90-fairway.conf"]
    assert "RemoveIPC=no" in files["/etc/systemd/logind.conf.d/90-fairway.conf"]
    assert "Host lab-pair* 10.40.*\n" in files["/etc/ssh/ssh_config.d/50-fairway.conf"]
    assert "nfs-common" in config["packages"]


def test_a_cluster_without_mounts_has_a_valid_cloud_config_too(
    synthesize: Synthesize,
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
) -> None:
    config = cloud_config(_cluster(synthesize, nodes=1, mounts=[])["custom_data"])
    check_cloud_config(config["text"])
    files = {entry["path"]: entry["content"] for entry in config["write_files"]}
    assert files["/etc/fairway/mounts"].strip() == ""
    assert "SHARED=''\n" in files["/etc/fairway/settings"]
