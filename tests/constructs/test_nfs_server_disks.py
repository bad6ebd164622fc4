"""The file server's script, run for real on loop devices: it makes, keeps and grows a volume."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

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
    """What makes a command root's; it may still fail."""
    return (
        [] if os.geteuid() == 0 or shutil.which("sudo") is None else ["sudo", "--non-interactive"]
    )


def _what_is_missing() -> str:
    """Why the script cannot run here, and what to type; empty where it can."""
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
    """What the run has found at each step, by step and name."""
    missing = _what_is_missing()
    if missing:
        pytest.skip(missing)
    root = Path(__file__).resolve().parents[2]
    script = root / "constructs" / "fairway_constructs" / "cloud_init" / "nfs_server.sh"
    driver = Path(__file__).with_name("loop_devices.sh")
    folder = tmp_path_factory.mktemp("disks")
    done = subprocess.run(
        [*_as_root(), "unshare", "--mount", "bash", str(driver), str(script), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    log = [line[4:] for line in done.stdout.splitlines() if line.startswith("log ")]
    pairs = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return {**pairs, "log": "\n".join(log), "said": (folder / "refused").read_text()}


def _bytes(told: dict[str, str], step: str) -> int:
    blocks, size = told[f"{step}.bytes"].split("*")
    return int(blocks) * int(size)


def test_blank_disks_become_one_exported_file_system(told: dict[str, str]) -> None:
    assert told["first.disks"] == "2"
    assert told["first.mode"] == "1777"
    assert told["first.exported"] == "1"
    assert "--stripes 2 --stripesize 256k" in told["log"].splitlines()[0]


@pytest.mark.parametrize("step", ["again", "rebooted"])
def test_running_again_changes_nothing(told: dict[str, str], step: str) -> None:
    assert told[f"{step}.uuid"] == told["first.uuid"]
    assert told[f"{step}.kept"] == "precious"
    assert told[f"{step}.mode"] == "750", "what people change stays"
    assert told[f"{step}.fstab"] == "1"
    assert told[f"{step}.exported"] == "1"
    assert _bytes(told, step) == _bytes(told, "first")


def test_a_further_disk_makes_it_larger_and_keeps_what_it_holds(told: dict[str, str]) -> None:
    assert told["grown.disks"] == "3"
    assert told["grown.uuid"] == told["first.uuid"]
    assert told["grown.kept"] == "precious"
    assert _bytes(told, "grown") > 1.5 * _bytes(told, "first")


def test_a_file_system_is_made_once(told: dict[str, str]) -> None:
    commands = [line.split()[0] for line in told["log"].splitlines()]
    assert commands == ["lvcreate", "mkfs.xfs", "lvextend"]


def test_a_disk_that_holds_anything_is_left_alone(told: dict[str, str]) -> None:
    assert told["refused.status"] == "1"
    assert "nothing was changed" in told["said"]
    assert told["refused.type"] == "ext4"
    assert told["refused.disks"] == "3"
    assert told["refused.kept"] == "precious"
