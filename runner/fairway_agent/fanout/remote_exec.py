"""Runs a command on another node of the cluster, or once on every node of the task, and ends it
there when it is ended here.

    remote_exec [--exactly] HOST WORD…   on that node, like rsh, with words that its shell parses;
                                         with `--exactly` they are passed unchanged
    remote_exec --each WORD…             on each node of the task, all at the same time; fails with
                                         the first that fails, which ends the others

The command gets this one's environment and current folder, with `--each` also FAIRWAY_NODE_RANK,
and its output and exit code come back; the folder is one that both nodes see. Signals are passed on
to the programs there; with `--each` the commands get the task's signals by themselves.

MPI's launchers start their daemons with it: if a node is lost and its launcher does not notice, the
entire attempt on this host is ended, so that a run never hangs.

On the other node `remote_exec --serve` runs the command, which it reads as lines from standard
input. The first is JSON: the command's `argv`, `cwd` and `environment`. Then come `beat`, every few
seconds, and `signal NAME`; the end of the stream, or silence, ends the command. So nothing is left
running, whatever happens to the host that started it. None of this is in a command line, where
others could read it. Whatever the command starts carries a mark, so that it is found even if a
daemon has left the command's session.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairway_agent import processes

REACHED = "reached"  # folder: a file for each node to which MPI's launcher is connected
LOST_NODES = "lost-nodes"  # file: names of nodes that could not be reached, one per line

PROGRAM = "fairway_agent.fanout.remote_exec"
_GRACE = 30.0  # seconds; torchrun's own grace for its workers
_MOST = 1 << 20  # bytes of a host's output
_LOGIN = 30.0  # seconds for a login and a short program: its shell may hang on a folder
_PATIENCE = 10.0  # seconds for a launcher to end by itself after losing a node

# Variables of the local launcher alone: its remote daemons get theirs on their command line.
_OWN = ("PMIX_", "PMI_", "OMPI_COMM_WORLD_", "PRTE_MCA_ess", "SSH_")

_SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)

_SILENT: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.DEVNULL,
    "stderr": subprocess.DEVNULL,
}


def run(host: str, argv: list[str], environment: dict[str, str]) -> int:
    """Runs a command on a host until it has ended, sends beats, and passes on signals that arrive.
    Returns the exit code, LOST without a connection."""
    if config := os.environ.get("FAIRWAY_SSH_CONFIG"):
        # The task's own server always starts the serving side there, whatever command is named.
        words = ["ssh", "-T", "-F", config, "--", host, "fairway-run"]
    else:
        serve = shlex.join([*processes.program(PROGRAM), "--serve"])
        words = [*_SSH, "--", host, f"exec {serve}"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE)

    def say(line: bytes) -> None:
        assert process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):  # others notice its end
            process.stdin.write(line)
            process.stdin.flush()

    say(Command(argv, str(Path.cwd()), environment).line())
    wakeup, _ = processes.signal_wakeups(*processes.TASK_SIGNALS, signal.SIGCHLD)
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        while (code := process.poll()) is None:
            if not selector.select(BEAT):
                say(b"beat\n")
                continue
            for number in wakeup.recv(1024):
                if number in processes.TASK_SIGNALS:
                    say(f"signal {signal.Signals(number).name}\n".encode())
    return 128 - code if code < 0 else code


def report_lost_node(host: str) -> None:
    """Reports to the user and to the supervisor that a node could not be reached."""
    sys.stderr.write(f"fairway: node {host} cannot be reached any more\n")
    if folder := os.environ.get("FAIRWAY_TASK_FOLDER"):
        with Path(folder, LOST_NODES).open("a", encoding="utf-8") as file:
            file.write(f"{host}\n")


def lost_nodes(folder: Path) -> list[str]:
    """Returns the nodes of a folder's task that could not be reached, each once."""
    with suppress(FileNotFoundError):
        return list(dict.fromkeys((folder / LOST_NODES).read_text(encoding="utf-8").split()))
    return []


def unreachable(hosts: Iterable[str]) -> list[str]:
    """Returns the hosts that complete no login now; probes all of them at once."""
    probes = [(host, subprocess.Popen([*_SSH, "--", host, "true"], **_SILENT)) for host in hosts]
    deadline = time.monotonic() + _LOGIN
    return [host for host, probe in probes if _code(probe, deadline) == LOST]


def _code(probe: subprocess.Popen[bytes], deadline: float) -> int:
    """Returns the exit code of a connection; LOST for one that has not ended by the deadline."""
    try:
        return probe.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.wait()
        return LOST


def output_of(host: str, argv: Sequence[str]) -> str:
    """Returns the output of a program on a host; "" if it fails, hangs or is not reached."""
    command = [*_SSH, "--", host, f"exec {shlex.join(argv)}"]
    with tempfile.TemporaryFile() as file:  # limits how much of the output is read
        probe = subprocess.Popen(command, **{**_SILENT, "stdout": file})
        code = _code(probe, time.monotonic() + _LOGIN)
        file.seek(0)
        return "" if code else file.read(_MOST).decode(errors="replace")


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "--serve":
        sys.exit(serve_command())
    if words[0] == "--each":
        try:
            sys.exit(each_node(words[1:], os.environ["FAIRWAY_HOSTS"].split(",")))
        except OSError as error:
            sys.stderr.write(f"fairway-each-node: {error.filename}: {error.strerror}\n")
            sys.exit(127)
    exactly = words[0] == "--exactly"
    while words[0].startswith("-"):  # rsh's options, which MPI's launchers may pass
        words.pop(0)
    host, *argv = words
    if exactly:
        code = run(host, argv, dict(os.environ))
        if code == LOST:
            report_lost_node(host)
        sys.exit(code)
    sys.exit(_as_rsh(host, argv))


