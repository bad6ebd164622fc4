"""Runs a command on another node of the cluster, or once on every node of the task, and ends it
there when it is ended here.

    remote_exec [--exactly] HOST WORD…   on that node, as rsh does, with words that its shell reads;
                                         with `--exactly` as the words stand
    remote_exec --each WORD…             on each node of the task, all at the same time; fails with
                                         the first that fails, which ends the others

The command gets this one's environment and current folder, with `--each` also FAIRWAY_NODE_RANK,
and what it prints and its exit code come back; the folder is one that both nodes see. Signals are
passed on to the programs there; with `--each` the commands get those to the task by themselves.

MPI's launchers start their daemons by it: where a node is lost and its launcher does not
notice, all of the attempt on this host is ended, so that a run never hangs.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import processes, scratch
from fairway_agent.fanout import remote_exec_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REACHED = "reached"  # a file for each node to which MPI's launcher has a connection
LOST = "lost-nodes"  # names of nodes that could not be reached, a line each

PROGRAM, _SERVER = "fairway_agent.fanout.remote_exec", "fairway_agent.fanout.remote_exec_server"
_GRACE = 30.0  # seconds; as long as torchrun gives its workers
_MOST = 1 << 20  # bytes that a host may print
_PATIENCE = 10.0  # seconds for a launcher to end by itself when a node is lost

# Of the launcher here alone: it gives its daemons there what they need in their command line.
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


def _connection(host: str) -> list[str]:
    """Returns the command that opens a connection to a node for serving one command."""
    if config := os.environ.get("FAIRWAY_SSH_CONFIG"):
        # The task's own server there starts what serves, whatever program is named.
        return ["ssh", "-T", "-F", config, "--", host, "fairway-run"]
    return [*_SSH, "--", host, f"exec {shlex.join(processes.program(_SERVER))}"]


def run(host: str, argv: list[str], environment: dict[str, str]) -> int:
    """Runs a command on a host until it has ended, with beats; passes on signals that arrive."""
    process = subprocess.Popen(_connection(host), stdin=subprocess.PIPE)

    def say(line: bytes) -> None:
        assert process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):  # its end is seen elsewhere
            process.stdin.write(line)
            process.stdin.flush()

    say(remote_exec_server.Command(argv, str(Path.cwd()), environment).line())
    wakeup, _ = processes.signal_wakeups(*processes.TASK_SIGNALS, signal.SIGCHLD)
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        while (code := process.poll()) is None:
            if not selector.select(remote_exec_server.BEAT):
                say(b"beat\n")
                continue
            for number in wakeup.recv(1024):
                if number in processes.TASK_SIGNALS:
                    say(f"signal {signal.Signals(number).name}\n".encode())
    return 128 - code if code < 0 else code


def lose(host: str) -> None:
    """Says that a node could not be reached, to people and to the supervisor."""
    sys.stderr.write(f"fairway: node {host} cannot be reached any more\n")
    if folder := os.environ.get("FAIRWAY_TASK_FOLDER"):
        with Path(folder, LOST).open("a", encoding="utf-8") as file:
            file.write(f"{host}\n")


def lost_nodes(folder: Path) -> list[str]:
    """The nodes of the task of a folder that could not be reached, each once."""
    try:
        return list(dict.fromkeys((folder / LOST).read_text(encoding="utf-8").split()))
    except FileNotFoundError:
        return []


def unreachable(hosts: Iterable[str]) -> list[str]:
    """Returns the hosts that accept no connection now; probes all of them at once."""
    words = (*_SSH, "--")
    probes = [(host, subprocess.Popen([*words, host, "true"], **_SILENT)) for host in hosts]
    return [host for host, probe in probes if probe.wait() == remote_exec_server.LOST]


def printed(host: str, argv: Sequence[str]) -> str:
    """The output of a program on a host; "" if it fails, or there is no connection."""
    command = [*_SSH, "--", host, f"exec {shlex.join(argv)}"]
    with tempfile.TemporaryFile() as file:  # of which no more is read than it may print
        code = subprocess.call(command, **{**_SILENT, "stdout": file})
        file.seek(0)
        return "" if code else file.read(_MOST).decode(errors="replace")


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "--each":
        try:
            sys.exit(each_node(words[1:], os.environ["FAIRWAY_HOSTS"].split(",")))
        except OSError as error:
            sys.stderr.write(f"fairway-each-node: {error.filename}: {error.strerror}\n")
            sys.exit(127)
    exactly = words[0] == "--exactly"
    while words[0].startswith("-"):  # rsh's own, which MPI's launchers may give
        words.pop(0)
    host, *argv = words
    if exactly:
        code = run(host, argv, dict(os.environ))
        if code == remote_exec_server.LOST:
            lose(host)
        sys.exit(code)
    sys.exit(_as_rsh(host, argv))


def _as_rsh(host: str, words: list[str]) -> int:
    """Runs what a launcher starts on a node; its exit code."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(_OWN)}
    folder = os.environ.get("FAIRWAY_TASK_FOLDER")
    reached = Path(folder, REACHED, host) if folder else None
    if reached:
        reached.parent.mkdir(exist_ok=True)
        reached.touch()
    code = run(host, ["bash", "-c", " ".join(words)], environment)
    if code == remote_exec_server.LOST:
        # The mark stays: a launcher may kill this before anything is said.
        lose(host)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(_PATIENCE)
        mark = f"{scratch.LEASE}={os.environ.get(scratch.LEASE)}"
        processes.kill(processes.sessions_with(mark) | {os.getsid(0)})
    elif reached:
        reached.unlink(missing_ok=True)
    return code


def each_node(argv: list[str], hosts: list[str], printed: int | None = None) -> int:
    """The first exit code that is not 0, once all have ended; `printed` is for their output."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    for rank, host in enumerate(hosts):
        # The first is the main host, which is this one.
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
    """Seconds that the other nodes' commands have to end when one has failed: they may be saving
    their state, as when the whole task was asked to end."""
    return max(_GRACE, float(environment.get("FAIRWAY_GRACE", 0)))


def _tell(running: dict[int, subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for pid in list(running):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


if __name__ == "__main__":
    main()
