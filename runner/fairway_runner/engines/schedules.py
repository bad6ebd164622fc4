"""Recurring schedules, for engines that can start runs by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from fairway_core.findings import UserError


@dataclass(frozen=True)
class Recurrence:
    """Start every `interval` seconds; the first time not before `first`, if given."""

    interval: int
    first: datetime | None = None

    def wire(self) -> dict[str, str]:
        """Returns the form of Azure Batch, and of `--json`."""
        times = {"recurrenceInterval": f"PT{self.interval // 60}M"}
        if self.first is not None:
            times["doNotRunUntil"] = self.first.strftime("%Y-%m-%dT%H:%M:%SZ")
        return times


_MINUTE, _HOUR, _DAY, _WEEK = 60, 3_600, 86_400, 604_800
_ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0"}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def every(seconds: float) -> Recurrence:
    """Returns a recurrence every `seconds` from now on. Raises UserError unless these are whole
    minutes, at least one, which is Batch's minimum.

    >>> every(21600).wire()
    {'recurrenceInterval': 'PT360M'}
    """
    if seconds < _MINUTE or seconds % _MINUTE:
        message = f"Azure Batch cannot repeat every {seconds:g} s"
        raise UserError.of("bad-schedule", message, "use whole minutes, at least one")
    return Recurrence(int(seconds))


def cron(line: str, now: datetime) -> Recurrence:
    """Parses a line of cron. Raises UserError if it is invalid, or has no fixed interval.

    >>> from datetime import UTC
    >>> cron("30 2 * * *", datetime(2026, 3, 1, 12, tzinfo=UTC)).wire()
    {'recurrenceInterval': 'PT1440M', 'doNotRunUntil': '2026-03-02T02:30:00Z'}
    """
    fields = _ALIASES.get(line.strip(), line).split()
    if len(fields) != 5:
        raise _refused(line, "a line of cron has five fields: minute hour day month weekday")
    minute, hour, day, month, weekday = fields
    if (day, month) != ("*", "*"):
        raise _refused(line, "Batch repeats at a fixed interval, and months have no fixed length")
    start = now.replace(second=0, microsecond=0)
    if step := _step(minute, _HOUR // _MINUTE):
        if (hour, weekday) != ("*", "*"):
            raise _refused(line, "Batch cannot pause within a day")
        return Recurrence(step * _MINUTE, _next(start.replace(minute=0), step * _MINUTE, now))
    at = start.replace(minute=_number(line, minute, 59))
    if step := 1 if hour == "*" else _step(hour, 24):
        if weekday != "*":
            raise _refused(line, "Batch cannot pause within a week")
        return Recurrence(step * _HOUR, _next(at.replace(hour=0), step * _HOUR, now))
    at = at.replace(hour=_number(line, hour, 23))
    if weekday == "*":
        return Recurrence(_DAY, _next(at, _DAY, now))
    wanted = _DAYS.index(weekday.lower()) if weekday.lower() in _DAYS else None
    number = (_number(line, weekday, 7) if wanted is None else wanted) % 7
    sunday = at - timedelta(days=at.isoweekday() % 7)
    return Recurrence(_WEEK, _next(sunday + timedelta(days=number), _WEEK, now))


def _step(field: str, count: int) -> int | None:
    """Returns the step of `*/N` and `*`, if equal steps fill the count."""
    found = re.fullmatch(r"\*(?:/(\d+))?", field)
    step = int(found[1] or 1) if found else 0
    return step if step and count % step == 0 else None


def _number(line: str, field: str, most: int) -> int:
    if not field.isdecimal() or int(field) > most:
        raise _refused(line, f"`{field}` does not repeat at a fixed interval")
    return int(field)


def _next(start: datetime, interval: int, now: datetime) -> datetime:
    missed = max(0.0, (now - start).total_seconds())
    return start + timedelta(seconds=interval * -(-missed // interval))


def _refused(line: str, why: str) -> UserError:
    hint = "write it so that it repeats every N minutes or hours, every day or every week, "
    hint += "or give --every 6h"
    return UserError.of("bad-schedule", f"`{line}`: {why}", hint)


@dataclass(frozen=True)
class Schedule:
    """A schedule: its name, with which the ids of its runs begin (`run`), `active`, `disabled` or
    `completed`, its next run, its last run's id."""

    name: str
    run: str
    state: str
    interval: str
    next_run: str
    last_run: str


class Schedules(Protocol):
    """The schedules of one target."""

    def create(self, prepared: Any, recurrence: Recurrence, name: str) -> None:
        """Creates the schedule of a `PreparedRun`, whose module imports engines; the ids of its
        runs are that of `prepared` and a number. Raises UserError if the service cannot start such
        a job by itself, or the target has a schedule of that name."""

    def all(self) -> Sequence[Schedule]:
        """Lists the target's schedules, sorted by name."""

    def act(self, action: str, name: str) -> Sequence[str]:
        """Carries out `disable`, `enable` or `delete` on all schedules of that name, or the one
        whose runs' ids begin so; returns with what those of each begin. Raises UserError for an
        unknown one."""
