"""Runs a command once for every node of the task, all at the same time, and fails with the first
that fails, which ends the others.

Started as `each_node WORD…` on the task's main host, behind ssh and on a Batch pool alike. Each
command has the task's environment with FAIRWAY_NODE_RANK. Signals to the task are not for this
program: the commands get them, those on other nodes by `remote_exec`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_agent import processes

if TYPE_CHECKING:
    from collections.abc import Mapping

_REMOTE_EXEC = "fairway_agent.fanout.remote_exec"
_GRACE = 30.0  # seconds; as long as torchrun gives its workers


def run(argv: list[str], hosts: list[str], printed: int | None = None) -> int:
    """The first exit code that is not 0, once all have ended; `printed` is for their output."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    for rank, host in enumerate(hosts):
        # The first is the main host, which is this one.
        there = [*processes.program(_REMOTE_EXEC), "--exactly", host] if rank else []
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
    """For how many seconds the others go on when one has failed: they may be saving what they
    have, as when the whole task was asked to end."""
    return max(_GRACE, float(environment.get("FAIRWAY_GRACE", 0)))


def _tell(running: dict[int, subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for pid in list(running):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> None:
    try:
        sys.exit(run(sys.argv[1:], os.environ["FAIRWAY_HOSTS"].split(",")))
    except OSError as error:
        sys.stderr.write(f"fairway-each-node: {error.filename}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
