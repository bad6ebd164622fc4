"""Command lines of ssh and rsync: a host's name is never taken as an option."""

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import executable

from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.engines.remote.ssh import Ssh

SshThat = Callable[[str], Path]

pytestmark = pytest.mark.integration

# Logs the arguments, each terminated by a 0 byte, and the command line by a 1 byte.
_NOTE = """printf '%s\\0' "${0##*/}" "$@" >>LOG; printf '\\1' >>LOG"""
# In the script of an ssh that connects: makes the socket of a master connection.
_CONNECT = 'for word; do case $word in ControlPath=*) touch "${word#*=}" ;; esac; done'


@pytest.fixture
def log(tmp_path: Path, ssh_that: SshThat, programs: Path) -> Path:
    """A log of the command lines of ssh and rsync."""
    log = tmp_path / "log"
    ssh_that(_CONNECT)
    text = (programs / "ssh").read_text().partition("\n")
    for name in ("ssh", "rsync"):
        executable(programs / name, f"{text[0]}\n{_NOTE.replace('LOG', str(log))}\n{text[2]}")
    return log


def lines(log: Path) -> list[list[str]]:
    """Returns the arguments of each command line."""
    return [line.split("\0")[:-1] for line in log.read_text().split("\1")[:-1]]


@pytest.fixture
def ssh_that(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> SshThat:
    """Puts an `ssh` on PATH that connects with this script, and returns a file of attempts."""
    tried = tmp_path / "tried"
    monkeypatch.setattr("fairway_runner.engines.outage._FIRST", 0.0)

    def write(script: str) -> Path:
        lines = f'case "$*" in\n*-M*) echo >>{tried}\n{script} ;;\n*" check "*) exit 1 ;;\nesac\n'
        executable(programs / "ssh", lines)
        return tried

    return write


def test_ssh_and_rsync_get_the_destination_after_a_double_dash(log: Path, tmp_path: Path) -> None:
    host = Ssh("-oProxyCommand=x", "")
    host.run(["true"], deadline=1.0)
    host.upload(tmp_path, "/there", deadline=1.0)
    host.download("/there", ["a"], tmp_path / "back", deadline=1.0)
    host.has_rsync = False
    host.upload(tmp_path / "back", "/there", deadline=1.0)
    host.interactive([])
    host.interactive(["true"])
    host.interactive([], forward="1:localhost:2")
    host.interactive(["true"], forward="1:localhost:2")
    host.close()
    noted = lines(log)
    assert {words[0] for words in noted} == {"ssh", "rsync"}
    assert len(noted) >= 10
    for words in noted:
        (place,) = [at for at, word in enumerate(words) if word.startswith(host.name)]
        assert "--" in words[:place], words


REFUSED = "ssh: connect to host {} port 22: Connection refused"
DENIED = "me@{}: Permission denied (publickey)."


@pytest.mark.parametrize(
    ("address", "said", "tries", "id_", "hint"),
    [
        ("127.0.0.1", REFUSED, 1, "no-listener", "try: ssh me@127.0.0.1"),
        ("192.0.2.4", REFUSED, 3, "no-connection", "try: ssh me@192.0.2.4"),
        ("192.0.2.4", DENIED, 1, "refused-connection", "is the key loaded (ssh-add)"),
    ],
)
def test_ssh_connection_is_retried_unless_the_failure_is_permanent(
    ssh_that: SshThat, address: str, said: str, tries: int, id_: str, hint: str
) -> None:
    said = said.format(address)
    tried = ssh_that(f'echo "{said}" >&2; exit 255')
    host = Ssh(address, "me")
    finding = refused(lambda: host.run(["true"], deadline=600.0), code=5)
    assert (finding.id, finding.message) == (id_, f"me@{address} cannot be reached: {said}")
    assert hint in finding.hint
    assert len(tried.read_text().splitlines()) == tries
    host.close()


def test_ssh_logs_a_host_that_does_not_answer(
    ssh_that: SshThat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh hangs until the message has been logged."""
    monkeypatch.setattr("fairway_runner.engines.outage._QUIET", 0.05)
    told = tmp_path / "told"
    os.mkfifo(told)

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.write_text(record.getMessage() + "\n")

    monkeypatch.setattr(logging.getLogger("fairway"), "handlers", [Teller()])
    ssh_that(f"cat {told} >&2; exit 255")
    host = Ssh("10.0.0.4", "me")
    refused(lambda: host.run(["true"], deadline=0.0), "me@10.0.0.4 does not answer; trying until")
    host.close()


@pytest.mark.parametrize(
    ("there", "said"),
    [("10.0.0.6", ["10.0.0.5", "10.0.0.6"]), ("none", ["10.0.0.5", "10.0.0.6", "10.0.0.4"])],
)
def test_ssh_uses_another_node_if_the_main_host_is_gone(
    ssh_that: SshThat, tmp_path: Path, caplog: pytest.LogCaptureFixture, there: str, said: list[str]
) -> None:
    """Azure may have replaced the main host. The node that was reached is used from then on."""
    tried = ssh_that(f"""for host; do :; done; echo "$host" >>{tmp_path}/tried
        if [ "$host" != {there} ]; then
            echo "ssh: connect to host $host port 22: timed out" >&2
            exit 255
        fi
        {_CONNECT}""")
    host = Ssh("10.0.0.4", "", others=("10.0.0.5", "10.0.0.6"))
    if there == "none":
        refused(lambda: host.run(["true"], deadline=600.0), r"10\.0\.0\.4 cannot be reached")
    else:
        assert host.run(["true"], deadline=600.0).code == 0
        assert host.run(["true"], deadline=600.0).code == 0
        assert host.name == there
    host.close()
    assert tried.read_text().split()[: len(said) + 1] == ["10.0.0.4", *said]
    assert [record.args[1] for record in caplog.records if "takes no" in record.msg] == said


@pytest.mark.parametrize(
    ("deadline", "others", "seconds"),
    [(600.0, (), "15"), (5.0, (), "5"), (0.0, (), "5"), (5.0, ("10.0.0.5",), "2")],
)
def test_ssh_connect_timeout_fits_the_deadline_and_the_number_of_hosts(
    log: Path, deadline: float, others: tuple[str, ...], seconds: str
) -> None:
    host = Ssh("10.0.0.4", "", others=others)
    host.run(["true"], deadline=deadline)
    host.close()
    (made,) = [words for words in lines(log) if "-M" in words]
    assert [word for word in made if "ConnectTimeout" in word] == [f"ConnectTimeout={seconds}"]


def test_ssh_that_hangs_is_ended_and_not_retried(
    ssh_that: SshThat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "never")
    tried = ssh_that(f"exec cat {tmp_path}/never")
    monkeypatch.setattr("fairway_runner.engines.remote.ssh.LEAST", 0.0)
    monkeypatch.setattr("fairway_runner.engines.remote.ssh._SLACK", 0.5)
    host = Ssh("10.0.0.4", "")
    finding = refused(lambda: host.run(["true"], deadline=0.0), "no answer within")
    host.close()
    assert finding.id == "no-connection"
    assert tried.read_text() == "\n"


def test_ssh_threads_that_wait_for_one_connection_share_its_failure(
    ssh_that: SshThat, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = ssh_that('echo "ssh: no route" >&2; exit 255')
    host = Ssh("10.0.0.4", "")
    all_ask = threading.Barrier(3)

    class Lock:
        """The host's lock, which is not acquired before all threads want it."""

        inner = host._connecting

        def __enter__(self) -> None:
            all_ask.wait()
            self.inner.acquire()

        def __exit__(self, *_: object) -> None:
            self.inner.release()

    monkeypatch.setattr(host, "_connecting", Lock())
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(host.run, ["true"], deadline=0.0) for _ in range(3)]
        errors = [each.exception() for each in calls]
    monkeypatch.setattr(host, "_connecting", Lock.inner)
    host.close()
    assert {type(each) for each in errors} == {TargetUnavailable}
    assert tried.read_text() == "\n"


def test_ssh_run_uses_the_connection_that_begin_started_and_retries_a_failed_one(
    ssh_that: SshThat,
) -> None:
    tried = ssh_that(_CONNECT)
    host = Ssh("10.0.0.4", "")
    for _ in range(2):
        host.begin()
        host.begin()
        assert host.run(["true"], deadline=600.0).code == 0
    host.close()
    assert tried.read_text() == "\n"
    tried = ssh_that('echo "ssh: no route" >&2; exit 255')
    for tries in (3, 6):
        host = Ssh("10.0.0.4", "")
        host.begin()
        with pytest.raises(TargetUnavailable, match=r"10\.0\.0\.4 cannot be reached: ssh: no rou"):
            host.run([], deadline=600.0) if tries == 3 else host.require_answer(deadline=600.0)
        host.close()
        assert len(tried.read_text().splitlines()) == 1 + tries


def test_ssh_require_answer_runs_a_command_unless_the_connection_is_new(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older connection, or a master of the user's, may have lost its host since."""
    host = Ssh("10.0.0.4", "")
    host.begin()
    host.require_answer(deadline=600.0)
    assert not [words for words in lines(log) if "true" in words]
    assert host.socket is not None
    host.socket.touch()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    host.require_answer(deadline=600.0)
    assert lines(log)[-1][-4:] == ["-T", "--", "10.0.0.4", "true"]
    host.close()
    log.with_name("programs").joinpath("ssh").write_text(f"#!/bin/sh\necho $* >>{log}\n")
    host = Ssh("10.0.0.5", "")
    host.require_answer(deadline=600.0)
    host.close()
    assert log.read_text().splitlines()[-1].endswith("-T -- 10.0.0.5 true")


def test_ssh_close_ends_a_connection_that_was_never_used(ssh_that: SshThat, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    os.mkfifo(ended)
    # The shell keeps the pipe open while it runs.
    ssh_that(f"exec 9>{ended}; exec tail -f /dev/null")
    host = Ssh("10.0.0.4", "")
    host.begin()
    with ended.open() as pipe:
        host.close()
        assert pipe.read() == ""
    assert host.folder is None


def test_ssh_threads_that_connect_at_once_share_one_connection(
    ssh_that: SshThat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second connection would have no socket with which to end it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    lines = os.open(gate, os.O_RDWR)
    tried = ssh_that(f"read -r _ <{gate}; {_CONNECT}")
    host = Ssh("10.0.0.4", "")
    all_call = threading.Barrier(4)
    opened = host._open

    def open_(patience: float) -> Any:
        all_call.wait()
        return opened(patience)

    monkeypatch.setattr(host, "_open", open_)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(host.run, ["true"], deadline=600.0) for _ in range(3)]
        host.begin()
        all_call.wait()
        os.write(lines, b"\n\n\n")  # also for connections that should not exist
        assert [each.result().code for each in calls] == [0, 0, 0]
    host.close()
    os.close(lines)
    assert tried.read_text() == "\n"
