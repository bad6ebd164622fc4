"""Boot data of machines: valid cloud-config, and the proxy in every part of it."""

import base64
import gzip
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from ruamel.yaml import YAML
from tests.stacks.documents import files_of

from fairway_constructs.cloud_init import (
    LONGEST_CUSTOM_DATA,
    custom_data,
    nfs_server_cloud_init,
    node_cloud_init,
    packed_size,
    script,
    server_cloud_init,
    shared_folder,
)
from fairway_constructs.cloud_init.mounts import MachineProxy, Mount, machine_proxy, nfs_mount
from fairway_constructs.cloud_init.start_task import start_task_script
from fairway_core.environment import Proxy
from fairway_core.slurm import MICROSOFT, cloud_programs
from fairway_simulator.azure.expressions import fill_in

TOKEN = "${TfToken[TOKEN.7]}"


def _node(**values: Any) -> str:
    mounts = [nfs_mount(name="data", server=TOKEN, export="/srv/fairway/data", path="/data")]
    return node_cloud_init(
        **{
            "cluster": "pair",
            "mounts": mounts,
            "nfs_client_package": "nfs-common",
            "host_patterns": ["lab-pair*", "10.40.*"],
            **values,
        }
    )


def test_custom_data_without_references_is_plain_base64() -> None:
    text = "#cloud-config\nruncmd: ['echo ${HOME} %{x}']\n"
    assert base64.b64decode(custom_data(text)).decode() == text


def test_custom_data_lets_terraform_fill_in_only_its_references() -> None:
    text = f'a "${{HOME}}" {TOKEN} $(x) {TOKEN}\n'
    expression = custom_data(text)
    encoded = re.fullmatch(
        r'\$\{base64encode\(replace\(base64decode\("(?P<text>[A-Za-z0-9+/=]+)"\), '
        r'"@@0@@", (?P<token>.*)\)\)\}',
        expression,
    )
    assert encoded
    assert encoded["token"] == TOKEN
    kept = base64.b64decode(encoded["text"]).decode()
    assert kept == 'a "${HOME}" @@0@@ $(x) @@0@@\n'


def test_custom_data_is_compressed_by_terraform_if_it_would_be_too_long() -> None:
    """As the boot data of a Slurm node with blobfuse and people of its own."""
    rest = "#cloud-config\n" + "# Some more text.\n" * 4_000
    assert len(rest) > LONGEST_CUSTOM_DATA
    for text, reference in ((rest, ""), (f"{rest}a: {TOKEN}\n", "a.b.c")):
        expression = custom_data(text).replace(TOKEN, reference)
        assert expression.startswith("${base64gzip(")
        packed = base64.b64decode(fill_in(expression, ".".join))
        assert gzip.decompress(packed).decode() == text.replace(TOKEN, reference)
        assert packed_size(text) == pytest.approx(len(packed), abs=50)


@pytest.mark.parametrize("cluster", ["two words", "it's", "$(reboot)", "`reboot`", "a;b"])
def test_node_settings_are_quoted_for_the_shell(tmp_path: Path, cluster: str) -> None:
    settings = tmp_path / "settings"
    settings.write_text(files_of(_node(cluster=cluster))["/etc/fairway/settings"])
    script = f'source {shlex.quote(str(settings))}; printf %s "$CLUSTER"'
    done = finished(["bash", "-c", script], check=True)
    assert done.stdout == cluster


LUSTRE = Mount(
    name="fast",
    type="lustre",
    options="noatime,flock,_netdev",
    source=f"{TOKEN}@tcp0:/lustrefs",
    path="/lustre",
    root=True,
)
BLOBS = Mount(
    name="sets",
    type="blobs",
    options="ro",
    source=f"{TOKEN}.blob.core.windows.net/datasets",
    path="/datasets",
)


def test_node_cloud_config_is_valid_with_every_kind_of_mount(
    check_cloud_config: Callable[[str], None],
) -> None:
    mounts = [
        nfs_mount(name="data", server="10.0.0.4", export="/srv/data", path="/data", version=3),
        nfs_mount(name="home", server="10.0.0.5", export="/home", path="/home", root=True),
        LUSTRE,
        BLOBS,
    ]
    text = _node(mounts=mounts).replace(TOKEN, "10.0.0.6")
    check_cloud_config(text)
    files = files_of(text)
    lines = files["/etc/fairway/mounts"].splitlines()
    assert [len(line.split()) for line in lines] == [5, 5, 5, 5]
    assert lines[0].startswith("nfs rw,hard,vers=3,")
    assert lines[1].endswith(" 10.0.0.5:/home /home root")
    assert lines[2] == "lustre noatime,flock,_netdev 10.0.0.6@tcp0:/lustrefs /lustre root"
    assert lines[3] == "blobs ro 10.0.0.6.blob.core.windows.net/datasets /datasets squashed"
    assert "nlm_tcpport=32803" in files["/etc/modprobe.d/fairway-nfs.conf"]
    assert files["/usr/sbin/mount.blobs"] == script("mount_blobs.sh")


