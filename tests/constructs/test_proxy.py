"""A proxy on the machines of an environment: in what they boot with, and as their shells see it."""

from __future__ import annotations

import os
import re
import subprocess
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from fairway_constructs.cloud_init import (
    LONGEST_CUSTOM_DATA,
    custom_data,
    nfs_server_cloud_init,
    node_cloud_init,
    server_cloud_init,
)
from fairway_constructs.cloud_init.proxy import MachineProxy, machine_proxy
from fairway_constructs.cloud_init.start_task import start_task_script
from fairway_core.environment import Proxy
from fairway_core.slurm import MICROSOFT, cloud_programs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "${TfToken[TOKEN.7]}"
RANGES = [IPv4Network("10.40.0.0/16")]


def _proxy(**values: Any) -> MachineProxy:
    spec = Proxy.model_validate({"http": "http://p.example.com:3128", **values})
    found = machine_proxy(spec, RANGES)
    assert found is not None
    return found


def _node(proxy: MachineProxy | None, **values: Any) -> str:
    own: dict[str, Any] = {
        "cluster": "pair",
        "mounts": [],
        "nfs_client_package": "nfs-common",
        "host_patterns": ["10.40.*"],
        **values,
    }
    return node_cloud_init(**own, proxy=proxy)


def _files(text: str) -> dict[str, str]:
    document = YAML(typ="safe", pure=True).load(text)
    return {each["path"]: each["content"] for each in document["write_files"]}


def test_the_metadata_service_and_the_network_are_reached_directly() -> None:
    proxy = _proxy(no_proxy=[".example.com", "10.40.0.0/16"])
    direct = proxy.past(["lab.blob.core.windows.net", ".example.com"]).variables["NO_PROXY"]
    assert direct.split(",") == [
        *("localhost", "127.0.0.1", "::1", "169.254.169.254", "168.63.129.16"),
        *("10.40.0.0/16", ".example.com", "lab.blob.core.windows.net"),
    ]
    assert proxy.variables["https_proxy"] == "http://p.example.com:3128", "that for http"
    assert machine_proxy(None, RANGES) is None


@pytest.mark.parametrize("package", ["nfs-common", "nfs-utils"])
def test_machines_boot_with_valid_data(
    check_cloud_config: Callable[[str], None], package: str
) -> None:
    text = _node(_proxy(), nfs_client_package=package)
    check_cloud_config(text)
    assert len(text.encode()) < LONGEST_CUSTOM_DATA
    server = {"name": "d", "disks": 2, "threads": 8, "clients": RANGES}
    check_cloud_config(nfs_server_cloud_init(**server, proxy=_proxy()))  # type: ignore[arg-type]


def test_without_a_proxy_they_boot_with_what_they_did() -> None:
    server = nfs_server_cloud_init(name="d", disks=2, threads=8, clients=RANGES)
    for text in (_node(None), server, "".join(cloud_programs().values())):
        assert "proxy" not in text.lower()


def test_a_name_that_terraform_knows_is_filled_in() -> None:
    text = _node(_proxy().past([f"{TOKEN}.blob.core.windows.net"]))
    assert f"{TOKEN}.blob" not in text.replace(TOKEN, "")
    assert custom_data(text).startswith("${base64encode(replace(")


def test_packages_are_asked_of_it() -> None:
    ubuntu = _files(_node(_proxy(https="http://p.example.com:3129")))
    assert ubuntu["/etc/apt/apt.conf.d/90-fairway-proxy"].splitlines() == [
        'Acquire::http::Proxy "http://p.example.com:3128";',
        'Acquire::https::Proxy "http://p.example.com:3129";',
    ]
    server = nfs_server_cloud_init(name="d", disks=2, threads=8, clients=RANGES, proxy=_proxy())
    gateway = server_cloud_init(_proxy())
    assert gateway.startswith("#cloud-config\n")
    for each in (server, gateway):
        assert "/etc/apt/apt.conf.d/90-fairway-proxy" in _files(each)


