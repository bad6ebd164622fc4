"""Containers under each runtime, with stand-ins that record their calls; some run the command."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from programs import executable
from waiting import until

import fairway_agent
from fairway_agent import access, container, processes, scratch
from fairway_agent.job_facts import Container
from fairway_boot.files import AgentError

pytestmark = pytest.mark.integration


# Records each call as a line, and runs the command after the image or after enroot's file.
RUNTIME = """#!{python}
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
while words[0].startswith("--") and words[0] != "--version":
    words.pop(0)  # of all commands of Podman's
note = pathlib.Path({folder!r}) / "calls"
with note.open("a") as out:
    out.write(json.dumps([pathlib.Path(sys.argv[0]).name, *words]) + "\\n")
if words[0] not in ("run", "exec", "start"):
    if words[0] == "import":
        pathlib.Path(words[2]).touch()
    sys.exit({version} if "version" in words[0] else 0)
image = next(i for i, w in enumerate(words) if "train:1" in w or w.endswith(".sqsh"))
if {daemon}:
    # As dockerd does: in a session of its own, with no variable but those that are named; and the
    # first process of a container leaves a signal that it does not wait for unheard.
    import signal
    signal.signal(signal.SIGTERM, lambda *_: None)
    names = [w.removeprefix("--env=") for w in words if w.startswith("--env=")]
    own = {{name: os.environ[name] for name in ["PATH", *names] if "=" not in name}}
    # Not sys.exit, in which Python takes its handler back: the signal may come as late as that.
    os._exit(subprocess.Popen(words[image + 1:], env=own, start_new_session=True).wait() & 255)
