"""Nodes as scale sets and single VMs: InfiniBand, Spot, repair, images, disks, and boot data."""

import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import refused
from programs import executable, finished
from tests.stacks.documents import files_of

import fairway_constructs as az
from fairway_constructs.cloud_init import HEALTH_PORT, NodeHealth, node_cloud_init
from fairway_constructs.cloud_init.mounts import nfs_mount
from fairway_constructs.clusters import nodes
from fairway_core.catalog import default_image, image, vm_size
from fairway_core.environment import Repair, Spot
from fairway_core.findings import UserError

Synthesize = Callable[..., dict[str, Any]]

H100 = "Standard_ND96isr_H100_v5"
A100 = "Standard_NC24ads_A100_v4"
MOUNT = nfs_mount(name="data", server="10.40.128.4", export="/srv/fairway/data", path="/data")
COMPUTE = (
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/lab/providers"
    "/Microsoft.Compute"
)
GALLERY = f"{COMPUTE}/galleries/lab/images/trained/versions/1.0.0"


NODES = "${azurerm_user_assigned_identity.nodes.id}"


def _spec(size: str, **arguments: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "size": vm_size(size),
        "image": default_image(vm_size(size)),
        "subnet": az.SubnetRef("/subnets/compute", IPv4Network("10.40.0.0/17")),
        "mounts": [MOUNT],
    }
    return {**values, **arguments}


def _cluster(synthesize: Synthesize, size: str = H100, **arguments: Any) -> dict[str, Any]:
    own = {
        key: arguments.pop(key)
        for key in ("nodes", "repair", "externally_scaled")
        if key in arguments
    }
    values: dict[str, Any] = {"nodes": 2, **own, **_spec(size, **arguments)}

    def build(stack: az.Stack) -> az.ScaleSetCluster:
        return az.ScaleSetCluster(stack, "pair", identity=az.Identity(stack, "nodes"), **values)

    document = synthesize(build)
    cluster = document["resource"]["azurerm_linux_virtual_machine_scale_set"]["cluster-pair"]
    return {**cluster, "document": document}


def _box(synthesize: Synthesize, size: str = A100, **arguments: Any) -> dict[str, Any]:
    def build(stack: az.Stack) -> az.SingleVm:
        identity = az.Identity(stack, "nodes")
        return az.SingleVm(stack, "box", identity=identity, **_spec(size, **arguments))

    document = synthesize(build)
    machine = document["resource"]["azurerm_linux_virtual_machine"]["cluster-box"]
    return {**machine, "document": document}


@pytest.mark.parametrize("alias", ["ubuntu-hpc-2404", "almalinux-hpc-8"])
def test_cluster_nodes_have_default_settings_and_valid_cloud_config(
    synthesize: Synthesize,
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
    alias: str,
) -> None:
    cluster = _cluster(synthesize, image=image(alias))
    (interface,) = cluster["network_interface"]
    (configuration,) = interface["ip_configuration"]
    assert interface["primary"] is configuration["primary"] is True
    assert "public_ip_address" not in configuration
    assert cluster["disable_password_authentication"] is True
    assert cluster["identity"] == {"type": "UserAssigned", "identity_ids": [NODES]}
    assert cluster["termination_notification"]["enabled"] is True
    assert cluster["boot_diagnostics"] == {}
    reference = cluster["source_image_reference"]
    assert reference["version"] == image(alias).version != "latest"
    local = {"option": "Local", "placement": "ResourceDisk"}
    disk = {name: cluster["os_disk"][name] for name in ("diff_disk_settings", "caching")}
    assert disk == {"diff_disk_settings": local, "caching": "ReadOnly"}
    assert cluster["os_disk"]["disk_size_gb"] == image(alias).os_disk_gib
    unasked = {"priority", "eviction_policy", "max_bid_price", "spot_restore", "lifecycle"}
    unasked |= {"automatic_instance_repair", "extension", "capacity_reservation_group_id"}
    assert not unasked & set(cluster)
    name = "${azurerm_linux_virtual_machine_scale_set.cluster-pair.name}"
    data = cluster["document"]["data"]["azurerm_virtual_machine_scale_set"]
    assert data["instances-pair"]["name"] == name, "where the main host is read"
    config = cloud_config(cluster["custom_data"])
    check_cloud_config(config["text"])
    files = config["files"]
    assert "10.40.128.4:/srv/fairway/data /data " in files["/etc/fairway/mounts"]
    assert "SHARED=/data/fairway\n" in files["/etc/fairway/settings"]
    assert "memlock  unlimited" in files["/etc/security/limits.d/90-fairway.conf"]
    assert "RemoveIPC=no" in files["/etc/systemd/logind.conf.d/90-fairway.conf"]
    assert "Host lab-pair* 10.40.*\n" in files["/etc/ssh/ssh_config.d/50-fairway.conf"]
    assert image(alias).nfs_client_package in config["packages"]


