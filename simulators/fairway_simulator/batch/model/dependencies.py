"""Which tasks of a job wait for which others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Dependencies:
    """The waiting tasks of one job, by their ids in lower case."""

    def __init__(self) -> None:
        self._satisfied: set[str] = set()
        self._unmet: dict[str, set[str]] = {}
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, task: str, wanted: dict[str, Any] | None) -> bool:
        """Notes what a new task waits for; whether it waits for nothing."""
        unmet = {key for key in _ids(wanted or {}) if key not in self._satisfied}
        if unmet:
            self._unmet[task] = unmet
        for key in unmet:
            self._waiting[key].add(task)
        return not unmet

    def satisfy(self, task: str) -> list[str]:
        """A task has ended so that others may go on; returns those that wait for nothing more."""
        self._satisfied.add(task)
        ready = []
        for key in self._waiting.pop(task, ()):
            self._unmet[key].discard(task)
            if not self._unmet[key]:
                del self._unmet[key]
                ready.append(key)
        return ready


def _ids(depends_on: dict[str, Any]) -> Iterator[str]:
    for task_id in depends_on.get("taskIds") or ():
        yield str(task_id).lower()
    for span in depends_on.get("taskIdRanges") or ():
        for number in range(int(span["start"]), int(span["end"]) + 1):
            yield str(number)