def test_shared_folder_is_on_the_first_mount_other_than_blobs() -> None:
    data, home = (nfs_mount(name=n, server="s", export="/e", path=f"/{n}") for n in ("data", "b"))
    assert shared_folder([BLOBS, data, home]) == "/data/fairway"
    assert shared_folder([BLOBS]) == shared_folder([]) == ""
    assert "MOUNT=/data\n" in _node(mounts=[BLOBS, data])
    assert "mount.blobs" not in _node(mounts=[data])


def test_node_login_user_has_local_home_only_if_home_is_shared(
    cloud_config: Callable[[str], dict[str, Any]],
) -> None:
    home = nfs_mount(name="home", server="s", export="/e", path="/home")
    shared = cloud_config(custom_data(_node(mounts=[home])))
    assert shared["user"] == {"name": "azureuser", "homedir": "/var/lib/azureuser"}
    usual = cloud_config(custom_data(_node()))
    assert "user" not in usual
    assert "/etc/modprobe.d/fairway-nfs.conf" not in usual["text"]


@pytest.mark.parametrize(
    ("versions", "lines"),
    [
        ((4.1,), {"vers3=n", "vers4=y"}),
        ((3, 4.1), {"vers3=y", "vers4=y", "[mountd]", "port=20048", "[statd]", "port=32765"}),
        ((3,), {"vers3=y", "vers4=n", "[mountd]", "port=20048", "[statd]", "port=32765"}),
    ],
)
def test_nfs_server_enables_only_requested_nfs_versions(
    versions: tuple[float, ...],
    lines: set[str],
    check_cloud_config: Callable[[str], None],
) -> None:
    text = nfs_server_cloud_init(
        name="d", disks=2, threads=8, clients=[IPv4Network("10.0.0.0/17")], versions=versions
    )
    check_cloud_config(text)
    files = files_of(text)
    found = set(files["/etc/nfs.conf.d/fairway.conf"].split())
    assert found == lines | {"[nfsd]", "threads=8"}
    assert ("/etc/modprobe.d/fairway-nfs.conf" in files) is (3 in versions)


def test_node_announce_timer_exists_only_with_shared_folder_and_peers(
    cloud_config: Callable[[str], dict[str, Any]], check_cloud_config: Callable[[str], None]
) -> None:
    timer = ["systemctl", "enable", "--now", "fairway-announce.timer"]
    check_cloud_config(_node())
    assert timer in cloud_config(custom_data(_node()))["runcmd"]
    for alone in (_node(mounts=[]), _node(peers=False), _node(announced=False)):
        config = cloud_config(custom_data(alone))
        assert timer not in config["runcmd"]
        assert "fairway-announce" not in config["text"]


RANGES = [IPv4Network("10.40.0.0/16")]


def _proxy(**values: Any) -> MachineProxy:
    spec = Proxy.model_validate({"http": "http://p.example.com:3128", **values})
    found = machine_proxy(spec, RANGES)
    assert found is not None
    return found


def test_proxy_is_bypassed_for_metadata_service_and_network() -> None:
    proxy = _proxy(no_proxy=[".example.com", "10.40.0.0/16"])
    direct = proxy.past(["lab.blob.core.windows.net", ".example.com"]).variables["NO_PROXY"]
    assert direct.split(",") == [
        *("localhost", "127.0.0.1", "::1", "169.254.169.254", "168.63.129.16"),
        *("10.40.0.0/16", ".example.com", "lab.blob.core.windows.net"),
    ]
    assert proxy.variables["https_proxy"] == "http://p.example.com:3128", "that for http"
    assert machine_proxy(None, RANGES) is None


@pytest.mark.parametrize("package", ["nfs-common", "nfs-utils"])
def test_proxy_machines_have_valid_cloud_config(
    check_cloud_config: Callable[[str], None], package: str
) -> None:
    text = _node(mounts=[], proxy=_proxy(), nfs_client_package=package)
    check_cloud_config(text)
    assert len(text.encode()) < LONGEST_CUSTOM_DATA
    server = {"name": "d", "disks": 2, "threads": 8, "clients": RANGES}
    check_cloud_config(nfs_server_cloud_init(**server, proxy=_proxy()))  # type: ignore[arg-type]


def test_proxy_exception_known_to_terraform_is_filled_in() -> None:
    text = _node(mounts=[], proxy=_proxy().past([f"{TOKEN}.blob.core.windows.net"]))
    assert f"{TOKEN}.blob" not in text.replace(TOKEN, "")
    assert custom_data(text).startswith("${base64encode(replace(")


