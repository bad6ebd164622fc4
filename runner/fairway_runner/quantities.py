"""Numbers, sizes, durations, times and values as people write and read them."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from fairway_runner.jobs.job_fields import ParamValue


def number(value: float | None) -> str:
    """Formats a metric's value to six significant digits.

    >>> number(0.97777777), number(183211.0), number(None)
    ('0.977778', '183211', '')
    """
    return "" if value is None else f"{value:.6g}"


def size(count: int) -> str:
    """Formats bytes.

    >>> size(999), size(123456), size(5 * 2**30)
    ('999 B', '120.6 KiB', '5.0 GiB')
    """
    if count < 1024:
        return f"{count} B"
    units = ("KiB", "MiB", "GiB", "TiB")
    power = min(int(math.log(count, 1024)), len(units))
    return f"{count / 1024**power:.1f} {units[power - 1]}"


def format_names(names: Sequence[str], most: int = 3) -> str:
    """Formats the first of many names.

    >>> format_names(["a", "b"]), format_names(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration(seconds: float | None) -> str:
    """Formats seconds.

    >>> duration(3.21), duration(75), duration(7384), duration(None), duration(-0.3)
    ('3.2s', '1m15s', '2h03m', '', '0.0s')
    """
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)  # the clock may have been set back
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def money(amount: float | None) -> str:
    """Formats an amount; small ones keep their first digits.

    >>> money(196.64), money(0.0052), money(0.0), money(None)
    ('196.64', '0.0052', '0.00', 'unknown')
    """
    if amount is None:
        return "unknown"
    small = 0 < abs(amount) < 0.1
    return f"{amount:.2g}" if small else f"{amount:,.2f}"


_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)


def parse_moment(option: str, text: str, now: float | None = None) -> float:
    """Parses `2h` (ago), `14:30` (the last time it was that), `2026-11-01` or `2026-11-01T09:30`
    into seconds since 1970. A time without a zone is in this machine's. Raises UserError, which
    names the `option`, for anything else."""
    from fairway_core.light_fields import FieldError, seconds_of

    present = time.time() if now is None else now
    with suppress(FieldError):
        return present - seconds_of(text)
    if (clock := _TIME_OF_DAY.fullmatch(text)) is not None:
        hour, minute, second = (int(part or 0) for part in clock.groups())
        with suppress(ValueError):
            today = datetime.fromtimestamp(present)  # noqa: DTZ006 - this machine's own
            found = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
            if found.timestamp() > present:
                found -= timedelta(days=1)
            return found.timestamp()
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    message = f"{option}: `{text[:60]}` is neither a duration nor a date"
    hint = (
        "write how long ago, as 2h or 7d, or since when, as 14:30, 2026-11-01 or 2026-11-01T09:30"
    )
    raise UserError.of("bad-value", message, hint)


def span(name: str, text: str) -> float:
    """Parses a duration such as 10m into seconds. Raises UserError, which says `name`."""
    from fairway_core.light_fields import FieldError, seconds_of

    try:
        return seconds_of(text)
    except FieldError as error:
        raise UserError.of("bad-value", f"{name}: {error}", error.hint) from None


def iso(moment: float | None) -> str | None:
    """Formats seconds since 1970 in ISO 8601, to the second and in UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def seconds(state: str, started: float | None, ended: float | None) -> float | None:
    """Returns for how many seconds something ran so far; None if it never began, or is unknown."""
    if started is None or (ended is None and state != "running"):
        return None
    # The clock may have been set back.
    return max(0.0, round(float(ended or time.time()) - float(started), 3))


def format_cell(value: ParamValue | None) -> str:
    """Formats a value for a cell of a table: as YAML, on one line; None is empty.

    >>> format_cell(True), format_cell([1, "a"]), format_cell("two\\nlines")
    ('true', '[1, a]', '"two\\\\nlines"')
    """
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(format_cell, value))}]"
        case str() if not value.isprintable() or not value:
            return json.dumps(value)
    return str(value)
