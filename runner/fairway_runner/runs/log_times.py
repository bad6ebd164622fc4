"""From where on a log is what was printed since a moment, by the note that was kept of its growth
where it ran."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fairway_agent.log_times import FILE, PAUSE, read
from fairway_core.findings import UserError
from fairway_runner.runs.records import known_task

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fairway_agent.task_state import TaskState
    from fairway_runner.runs.folder import RunFolder

_SHORT = 2 * PAUSE
_BLOCK = 1 << 16


def begins(run: RunFolder, logs: Iterable[Path], since: float) -> dict[Path, int]:
    """At which byte of each log begin the lines that were printed since then, or up to ten seconds
    before; UserError where nobody noted when one of them grew."""
    found = {}
    for log in logs:
        offset = _offset(log, known_task(log.parent), since)
        if offset is None:
            message = f"no times were recorded for task {log.parent.name} of {run.id}"
            hint = "an earlier release ran it, or its node is gone; leave --since out"
            raise UserError.of("no-log-times", message, hint)
        found[log] = _line_around(log, offset)
    return found


def _offset(log: Path, status: TaskState | None, since: float) -> int | None:
    size = log.stat().st_size if log.exists() else 0
    entries = read(log.with_name(FILE))
    ended = status.ended if status is not None and status.is_final else None
    if not size or (ended is not None and ended <= since):
        return size
    if entries:
        return min(size, max((noted for noted, moment in entries if moment <= since), default=0))
    if log.parent.name == "setup":
        return 0  # it has a note where it is a task of the run, and is over soon elsewhere
    started = status.started if status is not None else None
    if started is None or status is None or status.attempts > 1:
        return None
    is_short = (time.time() if ended is None else ended) - started <= _SHORT
    return 0 if started >= since or is_short else None


def _line_around(log: Path, offset: int) -> int:
    """Where the line begins of which a byte is: a line that was being printed is shown whole."""
    if not offset:
        return 0
    with log.open("rb") as file:
        start = max(0, offset - _BLOCK)
        file.seek(start)
        return start + file.read(offset - start).rfind(b"\n") + 1
