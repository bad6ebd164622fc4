"""Set-up of nodes: its scripts, run with stand-ins for commands that touch disks, and its pods."""

import fcntl
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from programs import finished, tool
from targets import target_of

from fairway_agent.kubernetes.manifests import TAINTS
from fairway_agent.kubernetes.pod import hold_scratch
from fairway_constructs.cloud_init import script
from fairway_core import local_disks
from fairway_core.kubernetes import node_setup
from fairway_core.target import Target

FOLDER = Path(node_setup.__file__).parent
CLEAN_UP = FOLDER / "node_cleanup.sh"

# Disks are lines of `name,model,mount point,content`.
STAND_INS = """
log() { printf '%s\\n' "$*" >>"$LOG"; }
of() { awk -F, -v name="${!#}" -v at="$1" '$1 == name { print $at }' "$DISKS"; }
mountpoint() { [[ -e $LOG.mounted ]]; }
lsblk() {
    case $* in
        *MODEL*) awk -F, '{ print $1, $2 }' "$DISKS" ;;
        *MOUNTPOINT*) of 3 "$@" ;;
    esac
}
blkid() {
    local found
    found=$(of 4 "$@")
    [[ $found != unclear ]] || return 8
    [[ -n $found ]] || return 2
    printf '%s\\n' "$found"
}
for name in mdadm mkfs.xfs chmod udevadm; do eval "$name() { log $name \\$*; }"; done
mount() { log mount "$@"; : >"$LOG.mounted"; }
"""
DIRECT = "Microsoft NVMe Direct Disk v2"


def target(name: str = "nd", **selector: str) -> Target:
    access = {"selector": {"agentpool": name, **selector}, "tolerations": ["fairway.dev/pool"]}
    return target_of("kubernetes", access, name=name)


@pytest.fixture
def set_up(tmp_path: Path) -> Any:
    """Sets up a node with these disks and returns the commands it ran and its messages."""

    def set_up(*disks: str) -> tuple[list[str], str]:
        (tmp_path / "log").write_text("")
        (tmp_path / "disks").write_text("".join(f"{disk}\n" for disk in disks))
        (tmp_path / "set-up.sh").write_text(node_setup.set_up_script())
        program = "\n".join(
            [
                f"source {shlex.quote(str(tmp_path / 'set-up.sh'))}",
                STAND_INS,
                f"disk={shlex.quote(str(tmp_path / 'nvme'))}",
                f"rules={tmp_path}/99-nfs.rules volumes={tmp_path}/volumes devices={tmp_path}/bdi",
                "main",
            ]
        )
        environ = {**os.environ, "LOG": str(tmp_path / "log"), "DISKS": str(tmp_path / "disks")}
        done = finished(["bash", "-euc", program], env=environ, check=True)
        text = (tmp_path / "log").read_text().replace(str(tmp_path), "")
        return text.splitlines(), done.stderr

    return set_up


class TestDisks:
    """Scratch on disks that nothing else uses."""

    def test_node_setup_stripes_free_disks_and_creates_scratch_folder(
        self, set_up: Any, tmp_path: Path
    ) -> None:
        done, said = set_up(f"/dev/nvme1n1,{DIRECT}", f"/dev/nvme0n1,{DIRECT}")
        assert done[-4:] == [
            "mkfs.xfs -q -f -K /dev/md/fairway-scratch",
            "mount -o noatime,inode64 /dev/md/fairway-scratch /nvme",
            "chmod 1777 /nvme",
            "chmod 1777 /nvme/fairway",
        ]
        [created] = [line for line in done if line.startswith("mdadm --create")]
        assert created.endswith("--level=0 --raid-devices=2 /dev/nvme0n1 /dev/nvme1n1")
        assert (tmp_path / "nvme" / "fairway").is_dir()
        assert "fairway-node-setup: ready" in said
        # Run again, as after a restart of the pod.
        again, _ = set_up(f"/dev/nvme1n1,{DIRECT}", f"/dev/nvme0n1,{DIRECT}")
        assert again == ["chmod 1777 /nvme/fairway"]

    @pytest.mark.parametrize(
        "other",
        [
            f"/dev/nvme0n1,{DIRECT},/",
            f"/dev/nvme0n1,{DIRECT},/boot/efi",
            f"/dev/nvme0n1,{DIRECT},[SWAP]",
            f"/dev/nvme0n1,{DIRECT},,gpt",
            f"/dev/nvme0n1,{DIRECT},,ext4",
            f"/dev/nvme0n1,{DIRECT},,LVM2_member",
            f"/dev/nvme0n1,{DIRECT},,unclear",
            "/dev/nvme0n1,MSFT NVMe Accelerator v1.0",
        ],
    )
    def test_node_setup_ignores_disks_in_use(self, set_up: Any, other: str) -> None:
        done, _ = set_up(other, f"/dev/nvme1n1,{DIRECT}")
        assert not [line for line in done if "nvme0n1" in line]
        assert "mount -o noatime,inode64 /dev/nvme1n1 /nvme" in done
        assert "mkfs.xfs" not in str(set_up(other))

    def test_node_setup_keeps_existing_scratch_and_works_without_free_disks(
        self, set_up: Any, tmp_path: Path
    ) -> None:
        done, _ = set_up(f"/dev/nvme1n1,{DIRECT},,xfs")
        assert "mkfs.xfs" not in str(done)
        assert "mount -o noatime,inode64 /dev/nvme1n1 /nvme" in done
        (tmp_path / "log.mounted").unlink()
        (tmp_path / "nvme" / "fairway").rmdir()
        _, said = set_up("/dev/sda,Virtual Disk,/")
        assert "no free local NVMe disk: tasks' scratch is on the system disk" in said
        assert (tmp_path / "nvme" / "fairway").is_dir()


