"""Common behaviour of the commands that start simulators, with a simulator that does nothing."""

import argparse
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import finished

from fairway_simulator import command

_NEXT = re.compile(r"next: use (\S+); and to end it: kill (\d+)\n")

_MODULE = """
import sys
from pathlib import Path
from fairway_simulator.command import StandInCommand, interrupted, number
from fairway_simulator.command import published

COMMAND = StandInCommand("none-simulator", "stand_in")

def serve(options, ready):
    wait = interrupted()
    with published({"NONE": str(options.nodes)}, options.env, COMMAND.process):
        ready()
        wait()
    return 0

parser = COMMAND.parser("None.")
parser.add_argument("--nodes", type=number(1, 9), default=1)
options = parser.parse_args()
sys.exit(COMMAND.run(options, lambda ready: serve(options, ready), "use FILE"))
"""


class _StandIn:
    """Runs the command in a folder, and ends the processes that it started there."""

    def __init__(self, folder: Path) -> None:
        (folder / "stand_in.py").write_text(_MODULE)
        self.folder = folder / "work"
        self.folder.mkdir()
        self._ended: dict[int, int] = {}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = finished(
            [sys.executable, "-m", "stand_in", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder.parent)},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def start(self, *words: str) -> int:
        """Starts the command in the background and returns the ID of its process."""
        done = self.run("--background", *words)
        found = _NEXT.fullmatch(done.stdout)
        assert found, done.stdout + done.stderr
        process = int(found[2])
        self._ended.setdefault(process, os.pidfd_open(process))
        return process

    def end(self, number: signal.Signals) -> None:
        for process, ended in self._ended.items():
            os.kill(process, number)
            assert select.select([ended], [], [], 300)[0]
            os.close(ended)
        self._ended.clear()


@pytest.fixture
def stand_in(tmp_path: Path) -> _StandIn:
    return _StandIn(tmp_path)


def test_simulator_command_with_the_same_options_finds_the_running_one(stand_in: _StandIn) -> None:
    first = stand_in.start("--nodes", "2")
    again = stand_in.run("--background", "--nodes", "2")
    assert again.returncode == 0
    assert again.stderr == f"none-simulator: it runs already, as process {first}\n"
    assert again.stdout == f"next: use ./sim.env; and to end it: kill {first}\n"
    stand_in.end(signal.SIGTERM)
    assert not (stand_in.folder / "sim.env").exists()


def test_simulator_command_with_other_options_is_refused_while_one_runs(stand_in: _StandIn) -> None:
    first = stand_in.start("--nodes", "2")
    other = stand_in.run("--background", "--nodes", "3")
    assert (other.returncode, other.stdout) == (2, "")
    assert f"end it with: kill {first}, or name another --env" in other.stderr
    assert stand_in.start("--nodes", "3", "--env", "other.env") != first
    stand_in.end(signal.SIGTERM)


def test_simulator_command_starts_again_after_one_was_killed(stand_in: _StandIn) -> None:
    first = stand_in.start()
    stand_in.end(signal.SIGKILL)
    assert f"NONE_SIMULATOR_PID={first}\n" in (stand_in.folder / "sim.env").read_text()
    assert stand_in.start() != first
    stand_in.end(signal.SIGTERM)


def test_simulator_command_ignores_another_process_with_the_recorded_id(stand_in: _StandIn) -> None:
    file = stand_in.folder / "sim.env"
    file.write_text(f"export NONE_SIMULATOR_PID={os.getpid()}\n")
    assert stand_in.start() != os.getpid()
    stand_in.end(signal.SIGTERM)


@pytest.mark.parametrize("background", [[], ["--background"]])
@pytest.mark.parametrize(
    ("file", "said"),
    [("none/sim.env", "there is no folder none"), ("folder", "it is a folder; name a file")],
)
def test_simulator_command_refuses_an_unwritable_env_file_before_it_starts(
    stand_in: _StandIn, file: str, said: str, background: list[str]
) -> None:
    (stand_in.folder / "folder").mkdir()
    done = stand_in.run("--env", file, *background)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"none-simulator: --env {file}: {said}\n"


@pytest.mark.parametrize("text", ["0", "10", "many", ""])
def test_simulator_command_number_option_refuses_invalid_and_out_of_range_values(text: str) -> None:
    assert command.number(1, 9)("9") == 9
    with pytest.raises(argparse.ArgumentTypeError, match="a number from 1 to 9, not "):
        command.number(1, 9)(text)


def test_simulator_command_folder_option_creates_folders_and_refuses_files(tmp_path: Path) -> None:
    made = command.folder(str(tmp_path / "a/b"))
    assert made.stat().st_mode & 0o777 == 0o700
    assert command.folder(str(made)) == made
    (tmp_path / "file").touch()
    with pytest.raises(argparse.ArgumentTypeError, match="is a file; name a folder"):
        command.folder(str(tmp_path / "file"))
    with pytest.raises(argparse.ArgumentTypeError, match="Not a directory"):
        command.folder(str(tmp_path / "file/below"))


def test_simulator_command_exits_with_2_for_a_used_port_and_5_for_other_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = command.StandInCommand("none-simulator", "stand_in")
    assert named.not_started(OSError(98, "Address already in use"), 7) == 2
    assert named.not_started(OSError(28, "No space left on device", "/disk"), 7) == 5
    assert capsys.readouterr().err == (
        "none-simulator: port 7: Address already in use; choose another with --port\n"
        "none-simulator: [Errno 28] No space left on device: '/disk'\n"
    )


def test_control_plane_command_without_its_programs_exits_with_4(tmp_path: Path) -> None:
    words = ["-m", "fairway_simulator.kubernetes.control_plane", str(tmp_path), "true"]
    (tmp_path / "etcd").touch(0o755)
    done = finished([sys.executable, *words])
    lacking = "kube-apiserver, kube-controller-manager, kube-scheduler"
    assert (done.returncode, done.stderr) == (
        4,
        f"control-plane: {tmp_path} has no {lacking}\n",
    )
