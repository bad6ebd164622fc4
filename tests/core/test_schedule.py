"""Schedules of clusters: valid fields, and the resulting running hours."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from fairway_core.catalog.limits import windows_time_zone
from fairway_core.catalog.tables import table
from fairway_core.environment import Cluster, Schedule

ND = {"engine": "ssh", "size": "Standard_ND96isr_H100_v5", "nodes": 2, "mounts": ["data"]}
NIGHT = {"stop": "20:00", "start": "08:00"}


@pytest.mark.parametrize(
    ("fields", "hours"),
    [
        (NIGHT, 60),
        ({"stop": "20:00"}, None),
        ({**NIGHT, "days": ["Sunday"]}, 12),
        ({"stop": "02:00", "start": "08:00", "days": ["Monday"]}, 162),
        # Half an hour on Sunday, and from Monday's last half hour until Sunday begins.
        ({"stop": "00:00", "start": "23:30", "days": ["Sunday", "Monday"]}, 121),
    ],
)
def test_schedule_counts_running_hours_per_week(
    fields: dict[str, Any], hours: float | None
) -> None:
    assert Schedule.model_validate(fields).hours_a_week == hours


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"stop": "24:00"}, "not a time of day"),
        ({"stop": "20:00", "start": "20:00"}, "nodes cannot stop and start at the same time"),
        ({"stop": "20:00", "days": ["Monday", "Monday"]}, "named twice"),
        ({"stop": "20:00", "timezone": "Europe/Berln"}, "unknown time zone"),
    ],
)
def test_schedule_refuses_invalid_fields(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Schedule.model_validate(fields)


def test_schedule_refuses_local_disks_and_automatic_repair() -> None:
    with pytest.raises(ValidationError, match="on the node itself"):
        Cluster.model_validate({**ND, "schedule": NIGHT})
    with pytest.raises(ValidationError, match="Azure would take stopped nodes for broken ones"):
        Cluster.model_validate({**ND, "os_disk": "managed", "repair": {}, "schedule": NIGHT})
    kept = Cluster.model_validate({**ND, "os_disk": "managed", "schedule": NIGHT})
    assert kept.schedule is not None
    box = Cluster.model_validate({**ND, "nodes": 1, "schedule": NIGHT})
    assert not box.has_local_disk


def test_time_zones_have_iana_and_windows_names() -> None:
    zones = table("timezones")["zones"]
    assert all(re.fullmatch(r"UTC|[A-Z]\w+/\w+", zone) for zone in zones)
    assert all(re.fullmatch(r"UTC|.* Standard Time( \(Mexico\))?", each) for each in zones.values())
    assert windows_time_zone("Romance Standard Time") == "Romance Standard Time"
