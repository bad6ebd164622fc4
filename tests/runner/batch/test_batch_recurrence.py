"""Times at which schedules run, and the jobs that they can start."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from endings import ends, refused
from running import RunFairway
from targets import target_of

from fairway_core.findings import UserError
from fairway_runner.engines.batch import client
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.engines.batch.schedules import BatchSchedules, _require_one_task
from fairway_runner.engines.schedules import cron, every
from fairway_runner.jobs.job import Job

NOBODY: Any = None

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
def test_batch_recurrence_of_a_cron_line_has_its_interval_and_first_time(
    line: str, minutes: int, first: str
) -> None:
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
        "*/15 9 * * *",
        "0 * * * 1",
        "a b c d e",
    ],
)
def test_batch_recurrence_refuses_unsupported_cron_lines(line: str) -> None:
    refused(lambda: cron(line, NOW), "`")


def test_batch_recurrence_refuses_intervals_of_partial_minutes() -> None:
    assert every(3600).wire() == {"recurrenceInterval": "PT60M"}
    for seconds in (30, 90):
        with pytest.raises(UserError, match=f"Azure Batch cannot repeat every {seconds} s"):
            every(seconds)


@pytest.mark.parametrize(
    ("fields", "tasks", "what"),
    [
        ({"gpus": 1}, 1, "a part of one"),
        ({"cores": 2}, 1, "a part of one"),
        ({"nodes": 2}, 1, "2 nodes"),
        ({}, 2, "a sweep"),
        ({"finally": {"command": "true"}}, 2, "a `finally:`"),
    ],
)
def test_batch_schedule_refuses_all_but_one_task_on_one_full_node(
    fields: dict[str, Any], tasks: int, what: str
) -> None:
    def prepared(tasks: int, **fields: Any) -> Any:
        job = Job.model_validate({"name": "x", "command": "true", **fields})
        return SimpleNamespace(job=job, plan=SimpleNamespace(tasks=tasks))

    with pytest.raises(UserError, match=f"one task on one node, not {what}"):
        BatchSchedules(NOBODY, NOBODY, NOBODY).create(prepared(tasks, **fields), every(3600), "x")
    _require_one_task(prepared(1))


def test_schedule_create_refuses_a_missing_or_bad_time_and_a_local_target(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    pool = {"name": "pool", "engine": "batch", "nodes": {"min": 0, "max": 1}}
    project = {"targets": [{**pool, "batch": {"pool": "pool"}}]}
    (tmp_path / "fairway.yaml").write_text(json.dumps(project))
    words = ("schedule", "create", "job.yaml", "--target")
    ends(here(*words, "pool"), 2, "[no-time]", "use --every 6h")
    ends(here(*words, "pool", "--every", "30s"), 2, "[bad-schedule]")
    ends(here(*words, "local", "--every", "1h"), 2, "[not-supported]", "let cron or a pipeline")
    for name in ("Nightly_2", 49 * "n"):  # no command would find its runs, or not all of them
        found = here(*words, "pool", "--every", "1h", "--name", name)
        ends(found, 2, "[bad-run-id]", f"`{name}-")


def test_batch_schedules_of_one_name_are_told_apart_by_their_ids(
    here: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines may create one of a name at the same moment."""
    declared = {"version": 1, "name": "spot", "environment": "lab", "engine": "batch"}
    declared |= {"vm_size": "Standard_D2s_v5", "nodes": {"min": 0, "max": 8}}
    declared |= {"storage": {"account_url": "https://lab.invalid"}}
    declared |= {"batch": {"endpoint": "https://lab.invalid", "pool": "spot", "identity": "none"}}
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [declared]}))
    metadata = [{"name": client.SCHEDULE, "value": "nightly"}]
    ids = ["nightly-aaaaaa", "nightly-bbbbbb"]
    own = [{"id": each, "state": "active", "metadata": metadata} for each in ids]
    made: Any = BatchSchedules(Mock(), Mock(), target_of("batch"))
    made._own = lambda: own
    monkeypatch.setattr(BatchEngine, "schedules", lambda _: made)
    code, out, _ = here("schedule", "list", "--target", "spot")
    assert [line.split()[0] for line in out.splitlines()] == ["SCHEDULE", *ids]
    for name, found in (("nightly", ids), (ids[1], ids[1:])):
        code, out, _ = here("schedule", "disable", name, "--target", "spot")
        assert (code, out.splitlines()) == (0, [f"{name}: {each} is disabled" for each in found])
    found = here("schedule", "enable", "nosuch", ids[0], "--target", "spot", "--json")
    assert (found[0], [each["run"] for each in json.loads(found[1])]) == (2, ids[:1])
    assert here("schedule", "enable", "nosuch", "--target", "spot", "--json")[:2] == (2, "")
