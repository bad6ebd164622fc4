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


def unsuccessful(folders: Sequence[str], *, going: str | None = None) -> list[str]:
    """What became of those that did not succeed, as `run-id failed`; `going` is said of one whose
    state is not final, where that is not to be said itself."""
    found = []
    for folder in map(Path, folders):
        state = _state(folder)
        if state in GOING_STATES and going:
            state = going
        if state != "succeeded":
            found.append(f"{folder.name} {state}")
    return found


def _state(folder: Path) -> str:
    try:
        known = state_files.read_run(folder)
    except (OSError, Fault):
        return "cannot be read"
    return "was removed" if known is None else known.state
