"""Clusters that stop themselves: what their machines boot with, and that it may do what it does."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from fairway_core.findings import UserError
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.deployment import Deployment, machine_body, scale_set_body
from fairway_simulator.azure.imds import MetadataService
from fairway_simulator.azure.resource_ids import ResourcePath

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Written = Callable[..., dict[str, dict[str, Any]]]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"
LAB = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ['{KEY}']}}
filesystems:
  data: {{kind: nfs_server, path: /data}}
clusters:
  box: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1, idle: 2h}}
  pair:
    engine: ssh
    size: Standard_HB176rs_v4
    nodes: 2
    os_disk: managed
    mounts: [data]
    idle: 30m
  free: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}
"""
_VM, _SET = "azurerm_linux_virtual_machine", "azurerm_linux_virtual_machine_scale_set"
# Nobody is logged in.
_LOGINCTL = "#!/bin/sh\n"


def _files(boot: str) -> dict[str, dict[str, Any]]:
    found = YAML(typ="safe", pure=True).load(boot)
    return {each["path"]: each for each in found["write_files"]}


def test_idle_stop_role_allows_deallocation_of_its_machines_only(written: Written) -> None:
    resources = written(LAB)["compute"]["resource"]
    (role,) = resources["azurerm_role_definition"].values()
    verbs = {each.rpartition("/")[0] for each in role["permissions"][0]["actions"]}
    assert verbs == {
        "Microsoft.Compute/virtualMachines/deallocate",
        "Microsoft.Compute/virtualMachineScaleSets/deallocate",
    }
    grants = {
        name: grant["scope"]
        for name, grant in resources["azurerm_role_assignment"].items()
        if name.startswith("idle-")
    }
    assert grants == {
        "idle-box": f"${{{_VM}.cluster-box.id}}",
        "idle-pair": f"${{{_SET}.cluster-pair.id}}",
    }
    without = written(LAB.replace(", idle: 2h", "").replace("    idle: 30m\n", ""))["compute"]
    assert "azurerm_role_definition" not in without["resource"]


@pytest.mark.parametrize("cluster", ["box", "pair"])
def test_idle_stop_boot_data_stops_the_machine(
    written: Written, tmp_path: Path, cluster: str
) -> None:
    """The program of the boot data itself, with nothing else of Fairway's, by the role that the
    stack gives to the machine's identity."""
    with ControlPlane(tmp_path) as plane:
        deployed = Deployment(written(LAB), plane.host)
        machine = deployed.resource(_VM if cluster == "box" else _SET, f"cluster-{cluster}")
        body = machine_body(machine) if cluster == "box" else scale_set_body(machine)
        plane.store.put(ResourcePath(machine.id), body)
        plane.rights = deployed.rights
        files = _files(deployed.boot_data(machine))
        _unpack(files, tmp_path / "lib")
        settings = json.loads(files["/etc/fairway/idle.json"]["content"])
        assert settings["after"] == {"box": 7200.0, "pair": 1800.0}[cluster]
        assert (
            settings["folder"]
            == {"box": "/home/azureuser/fairway", "pair": "/data/fairway"}[cluster]
        )
        assert (settings["mount"], settings["others"]) == {
            "box": ("", False),
            "pair": ("/data", True),
        }[cluster]
        settings |= {"arm": f"https://{plane.host}", "folder": str(tmp_path), "mount": ""}
        own = machine.id if cluster == "box" else f"{machine.id}/virtualMachines/0"
        with MetadataService(plane.store, own) as metadata:
            done = _run(tmp_path, settings, plane, metadata.url)
            assert done.stdout.startswith("fairway-idle: idle for 0 of"), done.stderr
            assert plane.requests == []
            then = time.clock_gettime(time.CLOCK_BOOTTIME) - settings["after"] - 60
            (tmp_path / "run" / "used").write_text(json.dumps(then))
            if cluster == "pair":
                hosts = tmp_path / "clusters" / "pair" / "hosts"
                hosts.mkdir(parents=True)
                (hosts / os.uname().nodename).write_text("10.40.0.4\n")
            done = _run(tmp_path, settings, plane, metadata.url)
            assert done.stdout.endswith(": it stops\n"), done.stderr
            ((method, path, status),) = plane.requests
            assert (method, path.partition("?")[0], status) == (
                "POST",
                f"{machine.id}/deallocate",
                202,
            )
            plane.rights = deployed.rights.without(f"idle-{cluster}")
            done = _run(tmp_path, settings, plane, metadata.url)
            assert "Azure does not stop this machine" in done.stderr
            assert done.returncode == 1


