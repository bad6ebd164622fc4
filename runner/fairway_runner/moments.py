"""Moments as people write them: how long ago, a date, or a date and a time."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime

from fairway_core.findings import UserError


def moment(option: str, text: str, now: float | None = None) -> float:
    """Seconds since 1970 of `2h` (so long ago), `2026-11-01` or `2026-11-01T09:30`.

    A time without a zone is this machine's own. UserError, which names the `option`, for
    anything else.
    """
    from fairway_core.documents import FieldError
    from fairway_core.durations import seconds_of

    with suppress(FieldError):
        return (time.time() if now is None else now) - seconds_of(text)
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    message = f"{option}: `{text[:60]}` is neither a span of time nor a date"
    hint = "write how long ago, as 2h or 7d, or since when, as 2026-11-01 or 2026-11-01T09:30"
    raise UserError.of("bad-value", message, hint)


def span(name: str, text: str) -> float:
    """The seconds of a span such as 10m; UserError that says `name` where it is none."""
    from fairway_core.documents import FieldError
    from fairway_core.durations import seconds_of

    try:
        return seconds_of(text)
    except FieldError as error:
        raise UserError.of("bad-value", f"{name}: {error}", error.hint) from None
