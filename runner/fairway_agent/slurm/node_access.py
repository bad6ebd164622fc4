"""Gets to a node as Slurm allows it: through a job of your own there.

node_access PARTITION NODE shell [WORD…]      a shell, or a command, on the node
node_access PARTITION NODE relay SOCKET PORT  what connects to SOCKET here reaches PORT there
node_access PARTITION NODE end PORT           the other end of one connection, on the node

The first two run on the login host. Nodes need not let anybody in by ssh. Where no job of this
user runs on the node, a shell there is a job of its own, which waits for its turn.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import processes
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

_MODULE = "fairway_agent.slurm.node_access"
_CHUNK = 1 << 16


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    partition, node, what, *words = sys.argv[1:]
    if what == "shell":
        terminal = ["--pty"] if os.isatty(0) else []
        words = words or [os.environ.get("SHELL", "bash"), "-l"]
        step = _step(partition, node)
        os.environ.update(commands.environment())
        os.execvp("srun", [*step, *terminal, *words])  # noqa: S606 - it takes this one's place
    elif what == "relay":
        relay(_step(partition, node), [partition, node], Path(words[0]), words[1])
    else:
        end(int(words[0]))


def _step(partition: str, node: str) -> list[str]:
    """The start of the command line that runs one process on the node."""
    words = ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--mpi=none", "--quiet"]
    # Or else what has no line's end is held back, and with it most of what is no text.
    words.append("--unbuffered")
    jobs = ["squeue", "-h", "--me", "-t", "RUNNING", "-w", node, "-o", "%A"]
    try:
        found = commands.run(jobs).split()
    except commands.Refused as refused:
        sys.exit(f"fairway: {refused}")
    if found:
        return [*words, f"--jobid={found[0]}", "--overlap"]
    return [*words, f"--partition={partition}"]


def relay(step: Sequence[str], address: Sequence[str], path: Path, port: str) -> None:
    """Connects each program that comes to the socket, until this is ended."""
    command = [*step, *processes.program(_MODULE), *address, "end", port]
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # so that the socket goes
    ways: list[subprocess.Popen[bytes]] = []
    path.parent.mkdir(mode=0o700)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            while True:
                connection, _ = listener.accept()
                with connection:
                    # srun has the connection itself: nothing in between.
                    both = connection.fileno()
                    way = subprocess.Popen(
                        command, stdin=both, stdout=both, env=commands.environment()
                    )
                ways = [each for each in ways if each.poll() is None] + [way]
    finally:
        # A server that waits for more keeps its connection, and so the step on the node.
        for each in ways:
            each.terminate()
        shutil.rmtree(path.parent, ignore_errors=True)


def end(port: int) -> None:
    """Copies between this process and the port, until the port has nothing more to say."""
    with socket.create_connection(("localhost", port)) as connection:
        threading.Thread(target=_send, args=(sys.stdin.buffer, connection), daemon=True).start()
        while data := connection.recv(_CHUNK):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def _send(source: BinaryIO, connection: socket.socket) -> None:
    while data := os.read(source.fileno(), _CHUNK):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