def test_cluster_spot_nodes_are_deleted_or_deallocated_on_eviction(
    synthesize: Synthesize,
) -> None:
    cluster = _cluster(synthesize, spot=Spot(restore="1h", max_price=9.5))
    assert (cluster["priority"], cluster["eviction_policy"]) == ("Spot", "Delete")
    assert cluster["max_bid_price"] == 9.5
    assert cluster["spot_restore"] == {"enabled": True, "timeout": "PT60M"}
    assert cluster["os_disk"]["diff_disk_settings"]["option"] == "Local"
    for make in (_cluster, _box):
        made = make(synthesize, spot=Spot(eviction="deallocate"))
        assert (made["priority"], made["eviction_policy"]) == ("Spot", "Deallocate")
        assert "diff_disk_settings" not in made["os_disk"]


def test_cluster_image_id_replaces_marketplace_image_but_not_its_plan(
    synthesize: Synthesize,
) -> None:
    plan = {"name": "8_10-hpc-gen2", "product": "almalinux-hpc", "publisher": "almalinux"}
    for make, given in ((_cluster, {}), (_cluster, {"image_id": GALLERY}), (_box, {})):
        made = make(synthesize, image=image("almalinux-hpc-8"), **given)
        assert made["plan"] == plan
        assert made.get("source_image_id") == given.get("image_id")
        assert ("source_image_reference" in made) is (not given)
        # Terms are not accepted by default.
        assert "azurerm_marketplace_agreement" not in made["document"]["resource"]


def test_cluster_image_terms_are_accepted_once_before_all_clusters(synthesize: Synthesize) -> None:
    spec = _spec(H100, image=image("almalinux-hpc-8"), accept_terms=True)

    def build(stack: az.Stack) -> None:
        nodes = az.Identity(stack, "nodes")
        az.ScaleSetCluster(stack, "pair", nodes=2, identity=nodes, **spec)
        az.SingleVm(stack, "box", identity=nodes, **spec)

    resources = synthesize(build)["resource"]
    (terms,) = resources["azurerm_marketplace_agreement"].values()
    found = (terms["publisher"], terms["offer"], terms["plan"])
    assert found == ("almalinux", "almalinux-hpc", "8_10-hpc-gen2")
    waits = "azurerm_marketplace_agreement.terms-almalinux-hpc-8_10-hpc-gen2"
    for kind, name in (("_scale_set", "pair"), ("", "box")):
        machine = resources[f"azurerm_linux_virtual_machine{kind}"][f"cluster-{name}"]
        assert machine["depends_on"][0] == waits


