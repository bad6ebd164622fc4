"""Boot configuration of Slurm's machines, and the source of its packages."""

import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from ruamel.yaml import YAML
from tests.stacks.documents import files_of

import fairway_boot
import fairway_constructs as az
from fairway_constructs.cloud_init import node_cloud_init
from fairway_constructs.cloud_init.mounts import nfs_mount
from fairway_constructs.cloud_init.slurm import login_cloud_init, scheduler_cloud_init
from fairway_constructs.clusters.slurm.configuration import (
    node_facts,
    packages_of,
    partition,
    slurm_cluster,
)
from fairway_core import archives
from fairway_core.catalog import images, vm_size
from fairway_core.environment import Person, Slurm
from fairway_core.environment.filesystems.home_directories import HomeDirectories
from fairway_core.findings import UserError
from fairway_core.slurm import DISTRIBUTION, SlurmCluster
from fairway_core.target import NodeRange

SIZE = "Standard_ND96isr_H100_v5"
MOUNTS = [
    nfs_mount(name=name, server="10.0.0.4", export=f"/srv/{name}", path=f"/{name}")
    for name in ("data", "home")
]
SERVER: dict[str, Any] = {
    "vault": "https://v/",
    "client_id": "c",
    "mounts": MOUNTS,
    "addresses": "10.0.*",
}


def _spec(size: str, *, spot: bool = False) -> az.SlurmPartition:
    return az.SlurmPartition(size=size, nodes=NodeRange(min=0, max=4), spot=spot)


def _cluster(spec: Slurm) -> SlurmCluster:
    partitions = {"nd": _spec(SIZE), "cpu": _spec("Standard_HB176rs_v4")}
    return slurm_cluster("lab", spec, partitions, host="lab-s", address="10.0.0.4")


def _scheduler(spec: Slurm) -> str:
    """Returns the boot data of a scheduler."""
    scale_sets = {"nd": "/subscriptions/s"}
    return scheduler_cloud_init(_cluster(spec), scale_sets=scale_sets, **SERVER)


def _login(spec: Slurm) -> str:
    """Returns the boot data of a login node."""
    return login_cloud_init(_cluster(spec), **SERVER)


def _node(spec: Slurm, size: str = SIZE, people: str = "") -> str:
    """Returns the boot data of a node."""
    node = az.SlurmNode(
        partition="nd",
        scheduler="10.0.0.4",
        vault="https://v/",
        client_id="c",
        packages=packages_of(spec),
        facts=node_facts(vm_size(size), MOUNTS),
    )
    return node_cloud_init(
        cluster="nd",
        nfs_client_package="nfs-common",
        announced=False,
        people=people,
        template="slurm_node.yaml.j2",
        more=node.extension(),
        mounts=MOUNTS,
        host_patterns=["10.0.*", "nd-*"],
    )


def test_slurm_node_disables_hostname_monitor_of_azure_agent() -> None:
    text = (files("fairway_constructs") / "cloud_init/slurm_node.yaml.j2").read_text()
    (edit,) = re.findall(r"\[sed, -i, (\S+), /etc/waagent.conf\]", text)
    before = "Provisioning.MonitorHostName=y\nProvisioning.MonitorHostNamePeriod=60\n"
    done = finished(["sed", edit], input=before, check=True)
    assert done.stdout == before.replace("HostName=y", "HostName=n")


