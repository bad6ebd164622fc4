"""The boot data of scheduler and nodes of Slurm, against cloud-init's schema and shellcheck."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fairway_boot
from fairway_constructs.cloud_init import nfs_mount, node_cloud_init
from fairway_constructs.cloud_init.people import Accounts
from fairway_constructs.cloud_init.slurm import (
    SlurmNode,
    login_cloud_init,
    scheduler_cloud_init,
    scheduler_settings,
)
from fairway_constructs.slurm.configuration import (
    SlurmPartition,
    node_facts,
    packages_of,
    partition,
    slurm_cluster,
)
from fairway_core import archives
from fairway_core.catalog import vm_size
from fairway_core.environment import Person, Slurm
from fairway_core.environment.homes import Homes
from fairway_core.target import NodeRange

if TYPE_CHECKING:
    from collections.abc import Callable

MOUNTS = [
    nfs_mount(name=name, server="10.0.0.4", export=f"/srv/{name}", path=f"/{name}")
    for name in ("data", "home")
]


def _spec(size: str, *, spot: bool = False) -> SlurmPartition:
    return SlurmPartition(size=size, nodes=NodeRange(min=0, max=4), spot=spot)


def test_azures_agent_leaves_the_name_of_a_node_alone() -> None:
    text = (files("fairway_constructs") / "cloud_init/slurm_node.yaml.j2").read_text()
    (edit,) = re.findall(r"\[sed, -i, (\S+), /etc/waagent.conf\]", text)
    before = "Provisioning.MonitorHostName=y\nProvisioning.MonitorHostNamePeriod=60\n"
    done = subprocess.run(["sed", edit], input=before, capture_output=True, text=True, check=True)
    assert done.stdout == before.replace("HostName=y", "HostName=n")


def _scheduler(accounting: bool) -> str:
    partitions = {"nd": _spec("Standard_ND96isr_H100_v5"), "cpu": _spec("Standard_HB176rs_v4")}
    cluster = slurm_cluster(
        "lab", Slurm(accounting=accounting), partitions, host="lab-s", address="10.0.0.4"
    )
    return scheduler_cloud_init(
        cluster,
        settings=scheduler_settings(
            scale_sets={"nd": ("/subscriptions/s", 0)},
            client_id="c",
            vault="https://v/",
            idle=600,
        ),
        mounts=MOUNTS,
        nfs_client_package="nfs-common",
        host_patterns=["10.0.*", "nd-*"],
    )


@pytest.mark.parametrize("accounting", [True, False])
def test_a_scheduler_boots_with_valid_data(
    check_cloud_config: Callable[[str], None], accounting: bool
) -> None:
    text = _scheduler(accounting)
    check_cloud_config(text)
    assert ("mariadb" in text.partition("write_files")[0]) is accounting


def test_another_comment_of_boot_code_leaves_a_schedulers_data_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terraform would make the scheduler anew."""
    copy = tmp_path / "fairway_boot"
    shutil.copytree(Path(fairway_boot.__file__).parent, copy)
    before, program = _scheduler(accounting=True), copy / "slurm/power.py"
    text = program.read_text()
    monkeypatch.setattr(archives, "_BOOT", copy)
    program.write_text(text.replace('"""Starts', '"""Starts, and ends,') + "\n# the end\n")
    assert _scheduler(accounting=True) == before
    program.write_text(f"{text}\nend = 1\n")
    assert _scheduler(accounting=True) != before