def _as_rsh(host: str, words: list[str]) -> int:
    """Runs a launcher's command on a node; returns its exit code. A lost node ends the attempt."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(_OWN)}
    folder = os.environ.get("FAIRWAY_TASK_FOLDER")
    reached = Path(folder, REACHED, host) if folder else None
    if reached:
        reached.parent.mkdir(exist_ok=True)
        reached.touch()
    code = run(host, ["bash", "-c", " ".join(words)], environment)
    if code == LOST:
        # The mark stays: a launcher may kill this process before it prints anything.
        report_lost_node(host)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(_PATIENCE)
        from fairway_agent import scratch

        mark = f"{scratch.LEASE}={os.environ.get(scratch.LEASE)}"
        processes.kill(processes.sessions_with(mark) | {os.getsid(0)})
    elif reached:
        reached.unlink(missing_ok=True)
    return code


def each_node(argv: list[str], hosts: list[str], printed: int | None = None) -> int:
    """Runs a command on every node, with `printed` as the descriptor of its output; returns the
    first exit code that is not 0, once all have ended."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    for rank, host in enumerate(hosts):
        # The first one is the main host: this one.
        there = [*processes.program(PROGRAM), "--exactly", host] if rank else []
        environment = {**os.environ, "FAIRWAY_NODE_RANK": str(rank)}
        process = subprocess.Popen([*there, *argv], env=environment, stdout=printed, stderr=printed)
        running[process.pid] = process
    failed = 0
    cut = signal.signal(signal.SIGTERM, lambda *_: _tell(running, signal.SIGTERM))
    last = threading.Timer(grace(os.environ), _tell, (running, signal.SIGKILL))
    last.daemon = True
    while running:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        if pid not in running:
            continue
        running.pop(pid).returncode = code
        if code and not failed:
            failed = 128 - code if code < 0 else code
            _tell(running, signal.SIGTERM)
            last.start()
    last.cancel()
    signal.signal(signal.SIGTERM, cut)
    return failed


def grace(environment: Mapping[str, str]) -> float:
    """Returns how many seconds the other nodes' commands have to end after one has failed: they may
    be saving their state, as when the entire task was asked to end."""
    return max(_GRACE, float(environment.get("FAIRWAY_GRACE", 0)))


def _tell(running: dict[int, subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for pid in list(running):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


BEAT = 5.0  # seconds between two heartbeats
SILENCE = 45.0  # seconds until the other side counts as dead

# OpenSSH's exit code for a failed connection; a program's own 255 becomes another code.
LOST = 255
EXIT_255_REMAPPED = 254


@dataclass(frozen=True)
class Command:
    """Command to run, with its folder and environment."""

    argv: list[str]
    cwd: str
    environment: dict[str, str]

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


_MARK = "_FAIRWAY_CHANNEL"
_CUT_GRACE = 5.0  # seconds for the command if the connection is lost, since the order to end


class Served:
    """A command that another node has sent."""

    def __init__(self, command: Command) -> None:
        self.mark = f"{_MARK}={secrets.token_hex(8)}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**command.environment, name: value},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.ended: float | None = None  # when it was told to end

    def sessions(self) -> set[int]:
        return {self.process.pid} | processes.sessions_with(self.mark)


def serve(served: Served, part: bytes) -> int:
    """Returns the exit code, or LOST if the other side is gone; `part` is input already read."""
    wakeup, _ = processes.signal_wakeups(signal.SIGCHLD)
    heard, part = time.monotonic(), _obeyed(served, part)
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while (code := served.process.poll()) is None:
            ready = [key.fileobj for key, _ in selector.select(SILENCE / 3)]
            if wakeup in ready:
                wakeup.recv(1024)
            is_gone = time.monotonic() - heard > SILENCE
            if 0 in ready:
                data, heard = os.read(0, 65536), time.monotonic()
                is_gone, part = not data, _obeyed(served, part + data)
            if is_gone:
                spent = 0.0 if served.ended is None else time.monotonic() - served.ended
                processes.end_all(served.sessions, max(0.0, _CUT_GRACE - spent))
                return LOST
    processes.end_all(served.sessions)
    code = 128 - code if code < 0 else code
    return EXIT_255_REMAPPED if code == LOST else code


def _obeyed(served: Served, text: bytes) -> bytes:
    """Executes the complete lines of the text; returns the rest, an unterminated line."""
    *lines, part = text.split(b"\n")
    for line in lines:
        word, _, name = line.decode().strip().partition(" ")
        if word == "signal":
            served.ended = time.monotonic() if served.ended is None else served.ended
            processes.signal_sessions(served.sessions(), signal.Signals[name])
    return part


def serve_command(adapt: Callable[[Command], Command] = lambda each: each) -> int:
    """Runs the command from standard input, as this node adapts it. Returns its exit code, or LOST
    if the node shuts down meanwhile: a command that saves its state then may end with 0."""
    # Signals for the command come through the channel: this one means that the machine shuts down.
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    processes.ignore_signals(signal.SIGINT, signal.SIGHUP)
    text, data = bytearray(), b""
    while b"\n" not in data:
        data = os.read(0, 65536)
        if not data:
            return LOST
        text += data
    line, _, rest = bytes(text).partition(b"\n")
    command = adapt(Command(**json.loads(line)))
    try:
        served = Served(command)
    except OSError as error:
        sys.stderr.write(f"fairway: {error.filename or command.argv[0]}: {error.strerror}\n")
        return 127
    code = serve(served, rest)
    return LOST if stops else code


if __name__ == "__main__":
    main()