sys.exit(subprocess.call(words[image + 1:]))
"""


class Host:
    """A host with recording runtimes, and a run whose job has a container."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.run = folder, folder / "bin", folder / "runs/job-abc"
        self.mark = f"{self.run}#0"
        self.more: dict[str, str] = {}
        for path in (self.bin, self.run / "work", self.run / "shared", folder / "tmp"):
            path.mkdir(parents=True)
        for name in ("sh", "bash", "sleep", "env"):
            (self.bin / name).symlink_to(f"/bin/{name}")
        self.job(options=["--cap-add=SYS_PTRACE"])
        self.target("ssh")

    def job(self, **facts: Any) -> None:
        own = {"image": "contoso.example/train:1", "shm_size": None, "options": [], **facts}
        (self.run / "job.json").write_text(json.dumps({"container": own, "secrets": {"KEY": "x"}}))

    def target(self, engine: str) -> None:
        facts = {"engine": engine, "mounts": {"data": str(self.folder / "tmp")}}
        (self.run / "target.json").write_text(json.dumps(facts))

    def has(self, *names: str, version: int = 0, daemon: bool = False) -> None:
        for name in names:
            facts = {"folder": str(self.folder), "version": version, "daemon": daemon}
            text = RUNTIME.format(python=sys.executable, **facts)
            executable(self.bin / name, text)

    def start(self, *command: str) -> subprocess.Popen[str]:
        environment = {
            "PATH": str(self.bin),
            "PYTHONPATH": str(Path(fairway_agent.__file__).parents[1]),
            "HOME": "/root",
            "KEY": "secret",
            "OTHER": "of the host",
            "no_proxy": "localhost",
            "HTTPS_PROXY": "http://proxy.example.com:3128",
            "OMPI_MCA_plm_rsh_agent": "fairway-rsh",
            "FAIRWAY_RUN": "job-abc",
            "FAIRWAY_TASK": "0",
            "FAIRWAY_ATTEMPT": "1",
            "FAIRWAY_SHARED_DIR": str(self.run / "shared"),
            "FAIRWAY_SCRATCH_DIR": str(self.folder / "tmp"),
            "_FAIRWAY_MARK": self.mark,
            **self.more,
        }
        return subprocess.Popen(
            [*processes.program("fairway_agent.container", waits=True), str(self.run), *command],
            cwd=self.run / "work",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def ran(self, *command: str) -> tuple[int, str]:
        process = self.start(*command)
        said, _ = process.communicate(timeout=300)
        return process.returncode, said

    @property
    def calls(self) -> list[list[str]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def call(self, word: str) -> list[str]:
        return next(each for each in self.calls if each[1] == word)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_container_command_gets_the_contract_variables_and_mounts(host: Host, name: str) -> None:
    host.has(name)
    host.more = {"FAIRWAY_GPUS": "2,5", "FAIRWAY_CORES": "4-7", "CUDA_VISIBLE_DEVICES": "2,5"}
    script = "echo $FAIRWAY_TASK $KEY $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES; exit 7"
    # In the container GPUs are counted from zero.
    assert host.ran("sh", "-c", script) == (7, "0 secret 0,1 2,5\n")
    words = host.call("run")
    assert {"--rm", "--network=host", "--entrypoint=", "--shm-size=8g"} <= set(words)
    assert ("--cpuset-cpus=4-7" in words) is (name == "docker"), "which a daemon starts"
    assert f"--workdir={host.run / 'work'}" in words
    for path in (host.run, host.folder / "tmp", Path(fairway_agent.__file__).parent):
        assert f"--volume={path}:{path}" in words
    assert f"--volume={host.run / 'shared'}:{host.run / 'shared'}" not in words, "in the run's"
    told = {word.removeprefix("--env=") for word in words if word.startswith("--env=")}
    assert {"FAIRWAY_RUN", "FAIRWAY_SHARED_DIR", "KEY", "_FAIRWAY_MARK"} <= told
    assert f"HOME={host.folder / 'tmp'}" in told, "which is not the client's"
    assert {"no_proxy", "HTTPS_PROXY"} <= told, "the way to the internet is the machine's"
    assert not told & {"OTHER", "PATH", "OMPI_MCA_plm_rsh_agent", "_FAIRWAY_CONTAINER"}
    assert "secret" not in " ".join(words), "no value is on a command line"
    assert words.index("--cap-add=SYS_PTRACE") + 1 == words.index("contoso.example/train:1")


def test_container_is_removed_when_its_starter_is_killed(host: Host) -> None:
    """A container that a daemon started is not a child process of ours."""
    host.has("docker")
    process = host.start("sleep", "600")
    until(lambda: any(call[1] == "run" for call in host.calls))
    (name,) = (word for word in host.call("run") if word.startswith("--name="))
    assert not [call for call in host.calls if call[1] == "rm"]
    process.kill()
    until(lambda: any(call[1] == "rm" for call in host.calls))
    assert host.call("rm") == ["docker", "rm", "--force", name.removeprefix("--name=")]
    # The recording runtime does not implement `rm` and is still running.
    processes.kill(processes.sessions_with(f"_FAIRWAY_MARK={host.mark}"))
    process.communicate(timeout=300)


def test_container_wrapper_survives_signals_and_returns_the_exit_code(host: Host) -> None:
    host.has("docker")
    ready, go = host.folder / "tmp/ready", host.folder / "tmp/go"
    waits = f"echo > {ready}; while [ ! -e {go} ]; do sleep 0.1; done; exit 9"
    process = host.start("sh", "-c", waits)
    until(ready.exists)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        process.send_signal(number)
    go.touch()
    process.communicate(timeout=300)
    assert process.returncode == 9, "it waits for the container's own code"


def test_container_of_a_daemon_passes_sigterm_to_its_program(host: Host) -> None:
    """Otherwise a cancelled task would be killed after its grace without having saved anything."""
    host.has("docker", daemon=True)
    ready = host.folder / "tmp/ready"
    program = host.folder / "tmp/program.py"
    program.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(11))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(120)\n"
    )
    process = host.start("sh", "-c", f"{sys.executable} {program}; exit $?")
    until(ready.exists)
    processes.signal_sessions(processes.sessions_with(f"_FAIRWAY_MARK={host.mark}"), signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 11


@pytest.mark.parametrize(
    ("runtime", "gpus", "devices"),
    [
        ("docker", "0,3", ['--gpus="device=0,3"']),
        ("podman", "0,3", ["--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=3"]),
        ("docker", None, ["--gpus=all"]),
        ("podman", None, ["--device=nvidia.com/gpu=all"]),
        ("docker", "", []),
    ],
)
def test_container_sees_only_the_gpus_of_its_task(
    runtime: str, gpus: str | None, devices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that a daemon starts runs outside the task's process tree."""
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == "/dev/nvidia0")
    if gpus is not None:
        monkeypatch.setenv("FAIRWAY_GPUS", gpus)
    assert container._devices(runtime) == devices


def test_container_command_runs_in_apptainer_with_mounts(host: Host) -> None:
    host.has("apptainer")
    assert host.ran("sh", "-c", "echo $FAIRWAY_TASK") == (0, "0\n")
    words = host.call("exec")
    assert words[-4:] == ["docker://contoso.example/train:1", "sh", "-c", "echo $FAIRWAY_TASK"]
    bound = words[words.index("--bind") + 1].split(",")
    assert {str(host.run), str(host.folder / "tmp")} <= set(bound)
    assert words[words.index("--pwd") + 1] == str(host.run / "work")


def test_container_image_is_imported_by_enroot_once(host: Host) -> None:
    host.has("enroot")
    image = f"contoso.example/{host.folder.name}-train:1"
    host.job(image=image)
    for _ in range(2):
        assert host.ran("sh", "-c", "echo $PWD") == (0, f"{host.run / 'work'}\n")
    (imported,) = (call for call in host.calls if call[1] == "import")
    assert imported[-1] == f"docker://{image.replace('/', '#')}"
    Path(imported[3]).with_suffix(".sqsh").unlink()
    assert f"--mount={host.run}:{host.run}" in host.call("start")


def test_container_runtime_skips_docker_without_a_running_daemon(host: Host) -> None:
    host.has("docker", version=1)
    code, said = host.ran("true")
    assert code == 4
    assert "runs no containers: it has none of docker, podman, apptainer" in said
    host.has("podman")
    assert host.ran("sh", "-c", "echo in") == (0, "in\n")
    assert host.call("run")[0] == "podman"


def test_container_pull_from_azure_registry_uses_the_node_identity(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.has("docker")
    monkeypatch.setattr(access, "bearer", lambda _: {"Authorization": "Bearer own"})
    monkeypatch.setattr(access, "exchange_token", lambda _, server, own: f"{own}-token-of-{server}")
    program = str(host.bin / "docker")
    found = access.log_in("docker", program, "lab.azurecr.io/train:1", str(host.folder))
    assert found["DOCKER_CONFIG"] == str(host.folder)
    assert "--password-stdin" in host.call("login")
    assert "token-of" not in " ".join(host.call("login"))
    own = access.log_in("apptainer", "", "lab.azurecr.io/train:1", "")
    assert own["APPTAINER_DOCKER_PASSWORD"] == "own-token-of-lab.azurecr.io"
    assert access.log_in("docker", program, "ubuntu:24.04", "") == {}


def test_container_pull_reports_refused_login_and_failed_download(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = executable(host.bin / "refusing", "echo 'unauthorized: no AcrPull' >&2; exit 3")
    monkeypatch.setattr(access, "bearer", lambda _: {"Authorization": "Bearer own"})
    monkeypatch.setattr(access, "exchange_token", lambda _, server, own: f"{own}-token-of-{server}")
    with pytest.raises(AgentError) as refused:
        access.log_in("docker", str(program), "lab.azurecr.io/train:1", str(host.folder))
    said = "lab.azurecr.io does not let this node in: unauthorized: no AcrPull"
    assert refused.value.record["message"] == said
    assert "AcrPull" in refused.value.record["hint"]
    monkeypatch.setenv("TMPDIR", str(host.folder))
    runtime = container.Runtime("enroot", str(program))
    with pytest.raises(AgentError) as missing:
        container._import(runtime, f"{host.folder.name}/train:1")
    assert missing.value.record["message"] == f"enroot cannot import {host.folder.name}/train:1"
    assert missing.value.record["hint"].startswith("see why on the node: enroot import docker://")
    assert missing.value.record["exit_code"] == 3
    with pytest.raises(AgentError, match="Podman cannot pull x/train:1") as unpulled:
        container.fetch_image([str(program)], "x/train:1", dict(os.environ))
    assert unpulled.value.record["exit_code"] == 3
    assert "podman login --authfile" in str(unpulled.value.record["hint"])


def test_container_entry_is_empty_for_a_job_without_a_container(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"container": None}))
    assert container.entry(tmp_path) == []


IMAGE = "contoso.example/train:1"
# Records each call. Has an image once it has pulled it, and lists the tasks' containers in the file
# `names` and one of the user's own.
PODMAN = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$*" in
    *"image exists"*) exec test -e {folder}/image ;;
    *pull*) sleep 0.2; echo sha256:abc; touch {folder}/image ;;
    *"rm --force"*) exit 1 ;;  # somebody else has removed it meanwhile
    *ps*--filter=label=fairway.run*) cat {folder}/names ;;
    *ps*) cat {folder}/names; echo fairway-database ;;
