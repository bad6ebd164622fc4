"""What VMs do when they boot: the scripts, run with stand-ins for the commands that touch disks."""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from fairway_constructs.cloud_init import (
    custom_data,
    nfs_mount,
    nfs_server_cloud_init,
    node_cloud_init,
    shared_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "${TfToken[TOKEN.7]}"
CHANGES = ("vgcreate", "vgextend", "lvcreate", "lvextend", "pvresize", "mkfs.xfs")


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


class TestVolume:
    """The file server's script, against disks that are only described."""

    # `signature` names what blkid finds on a device: nothing, LVM2_member, xfs, ext4, unclear.
    STAND_INS = r"""
    device_of() { [[ ${LUNS:-} == *" $1 "* ]] && printf '/dev/lun%s\n' "$1"; }
    signature() { eval "printf '%s' \"\${SIG_$(basename "$1" | tr - _):-}\""; }
    blkid() {
        local found; found=$(signature "${!#}")
        case $found in
            '') return 2 ;;
            unclear) return 8 ;;
        esac
        case $* in
            *TYPE*) printf '%s\n' "$found" ;;
            *UUID*) printf 'uuid-of-it\n' ;;
        esac
    }
    pvs() {
        case $* in
            *pv_free*) [[ -z ${FREE:-} ]] || printf '%s\n' $FREE ;;
            *) eval "printf '  %s\n' \"\${GROUP_$(basename "${!#}"):-}\"" ;;
        esac
    }
    vgs() { case $* in *missing*) echo "  ${MISSING:-0}" ;; *) [[ -n ${EXISTS:-} ]] ;; esac; }
    mountpoint() { return 0; }
    grep() { return 0; }
    chmod() { log chmod "$@"; }
    xfs_growfs() { :; }
    log() { printf '%s\n' "$*" >>"$LOG"; }
    """

    @pytest.fixture
    def run(self, repository: Path, tmp_path: Path) -> Callable[..., tuple[int, list[str], str]]:
        """Runs steps of the script; answers with its exit status, what it changed, and said."""
        folder = repository / "constructs" / "fairway_constructs" / "cloud_init"
        log = tmp_path / "log"

        def run(steps: str, **variables: str) -> tuple[int, list[str], str]:
            log.write_text("")
            changes = "\n".join(f'{name}() {{ log {name} "$@"; }}' for name in CHANGES)
            values = {"NAME": "data", "DISKS": "3", "LUNS": " 0 1 2 ", "LOG": str(log)}
            values |= {"EXPORT": str(tmp_path / "export"), **variables}
            settings = "\n".join(f"{k}={shlex.quote(v)}" for k, v in values.items())
            program = "\n".join(
                [
                    f"source {shlex.quote(str(folder / 'nfs_server.sh'))}",
                    self.STAND_INS,
                    changes,
                    settings,
                    "device=/dev/data-volume",
                    steps,
                ]
            )
            done = subprocess.run(
                ["bash", "-c", program], capture_output=True, text=True, check=False
            )
            return done.returncode, log.read_text().splitlines(), done.stderr

        return run

    STEPS = "collect_disks; find_new_disks; make_or_grow_volume"
    OURS = {f"SIG_lun{n}": "LVM2_member" for n in range(3)} | {
        f"GROUP_lun{n}": "data" for n in range(3)
    }

    def test_blank_disks_become_one_striped_volume(self, run: Any) -> None:
        status, changes, _ = run(self.STEPS)
        assert status == 0
        assert changes == [
            "vgcreate data /dev/lun0 /dev/lun1 /dev/lun2",
            "lvcreate --yes --name data --extents 100%FREE --stripes 3 --stripesize 256k data",
        ]

    def test_the_next_boot_changes_nothing(self, run: Any) -> None:
        status, changes, _ = run(self.STEPS, EXISTS="yes", **self.OURS)
        assert status == 0
        assert [change for change in changes if not change.startswith("pvresize")] == []

    def test_new_disks_are_taken_in_beside_the_old_ones(self, run: Any) -> None:
        status, changes, _ = run(
            self.STEPS,
            DISKS="5",
            LUNS=" 0 1 2 3 4 ",
            EXISTS="yes",
            FREE="/dev/lun3 /dev/lun4",
            **self.OURS,
        )
        assert status == 0
        assert changes[0] == "vgextend data /dev/lun3 /dev/lun4"
        assert changes[-1].endswith("--stripes 2 --stripesize 256k data/data /dev/lun3 /dev/lun4")
        assert not any(change.startswith(("vgcreate", "mkfs")) for change in changes)

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ({"SIG_lun1": "ext4"}, "/dev/lun1 holds something"),
            ({"SIG_lun1": "unclear"}, "/dev/lun1 holds something"),
            ({"SIG_lun1": "LVM2_member", "GROUP_lun1": "other"}, "belongs to volume group other"),
            ({"LUNS": " 0 2 "}, "LUN 1 of 3 is not attached yet"),
            ({**OURS, "EXISTS": "yes", "MISSING": "1"}, "lacks a disk"),
            ({**OURS, "EXISTS": ""}, "cannot be read"),
        ],
        ids=["a file system", "unclear", "another group", "not whole", "lost a disk", "unreadable"],
    )
    def test_what_is_not_plainly_right_is_left_alone(
        self, run: Any, variables: dict[str, str], message: str
    ) -> None:
        status, changes, said = run(self.STEPS, **variables)
        assert status == 1
        assert changes == []
        assert message in said

    def test_an_empty_volume_gets_a_file_system_once(self, run: Any) -> None:
        status, changes, _ = run("mount_volume", SIG_data_volume="")
        assert changes[0] == "mkfs.xfs -q /dev/data-volume"
        assert status == 1, "the stand-in stays blank, and is then refused"

    @pytest.mark.parametrize("found", ["xfs", "ext4", "unclear"])
    def test_a_volume_that_holds_anything_is_never_formatted(self, run: Any, found: str) -> None:
        _, changes, _ = run("mount_volume", SIG_data_volume=found)
        assert changes == []