def test_node_setup_raises_nfs_read_ahead_of_present_and_future_mounts(
    set_up: Any, tmp_path: Path
) -> None:
    header = "NV SERVER   PORT DEV          FSID                              FSC"
    line = "v4 0a281004  801 0:57         d1a4:0                            no "
    (tmp_path / "volumes").write_text(f"{header}\n{line}\n")
    for device in ("0:57", "0:58"):
        (tmp_path / "bdi" / device).mkdir(parents=True)
        (tmp_path / "bdi" / device / "read_ahead_kb").write_text("128\n")
    done, _ = set_up()
    assert "udevadm control --reload" in done
    assert (tmp_path / "bdi/0:57/read_ahead_kb").read_text() == "15360\n"
    assert (tmp_path / "bdi/0:58/read_ahead_kb").read_text() == "128\n"
    rule = (tmp_path / "99-nfs.rules").read_text()
    done, _ = set_up()
    assert "udevadm control --reload" not in done
    assert rule.startswith('SUBSYSTEM=="bdi", ACTION=="add", PROGRAM="/usr/bin/awk ')
    assert rule.endswith('ATTR{read_ahead_kb}="15360"\n')
    assert rule.count("\n") == 1
    (tmp_path / "99-nfs.rules").write_text("theirs\n")
    assert "udevadm" not in str(set_up()[0])
    assert (tmp_path / "99-nfs.rules").read_text() == "theirs\n", "that an image has"
    # As udev expands it: `$kernel` is the device, `$$` a dollar sign.
    program = rule.partition('PROGRAM="')[2].partition('", ATTR')[0]
    for device, code in (("0:57", 0), ("0:58", 1)):
        words = program.replace("$kernel", device).replace("$$", "$")
        words = words.replace("/proc/fs/nfsfs/volumes", str(tmp_path / "volumes"))
        assert subprocess.run(shlex.split(words), check=False).returncode == code


