"""What Azure plans for the nodes of a task: each looks for itself, and tells the main one of it."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from fairway_agent.allocators import machine
from fairway_agent.batch.folders import Folders, say
from fairway_agent.fanout import sshd_mesh
from fairway_boot.http import Failure
from fairway_boot.imds import Event, Metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PAUSE = 1.0
_TRIES = 5  # without any answer at all: this machine has no such service


class ScheduledEvents(threading.Thread):
    """Looks for events about this node, and in `file` for those that another node left."""

    def __init__(self, file: Path, act: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._file = file
        self._act = act
        self._event: Event | None = None
        self._metadata = Metadata()
        self.stopped = threading.Event()

    def run(self) -> None:
        """Asks until there is one, which it acts on once."""
        failures, name = 0, None
        while not self.stopped.wait(_PAUSE):
            if self._file.exists():
                self._act(self._file.read_text(encoding="ascii"))
                return
            if failures >= _TRIES:
                continue
            try:
                name = self._metadata.name() if name is None else name
                self._event = next(iter(self._metadata.endings(name)), None)
                failures = 0
            except Failure:
                failures += 1
                continue
            if self._event is not None:
                self._act(self._event.kind)
                return

    def approve(self) -> None:
        """Says that nothing here has to be waited for any more."""
        if self._event is not None:
            try:
                self._metadata.acknowledge(self._event)
            except Failure as error:
                say(f"the event could not be approved: {error}")


def watch_for_main() -> int:
    """On a node that is not the main one: tells that one of an event."""
    folders = Folders()
    main = machine.batch_nodes()[0].address

    def pass_on(kind: str) -> None:
        config = sshd_mesh.connect(folders.meeting, [main])
        sshd_mesh.order(config, [main], f"fairway-event {kind}")

    events = ScheduledEvents(folders.base / f"event.{os.getpid()}", pass_on)
    events.start()
    while events.is_alive():
        time.sleep(_PAUSE)
    return 0
