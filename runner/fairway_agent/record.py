"""Files of runs and tasks: their states, and atomic replacement of files.

Standard library only; the runner uses it to read and write them too.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from fairway_boot.files import alone as alone
from fairway_boot.files import is_everybodys as is_everybodys
from fairway_boot.files import open_lock as open_lock
from fairway_boot.files import read_json as read_json
from fairway_boot.files import try_lock as try_lock
from fairway_boot.files import write_bytes as write_bytes
from fairway_boot.files import write_json as write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

GOING_STATES = frozenset({"queued", "running"})
FINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "lost"})
UNSUCCESSFUL_STATES = FINAL_STATES - {"succeeded"}
STATES = (*sorted(GOING_STATES), *sorted(FINAL_STATES))

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
PASSING = (*NO_ROOM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Faults that pass by themselves: full disks, too many processes or open files, no memory."""
ROOM_PAUSE = 1.0  # seconds between two attempts to write to a disk that is full
WAS_FULL = "the disk was full for a while, and states were written late"


def end_state(counts: Mapping[str, int], *, setup_failed: bool = False) -> str:
    """The state of a run that has ended, from how many of its tasks are in which."""
    if counts.get("failed") or setup_failed:
        return "failed"
    return next((state for state in ("lost", "cancelled") if counts.get(state)), "succeeded")
