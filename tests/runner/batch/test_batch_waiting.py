"""What a queued run on a pool waits for, and what is done before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.pools import why_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

MINE = {"id": "mine", "state": "active", "priority": 0, "creationTime": "2026-11-23T08:00:00Z"}
NODES = "waiting for nodes; the pool has 2 running"


class Account:
    """An account with these jobs, and of each how many tasks wait."""

    def __init__(self, *jobs: tuple[str, str, int, str, int]) -> None:
        names = ("id", "state", "priority", "creationTime")
        self.waiting = {job[0]: job[4] for job in jobs}
        self.listed = [MINE, *(dict(zip(names, job[:4], strict=True)) for job in jobs)]
        self.asked: list[str] = []

    def pool_facts(self) -> dict[str, Any]:
        return {"allocationState": "steady"}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"state": "running"}] * 2

    def jobs(self) -> Iterator[dict[str, Any]]:
        yield from self.listed

    def task_counts(self, job: str) -> dict[str, int]:
        self.asked.append(job)
        return {"active": self.waiting[job], "running": 3}


BEFORE, AFTER = "2026-11-23T07:00:00Z", "2026-11-23T09:00:00Z"


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([], ""),
        ([("old", "active", 0, BEFORE, 1)], "; 1 task of 1 other job comes first"),
        (
            [("old", "active", 0, BEFORE, 4), ("high", "active", 500, AFTER, 1)],
            "; 5 tasks of 2 other jobs come first",
        ),
        ([("new", "active", 0, AFTER, 4), ("low", "active", -500, BEFORE, 4)], ""),
        ([("done", "completed", 900, BEFORE, 4), ("off", "disabled", 900, BEFORE, 4)], ""),
        ([("runs", "active", 0, BEFORE, 0)], ""),
        (
            [(f"j{n}", "active", 0, BEFORE, 2) for n in range(11)],
            "; at least 20 tasks of 10 other jobs come first",
        ),
    ],
)
def test_batch_waiting_reason_counts_jobs_that_come_first(
    jobs: list[tuple[str, str, int, str, int]], said: str
) -> None:
    assert why_waiting(Account(*jobs), MINE) == NODES + said  # type: ignore[arg-type]


def test_batch_waiting_reason_does_not_ask_for_later_jobs() -> None:
    account = Account(("new", "active", 0, AFTER, 4), ("old", "active", 0, BEFORE, 4))
    why_waiting(account, MINE)  # type: ignore[arg-type]
    assert account.asked == ["old"]


def test_batch_waiting_reason_without_task_counts_is_the_plain_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = Account(("old", "active", 0, BEFORE, 1))

    def fail(_: str) -> dict[str, int]:
        raise ServiceError(Finding("service", "no answer"), status=503, code="ServerBusy")

    monkeypatch.setattr(account, "task_counts", fail)
    assert why_waiting(account, MINE) == NODES  # type: ignore[arg-type]