class TestPeers:
    """The node's script: SSH between nodes that share a folder."""

    @pytest.fixture
    def join(self, repository: Path, tmp_path: Path) -> Callable[[str], Path]:
        """Lets a node of that name join; answers with its login user's home."""
        script = repository / "constructs" / "fairway_constructs" / "cloud_init" / "node.sh"

        def join(node: str) -> Path:
            home = tmp_path / node
            home.mkdir(exist_ok=True)
            program = "\n".join(
                [
                    f"source {shlex.quote(str(script))}",
                    'as_admin() { "$@"; }',
                    f"getent() {{ printf 'a:x:1:1::%s:/bin/sh\\n' {shlex.quote(str(home))}; }}",
                    f"hostname() {{ echo {node}; }}",
                    "ip() { echo '168.63.129.16 via 10.0.0.1 dev eth0 src 10.0.0.9 uid 0'; }",
                    f"ADMIN=me CLUSTER=pair SHARED={shlex.quote(str(tmp_path / 'shared'))}",
                    "trust_peers",
                    "register",
                ]
            )
            subprocess.run(["bash", "-c", program], check=True, capture_output=True, text=True)
            return home

        return join

    def test_nodes_that_join_trust_each_other_and_are_listed(
        self, join: Callable[[str], Path], tmp_path: Path
    ) -> None:
        one, two = join("node1"), join("node2")
        key = (one / ".ssh" / "id_fairway").read_text()
        assert key == (two / ".ssh" / "id_fairway").read_text()
        public = (tmp_path / "shared" / "ssh" / "id_ed25519.pub").read_text()
        assert (one / ".ssh" / "authorized_keys").read_text() == public
        assert (two / ".ssh" / "id_fairway").stat().st_mode & 0o777 == 0o600
        hosts = tmp_path / "shared" / "clusters" / "pair" / "hosts"
        assert {file.name: file.read_text() for file in hosts.iterdir()} == {
            "node1": "10.0.0.9\n",
            "node2": "10.0.0.9\n",
        }

    def test_joining_again_changes_nothing(self, join: Callable[[str], Path]) -> None:
        home = join("node1")
        before = {f.name: f.read_text() for f in (home / ".ssh").iterdir()}
        join("node1")
        assert {f.name: f.read_text() for f in (home / ".ssh").iterdir()} == before

    def test_keys_that_were_there_stay(self, join: Callable[[str], Path], tmp_path: Path) -> None:
        folder = tmp_path / "node1" / ".ssh"
        folder.mkdir(parents=True)
        (folder / "authorized_keys").write_text("ssh-ed25519 AAAA mine\n")
        join("node1")
        assert "ssh-ed25519 AAAA mine\n" in (folder / "authorized_keys").read_text()
