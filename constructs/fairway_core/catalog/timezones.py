"""Time zones as people name them, and as Azure's services do."""

from __future__ import annotations

from functools import cache

from fairway_core.catalog.tables import look_up, table


def windows_time_zone(name: str) -> str:
    """What Azure calls a time zone; UserError for a name that is not known.

    >>> windows_time_zone("Europe/Berlin")
    'W. Europe Standard Time'
    """
    known = _zones()
    return name if name in known.values() else look_up(name, known, "time-zone", _LIST)


_LIST = "timedatectl list-timezones"


@cache
def _zones() -> dict[str, str]:
    zones: dict[str, str] = table("timezones")["zones"]
    return zones
