"""What jobs, tasks, pools and schedules have in common: an ETag, a state, and their times."""

from __future__ import annotations

import itertools
from typing import Any

_versions = itertools.count(0x8DE000000000000)


def new_etag() -> str:
    """An ETag that no other version of anything has."""
    return f"0x{next(_versions):X}"


class Entity:
    """Something with a state. Times are texts as they stand on the wire."""

    __slots__ = (
        "created",
        "etag",
        "last_modified",
        "previous_state",
        "previous_transition",
        "state",
        "transition",
    )

    def __init__(self, state: str, now: str) -> None:
        self.state = state
        self.previous_state: str | None = None
        self.created = self.last_modified = self.transition = now
        self.previous_transition: str | None = None
        self.etag = new_etag()

    def touch(self, now: str) -> None:
        """Marks a change: the ETag is another from now on."""
        self.etag = new_etag()
        self.last_modified = now

    def become(self, state: str, now: str) -> None:
        """Enters a state."""
        self.previous_state, self.previous_transition = self.state, self.transition
        self.state, self.transition = state, now
        self.touch(now)

    def wire_state(self) -> dict[str, Any]:
        """The fields of this class as they stand on the wire."""
        wire: dict[str, Any] = {
            "eTag": self.etag,
            "lastModified": self.last_modified,
            "creationTime": self.created,
            "state": self.state,
            "stateTransitionTime": self.transition,
        }
        if self.previous_state is not None:
            wire["previousState"] = self.previous_state
            wire["previousStateTransitionTime"] = self.previous_transition
        return wire