def test_slurm_scheduler_boot_data_ignores_comments_in_boot_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Terraform would replace the scheduler."""
    copy = tmp_path / "fairway_boot"
    shutil.copytree(Path(fairway_boot.__file__).parent, copy)
    before, program = _scheduler(Slurm()), copy / "slurm/power.py"
    text = program.read_text()
    monkeypatch.setattr(archives, "_BOOT", copy)
    program.write_text(text.replace('"""Starts', '"""Starts, and ends,') + "\n# the end\n")
    assert _scheduler(Slurm()) == before
    program.write_text(f"{text}\nend = 1\n")
    assert _scheduler(Slurm()) != before


@pytest.mark.parametrize("accounting", [True, False])
def test_slurm_scheduler_cloud_config_is_valid(
    check_cloud_config: Callable[[str], None], accounting: bool
) -> None:
    text = _scheduler(Slurm(accounting=accounting))
    check_cloud_config(text)
    assert ("mariadb" in text.partition("write_files")[0]) is accounting
    assert "/var/log/slurm/fairway.log {" in text, "it is rotated"


def test_slurm_login_node_cloud_config_is_valid_without_daemons(
    check_cloud_config: Callable[[str], None],
) -> None:
    text = _login(Slurm())
    check_cloud_config(text)
    packages = text.partition("write_files")[0]
    assert "slurm-client" in packages
    assert "slurmctld" not in packages
    assert "slurmd\n" not in packages
    remarks = [line for line in text.splitlines() if line.strip().startswith("# HPC images")]
    assert remarks == [], "what the document says to its reader is not sent"
    assert "SwitchName=cpu Nodes=" in text
    assert "/etc/slurm/slurmdbd.conf" not in text, "it is the scheduler's alone"


@pytest.mark.parametrize("size", [SIZE, "Standard_HB176rs_v4", "Standard_ND96isr_MI300X_v5"])
def test_slurm_node_cloud_config_is_valid(
    check_cloud_config: Callable[[str], None], size: str
) -> None:
    person = Person(name="ada", keys=("ssh-ed25519 AAAA ada",))
    accounts = az.Accounts(people=[person], homes=HomeDirectories("/home", "/home"), fenced=True)
    for people in ("", accounts.setup_script()):
        text = _node(Slurm(), size, people)
        check_cloud_config(text)
        assert "preserve_hostname: true" in text
        assert ("fairway_boot.slurm.people tokens 643" in text) is bool(people)
        assert ("http://127.0.0.1:643" in text) is bool(people)


@pytest.mark.parametrize(
    ("size", "sockets", "cores", "threads"),
    [
        ("Standard_ND96isr_H100_v5", 2, 48, 1),
        ("Standard_HB176rs_v4", 4, 44, 1),
        ("Standard_NC40ads_H100_v5", 1, 40, 1),
    ],
)
def test_slurm_partition_cores_equal_those_of_the_catalog(
    size: str, sockets: int, cores: int, threads: int
) -> None:
    found = partition("x", _spec(size), default=False)
    assert found.sockets * (found.cores_per_socket or 0) * found.threads_per_core == found.cpus
    assert (found.sockets, found.cores_per_socket, found.threads_per_core) == (
        sockets,
        cores,
        threads,
    )


def test_slurm_partition_lists_features_gpus_and_memory_of_nodes() -> None:
    found = partition("spot", _spec("Standard_ND96asr_v4", spot=True), default=True)
    assert found.features == ("nd96asr_v4", "ib", "spot")
    assert found.gpus is not None
    assert found.gpus.files[:2] == ("/dev/nvidia0", "/dev/nvidia1")
    assert found.gpus.numa == (1, 1, 0, 0, 3, 3, 2, 2)
    assert found.memory_mib == 900 * 1024 * 95 // 100
    some = az.SlurmPartition(size="Standard_HB176rs_v4", nodes=NodeRange(min=2, max=3))
    kept = partition("x", some, default=True)
    assert (kept.count, kept.kept, kept.gpus) == (3, 2, None)


SLURM = "23.11.4-1.2ubuntu5"

# The image's /etc/apt/preferences.d/slurm-repository-pin-990, verbatim.
# Source: Azure/azhpc-images 8e9d055f (2026-07-29), components/slurm-repo/slurm-u.pin.
PIN = """\
Package: slurm-smd*
Pin: origin "packages.microsoft.com"
Pin-Priority: 990

Package: pmix
Pin: origin "packages.microsoft.com"
Pin-Priority: 990

Package: slurm*
Pin: origin *ubuntu.com*
Pin-Priority: -1

