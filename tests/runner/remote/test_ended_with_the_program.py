"""Processes that a shell or a tunnel has started end with the program, whatever ends that."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import finished
from waiting import PATIENCE

from fairway_runner.engines.remote.connection import ended_as_by_ctrl_c

pytestmark = pytest.mark.integration

ON_TERMINAL = """
import sys
from fairway_runner.engines.remote.connection import on_terminal
sys.exit(on_terminal(sys.argv[1:]))
"""
RELAY = """
import pathlib, sys
from fairway_agent.slurm.nodes import relay
relay(["env"], ["nd", "nd-0"], pathlib.Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_program_on_the_terminal_ends_with_the_command_on_a_signal(number: signal.Signals) -> None:
    words = [sys.executable, "-c", ON_TERMINAL, "sh", "-c", "echo up; exec sleep 3600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        # The pipe ends when nobody writes to it any more.
        assert process.communicate(timeout=PATIENCE) == (b"", None)


def test_a_closed_terminal_that_is_ignored_ends_nothing() -> None:
    """As by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_as_by_ctrl_c():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_program_on_the_terminal_ignores_no_signal_and_gives_its_exit_code() -> None:
    """As the first part of a pipe would be told otherwise, whose reader has ended."""
    program = [sys.executable, "-c", ON_TERMINAL]
    done = finished([*program, "sh", "-c", "grep SigIgn /proc/self/status; exit 7"])
    assert (done.returncode, done.stderr) == (7, "")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored >> signal.SIGPIPE - 1 & 1
    assert not ignored >> signal.SIGXFSZ - 1 & 1
    done = finished([*program, "/nowhere/at-all"])
    assert done.returncode == 127
    assert done.stderr == "/nowhere/at-all: No such file or directory\n"


def test_a_relay_takes_its_connections_along(tmp_path: Path) -> None:
    """Also one whose server waits for more."""
    path = tmp_path / "relay" / "s"
    with socket.create_server(("localhost", 0)) as server:
        server.settimeout(PATIENCE)
        words = [sys.executable, "-c", RELAY, str(path), str(server.getsockname()[1])]
        with subprocess.Popen(words) as process, socket.socket(socket.AF_UNIX) as here:
            while here.connect_ex(str(path)) != 0:
                assert process.poll() is None
                time.sleep(0.02)
            there, _ = server.accept()
            there.settimeout(PATIENCE)
            here.sendall(b"hello")
            assert there.recv(5) == b"hello"
            process.terminate()
            assert there.recv(1) == b""
            there.close()
    assert not path.parent.exists()