class TestDisks:
    @pytest.mark.parametrize(
        ("size", "asked"),
        [(H100, {"local_os_disk": False}), (A100, {}), ("Standard_ND96is_H100_v5", {})],
    )
    def test_os_disk_is_managed_if_local_disk_is_too_small_or_on_request(
        self, synthesize: Synthesize, size: str, asked: dict[str, bool]
    ) -> None:
        disk = _cluster(synthesize, size, os_gib=512, **asked)["os_disk"]
        assert "diff_disk_settings" not in disk
        assert (disk["storage_account_type"], disk["disk_size_gb"]) == ("Premium_LRS", 512)
        assert _box(synthesize, size, os_gib=512, **asked)["os_disk"]["disk_size_gb"] == 512

    @pytest.mark.parametrize(
        ("size", "asked", "placed"),
        [
            (H100, {}, ("Ephemeral", 256)),
            (H100, {"os_disk": "managed"}, ("Managed", 256)),
            ("Standard_NC4as_T4_v3", {}, ("Managed", 256)),
            ("Standard_NC4as_T4_v3", {"os_disk_gib": 160}, ("Ephemeral", 160)),
            ("Standard_NC96ads_A100_v4", {"os_disk_gib": 160}, ("Ephemeral", 160)),
        ],
    )
    def test_os_disk_of_node_pool_is_ephemeral_if_local_disk_fits(
        self, synthesize: Synthesize, size: str, asked: dict[str, Any], placed: tuple[str, int]
    ) -> None:
        aks = SimpleNamespace(id="/clusters/k", version="1.36", upgrades=None, creation_stack=())
        subnet = az.SubnetRef("/subnets/kubernetes", IPv4Network("10.40.0.0/17"))
        given: dict[str, Any] = {"cluster": aks, "subnet": subnet, "size": size, **asked}
        resources = synthesize(lambda s: az.KubernetesNodePool(s, "nd", nodes=2, **given))[
            "resource"
        ]
        pool = resources["azurerm_kubernetes_cluster_node_pool"]["cluster-nd"]
        assert (pool["os_disk_type"], pool["os_disk_size_gb"]) == placed
        assert "kubelet_disk_type" not in pool, "a preview feature"


@pytest.mark.parametrize(
    ("size", "gpus", "adapters", "action"),
    [
        (H100, 8, 8, "replace"),
        ("Standard_HB176rs_v4", 0, 1, "reimage"),
        ("Standard_ND96isr_MI300X_v5", 0, 8, "restart"),
        (A100, 1, 0, "replace"),
    ],
)
def test_cluster_repair_checks_devices_of_the_size(
    synthesize: Synthesize,
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
    size: str,
    gpus: int,
    adapters: int,
    action: Any,
) -> None:
    cluster = _cluster(synthesize, size, repair=Repair(action=action), monitored=True)
    assert cluster["automatic_instance_repair"] == {
        "enabled": True,
        "action": action.capitalize(),
        "grace_period": "PT30M",
    }
    names = {extension["name"]: extension for extension in cluster["extension"]}
    assert set(names) == {"AzureMonitorLinuxAgent", "ApplicationHealthLinux"}
    settings = json.loads(names["ApplicationHealthLinux"]["settings"])
    assert settings["port"] == HEALTH_PORT
    assert 1024 < HEALTH_PORT < 32768, "below the ephemeral range"
    config = cloud_config(cluster["custom_data"])
    check_cloud_config(config["text"])
    files = config["files"]
    socket_unit = files["/etc/systemd/system/fairway-health.socket"]
    assert f"ListenStream=127.0.0.1:{HEALTH_PORT}\n" in socket_unit
    assert f"GPUS={gpus}\nADAPTERS={adapters}\n" in files["/etc/fairway/settings"]
    assert ["systemctl", "enable", "--now", "fairway-health.socket"] in config["runcmd"]


