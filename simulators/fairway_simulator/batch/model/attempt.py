"""What the service remembers of an attempt of a task that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading

    from fairway_simulator.batch.model.outcome import Outcome


class Attempt(Protocol):
    """An attempt: when its time is over, how to end it, and whether it has ended."""

    deadline: float | None
    """The POSIX time at which the task's wall-clock time is over."""
    done: threading.Event

    def end(self, outcome: Outcome) -> None:
        """Ends it early; it then counts as having ended so."""

    def abandon(self) -> None:
        """Ends it early, and nobody asks any more how."""
