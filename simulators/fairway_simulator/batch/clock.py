"""The service's clock: real time, which a test can put forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Clock:
    """The time that the service goes by."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def advance(self, seconds: float) -> None:
        """Puts the clock forward by this many seconds; it never goes back."""
        if seconds < 0:
            raise ValueError("a clock goes forward only")
        self._ahead += timedelta(seconds=seconds)

    def time(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC) + self._ahead

    def now(self) -> str:
        """Now, as it stands on the wire."""
        return wire_time(self.time())

    def after(self, seconds: float) -> str:
        """The time this many seconds from now, as it is written on the wire."""
        return wire_time(self.time() + timedelta(seconds=seconds))


def wire_time(moment: datetime) -> str:
    """A time as the service writes it, always of the same length: such texts sort as times do.

    >>> wire_time(datetime(2026, 3, 1, 12, tzinfo=UTC))
    '2026-03-01T12:00:00.000000Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime:
    """The time that a client wrote; ValueError where it is none."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def http_date(wire: str) -> str:
    """A time of the wire as HTTP headers have it."""
    return parse_time(wire).strftime("%a, %d %b %Y %H:%M:%S GMT")
