"""An NFS server: lasting disks, a backup, and the script that stripes the disks."""

import os
import shutil
import subprocess
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from programs import finished

import fairway_constructs as az
from fairway_core.environment.filesystems.nfs_server import Disks

Synthesize = Callable[..., dict[str, Any]]

KEY = "ssh-ed25519 AAAA me"
SUBNET = az.SubnetRef("/s", IPv4Network("10.41.0.0/24"), nodes=(IPv4Network("10.40.0.0/17"),))
SPEC: dict[str, Any] = {
    "size": "Standard_D64s_v6",
    "path": "/data",
    "disks": Disks(count=3, gib=512, iops=4000, mbps=300),
}


@pytest.fixture(scope="module")
def server(synthesize: Synthesize) -> tuple[az.NfsServer, dict[str, Any]]:
    """Returns a server and its resources."""
    made: list[az.NfsServer] = []

    def build(stack: az.Stack) -> None:
        made.append(az.NfsServer(stack, "data", subnet=SUBNET, **SPEC))

    resources = synthesize(build)["resource"]
    return made[0], resources


@pytest.fixture
def resources(server: tuple[az.NfsServer, dict[str, Any]]) -> dict[str, Any]:
    return server[1]


def test_nfs_server_disks_are_separate_resources_in_the_zone_of_the_vm(
    resources: dict[str, Any],
) -> None:
    disks = resources["azurerm_managed_disk"]
    assert list(disks) == ["nfs-data-disk-0", "nfs-data-disk-1", "nfs-data-disk-2"]
    machine = resources["azurerm_linux_virtual_machine"]["nfs-data-server"]
    for number, disk in enumerate(disks.values()):
        assert disk["name"] == f"lab-disk-data-{number}"
        assert disk["zone"] == machine["zone"] == "2"
        assert disk["storage_account_type"] == "PremiumV2_LRS"
        assert (disk["disk_size_gb"], disk["disk_iops_read_write"]) == (512, 4000)
        assert disk["disk_mbps_read_write"] == 300
        assert disk["public_network_access_enabled"] is False
        attachment = resources["azurerm_virtual_machine_data_disk_attachment"]
        assert (
            attachment[f"nfs-data-attachment-{number}"].items()
            >= {
                "lun": number,
                "caching": "None",
                "managed_disk_id": f"${{azurerm_managed_disk.nfs-data-disk-{number}.id}}",
            }.items()
        )


def test_nfs_server_vm_accepts_only_keys_and_has_no_public_address(
    resources: dict[str, Any],
) -> None:
    machine = resources["azurerm_linux_virtual_machine"]["nfs-data-server"]
    assert machine["disable_password_authentication"] is True
    assert machine["admin_ssh_key"] == [{"username": "azureuser", "public_key": KEY}]
    assert machine["disk_controller_type"] == "NVMe", "Dsv6 has no other"
    assert machine["source_image_reference"]["version"] != "latest"
    (configuration,) = resources["azurerm_network_interface"]["nfs-data-nic"]["ip_configuration"]
    assert "public_ip_address_id" not in configuration


def test_nfs_server_exports_throughput_and_mount(
    server: tuple[az.NfsServer, dict[str, Any]],
) -> None:
    made, _ = server
    assert (made.throughput_mbps, made.limited_by) == (900, "its disks")
    assert (made.mount.type, made.mount.path) == ("nfs", "/data")
    assert made.mount.source.endswith(":/srv/fairway/data")
    assert "vers=4.1" in made.mount.options.split(",")
    assert not made.mount.root, "the server refuses root"


def test_nfs_server_cloud_config_is_valid_with_expected_files(
    resources: dict[str, Any],
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
) -> None:
    machine = resources["azurerm_linux_virtual_machine"]["nfs-data-server"]
    config = cloud_config(machine["custom_data"])
    check_cloud_config(config["text"])
    files = config["files"]
    assert files["/etc/fairway/settings"] == "NAME=data\nDISKS=3\nEXPORT=/srv/fairway/data\n"
    assert '"^nfs-kernel-server$";' in files["/etc/apt/apt.conf.d/60fairway"]
    assert "{restart} = 'l'" in files["/etc/needrestart/conf.d/60-fairway.conf"]
    assert "threads=128\n" in files["/etc/nfs.conf.d/fairway.conf"], "four a core of 32"
    assert files["/etc/exports.d/fairway.exports"].strip() == (
        "/srv/fairway/data 10.40.0.0/17(rw,sync,root_squash,no_subtree_check,mountpoint)"
    )


