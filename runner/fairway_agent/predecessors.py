"""The runs that a run comes after. Standard library only."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import state_files
from fairway_agent.faults import Fault
from fairway_agent.record import GOING_STATES

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence


def watch(folders: Sequence[str], bell: socket.socket) -> threading.Event:
    """An event that is set when all these runs have ended; the bell rings when it is."""
    ended = threading.Event()

    def wait() -> None:
        for folder in folders:
            try:
                with Path(folder, "lock").open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_SH)
            except FileNotFoundError:
                continue  # it was removed meanwhile: its state will be missed below
        ended.set()
        bell.send(b"!")

    threading.Thread(target=wait, daemon=True).start()
    return ended


def unsuccessful(folders: Sequence[str]) -> list[str]:
    """What became of those that did not succeed, as `run-id failed`."""
    found = []
    for folder in folders:
        try:
            known = state_files.read_run(Path(folder))
        except (OSError, Fault):
            known = None
        state = "was removed" if known is None else known.state
        if state != "succeeded":
            shown = "was lost" if state in GOING_STATES else state
            found.append(f"{Path(folder).name} {shown}")
    return found
