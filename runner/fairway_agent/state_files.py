"""The files `state.json` of a run and of its tasks. Standard library only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.fields import Damaged, read
from fairway_agent.run_state import RunState
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    import socket
    from pathlib import Path

FILE = "state.json"


@dataclass
class States:
    """The states that a supervisor writes; those that cannot be written for what may pass, such as
    a full disk, are kept in `late`, the newest of each file, and written later, with `why` as their
    reason."""

    late: dict[Path, RunState | TaskState] = field(default_factory=dict)
    why: str = record.WAS_FULL

    def write(self, path: Path, value: RunState | TaskState) -> None:
        """Writes it now, or keeps it."""
        self.late[path] = value
        self.write_late()

    def write_late(self) -> None:
        """Writes what was kept, as far as there is room."""
        for path in list(self.late):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                record.write_json(path, self.late[path].to_json())
            except OSError as error:
                if error.errno not in record.PASSING:
                    raise
                if error.errno not in record.NO_ROOM:
                    self.why = f"states were written late: {error.strerror}"
                for late, value in self.late.items():
                    self.late[late] = replace(value, reason=value.reason or self.why)
                return
            del self.late[path]

    def await_room(self, wakeup: socket.socket, longest: float) -> None:
        """Until all of it is written, for `longest` seconds at most."""
        from fairway_agent import wakeups  # who reads states waits for nothing

        end = time.monotonic() + longest
        while self.late and time.monotonic() < end:
            wakeups.wait(wakeup, time.monotonic() + record.ROOM_PAUSE)
            self.write_late()


def read_run(folder: Path) -> RunState | None:
    """Where the run of a folder stands; None before that was written. Fault where the file is
    damaged."""
    return read(folder / FILE, RunState.from_json)


def read_task(folder: Path) -> TaskState | None:
    """The same of the task, or the setup, of a folder."""
    return read(folder / FILE, TaskState.from_json)


def goes_on(folder: Path) -> bool:
    """Whether a run has an end to come; one with a damaged file has none."""
    try:
        known = read_run(folder)
    except Damaged:
        return False
    return known is not None and known.goes_on


def write(folder: Path, state: RunState | TaskState) -> None:
    """Replaces the state of a folder as a whole."""
    record.write_json(folder / FILE, state.to_json())