TOOLS = {
    "losetup": "mount",
    "unshare": "util-linux",
    "mkfs.xfs": "xfsprogs",
    "xfs_growfs": "xfsprogs",
    "vgcreate": "lvm2",
    "exportfs": "nfs-kernel-server",
    "mkfs.ext4": "e2fsprogs",
}


def _as_root() -> list[str]:
    """Returns a prefix that runs a command as root; the command may still fail."""
    return (
        [] if os.geteuid() == 0 or shutil.which("sudo") is None else ["sudo", "--non-interactive"]
    )


def _what_is_missing() -> str:
    """Returns the command or cause that prevents the script from running here, or ""."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    packages = {package for tool, package in TOOLS.items() if not shutil.which(tool, path=path)}
    if packages:
        return f"apt-get install -y {' '.join(sorted(packages))}"
    command = [*_as_root(), "test", "-w", "/dev/loop-control"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return f"loop devices are root's: sudo modprobe loop; sudo .venv/bin/pytest {__file__}"
    if "xfs" not in Path("/proc/filesystems").read_text().split():
        return "the kernel has no XFS: modprobe xfs"
    return ""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Runs the driver and returns the facts that it printed, by step and name."""
    missing = _what_is_missing()
    if missing:
        pytest.skip(missing)
    root = Path(__file__).resolve().parents[3]
    script = root / "constructs" / "fairway_constructs" / "cloud_init" / "nfs_server.sh"
    driver = Path(__file__).with_name("loop_devices.sh")
    folder = tmp_path_factory.mktemp("disks")
    done = finished(
        [*_as_root(), "unshare", "--mount", "bash", str(driver), str(script), str(folder)]
    )
    assert done.returncode == 0, done.stderr
    log = [line[4:] for line in done.stdout.splitlines() if line.startswith("log ")]
    pairs = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return {**pairs, "log": "\n".join(log), "said": (folder / "refused").read_text()}


def _bytes(told: dict[str, str], step: str) -> int:
    blocks, size = told[f"{step}.bytes"].split("*")
    return int(blocks) * int(size)


def test_nfs_script_makes_blank_disks_one_exported_file_system(told: dict[str, str]) -> None:
    assert told["first.disks"] == "2"
    assert told["first.mode"] == "1777"
    assert told["first.exported"] == "1"
    assert "--stripes 2 --stripesize 256k" in told["log"].splitlines()[0]
    commands = [line.split()[0] for line in told["log"].splitlines()]
    assert commands == ["lvcreate", "mkfs.xfs", "lvextend"]


@pytest.mark.parametrize("step", ["again", "rebooted"])
def test_nfs_script_run_again_changes_nothing(told: dict[str, str], step: str) -> None:
    assert told[f"{step}.uuid"] == told["first.uuid"]
    assert told[f"{step}.kept"] == "precious"
    assert told[f"{step}.mode"] == "750", "what people change stays"
    assert told[f"{step}.fstab"] == "1"
    assert told[f"{step}.exported"] == "1"
    assert _bytes(told, step) == _bytes(told, "first")


def test_nfs_script_grows_by_a_further_disk_and_keeps_data(told: dict[str, str]) -> None:
    assert told["grown.disks"] == "3"
    assert told["grown.uuid"] == told["first.uuid"]
    assert told["grown.kept"] == "precious"
    assert _bytes(told, "grown") > 1.5 * _bytes(told, "first")


def test_nfs_script_refuses_a_disk_that_is_not_blank(told: dict[str, str]) -> None:
    assert told["refused.status"] == "1"
    assert "nothing was changed" in told["said"]
    assert told["refused.type"] == "ext4"
    assert told["refused.disks"] == "3"
    assert told["refused.kept"] == "precious"
