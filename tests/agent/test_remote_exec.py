"""A command that one node runs for another, the channel between them, and sshd on loopback."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from programs import executable

from fairway_agent.fanout import remote_exec, sshd_mesh
from fairway_agent.fanout.sshd_mesh import SshMesh

pytestmark = pytest.mark.integration


# Checks often how long the channel has been silent, on a clock that only the tests advance.
_SILENCE = 0.3
_PROGRAM = f"""
import pathlib, resource, sys, types
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from fairway_agent.fanout import remote_exec
remote_exec.SILENCE = {_SILENCE}
clock = pathlib.Path(sys.argv[1])
remote_exec._CUT_GRACE = float(sys.argv[2])
remote_exec.time = types.SimpleNamespace(monotonic=lambda: float(clock.read_text()))
sys.exit(remote_exec.serve_command())
"""


class Node:
    """The other side of a channel."""

    def __init__(
        self, argv: list[str], folder: Path, grace: float = 5.0, behind: bytes = b""
    ) -> None:
        self._clock = folder / "clock"
        self.set_clock(0)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(self._clock), str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.strays: list[int] = []
        self.say(remote_exec.Command(argv, str(folder), dict(os.environ)).line() + behind)

    def say(self, line: bytes) -> None:
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def hear(self) -> str:
        """Returns the next line that the command prints."""
        return self.process.stdout.readline().decode().strip()

    def set_clock(self, seconds: float) -> None:
        """Sets the node's clock to that many seconds."""
        draft = self._clock.with_suffix(".new")
        draft.write_text(str(seconds))
        draft.replace(self._clock)

    def fall_silent(self) -> None:
        """Advances the node's clock until the node's process ends."""
        for step in range(1, 3000):
            self.set_clock(1.1 * _SILENCE * step)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
                return
        raise AssertionError("it waits for ever")

    def hang_up(self) -> None:
        self.process.stdin.close()
        self.process.stdin = None


Run = Callable[..., Node]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Yields a function that runs a command on a node. Kills it with the test."""
    nodes: list[Node] = []

    def begin(*argv: str, **facts: Any) -> Node:
        nodes.append(Node([*argv], tmp_path, **facts))
        return nodes[-1]

    yield begin
    for node in nodes:
        node.process.kill()
        for stray in node.strays:
            with suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)
        node.process.communicate()


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("exit 255", 254), ("kill -9 $$", 137)]
)
def test_remote_exec_returns_the_exit_code_of_the_command(run: Run, script: str, code: int) -> None:
    """Except 255, which means that a connection failed."""
    assert run("bash", "-c", script).process.wait(300) == code


def test_remote_exec_obeys_a_signal_that_follows_a_long_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        monkeypatch.setenv(f"TEXT{number}", "x" * 120_000)
    node = run("sleep", "600", behind=b"signal SIGTERM\n")
    assert node.process.wait(300) == 128 + signal.SIGTERM


def test_remote_exec_passes_signals_and_names_a_missing_program(run: Run) -> None:
    node = run("no-such-program")
    _, errors = node.process.communicate(timeout=300)
    why = b"fairway: no-such-program: No such file or directory\n"
    assert (node.process.returncode, errors) == (127, why)
    program = "import signal; signal.signal(signal.SIGUSR1, lambda *_: (print('told'), exit(5)));"
    program += "print('up', flush=True); signal.pause()"
    node = run("bash", "-c", f'{sys.executable} -c "{program}"; exit $?')
    assert node.hear() == "up"
    node.say(b"signal SIGUSR1\n")
    assert node.hear() == "told"
    assert node.process.wait(300) == 5


@pytest.mark.parametrize("how", ["hangs up", "is silent"])
def test_remote_exec_ends_the_command_when_the_other_side_is_gone(run: Run, how: str) -> None:
    """Including processes that have left its session."""
    node = run("bash", "-c", "setsid sleep 600 & echo $!; sleep 600")
    stray = int(node.hear())
    node.strays.append(stray)
    if how == "hangs up":
        node.hang_up()
    else:
        node.fall_silent()
    assert node.process.wait(300) == remote_exec.LOST
    with suppress(FileNotFoundError):  # a process that has ended may still have an entry
        assert Path(f"/proc/{stray}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_remote_exec_does_not_repeat_the_grace_after_a_lost_connection(run: Run) -> None:
    """A lost connection leaves a signalled command the rest of the job's grace."""
    program = "import signal; signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True));"
    program += "print('up', flush=True); [signal.pause() for _ in iter(int, 1)]"
    node = run(sys.executable, "-c", program, grace=100_000.0)
    assert node.hear() == "up"
    node.say(b"signal SIGTERM\n")
    assert node.hear() == "told"
    node.set_clock(100_001)
    node.hang_up()
    assert node.process.wait(300) == remote_exec.LOST