Package: pmix
Pin: origin *ubuntu.com*
Pin-Priority: -1
"""

UBUNTU = {
    **dict.fromkeys(("lvm2", "mdadm", "nfs-common", "xfsprogs"), "1.0"),
    "libpmix2t64": "5.0.1-4.1build1",
    "mariadb-server": "1:10.11.7-2ubuntu2",
    "munge": "0.5.15-4build1",
    "slurm-client": SLURM,
    "slurmctld": SLURM,
    "slurmd": SLURM,
    "slurmdbd": SLURM,
}
SMD = ("slurm-smd", "slurm-smd-client", *(f"slurm-smd-slurm{end}" for end in ("ctld", "d", "dbd")))
# The image comes with this repository, at `insiders`. Source: as above.
MICROSOFT = {**dict.fromkeys(SMD, "25.11.5-1"), "pmix": "4.2.9-2"}
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEXBhA\n-----END PGP PUBLIC KEY BLOCK-----"
OWN = {"url": "https://apt.example.org/slurm", "key": KEY, "version": "25.05.4"}


class Machine:
    """An image's apt: its pin, and the indices of two repositories that it never contacts.

    A repository in a folder would have no host, which the pin matches.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("etc/preferences.d", "lists/partial", "cache/archives/partial", "log"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "etc" / "preferences.d" / "slurm-repository-pin-990").write_text(PIN)
        self.know("azure.archive.ubuntu.com/ubuntu", "noble", "Ubuntu", UBUNTU)
        self.know("packages.microsoft.com/repos/x", "insiders", "microsoft", MICROSOFT)

    def know(self, url: str, suite: str, origin: str, packages: dict[str, str]) -> None:
        """Writes indices as after `apt-get update`: file names encode the repository's URL."""
        with (self.folder / "etc" / "sources.list").open("a") as sources:
            sources.write(f"deb [trusted=yes] http://{url} {suite} main\n")
        start = f"{url.replace('/', '_')}_dists_{suite}_"
        (self.folder / "lists" / f"{start}Release").write_text(
            f"Origin: {origin}\nSuite: {suite}\nCodename: {suite}\n"
            "Architectures: amd64\nComponents: main\nDate: Thu, 25 Apr 2024 15:10:33 UTC\n"
        )
        (self.folder / "lists" / f"{start}main_binary-amd64_Packages").write_text(
            "".join(
                f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody\n"
                f"Filename: pool/{name}.deb\nSize: 1\nSHA256: {'0' * 64}\nDescription: {name}\n\n"
                for name, version in packages.items()
            )
        )

    def boot(self, text: str) -> list[str]:
        """Writes the files, as cloud-init does before it installs packages, and returns these."""
        for path, content in files_of(text).items():
            if path.startswith("/etc/apt/"):
                file = self.folder / "etc" / path.removeprefix("/etc/apt/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
        packages: list[str] = YAML(typ="safe", pure=True).load(text)["packages"]
        return packages

    def install(self, packages: list[str]) -> subprocess.CompletedProcess[str]:
        """Simulates the installation of packages with apt."""
        settings = {
            "Dir::Etc": self.folder / "etc",
            "Dir::Etc::SourceParts": "-",
            "Dir::State": self.folder,
            "Dir::State::Lists": self.folder / "lists",
            "Dir::State::Status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Log": self.folder / "log",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
        }
        file = self.folder / "apt.conf"
        file.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
        return finished(
            ["apt-get", "--simulate", "install", *packages],
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "APT_CONFIG": str(file)},
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Returns the image."""
    if shutil.which("apt-get") is None:
        pytest.skip("apt is what Debian and Ubuntu have")
    return Machine(tmp_path)


def test_slurm_packages_of_distribution_are_blocked_by_the_image(machine: Machine) -> None:
    refused = machine.install(["munge", "slurmd"])
    assert refused.returncode == 100
    assert "slurmd" in refused.stderr


@pytest.mark.parametrize("make", [_node, _scheduler, _login])
@pytest.mark.parametrize(
    ("packages", "version"),
    [("distribution", SLURM), ("microsoft", "25.11.5-1"), (OWN, "25.05.4-1")],
    ids=["distribution", "microsoft", "own"],
)
def test_slurm_packages_have_one_version_on_all_machines(
    machine: Machine, make: Callable[[Slurm], str], packages: Any, version: str
) -> None:
    machine.know("packages.microsoft.com/repos/slurm", "stable", "microsoft", MICROSOFT)
    # The newest version was not requested.
    newest = dict.fromkeys(SMD, "26.05.1-1")
    machine.know("packages.microsoft.com/repos/newest", "stable", "microsoft", newest)
    machine.know("apt.example.org/slurm", "stable", "own", dict.fromkeys(SMD, "25.05.4-1"))
    asked = machine.boot(make(Slurm(packages=packages)))
    done = machine.install(asked)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("Inst ")]
    installed = {words[1]: words[2].strip("(") for words in lines}
    assert set(installed) == set(asked)
    assert {found for name, found in installed.items() if "slurm" in name} == {version}


@pytest.mark.parametrize("make", [_node, _scheduler])
def test_slurm_packages_of_another_version_are_not_installed(
    machine: Machine, make: Callable[[Slurm], str]
) -> None:
    machine.know("apt.example.org/slurm", "stable", "own", dict.fromkeys(SMD, "26.05.1-1"))
    refused = machine.install(machine.boot(make(Slurm.model_validate({"packages": OWN}))))
    assert refused.returncode == 100
    assert "slurm-smd" in refused.stderr


@pytest.mark.parametrize("make", [_node, _scheduler, _login])
def test_slurm_repository_is_trusted_only_by_its_own_key(
    make: Callable[[Slurm], str], check_cloud_config: Callable[[str], None]
) -> None:
    text = make(Slurm.model_validate({"packages": OWN}))
    check_cloud_config(text)
    config = YAML(typ="safe", pure=True).load(text)
    files = files_of(text)
    file = "/etc/apt/keyrings/fairway-slurm.asc"
    source = f"deb [signed-by={file}] https://apt.example.org/slurm stable main\n"
    assert files["/etc/apt/sources.list.d/slurm.list"] == source
    assert files[file].strip() == KEY
    assert files["/etc/sysusers.d/fairway-slurm.conf"].startswith("u slurm 64030 ")
    assert ["systemd-sysusers", "fairway-slurm.conf"] in config["runcmd"]
    text = make(Slurm(packages="microsoft"))
    check_cloud_config(text)
    config = YAML(typ="safe", pure=True).load(text)
    (fetched,) = [each for each in config["bootcmd"] if each[0] == "sh"]
    assert fetched[2].endswith(f"-o {file} https://packages.microsoft.com/keys/microsoft.asc")
    assert "apt/keyrings" not in make(Slurm())


def test_slurm_version_of_distribution_equals_catalog() -> None:
    assert {row.slurm for row in images().values() if row.slurm} == {DISTRIBUTION.version}


def test_slurm_repository_key_of_a_program_may_be_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file name used as the key itself would fail only on the machines."""
    monkeypatch.chdir(tmp_path)
    spec = Slurm.model_validate({"packages": {**OWN, "key": "apt.asc"}})
    with pytest.raises(UserError, match="no such file"):
        packages_of(spec)
    (tmp_path / "apt.asc").write_text(f"{KEY}\n")
    assert packages_of(spec).key == KEY
