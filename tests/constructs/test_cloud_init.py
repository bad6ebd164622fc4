"""What VMs are given to boot with."""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from fairway_constructs.cloud_init import (
    Mount,
    custom_data,
    nfs_mount,
    nfs_server_cloud_init,
    node_cloud_init,
    script,
    shared_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


def test_text_without_references_is_plain_base64() -> None:
    text = "#cloud-config\nruncmd: ['echo ${HOME} %{x}']\n"
    assert base64.b64decode(custom_data(text)).decode() == text


def test_references_are_filled_in_by_terraform_and_nothing_else_is() -> None:
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


@pytest.mark.parametrize("cluster", ["two words", "it's", "$(reboot)", "`reboot`", "a;b"])
def test_a_setting_reaches_the_shell_as_it_is(
    tmp_path: Path, cluster: str, cloud_config: Callable[[str], dict[str, Any]]
) -> None:
    config = cloud_config(custom_data(_node(cluster=cluster)))
    files = {entry["path"]: entry["content"] for entry in config["write_files"]}
    settings = tmp_path / "settings"
    settings.write_text(files["/etc/fairway/settings"])
    script = f'source {shlex.quote(str(settings))}; printf %s "$CLUSTER"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == cluster


def test_templates_are_valid_with_several_mounts_and_clients(
    check_cloud_config: Callable[[str], None],
) -> None:
    mounts = [
        nfs_mount(name=name, server="10.0.0.4", export=f"/srv/fairway/{name}", path=f"/{name}")
        for name in ("data", "home")
    ]
    check_cloud_config(_node(mounts=mounts))
    clients = [IPv4Network("10.0.0.0/17"), IPv4Network("10.1.0.0/24")]
    check_cloud_config(nfs_server_cloud_init(name="d", disks=2, threads=8, clients=clients))


def test_the_first_mount_is_where_nodes_share() -> None:
    one = nfs_mount(name="a", server="s", export="/e", path="/data")
    two = nfs_mount(name="b", server="s", export="/e", path="/home2")
    assert shared_folder([one, two]) == "/data/fairway"
    assert shared_folder([]) == ""


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


def test_a_node_is_right_with_every_kind_of_mount(
    check_cloud_config: Callable[[str], None],
    cloud_config: Callable[[str], dict[str, Any]],
) -> None:
    mounts = [
        nfs_mount(name="data", server="10.0.0.4", export="/srv/data", path="/data", version=3),
        nfs_mount(name="home", server="10.0.0.5", export="/home", path="/home", root=True),
        LUSTRE,
        BLOBS,
    ]
    text = _node(mounts=mounts).replace(TOKEN, "10.0.0.6")
    check_cloud_config(text)
    config = cloud_config(custom_data(text))
    files = {entry["path"]: entry["content"] for entry in config["write_files"]}
    lines = files["/etc/fairway/mounts"].splitlines()
    assert [len(line.split()) for line in lines] == [5, 5, 5, 5]
    assert lines[0].startswith("nfs rw,hard,vers=3,")
    assert lines[1].endswith(" 10.0.0.5:/home /home root")
    assert lines[2] == "lustre noatime,flock,_netdev 10.0.0.6@tcp0:/lustrefs /lustre root"
    assert lines[3] == "blobs ro 10.0.0.6.blob.core.windows.net/datasets /datasets squashed"
    assert "nlm_tcpport=32803" in files["/etc/modprobe.d/fairway-nfs.conf"]
    assert files["/usr/sbin/mount.blobs"] == script("mount_blobs.sh")


def test_runs_are_kept_beside_blobs() -> None:
    data = nfs_mount(name="data", server="10.0.0.4", export="/srv/data", path="/data")
    assert shared_folder([BLOBS, data]) == "/data/fairway"
    assert shared_folder([BLOBS]) == ""
    assert "MOUNT=/data\n" in _node(mounts=[BLOBS, data])


def test_only_nodes_with_blobs_get_the_program_that_mounts_them() -> None:
    assert "mount.blobs" not in _node()


def test_the_login_user_has_its_home_elsewhere_only_where_home_is_shared(
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
def test_a_server_speaks_the_versions_that_were_asked_for(
    versions: tuple[float, ...],
    lines: set[str],
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
) -> None:
    text = nfs_server_cloud_init(
        name="d", disks=2, threads=8, clients=[IPv4Network("10.0.0.0/17")], versions=versions
    )
    check_cloud_config(text)
    files = {e["path"]: e["content"] for e in cloud_config(custom_data(text))["write_files"]}
    found = set(files["/etc/nfs.conf.d/fairway.conf"].split())
    assert found == lines | {"[nfsd]", "threads=8"}
    assert ("/etc/modprobe.d/fairway-nfs.conf" in files) is (3 in versions)


def test_a_timer_announces_nodes_that_share_a_folder_and_no_others(
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
) -> None:
    timer = ["systemctl", "enable", "--now", "fairway-announce.timer"]
    check_cloud_config(_node())
    assert timer in cloud_config(custom_data(_node()))["runcmd"]
    for alone in (_node(mounts=[]), _node(peers=False), _node(announced=False)):
        config = cloud_config(custom_data(alone))
        assert timer not in config["runcmd"]
        assert "fairway-announce" not in config["text"]
