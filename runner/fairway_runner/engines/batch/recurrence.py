"""When a schedule runs: Batch knows a first time and an interval, and nothing else.

A line of cron is taken where it means that: every few minutes or hours, every day, every week.
Times are UTC, as Batch's are.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from fairway_core.findings import UserError
from fairway_runner.engines.schedules import Recurrence

_MINUTE, _HOUR, _DAY, _WEEK = 60, 3_600, 86_400, 604_800
_ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0"}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def every(seconds: float) -> Recurrence:
    """Every `seconds` from now on; UserError below a minute, which is Batch's least.

    >>> every(21600).wire()
    {'recurrenceInterval': 'PT360M'}
    """
    if seconds < _MINUTE or seconds % _MINUTE:
        message = f"Azure Batch cannot repeat every {seconds:g} s"
        raise UserError.of("bad-schedule", message, "use whole minutes, at least one")
    return Recurrence(int(seconds))


def cron(line: str, now: datetime) -> Recurrence:
    """A line of cron; UserError where it is none, or no fixed interval.

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


def _step(field: str, whole: int) -> int | None:
    """The step of `*/N` and `*`, where equal steps fill the whole."""
    found = re.fullmatch(r"\*(?:/(\d+))?", field)
    if found is None:
        return None
    step = int(found[1] or 1)
    return step if step and whole % step == 0 else None


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
