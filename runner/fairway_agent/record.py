"""What is written of runs and tasks: their states, and files that are replaced as a whole.

Standard library only; the runner reads and writes by it too.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.files import alone as alone
from fairway_agent.files import read_json as read_json
from fairway_agent.files import try_lock as try_lock
from fairway_agent.files import write_bytes as write_bytes
from fairway_agent.files import write_json as write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_agent.fields import Fields

GOING_STATES = frozenset({"queued", "running"})
FINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "lost"})
STATES = GOING_STATES | FINAL_STATES

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ROOM_PAUSE = 1.0  # seconds between two attempts to write to a disk that is full
WAS_FULL = "the disk was full for a while, and states were written late"


def goes_on(status: Mapping[str, Any]) -> bool:
    """Whether something of it is still to come; not so where nothing was written yet."""
    return status.get("state") in GOING_STATES


def state_of(fields: Fields) -> str:
    """The state that a record names; Unfit where it names none."""
    state = fields.text("state")
    if state not in STATES:
        raise fields.unfit("state")
    return state


def end_state(counts: Mapping[str, int], *, setup_failed: bool = False) -> str:
    """The state of a run that has ended, from how many of its tasks are in which."""
    if counts.get("failed") or setup_failed:
        return "failed"
    return next((state for state in ("lost", "cancelled") if counts.get(state)), "succeeded")


@dataclass
class States:
    """The states that a supervisor writes; those for which the disk has no room are kept in
    `late`, the newest of each file, and written, with that reason, when there is some."""

    late: dict[Path, dict[str, Any]] = field(default_factory=dict)

    def write(self, path: Path, value: dict[str, Any]) -> None:
        """Writes it now, or keeps it."""
        self.late[path] = value
        self.write_late()

    def write_late(self) -> None:
        """Writes what was kept, as far as there is room."""
        for path in list(self.late):
            try:
                write_json(path, self.late[path])
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                for value in self.late.values():
                    value["reason"] = value.get("reason") or WAS_FULL
                return
            del self.late[path]
