"""The connection to a cluster: copies, arguments, checks, ports."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from staged import check_staging, services

from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.remote import ssh
from fairway_runner.engines.remote.remote_host import RemoteHost
from fairway_simulator.ssh.cluster import SshCluster
from fairway_simulator.ssh.services import CONTAINER, Services, running

_DEADLINE = 20.0


@pytest.fixture
def remote_host(cluster: SshCluster) -> Iterator[RemoteHost]:
    """The cluster's main host, over a connection of this test only."""
    host = ssh.Ssh("n1", "root", cluster.environment["FAIRWAY_SSH_CONFIG"])
    yield RemoteHost(host, str(cluster.shared), _DEADLINE)
    host.close()


def fill(folder: Path) -> dict[str, str]:
    """Writes files with names that a shell would interpret, and returns their contents."""
    contents = {"a": "1", "sub dir/it's $HOME": "2", "sub dir/*": "3", "-n": "4"}
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "a").chmod(0o755)
    (folder / "link").symlink_to("a")
    return contents


@pytest.mark.parametrize("has_rsync", [True, False], ids=["rsync", "tar"])
def test_ssh_transport_copies_names_modes_and_links_unchanged(
    cluster: SshCluster, remote_host: RemoteHost, tmp_path: Path, has_rsync: bool
) -> None:
    remote_host.connection.has_rsync = has_rsync
    here, there, back = tmp_path / "here", cluster.shared / "the re", tmp_path / "back"
    contents = fill(here)
    remote_host.connection.upload(here, str(there), deadline=_DEADLINE)
    assert {name: (there / name).read_text() for name in contents} == contents
    assert os.access(there / "a", os.X_OK)
    assert os.readlink(there / "link") == "a"  # noqa: PTH115
    names = ["sub dir", "-n", "link", "not there"]
    remote_host.connection.download(str(there), names, back, deadline=_DEADLINE)
    found = {path.relative_to(back).as_posix() for path in back.rglob("*") if not path.is_dir()}
    assert found == {"sub dir/it's $HOME", "sub dir/*", "-n", "link"}
    assert (back / "sub dir" / "*").read_text() == "3"


def test_ssh_transport_falls_back_to_tar_if_the_host_has_no_rsync(
    tmp_path: Path, cluster: SshCluster, remote_host: RemoteHost
) -> None:
    """A first attempt with rsync reveals it."""
    fill(tmp_path / "here")
    real = Path("/usr/bin/rsync")
    host = cluster.hosts["n1"]
    host.kill()
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    for name in ("bash", "sh", "tar", "gzip", "mkdir"):
        (nowhere / name).symlink_to(f"/usr/bin/{name}")
    assert real.exists()
    host.environment = {"PATH": str(nowhere)}
    host.start()
    remote_host.connection.upload(tmp_path / "here", str(cluster.shared / "x"), deadline=_DEADLINE)
    assert (cluster.shared / "x" / "a").read_text() == "1"
    assert not remote_host.connection.has_rsync


def test_ssh_transport_passes_arguments_and_input_unchanged(remote_host: RemoteHost) -> None:
    words = ["a b", "it's", "$HOME", "*", "", "\n", "ü"]
    script = 'for word; do printf "%s|" "$word"; done; cat'
    ended = remote_host.connection.run(
        ["bash", "-c", script, "bash", *words], input=b"\0in", deadline=_DEADLINE
    )
    assert ended.out == "|".join([*words, ""]).encode() + b"\0in"


def test_ssh_transport_uses_one_connection_and_closes_it(
    cluster: SshCluster, remote_host: RemoteHost
) -> None:
    assert isinstance(remote_host.connection, ssh.Ssh)
    for _ in range(3):
        remote_host.connection.run(["true"], deadline=_DEADLINE)
    log = (cluster.hosts["n1"].folder / "sshd.log").read_text()
    assert log.count("Accepted publickey") == 1
    folder = remote_host.connection.folder
    assert folder.stat().st_mode & 0o077 == 0
    remote_host.connection.close()
    assert not folder.exists()


def test_ssh_transport_uses_the_control_master_of_the_user_and_leaves_it_open(
    cluster: SshCluster, remote_host: RemoteHost, tmp_path: Path
) -> None:
    """The user's ssh configuration opened it, perhaps with a second factor."""
    config = Path(cluster.environment["FAIRWAY_SSH_CONFIG"])
    folder = Path(tempfile.mkdtemp(prefix="fw-"))  # short: a socket's path has a limited length
    lines = config.read_text().replace(
        "    User root", f"    User root\n    ControlPath {folder}/c"
    )
    config.write_text(lines)
    own = ["ssh", "-F", str(config), "-o", "ControlPersist=60", "-MNf", "n1"]
    subprocess.run(own, check=True, stderr=subprocess.DEVNULL)
    (cluster.folder / "key.pub").write_text("")  # no new connection can log in
    assert remote_host.connection.run(["hostname"], deadline=_DEADLINE).out == b"n1\n"
    assert isinstance(remote_host.connection, ssh.Ssh)
    remote_host.connection.close()
    check = ["ssh", "-F", str(config), "-O", "check", "n1"]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    subprocess.run([*check[:3], "-O", "exit", "n1"], capture_output=True, check=True)
    shutil.rmtree(folder)


