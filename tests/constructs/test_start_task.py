"""The start task of a Batch node, run with stand-ins for commands that touch the system."""

import base64
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import finished, tool

from fairway_constructs.cloud_init import node_cloud_init
from fairway_constructs.cloud_init.mounts import Mount, nfs_mount
from fairway_constructs.cloud_init.start_task import start_task_command, start_task_script

Run = Callable[..., tuple[int, list[str]]]

TOKEN = "${TfToken[TOKEN.7]}"


def _config(server: str = "10.40.128.4", **values: Any) -> str:
    mounts = [nfs_mount(name="data", server=server, export="/srv/fairway/data", path="/data")]
    return node_cloud_init(
        **{
            "cluster": "spot",
            "mounts": mounts,
            "nfs_client_package": "nfs-common",
            "host_patterns": ["10.40.*"],
            "peers": False,
            **values,
        }
    )


def test_start_task_script_passes_shellcheck(tmp_path: Path) -> None:
    file = tmp_path / "start_task.sh"
    blobs = Mount(name="sets", type="blobs", options="ro", source="a.b/sets", path="/sets")
    file.write_text(start_task_script(_config(gpu_metrics=True, mounts=[blobs])))
    assert "mount.blobs" in file.read_text()
    done = finished([tool("shellcheck"), file])
    assert done.returncode == 0, done.stdout


def test_start_task_command_unpacks_and_runs_script_with_references(tmp_path: Path) -> None:
    command = start_task_command(_config(TOKEN))
    match = re.fullmatch(
        r"(?P<before>/bin/bash -c '.* echo )\$\{base64gzip\(replace\(base64decode"
        r'\("(?P<text>[A-Za-z0-9+/=]+)"\), "@@0@@", (?P<token>.*?)\)\)\}(?P<after> \| .*)',
        command,
    )
    assert match
    assert match["token"] == TOKEN
    # Reproduces Terraform's functions.
    script = base64.b64decode(match["text"]).decode().replace("@@0@@", "10.40.128.4")
    assert script == start_task_script(_config())
    packed = base64.b64encode(gzip.compress(f"echo ran >&2\n{script}".encode())).decode()
    line = f"{match['before']}{packed}{match['after']}"
    # Batch starts no shell: it only splits the line.
    words = shlex.split(line)
    assert words[:2] == ["/bin/bash", "-c"]
    assert len(words) == 3
    assert "$" not in line, "nothing for Batch to expand"
    # Prints the unpacked script instead of running it, as it changes the system.
    words[2] = words[2].replace("exec bash start_task.sh", "cat start_task.sh")
    done = finished(words, cwd=tmp_path, check=True)
    assert done.stdout == f"echo ran >&2\n{script}"


