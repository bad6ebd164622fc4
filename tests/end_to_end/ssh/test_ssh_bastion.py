"""A host in a network of its own that only a Bastion reaches; needs root."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from waiting import PATIENCE, until

from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.remote.engine import RemoteEngine
from fairway_simulator.ssh.bastion import Bastion
from fairway_simulator.ssh.cluster import SshCluster, missing

ADDRESS = "10.231.77.4"


@pytest.fixture
def bastion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bastion]:
    """The Bastion that leads to the target `box`, whose host calls itself `n1`."""
    lacking = missing() or ("" if shutil.which("ip") else "no ip (Debian: iproute2)")
    if lacking:
        pytest.skip(lacking)
    with SshCluster(tmp_path / "cluster", ["n1"], name="box", private=ADDRESS) as cluster:
        bastion = Bastion(tmp_path / "bastion")
        bastion.lets_in(cluster.hosts["n1"])
        monkeypatch.setenv("PATH", f"{bastion.programs}:{os.environ['PATH']}")
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        record = cluster.target(ssh_route={"bastion": bastion.id})
        (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [record]}))
        yield bastion


def _await_end(bastion: Bastion) -> None:
    """Waits until no az of this test runs; none may have been killed with its session open."""
    words = ["ps", "-eo", "args"]
    until(lambda: str(bastion.folder) not in subprocess.check_output(words, text=True))
    assert bastion.sessions == []


def test_bastion_commands_run_a_job_and_fetch_its_files_by_one_tunnel_each(
    fairway: Any, bastion: Bastion
) -> None:
    """Each command closes its tunnel when it ends."""
    job = fairway.job(
        'echo "hello from $(hostname)"; echo 42 >"$FAIRWAY_OUTPUT_WORD/w"',
        template="plain",
        outputs={"word": {}},
    )
    assert "hello from n1" in fairway.watch(job, "-t", "box")
    assert len(bastion.calls) == 1
    _await_end(bastion)
    (run,) = [path.name for path in (fairway.folder / ".fairway" / "runs").iterdir()]
    assert fairway.within("fetch", run).returncode == 0
    assert (fairway.folder / run / "0" / "word" / "w").read_text() == "42\n"
    assert len(bastion.calls) == 2
    _await_end(bastion)
    # Its host key is stored under a name that is unique to this environment.
    known = (fairway.folder / "cluster" / "known_hosts").read_text()
    assert known.startswith(f"{ADDRESS}.lab-bas ssh-ed25519")


def test_bastion_ssh_command_opens_a_tunnel_and_closes_it(fairway: Any, bastion: Bastion) -> None:
    done = fairway("ssh", "box", "--", "hostname")
    assert (done.returncode, done.stdout) == (0, "n1\n"), done.stderr
    _await_end(bastion)


def test_bastion_port_is_forwarded_until_the_command_ends(
    bastion: Bastion, hello: Callable[..., str]
) -> None:
    """The tunnel uses a connection of its own."""
    hello("-t", "box")
    _await_end(bastion)


def test_bastion_tunnel_is_reopened_after_it_was_killed(fairway: Any, bastion: Bastion) -> None:
    (record,) = json.loads((fairway.folder / "fairway.yaml").read_text())["targets"]
    engine = engine_for(Target.model_validate(record), PATIENCE)
    assert isinstance(engine, RemoteEngine)
    connection = engine.remote_host.connection
    assert connection.run(["hostname"], deadline=PATIENCE).out == b"n1\n"
    (session,) = bastion.sessions
    os.kill(int(session), signal.SIGKILL)
    assert connection.run(["hostname"], deadline=PATIENCE).out == b"n1\n"
    assert len(bastion.calls) == 2
    connection.close()  # type: ignore[attr-defined]


@pytest.mark.nightly
def test_bastion_ssh_config_works_with_plain_ssh_scp_and_rsync(
    fairway: Any, bastion: Bastion
) -> None:
    block = fairway.ok("ssh-config", "box")
    own = fairway.folder / "cluster" / "client_config"
    config = fairway.folder / "config"
    config.write_text(f"{block}\n{own.read_text()}")
    ssh = ["ssh", "-F", str(config)]
    done = finished([*ssh, "box", "hostname"], check=True)
    assert (done.stdout, done.stderr) == ("n1\n", "")
    (fairway.folder / "a").write_text("alpha")
    there = fairway.folder / "there"
    there.mkdir()
    for words in (
        ["scp", "-q", "-F", str(config), "a", f"box:{there}/scp"],
        ["rsync", "-e", " ".join(ssh), "a", f"box:{there}/rsync"],
    ):
        subprocess.run(words, cwd=fairway.folder, check=True)
    assert {path.name: path.read_text() for path in there.iterdir()} == {
        "scp": "alpha",
        "rsync": "alpha",
    }
    _await_end(bastion)


def test_jump_hosts_are_used_to_reach_the_main_host(cluster: SshCluster) -> None:
    record = cluster.target(ssh_route={"jump": ["root@n2", "n3"]})
    engine = engine_for(Target.model_validate(record), PATIENCE)
    assert isinstance(engine, RemoteEngine)
    assert engine.remote_host.connection.run(["hostname"], deadline=PATIENCE).out == b"n1\n"
    for name in ("n2", "n3"):
        log = (cluster.folder / "hosts.d" / name / "sshd.log").read_text()
        assert "Accepted publickey" in log, name