def test_ssh_target_localhost_runs_jobs_without_ssh(
    fairway: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The command line runs on the machine itself: no announcements, and the same commands."""
    shared = tmp_path_factory.mktemp("shared")  # not in the project
    access = {"host": "localhost", "user": "", "shared": str(shared)}
    record = {"name": "box", "engine": "ssh", "nodes": {"min": 1, "max": 1}, "ssh": access}
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [record]}))
    job = fairway.job(
        'echo hello >"$FAIRWAY_OUTPUT_WORD/w"; echo $FAIRWAY_HOSTS',
        template="plain",
        outputs={"word": {}},
    )
    assert "localhost" in fairway.watch(job, "-t", "box")
    (run,) = [each.name for each in (shared / "runs").iterdir()]
    assert fairway.within("fetch", run).returncode == 0
    assert (tmp_path / run / "0" / "word" / "w").read_text() == "hello\n"


def test_ssh_doctor_reports_silent_nodes_and_an_unreachable_main_host(
    cluster: SshCluster, monkeypatch: Any
) -> None:
    engine = engine_for(Target.model_validate(cluster.target()), _DEADLINE)
    assert engine.doctor() == []
    old = time.time() - 600
    cluster.silent.add("n3")
    os.utime(cluster.announcements / "n3", (old, old))
    silent, missing = engine.doctor()
    assert silent.message == "the node n3 has been silent for 10 min"
    assert missing.message == "2 of 3 nodes are up"
    (node,) = [node for node in engine.nodes() if node.name == "n3"]
    assert (node.state, node.reason) == ("silent", "silent for 10 min")
    cluster.kill("n1")
    engine.deadline = 1.0
    (away,) = engine.doctor()
    assert away.id == "no-connection"


def test_ssh_nodes_stage_inputs_and_read_secrets(fairway: Any, cluster: SshCluster) -> None:
    with running(services()) as there:
        for host in cluster.hosts.values():
            host.kill()
            host.environment = {**host.environment, "FAIRWAY_METADATA_URL": there.url}
            host.start()
        check_staging(fairway, there, cluster.target(), cluster.hosts, cluster.shared)


def test_ssh_data_stage_copies_blobs_to_a_mount_once_and_refuses_bad_paths(
    fairway: Any, cluster: SshCluster, tmp_path: Path
) -> None:
    """A second `fairway data stage` copies only what has changed in storage."""
    data = tmp_path / "data"
    data.mkdir()
    blobs = {"words/a": b"alpha", "words/sub/b": b"beta"}
    with running(Services(blobs=blobs)) as services:
        host = cluster.hosts["n1"]
        host.kill()
        host.environment = {**host.environment, "FAIRWAY_METADATA_URL": services.url}
        host.start()
        storage = {"account_url": services.url, "containers": [CONTAINER]}
        target = cluster.target(storage=storage, mounts={"data": str(data)})
        (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
        stage = ("data", "stage", "pair", f"{CONTAINER}:words/", "data:/words", "--watch")
        for _ in range(2):
            fairway.ok(*stage)
        assert (data / "words" / "sub" / "b").read_bytes() == b"beta"
        copied = [path for path in services.requests if "/words/" in path and "comp=" not in path]
        assert len(copied) == 2
        nowhere = fairway.within(
            "data", "stage", "pair", f"{CONTAINER}:none/", "data:/none", "--watch"
        )
        assert nowhere.returncode != 0
        assert "there is nothing at" in nowhere.stdout
    for words, message in (
        (("pair", f"{CONTAINER}:words/", "scratch:/words"), "no mount `scratch`"),
        (("pair", "nothing:words/", "data:/words"), "no storage container `nothing`"),
        (("pair", "words", "data:/words"), "write CONTAINER:PATH"),
        (("pair", f"{CONTAINER}:words/", "words"), "write MOUNT:PATH"),
        (("local", f"{CONTAINER}:words/", "data:/words"), "has no storage account"),
    ):
        fairway.refused("data", "stage", *words, says=message)


def test_ssh_tunnel_forwards_a_loopback_port_of_another_node(
    fairway: Any, cluster: SshCluster, hello: Callable[..., str]
) -> None:
    """The tunnel goes through the main host and ends when the command is interrupted."""
    hold = fairway.job("sleep 600", "hold.yaml", template="plain")
    fairway.submit(hold, "-t", "pair")  # occupies n1, so the next run is on n2
    assert fairway.within("show", hello("-t", "pair")).stdout.count("n2")
