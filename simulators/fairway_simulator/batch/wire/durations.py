"""ISO 8601 durations as the service writes them."""

from __future__ import annotations

import re

from fairway_simulator.batch.wire.errors import invalid_property

UNLIMITED = "P10675199DT2H48M5.4775807S"
"""The longest span that the service knows, which stands for `no limit`."""

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def seconds(text: str, name: str = "duration") -> float:
    """The length of a duration in seconds; an error about the property `name` where it is none.

    >>> seconds("P1DT30M")
    88200.0
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None or text in {"P", "PT"} or text.endswith("T"):
        raise invalid_property(name, text, "not an ISO 8601 duration")
    parts = {key: float(value or 0) for key, value in match.groupdict().items()}
    return (parts["days"] * 24 + parts["hours"]) * 3600 + parts["minutes"] * 60 + parts["seconds"]
