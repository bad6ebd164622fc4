"""In which order a supervisor's tasks come: as they stand in their file, but for those that wait
for a task of another run, which come once that has ended. Standard library only."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_agent.equal_tasks import EqualTasks
    from fairway_agent.task import Task

PAUSE = 0.5  # seconds between two looks at what tasks wait for


class TaskOrder:
    """The tasks of one stage. `equals` tells what those wait for that have equal ones; of these a
    task whose `left_out` is set is not to begin."""

    def __init__(self, tasks: Iterator[Task], equals: EqualTasks | None) -> None:
        self._tasks = tasks
        self._equals = equals
        self._held: list[Task] = []
        self._ready: deque[Task] = deque()
        self._next: Task | None = None
        self._seen: object = None

    @property
    def holds(self) -> bool:
        """Whether tasks wait for others."""
        return bool(self._held)

    def first(self, apart: Collection[str]) -> Task | None:
        """The next that is to be looked at, the same one until it is taken; None where all others
        wait. Those `apart` were ended by a person, and wait for nothing any more."""
        if self._next is None:
            self._release(apart)
            self._next = self._ready.popleft() if self._ready else self._read(apart)
        return self._next

    def take(self) -> None:
        """The first is being seen to."""
        self._next = None

    def drop(self) -> None:
        """None of them is to begin."""
        self._tasks = iter(())
        self._held.clear()
        self._ready.clear()
        self._next = None

    def _release(self, apart: Collection[str]) -> None:
        """Looks which of those that wait may come, where anything has changed."""
        if self._equals is None or not self._held:
            return
        stamp = (self._equals.stamp(), len(apart))  # before the look
        if stamp == self._seen:
            return
        self._seen = stamp
        self._equals.forget_going()
        held, self._held = self._held, []
        for task in held:
            (self._ready if self._may_come(task, apart) else self._held).append(task)

    def _read(self, apart: Collection[str]) -> Task | None:
        for task in self._tasks:
            if self._may_come(task, apart):
                return task
            self._held.append(task)
            self._seen = None  # what it waits for may have ended before
        return None

    def _may_come(self, task: Task, apart: Collection[str]) -> bool:
        if self._equals is None or not task.spec.equal or task.name in apart or task.attempt >= 0:
            return True
        why = self._equals.unmet(task.spec.equal)
        if why:
            task.left_out = why
        return why is not None
