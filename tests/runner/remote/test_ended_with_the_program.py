"""Processes that a shell or a tunnel has started end with the program, however it ends."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import finished
from waiting import PATIENCE

from fairway_runner.engines.remote.connection import interrupt_on_signals

pytestmark = pytest.mark.integration

ON_TERMINAL = """
import sys
from fairway_runner.engines.remote.connection import run_on_terminal
sys.exit(run_on_terminal(sys.argv[1:]))
"""
RELAY = """
import pathlib, sys
from fairway_agent.slurm.nodes import relay
relay(["env"], ["nd", "nd-0"], pathlib.Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_on_terminal_ends_its_program_with_the_command_on_a_signal(number: signal.Signals) -> None:
    words = [sys.executable, "-c", ON_TERMINAL, "sh", "-c", "echo up; exec sleep 3600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        # The pipe ends when its last writer has ended.
        assert process.communicate(timeout=PATIENCE) == (b"", None)


def test_ended_as_by_ctrl_c_keeps_an_ignored_sighup_ignored() -> None:
    """nohup ignores SIGHUP, for example."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt_on_signals():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_on_terminal_resets_ignored_signals_and_returns_the_exit_code() -> None:
    """With SIGPIPE ignored, the first program of a pipe would not end with its reader."""
    program = [sys.executable, "-c", ON_TERMINAL]
    done = finished([*program, "sh", "-c", "grep SigIgn /proc/self/status; exit 7"])
    assert (done.returncode, done.stderr) == (7, "")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored >> signal.SIGPIPE - 1 & 1
    assert not ignored >> signal.SIGXFSZ - 1 & 1
    done = finished([*program, "/nowhere/at-all"])
    assert done.returncode == 127
    assert done.stderr == "/nowhere/at-all: No such file or directory\n"


def test_slurm_relay_closes_its_connections_when_terminated(tmp_path: Path) -> None:
    """This includes a connection whose server waits for more data."""
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