class TestHealthScript:
    """Answers of the health script on a machine with simulated devices."""

    @pytest.fixture
    def ask(self, tmp_path: Path) -> Callable[..., str]:
        """Queries a node with these devices and returns the entire response."""
        text = node_cloud_init(
            cluster="pair",
            mounts=[],
            nfs_client_package="nfs-common",
            host_patterns=["*"],
            health=NodeHealth(gpus=2, adapters=2),
        )
        files = files_of(text)
        for name in ("settings", "health"):
            path = next(path for path in files if path.endswith(name))
            (tmp_path / name).write_text(files[path])

        def ask(
            smi: str, states: list[str], links: str = "InfiniBand", *options: str, code: int = 0
        ) -> str:
            for number, state in enumerate(states):
                port = tmp_path / "fabric" / f"mlx5_ib{number}" / "ports" / "1"
                port.mkdir(parents=True)
                (port / "state").write_text(f"{state}\n")
                (port / "link_layer").write_text(f"{links}\n")
            executable(tmp_path / "nvidia-smi", smi)
            done = finished(
                ["bash", str(tmp_path / "health"), *options],
                input="GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                env={
                    "PATH": f"{tmp_path}:{os.environ['PATH']}",
                    "FAIRWAY_FABRIC": str(tmp_path / "fabric"),
                    "FAIRWAY_SETTINGS": str(tmp_path / "settings"),
                },
            )
            assert done.returncode == code
            return done.stdout

        return ask

    TWO = "echo 'GPU 0: H100 (UUID: a)'; echo '  MIG 1g'; echo 'GPU 1: H100 (UUID: b)'"
    UP = "4: ACTIVE"

    def test_health_script_reports_healthy_node_without_reason(
        self, ask: Callable[..., str]
    ) -> None:
        answer = ask(self.TWO, [self.UP, self.UP])
        assert answer.startswith("HTTP/1.1 200 OK\n")
        assert answer.endswith("\n\nwell")
        assert ask(self.TWO, [], "InfiniBand", "--reason") == "", "beside the same adapters"

    @pytest.mark.parametrize(
        ("smi", "states", "links", "reason"),
        [
            ("echo 'GPU 0: H100'", [UP, UP], "InfiniBand", "1 of 2 GPUs"),
            ("echo 'lost' >&2; exit 15", [UP, UP], "InfiniBand", "does not answer: lost"),
            (TWO, [UP, "1: DOWN"], "InfiniBand", "1 of 2 InfiniBand adapters are up"),
            (TWO, [UP, UP], "Ethernet", "0 of 2 InfiniBand adapters are up"),
            (TWO, [], "InfiniBand", "0 of 2 InfiniBand adapters are up"),
        ],
        ids=["a GPU is missing", "the driver", "a port is down", "no fabric", "no adapter"],
    )
    def test_health_script_reports_unhealthy_node_with_reason(
        self, ask: Callable[..., str], smi: str, states: list[str], links: str, reason: str
    ) -> None:
        answer = ask(smi, states, links)
        assert answer.startswith("HTTP/1.1 503 ")
        body = answer.partition("\n\n")[2]
        assert reason in body
        assert f"Content-Length: {len(body)}\n" in answer


class TestSingleVm:
    def test_single_vm_has_the_settings_of_a_node_and_a_separate_network_interface(
        self, synthesize: Synthesize, cloud_config: Callable[[str], dict[str, Any]]
    ) -> None:
        box = _box(synthesize)
        assert box["name"] == "lab-vm-box"
        assert box["computer_name"] == "lab-box"
        assert box["size"] == A100
        assert box["zone"] == "2"
        assert box["identity"] == {"type": "UserAssigned", "identity_ids": [NODES]}
        assert box["disable_password_authentication"] is True
        assert box["termination_notification"] == {"enabled": True, "timeout": "PT5M"}
        files = cloud_config(box["custom_data"])["files"]
        assert "10.40.128.4:/srv/fairway/data /data" in files["/etc/fairway/mounts"]
        interfaces = box["document"]["resource"]["azurerm_network_interface"]
        (configuration,) = interfaces["interface-box"]["ip_configuration"]
        assert configuration["subnet_id"] == "/subnets/compute"
        assert "public_ip_address_id" not in configuration
        assert interfaces["interface-box"]["accelerated_networking_enabled"] is True
        assert box["network_interface_ids"] == ["${azurerm_network_interface.interface-box.id}"]

    def test_single_vm_has_a_local_disk_and_the_monitoring_agent_if_asked(
        self, synthesize: Synthesize
    ) -> None:
        # An H100 node's local disk is large enough, but a stop would empty it.
        assert "diff_disk_settings" not in _box(synthesize, H100)["os_disk"]
        box = _box(synthesize, H100, local_os_disk=True, monitored=True)
        local = {"option": "Local", "placement": "ResourceDisk"}
        assert box["os_disk"]["diff_disk_settings"] == local
        extensions = box["document"]["resource"]["azurerm_virtual_machine_extension"]
        agent = extensions["machine-box-agent"]
        assert agent["virtual_machine_id"] == "${azurerm_linux_virtual_machine.cluster-box.id}"

    def test_single_vm_takes_the_arguments_of_scale_set_cluster_that_fit_one_node(self) -> None:
        cluster, box = (
            set(inspect.signature(kind.__init__).parameters)
            for kind in (az.ScaleSetCluster, az.SingleVm)
        )
        assert box - cluster == {"capacity_reservation_group_id", "signed_in"}
        assert cluster - box == {"nodes", "repair", "externally_scaled", "slurm"}