def test_remote_exec_beats_keep_the_command_alive(run: Run) -> None:
    """For longer than the permitted silence."""
    # A signal that comes before it is waited for is not lost: it is blocked until then.
    program = "import signal as s; s.pthread_sigmask(s.SIG_BLOCK, {s.SIGUSR1});"
    program += "print('up', flush=True);"
    program += "[(s.sigwait({s.SIGUSR1}), print('told', flush=True)) for _ in range(12)];"
    program += "print('done')"
    node = run("bash", "-c", f'exec {sys.executable} -c "{program}"')
    assert node.hear() == "up"
    for beat in range(12):
        node.set_clock(0.9 * _SILENCE * (beat + 1))
        node.say(b"beat\nsignal SIGUSR1\n")
        assert node.hear() == "told"  # so the beat has arrived at that time
    assert node.hear() == "done"
    assert node.process.wait(300) == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 0), (signal.SIGTERM, remote_exec.LOST)]
)
def test_remote_exec_command_survives_signals_to_its_parent(
    run: Run, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The command gets signals only through the channel, with their default actions. SIGTERM means
    that the node shuts down: then even exit code 0 is no success."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    node = run("bash", "-c", f"grep SigIgn /proc/self/status; read -r _ <{gate}")
    ignored = int(node.hear().split()[1], 16)
    node.process.send_signal(number)
    with gate.open("w") as opened:
        opened.write("go\n")
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        assert not ignored >> (each - 1) & 1
    assert node.process.wait(300) == code


def test_remote_exec_probe_of_a_node_whose_login_hangs_ends(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose shell waits for a home on a network: ssh has connected long before."""
    executable(programs / "ssh", 'case "$*" in *hung*) exec sleep 600;; *) echo said;; esac')
    assert remote_exec.unreachable(["nd-0"]) == []
    assert remote_exec.output_of("nd-0", ["x"]) == "said\n"
    monkeypatch.setattr(remote_exec, "_LOGIN", 0.1)
    assert remote_exec.unreachable(["hung"]) == ["hung"]
    assert remote_exec.output_of("hung", ["x"]) == ""


@pytest.fixture
def mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshMesh]:
    """Yields a task whose only node answers `served` and has the user's home in `home`."""
    if shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}") is None:
        pytest.skip("sshd is not installed: apt-get install openssh-server")
    key, home = tmp_path / "key", tmp_path / "home"
    home.mkdir()
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
    subprocess.run(words, check=True)
    serve = executable(tmp_path / "serve", 'echo "served $SSH_ORIGINAL_COMMAND"')
    monkeypatch.setattr(sshd_mesh, "_SERVER", f"{sshd_mesh._SERVER}SetEnv HOME={home}\n")
    folder = tmp_path / "a%b folder"
    yield SshMesh(tmp_path.name, folder, key, shlex.quote(str(serve)))
    config = str(folder / "sshd_config").encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = config in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if is_ours:
            os.kill(int(entry.name), signal.SIGTERM)


def test_sshd_mesh_answer_excludes_the_output_of_bashrc(
    mesh: SshMesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`conda init` adds code to .bashrc that takes a second, and images add greetings."""
    monkeypatch.delenv("SHLVL", raising=False)
    (tmp_path / "home" / ".bashrc").write_text("echo bashrc was read\n")
    sshd_mesh.install_keys(mesh)
    sshd_mesh.start_server(mesh, "127.0.0.1", tmp_path / "context")
    config = sshd_mesh.connect(mesh, ["127.0.0.1"])
    answers = sshd_mesh.command_all(config, ["127.0.0.1"], "fairway-event end")
    assert answers == {"127.0.0.1": b"served fairway-event end\n"}
