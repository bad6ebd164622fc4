"""The processes of a pool's nodes: each has a namespace of its own for them, in which it sees and
may signal no others. When a node is gone, so is all that ran there.

Where the simulator is not root, or this machine does not allow it, nodes share its processes.
Source: pid_namespaces(7).
"""

from __future__ import annotations

import os
import subprocess
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway_simulator.batch.model.pool import Node

_SPACE = ("unshare", "--pid", "--fork")
# Process 1 of a node; it ends with the simulator, whose end of the pipe it reads.
_FIRST = "echo && exec cat"


@cache
def possible() -> bool:
    """Whether nodes can have processes of their own here."""
    if os.geteuid() != 0:
        return False
    words = [*_SPACE, "--mount", "--mount-proc", "true"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class ProcessSpaces:
    """The nodes' namespaces, each held by a process 1 of its own."""

    def __init__(self) -> None:
        self._first: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def words(self, node: Node) -> tuple[str, ...]:
        """The start of a command that runs among the node's processes; nothing where all nodes
        share this machine's."""
        if not possible():
            return ()
        with self._lock:
            if node.id not in self._first:
                self._first[node.id] = _start()
            holder = self._first[node.id].pid
        return ("nsenter", f"--pid=/proc/{holder}/ns/pid_for_children", "--")

    def forget(self, node: Node) -> None:
        """The node is gone, with all that runs there."""
        with self._lock:
            holder = self._first.pop(node.id, None)
        if holder is not None:
            holder.communicate()

    def close(self) -> None:
        """Ends them all."""
        with self._lock:
            holders = list(self._first.values())
            self._first.clear()
        for holder in holders:
            holder.communicate()


def _start() -> subprocess.Popen[bytes]:
    words = [*_SPACE, "sh", "-c", _FIRST]
    holder = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert holder.stdout
    holder.stdout.readline()
    return holder