esac
"""


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the node's local disk, and restores the variable that `own_store` sets."""
    monkeypatch.setattr(scratch, "root", lambda: tmp_path / "disk")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/30001")
    return tmp_path / "disk"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Returns a Podman that records its calls."""
    for name in ("names", "calls"):
        (tmp_path / name).touch()
    return executable(tmp_path / "podman", PODMAN.format(folder=tmp_path))


def test_container_of_podman_maps_root_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 30001)
    monkeypatch.setenv("FAIRWAY_RUN", "job-abc")
    monkeypatch.setenv("FAIRWAY_SCRATCH_DIR", "/mnt/resource_nvme/fairway-30001/job")
    runtime = container.Runtime("podman", "/usr/bin/podman", ("--root=/x",))
    words = container.command_line(
        runtime, Container(IMAGE, ("--env=A=1",)), ["true"], seen=["/data"], names=["KEY"], name="n"
    )
    assert words[:4] == ["/usr/bin/podman", "--root=/x", "run", "--rm"]
    assert set(container._ROOTLESS) <= set(words)
    assert [word for word in words if word.startswith("--user")] == ["--user=0:0"]
    assert "--env=HOME=/mnt/resource_nvme/fairway-30001/job" in words
    assert "--ulimit=memlock=-1" not in words, "above the person's own it would be refused"
    assert words[-3:] == ["--env=A=1", IMAGE, "true"]


def test_podman_store_is_local_and_its_state_is_cleared_after_a_reboot(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = container.image_store_options()
    assert options[:3] == (
        f"--root={disk}/podman/store",
        f"--runroot={disk}/podman/run",
        f"--tmpdir={disk}/podman/run/tmp",
    )
    assert os.environ["XDG_RUNTIME_DIR"] == f"{disk}/podman/run"
    assert (disk / "podman/run").stat().st_mode & 0o777 == 0o700
    container.image_store_options()
    state = disk / "podman/run/alive"
    state.touch()
    container.image_store_options()
    assert state.exists()
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(container, "_BOOT", tmp_path / "boot_id")
    container.image_store_options()
    assert not state.exists()


def test_podman_store_of_another_user_is_refused(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: disk.stat().st_uid + 1)
    with pytest.raises(AgentError, match="not a folder of this user's alone") as refused:
        container.image_store_options()
    assert refused.value.record["exit_code"] == 4


def test_podman_image_is_pulled_once_by_concurrent_tasks(program: Path) -> None:
    words, environment = [str(program), "--root=/x"], {"PATH": os.environ["PATH"]}
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: container.fetch_image(words, IMAGE, environment), range(3)))
    calls = (program.parent / "calls").read_text().splitlines()
    assert calls.count(f"--root=/x pull --quiet {IMAGE}") == 1
    assert calls.count(f"--root=/x image exists {IMAGE}") == 3


def test_podman_removes_only_containers_of_killed_tasks(program: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f"fairway-job-0-0-{ended.pid}", f"fairway-job-1-0-{os.getpid()}"]
    (program.parent / "names").write_text("\n".join(names))
    container.fetch_image([str(program)], IMAGE, dict(os.environ))
    calls = (program.parent / "calls").read_text().splitlines()
    assert [call for call in calls if call.startswith("rm")] == [f"rm --force {names[0]}"]
    assert calls[-1] == f"pull --quiet {IMAGE}"
