"""Moments as people write them: how long ago, a date, or a date and a time."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import datetime, timedelta

from fairway_core.findings import UserError

_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)


def moment(option: str, text: str, now: float | None = None) -> float:
    """Seconds since 1970 of `2h` (so long ago), `14:30` (when it was that last), `2026-11-01` or
    `2026-11-01T09:30`.

    A time without a zone is this machine's own. UserError, which names the `option`, for
    anything else.
    """
    from fairway_core.documents import FieldError
    from fairway_core.durations import seconds_of

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
    """The seconds of a span such as 10m; UserError that says `name` where it is none."""
    from fairway_core.documents import FieldError
    from fairway_core.durations import seconds_of

    try:
        return seconds_of(text)
    except FieldError as error:
        raise UserError.of("bad-value", f"{name}: {error}", error.hint) from None
