"""Which tasks of a job wait for which others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.batch.model.task import Task


class Dependencies:
    """The waiting tasks of one job. Ids are compared in lower case."""

    def __init__(self) -> None:
        self._satisfied: set[str] = set()
        self._waiting: defaultdict[str, set[Task]] = defaultdict(set)

    def add(self, task: Task) -> None:
        """Notes what a new task waits for; it is ready where `task.unmet` stays empty."""
        wanted = task.spec.get("dependsOn")
        if not wanted:
            return
        task.unmet = {key for key in _ids(wanted) if key not in self._satisfied}
        for key in task.unmet:
            self._waiting[key].add(task)

    def satisfy(self, key: str) -> list[Task]:
        """A task has ended so that others may go on; returns those that wait for nothing more."""
        self._satisfied.add(key)
        ready = []
        for task in sorted(self._waiting.pop(key, ()), key=lambda waiting: waiting.sequence):
            task.unmet.discard(key)
            if not task.unmet:
                ready.append(task)
        return ready

    def remove(self, task: Task) -> None:
        """Forgets a task that was deleted."""
        for key in task.unmet:
            self._waiting[key].discard(task)
        self._satisfied.discard(task.key)


def _ids(depends_on: dict[str, Any]) -> Iterator[str]:
    for task_id in depends_on.get("taskIds") or ():
        yield str(task_id).lower()
    for span in depends_on.get("taskIdRanges") or ():
        for number in range(int(span["start"]), int(span["end"]) + 1):
            yield str(number)
