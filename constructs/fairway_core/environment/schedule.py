"""The schedule of a cluster, by which its nodes stop at night and start again in the morning."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, WithJsonSchema

from fairway_core.catalog.limits import windows_time_zone
from fairway_core.documents import Check, FieldError, Model, matching, rule
from fairway_core.fields import require_unique

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
DAYS: tuple[Day, ...] = get_args(Day)

_MINUTES_A_DAY = 24 * 60


def minutes(time: str) -> int:
    """Returns the minutes since midnight of a time of day."""
    hour, _, minute = time.partition(":")
    return int(hour) * 60 + int(minute)


_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]"
Time = Annotated[
    str,
    matching(_TIME, "`{}` is not a time of day", "such as 08:30 or 20:00"),
    WithJsonSchema({"type": "string", "pattern": f"^{_TIME}$", "examples": ["20:00"]}),
]


class Schedule(Model, defer_build=True):
    """When Azure stops the nodes of a cluster by itself, and starts them again.

    A stopped node costs nothing but its disks. What runs on it when it is stopped is lost, as in
    a power cut, unless it has written a checkpoint.

    >>> schedule = Schedule(start="08:00", stop="18:00")
    """

    stop: Time
    """When nodes are stopped, for example `20:00`."""
    start: Time | None = None
    """When they are started, for example `08:00`; without it, start them with
    `fairway nodes start`."""
    days: tuple[Day, ...] = Field(default=DAYS[:5], min_length=1)
    """The days on which nodes are stopped and started."""
    timezone: Annotated[str, Check(windows_time_zone)] = "UTC"
    """Time zone of these times, for example `Europe/Berlin`; it follows daylight saving time."""

    @rule
    def _once_each(self) -> None:
        require_unique(self.days, "{} is named twice", ("days",))
        if self.start == self.stop:
            raise FieldError(
                "nodes cannot stop and start at the same time",
                'for example start: "08:00"',
                ("start",),
            )

    @property
    def hours_a_week(self) -> float | None:
        """The hours per week that nodes run, or None if nothing starts them."""
        if self.start is None:
            return None
        events = sorted(
            (DAYS.index(day) * _MINUTES_A_DAY + minutes(time), runs)
            for day in self.days
            for time, runs in ((self.start, True), (self.stop, False))
        )
        total = 0
        for (at, runs), (until, _) in zip(events, [*events[1:], events[0]], strict=True):
            total += (until - at) % (7 * _MINUTES_A_DAY) if runs else 0
        return total / 60