def test_a_node_for_people_boots_with_valid_data(
    check_cloud_config: Callable[[str], None],
) -> None:
    person = Person(name="ada", keys=("ssh-ed25519 AAAA ada",))
    accounts = Accounts(people=[person], homes=Homes("/home", "/home"), fenced=True)
    node = SlurmNode(
        partition="nd",
        scheduler="10.0.0.4",
        vault="https://v/",
        client_id="c",
        packages=packages_of(Slurm()),
        facts=node_facts(vm_size("Standard_HB176rs_v4"), MOUNTS),
    )
    text = node_cloud_init(
        cluster="nd",
        mounts=MOUNTS,
        nfs_client_package="nfs-common",
        host_patterns=["10.0.*", "nd-*"],
        announced=False,
        people=accounts.setup_script(),
        template="slurm_node.yaml.j2",
        more=node.extension(),
    )
    check_cloud_config(text)
    assert "fairway_boot.slurm.people tokens 643" in text
    assert "http://127.0.0.1:643" in text


def test_a_login_node_boots_with_valid_data(check_cloud_config: Callable[[str], None]) -> None:
    partitions = {name: _spec("Standard_ND96isr_H100_v5") for name in ("nd", "spot")}
    text = login_cloud_init(
        slurm_cluster("lab", Slurm(), partitions, host="lab-s", address="10.0.0.4"),
        vault="https://v/",
        client_id="c",
        mounts=MOUNTS,
        nfs_client_package="nfs-common",
        host_patterns=["10.0.*", "nd-*"],
    )
    check_cloud_config(text)
    packages = text.partition("write_files")[0]
    assert "slurm-client" in packages
    assert "slurmctld" not in packages
    assert "slurmd\n" not in packages
    remarks = [line for line in text.splitlines() if line.strip().startswith("# HPC images")]
    assert remarks == [], "what the document says to its reader is not sent"
    assert "SwitchName=spot Nodes=" in text
    assert "/etc/slurm/slurmdbd.conf" not in text, "it may hold a password"


@pytest.mark.parametrize(
    "size", ["Standard_ND96isr_H100_v5", "Standard_HB176rs_v4", "Standard_ND96isr_MI300X_v5"]
)
def test_a_node_boots_with_valid_data(check_cloud_config: Callable[[str], None], size: str) -> None:
    node = SlurmNode(
        partition="nd",
        scheduler="10.0.0.4",
        vault="https://v/",
        client_id="c",
        packages=packages_of(Slurm()),
        facts=node_facts(vm_size(size), MOUNTS),
    )
    text = node_cloud_init(
        cluster="nd",
        mounts=MOUNTS,
        nfs_client_package="nfs-common",
        host_patterns=["10.0.*", "nd-*"],
        announced=False,
        template="slurm_node.yaml.j2",
        more=node.extension(),
    )
    check_cloud_config(text)
    assert "preserve_hostname: true" in text


@pytest.mark.parametrize(
    ("size", "sockets", "cores", "threads"),
    [
        ("Standard_ND96isr_H100_v5", 2, 48, 1),
        ("Standard_HB176rs_v4", 4, 44, 1),
        ("Standard_NC40ads_H100_v5", 1, 40, 1),
    ],
)
def test_cores_are_those_of_the_catalogue(
    size: str, sockets: int, cores: int, threads: int
) -> None:
    found = partition("x", _spec(size), default=False)
    assert found.sockets * (found.cores_per_socket or 0) * found.threads_per_core == found.cpus
    assert (found.sockets, found.cores_per_socket, found.threads_per_core) == (
        sockets,
        cores,
        threads,
    )


def test_a_partition_says_what_its_nodes_have() -> None:
    found = partition("spot", _spec("Standard_ND96asr_v4", spot=True), default=True)
    assert found.features == ("nd96asr_v4", "ib", "spot")
    assert found.gpus is not None
    assert found.gpus.files[:2] == ("/dev/nvidia0", "/dev/nvidia1")
    assert found.gpus.numa == (1, 1, 0, 0, 3, 3, 2, 2)
    assert found.memory_mib == 900 * 1024 * 95 // 100
    some = SlurmPartition(size="Standard_HB176rs_v4", nodes=NodeRange(min=2, max=3))
    kept = partition("x", some, default=True)
    assert (kept.count, kept.kept, kept.gpus) == (3, 2, None)
