"""The runs that a run comes after. Standard library only."""

from __future__ import annotations

import fcntl
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

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
            state = json.loads(Path(folder, "state.json").read_text(encoding="utf-8"))["state"]
        except (OSError, ValueError):
            state = "was removed"
        if state != "succeeded":
            shown = "was lost" if state in GOING_STATES else state
            found.append(f"{Path(folder).name} {shown}")
    return found
