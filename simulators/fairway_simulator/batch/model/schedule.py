"""A job schedule: when it makes a job, and from what."""

from __future__ import annotations

from typing import Any

from fairway_simulator.batch.clock import parse_time, wire_time
from fairway_simulator.batch.model.entity import Entity
from fairway_simulator.batch.wire.durations import seconds


class Schedule(Entity):
    """A job schedule. Times are POSIX times; `next_run` is None once it makes no more jobs."""

    def __init__(
        self, spec: dict[str, Any], account_url: str, sequence: int, now: str, time: float
    ) -> None:
        super().__init__("active", now)
        self.spec = spec
        self.id: str = spec["id"]
        self.key = self.id.lower()
        self.sequence = sequence
        self.url = f"{account_url}/jobschedules/{self.id}"
        self.runs = 0
        self.recent: dict[str, Any] | None = None
        self.ended: str | None = None
        self.next_run: float | None = self.first_run(time)

    @property
    def times(self) -> dict[str, Any]:
        """Its `schedule` in the wire form."""
        return self.spec.get("schedule") or {}

    @property
    def interval(self) -> float | None:
        """Seconds between two jobs; None for a schedule of one job."""
        text = self.times.get("recurrenceInterval")
        return seconds(text, "recurrenceInterval") if text else None

    @property
    def last_time(self) -> float | None:
        """The time after which it makes no more jobs."""
        text = self.times.get("doNotRunAfter")
        return parse_time(text).timestamp() if text else None

    def first_run(self, time: float) -> float:
        """When it makes its first job."""
        text = self.times.get("doNotRunUntil")
        return max(time, parse_time(text).timestamp()) if text else time

    def wire(self) -> dict[str, Any]:
        """The schedule as `get_job_schedule` answers."""
        info: dict[str, Any] = {}
        if self.next_run is not None and self.state == "active":
            from datetime import UTC, datetime

            info["nextRunTime"] = wire_time(datetime.fromtimestamp(self.next_run, UTC))
        if self.recent:
            info["recentJob"] = self.recent
        if self.ended:
            info["endTime"] = self.ended
        return {**self.spec, "url": self.url, **self.wire_state(), "executionInfo": info}
