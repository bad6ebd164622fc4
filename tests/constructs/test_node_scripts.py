"""Boot scripts of VMs, run with stand-ins for commands that touch disks."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from ruamel.yaml import YAML

from fairway_constructs import cloud_init

SCRIPTS = Path(cloud_init.__file__).parent
CHANGES = ("vgcreate", "vgextend", "lvcreate", "lvextend", "pvresize", "mkfs.xfs")


class TestMounts:
    """The node's script: shared file systems, with stand-ins for `mount` and similar commands."""

    @pytest.fixture
    def mount(self, tmp_path: Path) -> Callable[[str], list[str]]:
        """Mounts the file systems in these lines and returns the commands run."""
        log = tmp_path / "log"

        def mount(lines: str) -> list[str]:
            (tmp_path / "mounts").write_text(lines)
            log.write_text("")
            program = "\n".join(
                [
                    f"source {SCRIPTS / 'node.sh'}",
                    'mount() { echo "mount $*" >>"$LOG"; }',
                    'chmod() { echo "chmod $*" >>"$LOG"; command chmod "$@"; }',
                    "modprobe() { :; }; sysctl() { :; }",
                    "mountpoint() { [[ $1 == -d ]] && echo no-device; }",
                    f"mounts={shlex.quote(str(tmp_path / 'mounts'))} LOG={shlex.quote(str(log))}",
                    "mount_shared",
                ]
            )
            finished(["bash", "-euc", program], check=True)
            return log.read_text().splitlines()

        return mount

    def test_mount_script_mounts_file_system_and_opens_a_new_one_once(
        self, mount: Callable[[str], list[str]], tmp_path: Path
    ) -> None:
        folder = tmp_path / "fast"
        line = f"lustre flock,_netdev 10.0.0.6@tcp0:/lustrefs {folder}"
        mounted = f"mount -t lustre -o flock,_netdev 10.0.0.6@tcp0:/lustrefs {folder}"
        assert mount("\n") == []
        assert mount(f"{line} squashed\n") == [mounted]
        assert mount(f"{line} root\n") == [mounted, f"chmod 1777 {folder}"]
        folder.chmod(0o755)
        assert mount(f"{line} root\n") == [mounted]
        assert folder.stat().st_mode & 0o7777 == 0o755, "what people change stays"