def test_idle_stop_timer_looks_each_minute(written: Written) -> None:
    compute = written(LAB)["compute"]["resource"]
    boot = base64.b64decode(compute[_VM]["cluster-box"]["custom_data"]).decode()
    files = _files(boot)
    assert "OnUnitInactiveSec=1min" in files["/etc/systemd/system/fairway-idle.timer"]["content"]
    service = files["/etc/systemd/system/fairway-idle.service"]["content"]
    assert "User=azureuser\n" in service
    (package,) = (path for path in files if path.endswith(".tar.bz2"))
    folder = package.rpartition("/")[0]
    assert f"Environment=PYTHONPATH={folder}\n" in service
    commands = YAML(typ="safe", pure=True).load(boot)["runcmd"]
    assert ["python3", "-m", "tarfile", "-e", package, folder] in commands
    assert ["systemctl", "enable", "--now", "fairway-idle.timer"] in commands
    free = base64.b64decode(compute[_VM]["cluster-free"]["custom_data"]).decode()
    assert "idle" not in free


def test_idle_stop_with_user_accounts_looks_at_their_queue(written: Written) -> None:
    people = f"users: [{{name: ada, keys: ['{KEY}']}}]"
    text = LAB.replace("access: {", f"access: {{{people}, ")
    compute = written(text)["compute"]["resource"]
    boot = base64.b64decode(compute[_VM]["cluster-box"]["custom_data"]).decode()
    settings = json.loads(_files(boot)["/etc/fairway/idle.json"]["content"])
    assert (settings["folder"], settings["mount"]) == ("/var/lib/fairway-queue", "")


def _unpack(files: dict[str, dict[str, Any]], folder: Path) -> None:
    (packed,) = (each for path, each in files.items() if path.endswith(".tar.bz2"))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed["content"]))) as tar:
        tar.extractall(folder, filter="data")


def _run(
    folder: Path, settings: dict[str, Any], plane: ControlPlane, metadata: str
) -> subprocess.CompletedProcess[str]:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "run").mkdir(exist_ok=True)
    (folder / "bin" / "loginctl").write_text(_LOGINCTL)
    (folder / "bin" / "loginctl").chmod(0o755)
    (folder / "idle.json").write_text(json.dumps(settings))
    words = [sys.executable, "-B", "-m", "fairway_boot.idle_stop"]
    return subprocess.run(
        [*words, str(folder / "idle.json"), str(folder / "run")],
        env={
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(folder / "lib"),
            "FAIRWAY_METADATA_URL": metadata,
            "SSL_CERT_FILE": str(plane.authority),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("idle: 2h", "idle: 5m", "nodes can stop after 10 idle minutes at the earliest"),
        ("idle: 2h", "idle: 90s", "nodes can stop after 10 idle minutes at the earliest"),
        ("idle: 2h", "idle: 630s", "in whole minutes"),
        ("idle: 2h", "idle: soon", "is not a span of time"),
        ("    os_disk: managed\n", "    os_disk: local\n", "loses its system disk"),
        ("    idle: 30m", "    idle: 30m\n    repair: {}", "leave `repair:` or `idle:` out"),
        (
            "    idle: 30m",
            "    idle: 30m\n    image: almalinux-hpc-9",
            "needs Python 3.10, and `almalinux-hpc-9` has an older one",
        ),
        (
            "  free: {engine: ssh,",
            "  free: {engine: slurm, idle: 1h, mounts: [data],",
            "set when Slurm deletes idle nodes: `slurm: {idle: 10m}`",
        ),
        (
            "  free: {engine: ssh,",
            "  free: {engine: batch, idle: 1h,",
            "`nodes: {min: 0, max: 8}` with `autoscale: pending_tasks`",
        ),
        (
            "filesystems:\n  data: {kind: nfs_server, path: /data}",
            "network: {egress: none}\nfilesystems:\n  data: {kind: azure_files, path: /data}",
            "could not ask Azure to stop it, as `egress: none` blocks that",
        ),
    ],
)
def test_idle_stop_settings_that_are_invalid_are_refused_at_their_line(
    written: Written, old: str, new: str, said: str
) -> None:
    assert old in LAB
    with pytest.raises(UserError) as refused:
        written(LAB.replace(old, new))
    finding = refused.value.findings[0]
    assert said in f"{finding.message} {finding.hint}"
    assert finding.location is not None