class TestCleaning:
    """Removal of a task's scratch once the task has ended, in whatever way."""

    @pytest.fixture
    def clean(self, tmp_path: Path) -> Any:
        def clean() -> set[str]:
            steps = 'source "$1"; clean "$2"'
            folder = tmp_path / "scratch"
            subprocess.run(["bash", "-euc", steps, "bash", CLEAN_UP, folder], check=True)
            return {each.name for each in folder.iterdir()}

        (tmp_path / "scratch").mkdir()
        return clean

    def test_cleanup_removes_scratch_of_killed_pod_only(self, clean: Any, tmp_path: Path) -> None:
        program = "import sys, time; from pathlib import Path\n"
        program += "from fairway_agent.kubernetes.pod import hold_scratch\n"
        program += "hold_scratch(Path(sys.argv[1])); print('held', flush=True); time.sleep(3600)"
        holders = {}
        for name in ("one", "two"):
            folder = tmp_path / "scratch" / name
            (folder / "deep").mkdir(parents=True)
            (folder / "deep" / "file").write_text("x")
            holders[name] = subprocess.Popen(
                [sys.executable, "-c", program, folder], stdout=subprocess.PIPE
            )
            assert holders[name].stdout.readline() == b"held\n"  # type: ignore[union-attr]
        # Even if the task has removed the marker file of the folder.
        (tmp_path / "scratch" / "two" / ".fairway").unlink()
        assert clean() == {"one", "two"}
        holders["one"].kill()
        holders["one"].communicate()
        assert clean() == {"two"}
        assert (tmp_path / "scratch" / "two" / "deep" / "file").read_text() == "x"
        holders["two"].kill()
        holders["two"].communicate()

    def test_cleanup_keeps_unheld_scratch_for_an_hour(self, clean: Any, tmp_path: Path) -> None:
        new, old = (tmp_path / "scratch" / name for name in ("new", "old"))
        new.mkdir()
        old.mkdir()
        hours = time.time() - 2 * 3600
        os.utime(old, (hours, hours))
        assert clean() == {"new"}

    def test_cleanup_ignores_links_and_files(self, clean: Any, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (other / ".fairway").touch()
        (tmp_path / "scratch" / "link").symlink_to(other)
        (tmp_path / "scratch" / "file").touch()
        assert clean() == {"link", "file"}
        assert (other / ".fairway").exists()

    def test_scratch_is_locked_until_its_pod_program_ends(self, tmp_path: Path) -> None:
        hold_scratch(tmp_path)
        found = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(found)


class TestPods:
    """The DaemonSet, with the fewest privileges that suffice."""

    def spec(self, *targets: Target) -> dict[str, Any]:
        daemons = node_setup.objects(targets or (target(),))[-1]
        assert daemons["kind"] == "DaemonSet"
        found: dict[str, Any] = daemons["spec"]["template"]["spec"]
        return found

    def test_node_setup_pod_keeps_minimal_privileges_after_init(self) -> None:
        spec = self.spec()
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostIPC", "hostPID", "serviceAccountName"} & {*spec}
        [set_up], [stays] = spec["initContainers"], spec["containers"]
        assert set_up["securityContext"] == {"privileged": True}
        assert " --mount=/node/proc/1/ns/mnt " in set_up["command"][-1]
        mounts = {each["name"]: each["mountPath"] for each in set_up["volumeMounts"]}
        assert mounts == {"scripts": "/scripts", "proc": "/node/proc"}
        rights = stays["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        hosts = [each["hostPath"] for each in spec["volumes"] if "hostPath" in each]
        # Kubernetes must not create the folder before the disks are set up, or tasks would start.
        assert hosts == [
            {"path": "/proc", "type": "Directory"},
            {"path": "/mnt/resource_nvme/fairway"},
        ]
        assert [each["name"] for each in stays["volumeMounts"]] == ["scripts", "scratch"]

    def test_node_setup_pod_mounts_scripts_and_restarts_when_they_change(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, scripts, before = node_setup.objects([target()])
        spec = before["spec"]["template"]["spec"]
        text = " ".join([*spec["initContainers"][0]["command"], *spec["containers"][0]["command"]])
        for name, program in scripts["data"].items():
            assert f"/scripts/{name}" in text
            assert program.startswith("#!/usr/bin/env bash\n")
        assert {"name": "scripts", "configMap": {"name": "node-setup"}} in spec["volumes"]
        monkeypatch.setattr(node_setup, "set_up_script", lambda: "true\n")
        after = node_setup.objects([target()])[-1]
        assert before["spec"]["template"]["metadata"] != after["spec"]["template"]["metadata"]

    def test_node_setup_pod_runs_on_all_job_nodes_and_no_others(self) -> None:
        spec = self.spec(target(), target("cpu", gpu="none"))
        [terms] = spec["affinity"]["nodeAffinity"].values()
        assert [
            {each["key"]: each["values"] for each in term["matchExpressions"]}
            for term in terms["nodeSelectorTerms"]
        ] == [{"agentpool": ["nd"]}, {"agentpool": ["cpu"], "gpu": ["none"]}]
        assert {each["key"] for each in spec["tolerations"]} == {*TAINTS}


@pytest.mark.parametrize("text", [node_setup.set_up_script(), script("node.sh")])
def test_node_scripts_with_shared_text_pass_shellcheck(text: str, tmp_path: Path) -> None:
    assert "mount_scratch() {" in text
    assert "# local_disks.sh" not in text
    file = tmp_path / "script.sh"
    file.write_text(text)
    done = finished([tool("shellcheck"), file])
    assert done.returncode == 0, done.stdout


def test_node_scripts_mount_scratch_at_the_same_path() -> None:
    assert f"scratch={local_disks.FOLDER}\n" in script("node.sh")
    assert f"disk={local_disks.FOLDER}\n" in node_setup.set_up_script()