class TestBlobs:
    """The program that mount(8) runs for blobs, with stand-ins for systemd and apt."""

    STAND_INS = r"""
    log() { printf '%s\n' "$*" >>"$LOG"; }
    systemctl() { log systemctl "$@"; }
    apt-get() {
        log apt-get "${@:7}"
        [[ $7 != update || ! -e $FOLDER/held ]] && return
        rm "$FOLDER/held"
        echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7" >&2
        return 100
    }
    apt-cache() { [[ -n ${LISTED:-} ]]; }
    curl() { log curl "${!#}"; }
    mountpoint() { [[ $2 != "$scratch" ]] && [[ -n ${APPEARS:-} ]]; }
    sleep() { :; }
    command() { [[ -n ${INSTALLED:-} ]]; }
    make_cache() { mkdir -p "$FOLDER/cache" && echo "$FOLDER/cache"; }
    df() { printf 'Avail\n1001\n'; }
    systemd-escape() { echo data-sets; }
    """

    @pytest.fixture
    def run(self, tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
        """Mounts a container and returns the exit code and the commands run."""
        log, source = tmp_path / "log", tmp_path / "source"
        source.write_text(cloud_init.script("mount_blobs.sh"))

        def run(options: str, **variables: str) -> tuple[int, list[str]]:
            log.write_text("")
            program = (
                f"source {shlex.quote(str(source))}\n{self.STAND_INS}\n"
                "settings=$FOLDER/settings identity=$FOLDER/identity\n"
                f"main acc.blob.core.windows.net/datasets /data/sets -o {options}"
            )
            environment = {"PATH": "/usr/bin:/bin", "LOG": str(log), "FOLDER": str(tmp_path)}
            done = subprocess.run(
                ["bash", "-euc", program], env={**environment, **variables}, check=False
            )
            return done.returncode, log.read_text().splitlines()

        return run

    @pytest.mark.parametrize(("options", "read_only"), [("ro", True), ("rw,noatime", False)])
    def test_blobs_script_writes_settings_with_container_and_without_key(
        self,
        run: Callable[..., tuple[int, list[str]]],
        tmp_path: Path,
        options: str,
        read_only: bool,
    ) -> None:
        assert run(options, INSTALLED="1", APPEARS="1") == (
            0,
            [f"systemctl {each} fairway-blobs@data-sets.service" for each in ("stop", "start")],
        )
        text = (tmp_path / "settings" / "data-sets.yaml").read_text()
        settings = YAML(typ="safe", pure=True).load(text)
        assert (settings["allow-other"], settings["read-only"]) == (True, read_only)
        assert settings["file_cache"] == {
            "path": f"{tmp_path}/cache",
            "max-size-mb": 500,
            "timeout-sec": 86400,
            "refresh-sec": 120,
            "allow-non-empty-temp": True,
            "cleanup-on-start": True,
        }
        assert settings["azstorage"] == {
            "type": "block",
            "account-name": "acc",
            "endpoint": "https://acc.blob.core.windows.net",
            "container": "datasets",
            "mode": "msi",
        }

    def test_blobs_script_writes_identity_and_fails_if_mount_does_not_appear(
        self, run: Callable[..., tuple[int, list[str]]], tmp_path: Path
    ) -> None:
        (tmp_path / "identity").write_text("/subscriptions/s/nodes\n")
        assert run("ro", INSTALLED="1")[0] == 1
        text = (tmp_path / "settings" / "data-sets.yaml").read_text()
        settings = YAML(typ="safe", pure=True).load(text)
        assert settings["azstorage"]["resid"] == "/subscriptions/s/nodes"

    def test_blobs_script_adds_missing_package_repository(
        self, run: Callable[..., tuple[int, list[str]]], tmp_path: Path
    ) -> None:
        assert [line.split()[0] for line in run("ro", APPEARS="1")[1]] == [
            *("apt-get", "curl", "apt-get", "apt-get", "apt-get", "systemctl", "systemctl")
        ]
        assert [line for line in run("ro", APPEARS="1", LISTED="1")[1] if "apt" in line] == [
            "apt-get update",
            "apt-get install blobfuse2 fuse3",
        ]
        (tmp_path / "held").touch()  # by another apt
        assert [line for line in run("ro", APPEARS="1", LISTED="1")[1] if "apt" in line] == [
            *("apt-get update", "apt-get update"),
            "apt-get install blobfuse2 fuse3",
        ]

    def test_blobs_script_cache_replaces_a_link_with_a_private_folder(self, tmp_path: Path) -> None:
        (tmp_path / "else").mkdir()
        (tmp_path / "fairway-blobs-sets").symlink_to(tmp_path / "else")
        program = f"source {SCRIPTS / 'mount_blobs.sh'}; mountpoint() {{ :; }}; scratch={tmp_path}"
        program += "; make_cache sets"
        subprocess.run(["bash", "-euc", program], check=True, capture_output=True)
        cache = tmp_path / "fairway-blobs-sets"
        assert cache.is_dir()
        assert not cache.is_symlink()
        assert cache.stat().st_mode & 0o777 == 0o700


class TestVolume:
    """The file server's script, run against simulated disks."""

    # `signature` prints blkid's result for a device: nothing, LVM2_member, xfs, ext4, unclear.
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
    def run(self, tmp_path: Path) -> Callable[..., tuple[int, list[str], str]]:
        """Runs steps of the script and returns its exit code, its changes, and its error output."""
        log = tmp_path / "log"

        def run(steps: str, **variables: str) -> tuple[int, list[str], str]:
            log.write_text("")
            changes = "\n".join(f'{name}() {{ log {name} "$@"; }}' for name in CHANGES)
            values = {"NAME": "data", "DISKS": "3", "LUNS": " 0 1 2 ", "LOG": str(log)}
            values |= {"EXPORT": str(tmp_path / "export"), **variables}
            settings = "\n".join(f"{k}={shlex.quote(v)}" for k, v in values.items())
            program = "\n".join(
                [
                    f"source {SCRIPTS / 'nfs_server.sh'}",
                    self.STAND_INS,
                    changes,
                    settings,
                    "device=/dev/data-volume",
                    steps,
                ]
            )
            done = finished(["bash", "-c", program])
            return done.returncode, log.read_text().splitlines(), done.stderr

        return run

    STEPS = "collect_disks; find_new_disks; make_or_grow_volume"
    OURS = {f"SIG_lun{n}": "LVM2_member" for n in range(3)} | {
        f"GROUP_lun{n}": "data" for n in range(3)
    }

    def test_volume_script_stripes_blank_disks_and_adds_new_ones(self, run: Any) -> None:
        status, changes, _ = run(self.STEPS)
        assert status == 0
        assert changes == [
            "vgcreate data /dev/lun0 /dev/lun1 /dev/lun2",
            "lvcreate --yes --name data --extents 100%FREE --stripes 3 --stripesize 256k data",
        ]
        status, changes, _ = run(self.STEPS, EXISTS="yes", **self.OURS)
        assert status == 0
        assert [change for change in changes if not change.startswith("pvresize")] == []
        more = {"DISKS": "5", "LUNS": " 0 1 2 3 4 ", "FREE": "/dev/lun3 /dev/lun4"}
        status, changes, _ = run(self.STEPS, EXISTS="yes", **more, **self.OURS)
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
    def test_volume_script_refuses_unclear_or_incomplete_disks(
        self, run: Any, variables: dict[str, str], message: str
    ) -> None:
        status, changes, said = run(self.STEPS, **variables)
        assert status == 1
        assert changes == []
        assert message in said

    @pytest.mark.parametrize("found", ["", "xfs", "ext4", "unclear"])
    def test_volume_script_formats_only_an_empty_volume(self, run: Any, found: str) -> None:
        status, changes, _ = run("mount_volume", SIG_data_volume=found)
        assert changes == ["mkfs.xfs -q /dev/data-volume"] * (found == "")
        assert found or status == 1, "the stand-in stays blank, and is then refused"


class TestPeers:
    """The node's script: SSH between nodes with a shared folder."""

    @pytest.fixture
    def join(self, tmp_path: Path) -> Callable[[str], Path]:
        """Lets a node with this name join and returns the home of its login user."""

        def join(node: str, more: str = "") -> Path:
            home = tmp_path / node
            home.mkdir(exist_ok=True)
            program = "\n".join(
                [
                    f"source {SCRIPTS / 'node.sh'}",
                    'as_admin() { "$@"; }',
                    f"getent() {{ printf 'a:x:1:1::%s:/bin/sh\\n' {shlex.quote(str(home))}; }}",
                    f"hostname() {{ echo {node}; }}",
                    f"ADMIN=me CLUSTER=pair SHARED={shlex.quote(str(tmp_path / 'shared'))}",
                    more,
                    "trust_peers",
                ]
            )
            finished(["bash", "-c", program], check=True)
            return home

        return join

    def test_peers_script_lets_nodes_trust_each_other_and_keeps_keys(
        self, join: Callable[[str], Path], tmp_path: Path
    ) -> None:
        folder = tmp_path / "node2" / ".ssh"
        folder.mkdir(parents=True)
        (folder / "authorized_keys").write_text("ssh-ed25519 AAAA mine\n")
        (tmp_path / "shared" / "ssh").mkdir(parents=True)
        for each in (tmp_path / "shared", tmp_path / "shared" / "ssh"):
            each.chmod(0o777)
        one, two = join("node1"), join("node2")
        assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
        assert (tmp_path / "shared" / "ssh").stat().st_mode & 0o777 == 0o700
        key = (one / ".ssh" / "id_fairway").read_text()
        assert key == (two / ".ssh" / "id_fairway").read_text()
        public = (tmp_path / "shared" / "ssh" / "id_ed25519.pub").read_text()
        assert (one / ".ssh" / "authorized_keys").read_text() == public
        assert "ssh-ed25519 AAAA mine\n" in (folder / "authorized_keys").read_text()
        assert (two / ".ssh" / "id_fairway").stat().st_mode & 0o777 == 0o600
        before = {f.name: f.read_text() for f in (one / ".ssh").iterdir()}
        join("node1")
        assert {f.name: f.read_text() for f in (one / ".ssh").iterdir()} == before

    @pytest.mark.parametrize("name", ["shared", "shared/ssh"])
    def test_peers_script_refuses_key_folder_of_another_owner(
        self, join: Callable[..., Path], tmp_path: Path, name: str
    ) -> None:
        """Any user may create a folder on a shared file system before the script does."""
        (tmp_path / "shared").mkdir()
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        (theirs / "id_ed25519").write_text("their key")
        (theirs / "id_ed25519.pub").write_text("ssh-ed25519 AAAA theirs")
        if name == "shared/ssh":
            (tmp_path / name).symlink_to(theirs)
            more = ""
        else:
            more = "id() { echo 4321; }  # the login user is not who has made the folders"
        with pytest.raises(subprocess.CalledProcessError) as caught:
            join("node1", more)
        said = f"{tmp_path / name} is not a folder of me's: remove it, then restart this node"
        assert said in caught.value.stderr
        assert not (tmp_path / "node1" / ".ssh").exists()


class TestAnnouncement:
    """The timer's script, which writes a line to a folder that all nodes see."""

    @pytest.fixture
    def announce(self, tmp_path: Path) -> Callable[..., int]:
        """Lets a node with this name announce itself and returns the exit code."""
        (tmp_path / "boot_id").write_text("0f1e2d3c\n")

        def announce(
            node: str, mounted: bool = True, now: int = 1000, health: str = "", admin: str = "$UID"
        ) -> int:
            settings = tmp_path / "settings"
            settings.write_text(
                f"ADMIN=me\nCLUSTER=pair\nMOUNT=/data\nSHARED={shlex.quote(str(tmp_path / 's'))}\n"
            )
            program = "\n".join(
                [
                    f"FAIRWAY_BOOT_ID={tmp_path}/boot_id FAIRWAY_SETTINGS={settings}",
                    f"FAIRWAY_HEALTH={tmp_path / (health or 'none')}",
                    f"source {SCRIPTS / 'announce.sh'}",
                    'as_admin() { "$@"; }',
                    f"hostname() {{ echo {node}; }}; date() {{ echo {now}; }}",
                    f"id() {{ echo {admin}; }}",
                    f"mountpoint() {{ {'true' if mounted else 'false'}; }}",
                    "ip() { echo '168.63.129.16 via 10.0.0.1 dev eth0 src 10.0.0.9 uid 0'; }",
                    "main",
                ]
            )
            return subprocess.run(["bash", "-c", program], check=False).returncode

        return announce

    def test_announce_script_writes_address_boot_id_and_time(
        self, announce: Callable[..., int], tmp_path: Path
    ) -> None:
        for node, now in (("node1", 1000), ("node2", 1000), ("node1", 1060)):
            assert announce(node, now=now) == 0
        hosts = tmp_path / "s" / "clusters" / "pair" / "hosts"
        assert {file.name: file.read_text() for file in hosts.iterdir()} == {
            "node1": "10.0.0.9 0f1e2d3c 1060\n",
            "node2": "10.0.0.9 0f1e2d3c 1000\n",
        }

    def test_announce_script_writes_health_problems(
        self, announce: Callable[..., int], tmp_path: Path
    ) -> None:
        for name, script in (("unwell", "echo '7 of 8'; echo GPUs >&2; exit 1"), ("well", "")):
            executable(tmp_path / name, f"[ $1 = --reason ] || exit 3\n{script}")
            assert announce(name, health=name) == 0
        hosts = tmp_path / "s" / "clusters" / "pair" / "hosts"
        assert (hosts / "unwell").read_text().split() == (
            ["10.0.0.9", "0f1e2d3c", "1000", "7", "of", "8", "GPUs"]
        )
        assert (hosts / "well").read_text() == "10.0.0.9 0f1e2d3c 1000\n"

    def test_announce_script_writes_only_to_own_mounted_folder(
        self, announce: Callable[..., int], tmp_path: Path
    ) -> None:
        assert announce("node1", mounted=False) != 0
        assert not (tmp_path / "s").exists()
        (tmp_path / "s").mkdir()
        assert announce("node1", admin="4321") != 0
        assert list(tmp_path.glob("s/**/node1")) == []
