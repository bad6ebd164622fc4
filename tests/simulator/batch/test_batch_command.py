"""Command `python -m fairway_simulator.batch`, as bin/batch-simulator starts it."""

import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.batch import BatchClient
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob import BlobServiceClient
from programs import finished
from waiting import until

from fairway_core.documents import read
from fairway_core.project import Project
from fairway_simulator.batch.__main__ import DATA

COMMAND = [sys.executable, "-m", "fairway_simulator.batch"]


@pytest.fixture
def start(storage: Any) -> Iterator[Any]:
    """Starts the command, and kills it after the test."""
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> dict[str, str]:
    """Waits until the simulator is ready and returns the variables that it prints."""
    line = process.stderr.readline()
    assert line.startswith("ready: "), line
    lines = [shlex.split(process.stdout.readline())[1] for _ in range(4)]
    return dict(line.split("=", 1) for line in lines)


def client_of(variables: dict[str, str]) -> BatchClient:
    credential = AzureNamedKeyCredential(
        variables["AZURE_BATCH_ACCOUNT"], variables["AZURE_BATCH_ACCESS_KEY"]
    )
    return BatchClient(variables["AZURE_BATCH_ENDPOINT"], credential)


def children(pid: int) -> set[int]:
    """Returns the IDs of all descendants of a process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(entry.name)] = int(fields[1])
    below = {pid}
    while more := {p for p, parent in found.items() if parent in below} - below:
        below |= more
    return below - {pid}


def test_batch_simulator_keeps_its_state_and_stops_all_on_a_signal(
    start: Any, tmp_path: Path
) -> None:
    file, state = tmp_path / "sim.env", tmp_path / "state"
    process = start("--nodes", "2", "--env", str(file), "--state", str(state))
    variables = ready(process)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert variables.items() <= sourced(file).items()
    with client_of(variables) as client:
        assert client.get_pool("sim").current_dedicated_nodes == 2
        client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}})
        client.create_task("j", {"id": "1", "commandLine": "sleep 300"})
    with blobs_of(variables) as blobs:
        assert {c.name for c in blobs.list_containers()} == {"datasets", "outputs", "code"}
        blobs.get_blob_client("code", "kept").upload_blob(b"kept")
    below = children(process.pid)
    assert below
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 0
    assert not file.exists()
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]

    again = start("--nodes", "0", "--state", str(state))
    later = ready(again)
    assert later["AZURE_BATCH_ACCESS_KEY"] == variables["AZURE_BATCH_ACCESS_KEY"]
    assert stat.S_IMODE((state / "account-key").stat().st_mode) == 0o600
    with blobs_of(later) as blobs:
        assert blobs.get_blob_client("code", "kept").download_blob().readall() == b"kept"
    again.send_signal(signal.SIGTERM)
    assert again.wait(300) == 0


def sourced(file: Path) -> dict[str, str]:
    """Returns the variables of a shell that has sourced the file."""
    script = f"set -a; source {shlex.quote(str(file))}; env -0"
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], env=path, capture_output=True, check=True)
    return dict(pair.split("=", 1) for pair in done.stdout.decode().split("\0") if "=" in pair)


def blobs_of(variables: dict[str, str]) -> BlobServiceClient:
    return BlobServiceClient.from_connection_string(variables["AZURE_STORAGE_CONNECTION_STRING"])


def test_batch_simulator_that_is_killed_leaves_no_process(start: Any, tmp_path: Path) -> None:
    process = start("--nodes", "1", "--state", str(tmp_path))
    variables = ready(process)
    with client_of(variables) as client:
        client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}})
        client.create_task("j", {"id": "1", "commandLine": "sleep 300"})
        until(lambda: client.get_task("j", "1").state == "running")
    below = children(process.pid)
    assert len(below) >= 2
    process.kill()
    process.wait(300)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_batch_simulator_nodes_see_the_shared_folder_of_the_repository_target(
    start: Any, repository: Path
) -> None:
    targets = read(repository / "fairway.yaml").validate(Project).targets
    (target,) = (each for each in targets if each.name == "batch-sim")
    assert target.mounts == {"data": str(DATA)}
    variables = ready(start("--nodes", "1"))
    file = DATA / f"test-{os.getpid()}"
    file.write_text("from here\n")
    file.chmod(0o666)
    try:
        with client_of(variables) as client:
            client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}})
            line = f"/bin/bash -c 'cat {file} && echo from there >{file}'"
            client.create_task("j", {"id": "1", "commandLine": line})
            until(lambda: client.get_task("j", "1").state == "completed")
            assert b"".join(client.download_task_file("j", "1", "stdout.txt")) == b"from here\n"
        assert file.read_text() == "from there\n"
    finally:
        file.unlink()


def test_batch_simulator_refuses_a_data_folder_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    script = (
        "import sys; from pathlib import Path; from fairway_simulator.batch import __main__ as m;"
        f"m.DATA = Path({str(tmp_path / 'link' / 'data')!r}); sys.argv[1:] = ['--port', '0'];"
        "sys.exit(m.main())"
    )
    done = finished([sys.executable, "-c", script])
    assert done.returncode == 2
    assert "is not a folder of your own; remove it first" in done.stderr
    assert not (tmp_path / "theirs" / "data").exists()


def test_batch_simulator_without_azurite_hints_at_its_installation(tmp_path: Path) -> None:
    script = (
        "import sys; from fairway_simulator.batch import azurite; azurite.program = lambda: None;"
        "from fairway_simulator.batch.__main__ import main; sys.argv[1:] = ['--port', '0'];"
        "sys.exit(main())"
    )
    done = finished([sys.executable, "-c", script])
    assert done.returncode == 4
    assert "npm install" in done.stderr
