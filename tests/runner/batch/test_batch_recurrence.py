"""When schedules run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fairway_core.findings import UserError
from fairway_runner.engines.schedules import cron, every

NOW = datetime(2026, 3, 4, 12, 10, 30, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("line", "minutes", "first"),
    [
        ("*/15 * * * *", 15, "2026-03-04T12:15"),
        ("* * * * *", 1, "2026-03-04T12:11"),
        ("5 * * * *", 60, "2026-03-04T13:05"),
        ("@hourly", 60, "2026-03-04T13:00"),
        ("0 */6 * * *", 360, "2026-03-04T18:00"),
        ("30 2 * * *", 1440, "2026-03-05T02:30"),
        ("30 23 * * *", 1440, "2026-03-04T23:30"),
        ("0 3 * * 1", 10080, "2026-03-09T03:00"),
        ("0 3 * * mon", 10080, "2026-03-09T03:00"),
        ("0 3 * * 7", 10080, "2026-03-08T03:00"),
        ("0 13 * * 3", 10080, "2026-03-04T13:00"),
        ("0 12 * * 3", 10080, "2026-03-11T12:00"),
    ],
)
def test_lines_that_repeat_at_a_fixed_interval(line: str, minutes: int, first: str) -> None:
    assert cron(line, NOW).wire() == {
        "recurrenceInterval": f"PT{minutes}M",
        "doNotRunUntil": f"{first}:00Z",
    }


@pytest.mark.parametrize(
    "line",
    [
        "0 0 1 * *",
        "0 0 * 1 *",
        "0 9-17 * * *",
        "*/7 * * * *",
        "0 */5 * * *",
        "60 * * * *",
        "0 0 * * 8",
        "* *",
        "",
        "*/15 9 * * *",
        "0 * * * 1",
        "a b c d e",
    ],
)
def test_batch_recurrence_refuses_unsupported_cron_lines(line: str) -> None:
    with pytest.raises(UserError, match="`"):
        cron(line, NOW)


def test_an_interval_is_of_whole_minutes() -> None:
    assert every(3600).wire() == {"recurrenceInterval": "PT60M"}
    for seconds in (30, 90):
        with pytest.raises(UserError, match=f"Azure Batch cannot repeat every {seconds} s"):
            every(seconds)
