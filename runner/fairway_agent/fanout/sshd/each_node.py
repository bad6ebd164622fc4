"""FAIRWAY_EACH_NODE: a command once on every node of the task, all at the same time.

The exit code is that of the first that fails, which ends the others. Words, folder and
environment go through ssh's input, so that no secret stands in a list of processes.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import processes
from fairway_agent.fanout.sshd.serving import LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

# What is a node's own, and another must not take over.
_OWN = ("AZ_BATCH_", "SSH_", "FAIRWAY_NODE_ADDRESS", "FAIRWAY_METADATA_URL", "HOSTNAME")
_OWN_NAMES = {"HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "LOGNAME", "SHLVL", "_"}
_GRACE = 5.0


def each_node(argv: Sequence[str]) -> int:
    """Runs the command everywhere; returns 0, or the first exit code that is not."""
    hosts = os.environ["FAIRWAY_HOSTS"].split(",")
    ended: queue.Queue[int] = queue.Queue()
    running = [_start(host, rank, argv) for rank, host in enumerate(hosts)]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: ended.put(128 + number))
    for process in running:
        threading.Thread(target=lambda p=process: ended.put(p.wait()), daemon=True).start()
    code = 0
    for _ in running:
        code = ended.get()
        if code:
            break
    _end(running)
    return 128 - code if code < 0 else code


def _start(host: str, rank: int, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "FAIRWAY_NODE_RANK": str(rank)}
    if rank == 0:
        process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        sessions = Path(os.environ["FAIRWAY_SESSIONS"])
        sessions.mkdir(parents=True, exist_ok=True)
        (sessions / str(process.pid)).touch()
        return process
    sent = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_OWN) and name not in _OWN_NAMES
    }
    order = json.dumps({"argv": list(argv), "cwd": os.getcwd(), "environment": sent}).encode()  # noqa: PTH109
    process = subprocess.Popen(
        ["ssh", "-F", os.environ["FAIRWAY_SSH_CONFIG"], host, "fairway-run"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None, "it was asked for"
    try:
        process.stdin.write(LENGTH.pack(len(order)) + order)
        process.stdin.flush()  # and stays open: its end would end the command
    except BrokenPipeError:
        pass  # ssh has said why, and its exit code says it again
    return process


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends what is left: the others by the end of their input."""
    for process in running:
        if process.stdin is not None:
            try:
                process.stdin.close()
            except BrokenPipeError:
                continue
    processes.end({running[0].pid}, _GRACE)
    for process in running[1:]:
        try:
            process.wait(2 * _GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