def test_proxy_is_configured_for_apt_only_if_set() -> None:
    proxy = _proxy(https="http://p.example.com:3129")
    server: dict[str, Any] = {"name": "d", "disks": 2, "threads": 8, "clients": RANGES}
    ubuntu = files_of(_node(proxy=proxy))
    assert ubuntu["/etc/apt/apt.conf.d/90-fairway-proxy"].splitlines() == [
        'Acquire::http::Proxy "http://p.example.com:3128";',
        'Acquire::https::Proxy "http://p.example.com:3129";',
    ]
    gateway = server_cloud_init(proxy)
    assert gateway.startswith("#cloud-config\n")
    for each in (nfs_server_cloud_init(**server, proxy=proxy), gateway):
        assert "/etc/apt/apt.conf.d/90-fairway-proxy" in files_of(each)
    for text in (_node(), nfs_server_cloud_init(**server), "".join(cloud_programs().values())):
        assert "proxy" not in text.lower()


def test_proxy_is_written_to_dnf_conf_once(tmp_path: Path) -> None:
    """dnf has no folder of settings, and a start task runs at each boot."""
    file = tmp_path / "dnf.conf"
    file.write_text("[main]\ngpgcheck=1\n")
    text = _node(mounts=[], proxy=_proxy(), nfs_client_package="nfs-utils", peers=False)
    (command,) = YAML(typ="safe", pure=True).load(text)["bootcmd"]
    command = [each.replace("/etc/dnf/dnf.conf", str(file)) for each in command]
    for _ in range(2):
        subprocess.run(command, check=True)
    assert file.read_text() == "[main]\ngpgcheck=1\nproxy=http://p.example.com:3128\n"
    script = start_task_script(text)
    assert script.index("proxy=") < script.index("install_packages nfs-utils")


def test_proxy_is_set_before_start_task_installs_packages() -> None:
    script = start_task_script(_node(mounts=[], proxy=_proxy(), peers=False))
    apt = script.index("write_file /etc/apt/apt.conf.d/90-fairway-proxy")
    assert apt < script.index("install_packages nfs-common")
    restart = "systemctl try-restart containerd.service docker.service"
    assert script.index("systemctl daemon-reexec") < script.index(restart)


def test_proxy_restart_of_missing_docker_does_not_fail_start_task(tmp_path: Path) -> None:
    """systemctl fails for a missing unit, and a start task ends at the first failing command."""
    script = start_task_script(_node(mounts=[], proxy=_proxy(), peers=False))
    (line,) = (each for each in script.splitlines() if "try-restart containerd" in each)
    executable(tmp_path / "systemctl", "exit 5")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", line], env=environment, check=False)
    assert done.returncode == 0


def test_proxy_variables_are_set_for_shells_and_services(tmp_path: Path) -> None:
    files = files_of(_node(mounts=[], proxy=_proxy(no_proxy=["*.example.org", ".example.com"])))
    file = tmp_path / "proxy"
    file.write_text(files["/etc/fairway/proxy"])
    profile = files["/etc/profile.d/fairway-proxy.sh"].replace("/etc/fairway/proxy", str(file))
    found = finished(
        ["sh", "-euc", f"{profile}\nenv"],
        env={"PATH": os.environ["PATH"]},
        check=True,
        cwd=tmp_path,
    ).stdout.splitlines()
    wanted = set(files["/etc/fairway/proxy"].split())
    assert len(wanted) == 6
    assert wanted <= set(found)
    manager = files["/etc/systemd/system.conf.d/91-fairway-proxy.conf"].splitlines()[1]
    assert set(re.findall(r'"([^"]+)"', manager)) == wanted


def test_proxy_is_set_for_programs_called_by_slurmctld(tmp_path: Path) -> None:
    """slurmctld runs them with an empty environment."""
    (tmp_path / "proxy").write_text("https_proxy=http://p.example.com:3128\n")
    told = executable(tmp_path / "python", "env")
    programs = cloud_programs(python=str(told), proxy=True)
    del programs["mail"]  # it opens no connection
    for name, text in programs.items():
        script = tmp_path / name
        script.write_text(text.replace("/etc/fairway/proxy", str(tmp_path / "proxy")))
        done = finished(["sh", str(script)], env={}, check=True)
        assert "https_proxy=http://p.example.com:3128" in done.stdout.splitlines(), name


def test_proxy_is_bypassed_between_node_and_scheduler() -> None:
    """The node uses the scheduler's address, and urllib supports no ranges in `no_proxy`."""
    more = {"settings_file": "/s", "settings_text": "{}", "library": "/l", "programs": "/p"}
    more |= {"package": "/p.tar.bz2", "packed": "", "tokens_port": "643"}
    own: dict[str, Any] = {**more, "scripts": {}, "slurm": MICROSOFT, "slurm_key": "/k.asc"}
    for proxy in (_proxy(), None):
        text = _node(proxy=proxy, template="slurm_node.yaml.j2", more=own)
        unit = files_of(text)["/etc/systemd/system/fairway-slurm-node.service"]
        assert ("UnsetEnvironment=http_proxy HTTP_PROXY" in unit) is (proxy is not None)
        assert (" --proxy http://p.example.com:3128 " in text) is (proxy is not None)