def test_start_task_command_with_corrupt_script_fails(tmp_path: Path) -> None:
    packed = start_task_command("packages: []\n")
    broken = re.sub(r"\$\{.*\}", "bm90IGd6aXA=", packed)
    done = subprocess.run(shlex.split(broken), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize(
    "config",
    [
        "packages: [a]\nusers: []\n",
        "write_files:\n  - {path: /a, content: b, append: true}\n",
        "write_files:\n  - {path: /a, content: 'END_OF_FAIRWAY_FILE'}\n",
    ],
)
def test_start_task_refuses_a_config_that_it_cannot_run(config: str) -> None:
    with pytest.raises(ValueError, match=r"does not know|holds the line"):
        start_task_script(config)


STAND_INS = """
log() { printf '%s\\n' "$*" >>"$LOG"; }
systemctl() { log systemctl "$@"; }
apt-get() { log apt-get "${@: -2}"; }
dpkg-query() { [[ ${!#} == mdadm ]] && printf 'install ok installed'; }
/usr/local/sbin/fairway-node() { log node; return "${NODE_STATUS:-0}"; }
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the entire script below its own root and returns the exit code and the commands run."""

    def run(config: str, **variables: str) -> tuple[int, list[str]]:
        log, root = tmp_path / "log", tmp_path / "root"
        log.write_text("")
        steps = start_task_script(config)
        # Files are written below a folder; stand-ins replace the commands after that.
        steps = steps.replace("write_file /", f"write_file {shlex.quote(str(root))}/")
        steps = steps.replace("set -euo pipefail", f"set -euo pipefail\n{STAND_INS}", 1)
        environ = {**os.environ, "LOG": str(log), **variables}
        done = finished(["bash", "-c", steps], env=environ)
        return done.returncode, log.read_text().splitlines()

    return run


def test_start_task_runs_the_steps_of_cloud_init_in_the_same_order(
    run: Run, tmp_path: Path
) -> None:
    status, done = run(_config(gpu_metrics=True))
    assert status == 0
    assert done == [
        "apt-get Acquire::Retries=5 update",
        "apt-get nfs-common xfsprogs",  # mdadm is installed already
        "systemctl daemon-reexec",
        "systemctl try-restart systemd-logind.service",
        "systemctl enable --now fairway-gpu-metrics.timer",
        "node",
    ]
    root = tmp_path / "root"
    assert (
        (root / "etc/fairway/mounts")
        .read_text()
        .endswith(" 10.40.128.4:/srv/fairway/data /data squashed\n")
    )
    settings = (root / "etc/fairway/settings").read_text()
    # No shared keys and no announced addresses: Batch schedules the tasks.
    assert "SHARED=''" in settings
    assert "memlock  unlimited" in (root / "etc/security/limits.d/90-fairway.conf").read_text()
    node = root / "usr/local/sbin/fairway-node"
    assert node.stat().st_mode & 0o777 == 0o755
    assert (root / "etc/fairway/mounts").stat().st_mode & 0o777 == 0o644
    assert not (root / "etc/systemd/system/fairway-node.service").exists()
    files = [file for file in root.rglob("*") if file.is_file()]
    assert not [file for file in files if len(file.suffix) == len(".XXXXXX")], "half-written"


def test_start_task_fails_if_the_node_cannot_mount(run: Run) -> None:
    status, done = run(_config(), NODE_STATUS="32")
    assert status == 32
    assert done[-1] == "node"


class TestDocker:
    """Docker's root folder, moved off the system disk."""

    @pytest.fixture
    def move(self, repository: Path, tmp_path: Path) -> Callable[..., list[str]]:
        """Runs `move_docker` on stand-in disks and returns the calls of systemctl."""
        script = repository / "constructs/fairway_constructs/cloud_init/node.sh"
        log = tmp_path / "log"

        def move(
            *,
            scratch: bool = False,
            separate: bool = True,
            docker: bool = True,
            batch: bool = True,
            times: int = 1,
        ) -> list[str]:
            log.write_text("")
            disk = tmp_path / "mnt"
            disk.mkdir(exist_ok=True)
            program = f"""
            source {shlex.quote(str(script))}
            log() {{ printf '%s\\n' "$*" >>{shlex.quote(str(log))}; }}
            systemctl() {{ [[ $1 == cat ]] || log "$@"; }}
            mountpoint() {{ {"true" if scratch else "false"}; }}
            stat() {{ [[ ${{!#}} == / ]] && echo 1 || echo {2 if separate else 1}; }}
            cp() {{ log cp "${{@: -2:1}}" "${{@: -1}}"; }}
            mkdir() {{ log mkdir "${{@: -1}}"; }}
            mv() {{ log mv "$@"; }}
            set_docker_root() {{ log root "$1"; }}
            {"dockerd() { :; }" if docker else ""}
            unset AZ_BATCH_NODE_ROOT_DIR
            {f"AZ_BATCH_NODE_ROOT_DIR={shlex.quote(str(disk / 'batch'))}" if batch else ""}
            docker_moved={shlex.quote(str(tmp_path / "moved"))}
            for _ in {{1..{times}}}; do move_docker; done
            """
            subprocess.run(["bash", "-c", program], check=True, capture_output=True)
            return [
                line.replace(str(disk), "MNT")
                for line in log.read_text().splitlines()
                if not line.startswith("cp")
            ]

        return move

    @pytest.mark.parametrize(
        ("given", "root"),
        [
            ({"scratch": True, "batch": False}, "/mnt/resource_nvme/docker"),
            ({}, "MNT/docker"),
            ({"separate": False}, ""),
            ({"separate": False, "batch": False}, ""),
        ],
        ids=["striped", "beside Batch", "one disk", "one disk of a node"],
    )
    def test_docker_folder_moves_to_another_disk_if_there_is_one(
        self, move: Any, given: dict[str, bool], root: str
    ) -> None:
        done = move(**given)
        assert [line for line in done if line.startswith("root")] == [f"root {root}"] * bool(root)
        assert done[:2] == ["stop docker.socket", "stop docker.service"] * bool(root)
        assert done[-1:] == ["start docker.service"] * bool(root)

    def test_docker_is_not_restarted_again_before_the_next_boot(self, move: Any) -> None:
        """Containers may be running by then."""
        done = move(scratch=True, times=2)
        assert done.count("stop docker.service") == done.count("start docker.service") == 1

    def test_docker_folder_stays_if_docker_is_missing(self, move: Any) -> None:
        if shutil.which("dockerd"):
            pytest.skip("this machine has Docker")
        assert move(docker=False) == []

    @pytest.mark.parametrize("before", [None, {"runtimes": {"nvidia": {"path": "x"}}, "a": 1}])
    def test_docker_settings_of_the_gpu_runtime_are_kept(
        self, repository: Path, tmp_path: Path, before: dict[str, Any] | None
    ) -> None:
        script = repository / "constructs/fairway_constructs/cloud_init/node.sh"
        file = tmp_path / "docker" / "daemon.json"
        if before is not None:
            file.parent.mkdir()
            file.write_text(json.dumps(before))
        steps = f'source "$1"; set_docker_root /mnt/x "$2"; set_docker_root /mnt/y "$2"; # {before}'
        subprocess.run(["bash", "-c", steps, "bash", script, file], check=True)
        assert json.loads(file.read_text()) == {**(before or {}), "data-root": "/mnt/y"}


@pytest.mark.parametrize(
    ("mounted", "touched"), [("/mnt/resource", False), ("", True)], ids=["by Batch", "free"]
)
def test_local_disks_mounted_by_batch_are_not_formatted(
    repository: Path, tmp_path: Path, mounted: str, touched: bool
) -> None:
    script = repository / "constructs/fairway_core/local_disks.sh"
    log = tmp_path / "log"
    log.touch()
    program = f"""
    source {shlex.quote(str(script))}
    log() {{ printf '%s\\n' "$*" >>{shlex.quote(str(log))}; }}
    mountpoint() {{ false; }}
    lsblk() {{
        case $* in
            *MODEL*) printf '/dev/nvme%s Microsoft NVMe Direct Disk v2\\n' 0n1 1n1 ;;
            *MOUNTPOINT*) printf '\\n%s\\n' {shlex.quote(mounted)} ;;
        esac
    }}
    for name in mdadm mkfs.xfs mount chmod; do eval "$name() {{ log $name \\$*; }}"; done
    blkid() {{ :; }}
    mount_scratch {shlex.quote(str(tmp_path / "scratch"))}
    """
    subprocess.run(["bash", "-c", program], check=True, capture_output=True)
    assert ("mkfs.xfs -q -f -K " in log.read_text()) is touched
