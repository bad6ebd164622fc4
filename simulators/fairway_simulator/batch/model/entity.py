"""Common base of jobs, tasks, pools and schedules: an ETag, a state, and their times."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

_versions = itertools.count(0x8DE000000000000)


def new_etag() -> str:
    """Returns an ETag that no other version of any entity has."""
    return f"0x{next(_versions):X}"


class Entity:
    """An entity with a state. Times are strings in their wire format."""

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
        """Marks a change by a new ETag."""
        self.etag = new_etag()
        self.last_modified = now

    def become(self, state: str, now: str) -> None:
        self.previous_state, self.previous_transition = self.state, self.transition
        self.state, self.transition = state, now
        self.touch(now)

    def wire_state(self) -> dict[str, Any]:
        """Returns the fields of this class in their wire format."""
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


class Clock:
    """The service's clock."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def advance(self, seconds: float) -> None:
        """Moves the clock forward by this many seconds. Raises ValueError if they are negative."""
        if seconds < 0:
            raise ValueError("a clock goes forward only")
        self._ahead += timedelta(seconds=seconds)

    def time(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def now(self) -> str:
        return wire_time(self.time())

    def after(self, seconds: float) -> str:
        return wire_time(self.time() + timedelta(seconds=seconds))


def wire_time(moment: datetime) -> str:
    """Formats a time as the service does. All have the same length, so that they sort as strings.

    >>> wire_time(datetime(2026, 3, 1, 12, tzinfo=UTC))
    '2026-03-01T12:00:00.000000Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime:
    """Parses a client's time, in UTC by default. Raises ValueError if it is malformed."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def http_date(wire: str) -> str:
    return parse_time(wire).strftime("%a, %d %b %Y %H:%M:%S GMT")