@pytest.mark.parametrize("size", [H100, "Standard_HB176rs_v4"])
def test_cluster_with_infiniband_is_one_placement_group(synthesize: Synthesize, size: str) -> None:
    cluster = _cluster(synthesize, size)
    assert cluster["single_placement_group"] is True
    assert cluster["overprovision"] is False
    assert cluster["upgrade_mode"] == "Manual"
    assert cluster["zones"] == ["2"]
    assert cluster["platform_fault_domain_count"] == 1
    assert cluster["network_interface"][0]["accelerated_networking_enabled"] is True
    assert cluster["sku"] == size
    assert cluster["instances"] == 2


@pytest.mark.parametrize("nodes", [0, 101])
def test_cluster_refuses_more_nodes_than_a_placement_group(
    synthesize: Synthesize, nodes: int
) -> None:
    finding = refused(lambda: _cluster(synthesize, nodes=nodes))
    assert (finding.id, finding.path) == ("bad-argument", "lab-test/pair.nodes")


LOCAL = {"local_os_disk": True}
STOPPED = "cluster `(pair|box)`: a local system disk is lost when Azure stops the node"


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            {"image": image("ubuntu-hpc-2404-rocm")},
            "`ubuntu-hpc-2404-rocm` does not fit",
            "use `ubuntu-hpc-2404`",
        ),
        (
            {"os_gib": 20},
            "cluster `(pair|box)`: image `ubuntu-hpc-2404` needs [0-9]+ GiB, not 20",
            "leave `os_gib` out",
        ),
        (
            {"os_gib": 4000, **LOCAL},
            f"cluster `(pair|box)`: the local disk of {H100} has no room for a system disk of 4000",
            "local_os_disk=False",
        ),
        ({**LOCAL, "spot": Spot(eviction="deallocate")}, STOPPED, 'use `eviction="delete"`'),
    ],
)
@pytest.mark.parametrize("make", [_cluster, _box])
def test_cluster_refuses_impossible_image_or_os_disk(
    synthesize: Synthesize, make: Any, arguments: dict[str, Any], said: str, hint: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        make(synthesize, H100, **arguments)
    assert hint in caught.value.findings[0].hint


def test_cluster_with_too_many_mounts_suggests_fewer_file_systems(
    synthesize: Synthesize, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(most: int, mounts: list[az.Mount]) -> UserError:
        monkeypatch.setattr(nodes, "LONGEST_PACKED", most)
        with pytest.raises(UserError, match="cluster `pair`: its nodes boot with") as caught:
            _cluster(synthesize, mounts=mounts)
        return caught.value

    (without,) = re.findall(r"with (\d+) bytes", str(refused(1000, [])))
    many = [replace(MOUNT, name=f"m{each}", path=f"/m{each}") for each in range(20)]
    finding = refused(int(without) + 50, many).findings[0]
    assert finding.hint == "mount fewer file systems"
    _cluster(synthesize, mounts=[])


@pytest.mark.parametrize("externally_scaled", [False, True])
def test_cluster_without_mounts_has_valid_cloud_config(
    synthesize: Callable[..., dict[str, Any]],
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
    externally_scaled: bool,
) -> None:
    nodes, group = int(not externally_scaled), f"{COMPUTE}/proximityPlacementGroups/near"
    given = {
        "nodes": nodes,
        "externally_scaled": externally_scaled,
        "proximity_placement_group_id": group,
    }
    cluster = _cluster(partial(synthesize, zone=None), mounts=[], **given)
    assert "zones" not in cluster
    assert cluster["proximity_placement_group_id"] == group
    assert cluster["instances"] == nodes
    # Otherwise Terraform would revert a number that something else has changed.
    assert cluster.get("lifecycle") == (
        {"ignore_changes": ["instances"]} if externally_scaled else None
    )
    config = cloud_config(cluster["custom_data"])
    check_cloud_config(config["text"])
    files = config["files"]
    assert files["/etc/fairway/mounts"].strip() == ""
    assert "SHARED=''\n" in files["/etc/fairway/settings"]