def test_dnf_is_told_once(tmp_path: Path) -> None:
    """It has no folder of settings, and a start task runs at each boot."""
    file = tmp_path / "dnf.conf"
    file.write_text("[main]\ngpgcheck=1\n")
    text = _node(_proxy(), nfs_client_package="nfs-utils", peers=False)
    (command,) = YAML(typ="safe", pure=True).load(text)["bootcmd"]
    command = [each.replace("/etc/dnf/dnf.conf", str(file)) for each in command]
    for _ in range(2):
        subprocess.run(command, check=True)
    assert file.read_text() == "[main]\ngpgcheck=1\nproxy=http://p.example.com:3128\n"
    script = start_task_script(text)
    assert script.index("proxy=") < script.index("install_packages nfs-utils")


def test_the_start_task_of_a_pool_knows_it_before_it_installs() -> None:
    script = start_task_script(_node(_proxy(), peers=False))
    apt = script.index("write_file /etc/apt/apt.conf.d/90-fairway-proxy")
    assert apt < script.index("install_packages nfs-common")
    restart = "systemctl try-restart containerd.service docker.service"
    assert script.index("systemctl daemon-reexec") < script.index(restart)


def test_an_image_without_docker_becomes_a_node_all_the_same(tmp_path: Path) -> None:
    """systemctl fails for a unit that is not there, and a start task ends with what fails."""
    script = start_task_script(_node(_proxy(), peers=False))
    (line,) = (each for each in script.splitlines() if "try-restart containerd" in each)
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 5\n")
    (tmp_path / "systemctl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", line], env=environment, check=False)
    assert done.returncode == 0


def test_shells_and_services_have_the_variables(tmp_path: Path) -> None:
    files = _files(_node(_proxy(no_proxy=["*.example.org", ".example.com"])))
    file = tmp_path / "proxy"
    file.write_text(files["/etc/fairway/proxy"])
    profile = files["/etc/profile.d/fairway-proxy.sh"].replace("/etc/fairway/proxy", str(file))
    found = subprocess.run(
        ["sh", "-euc", f"{profile}\nenv"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.splitlines()
    wanted = set(files["/etc/fairway/proxy"].split())
    assert len(wanted) == 6
    assert wanted <= set(found)
    manager = files["/etc/systemd/system.conf.d/91-fairway-proxy.conf"].splitlines()[1]
    assert set(re.findall(r'"([^"]+)"', manager)) == wanted


def test_proxy_is_set_for_programs_called_by_slurmctld(tmp_path: Path) -> None:
    """It runs them without any variable of its own."""
    (tmp_path / "proxy").write_text("https_proxy=http://p.example.com:3128\n")
    told = tmp_path / "python"
    told.write_text("#!/bin/sh\nenv\n")
    told.chmod(0o755)
    programs = cloud_programs(python=str(told), proxy=True)
    del programs["mail"]  # it asks nobody
    for name, text in programs.items():
        script = tmp_path / name
        script.write_text(text.replace("/etc/fairway/proxy", str(tmp_path / "proxy")))
        done = subprocess.run(
            ["sh", str(script)], env={}, capture_output=True, text=True, check=True
        )
        assert "https_proxy=http://p.example.com:3128" in done.stdout.splitlines(), name


@pytest.mark.parametrize("template", ["slurm_node.yaml.j2"])
def test_a_node_asks_its_scheduler_directly(template: str) -> None:
    """By its address: urllib knows no ranges in `no_proxy`."""
    more = {"settings_file": "/s", "settings_text": "{}", "library": "/l", "programs": "/p"}
    more |= {"package": "/p.tar.bz2", "packed": "", "tokens_port": "643"}
    own: dict[str, Any] = {**more, "scripts": {}, "slurm": MICROSOFT, "slurm_key": "/k.asc"}
    for proxy in (_proxy(), None):
        text = _node(proxy, template=template, more=own)
        unit = _files(text)["/etc/systemd/system/fairway-slurm-node.service"]
        assert ("UnsetEnvironment=http_proxy HTTP_PROXY" in unit) is (proxy is not None)
        assert (" --proxy http://p.example.com:3128 " in text) is (proxy is not None)
