"""Jobs that run on a schedule, and the outputs of their runs."""

import json
import re
from typing import Any

from batch_service import Batch
from waiting import until

from fairway_simulator.batch import Fault
from fairway_simulator.batch.simulator import IDENTITY


def list_schedules(batch: Batch) -> Any:
    """Returns the target's schedules, as `--json` has them."""
    return json.loads(batch.ok("schedule", "list", "--target", "batch-sim", "--json"))


def require_own(batch: Batch, *runs: str) -> None:
    """Asserts that these are the runs, and that each has its own log and output."""
    assert batch.runs() == sorted(runs)
    for run in runs:
        assert json.loads(batch.ok("show", run, "--json"))["state"] == "succeeded"
        assert batch.ok("logs", run) == f"run {run}\n"
        batch.ok("fetch", run)
        words = batch.fairway.folder / run / "0" / "words" / "words"
        assert words.read_text() == f"{run}\n"


def job_of(run: str) -> str:
    """Returns the job of Batch's that is a schedule's run."""
    return re.sub(r"-(\d+)$", r":job-\1", run)


class TestSchedules:
    """`fairway schedule`."""

    def test_batch_schedule_starts_ordinary_runs(self, batch: Batch) -> None:
        job = batch.fairway.job(
            "echo run $FAIRWAY_RUN; echo $FAIRWAY_RUN > $FAIRWAY_OUTPUT_WORDS/words",
            template="every-node",
            outputs={"words": {}},
        )
        at = ("--target", "batch-sim")

        def create() -> str:
            """Creates the schedule, and returns the id of its first run."""
            words = ("schedule", "create", job, "--every", "6h", "--name", "nightly", *at)
            assert "nightly runs on batch-sim" in batch.ok(*words)
            until(lambda: list_schedules(batch)[0]["last_run"])
            return str(list_schedules(batch)[0]["last_run"])

        first = create()
        assert batch.runs() == []
        batch.service.wait_for_job(job_of(first))
        batch.submit(job, "--run-id", "nightly-1").wait()  # nor do these two share anything
        batch.service.advance(6 * 3600)
        second = f"{first.removesuffix('1')}2"
        until(lambda: second in batch.ok("schedule", "list", *at))
        batch.service.wait_for_job(job_of(second))
        assert second in batch.ok("list", *at)
        require_own(batch, "nightly-1", first, second)
        # Another of the same name later shares nothing with these runs.
        batch.ok("schedule", "delete", "nightly", *at)
        again = create()
        batch.service.wait_for_job(job_of(again))
        batch.ok("list", *at)
        require_own(batch, "nightly-1", first, second, again)

    def test_batch_schedule_is_listed_disabled_enabled_and_deleted(self, batch: Batch) -> None:
        job = batch.fairway.job("true", template="plain")
        common = ("--name", "weekly", "--target", "batch-sim")
        lost = {"status": 500, "applied": True, "path": "jobschedules", "method": "POST"}
        batch.service.faults.add(Fault("status", **lost, count=1))  # it is created nevertheless
        batch.ok("schedule", "create", job, "--cron", "30 2 * * 1", *common)
        other = batch.fairway.job("false", name="other.yaml", template="plain")
        words = ("schedule", "create", other, "--cron", "30 2 * * 1", *common)
        batch.fairway.refused(*words, says="`batch-sim` already has a schedule `weekly`")
        [found] = list_schedules(batch)
        assert (found["name"], found["state"]) == ("weekly", "active")
        assert "T02:30" in found["next_run"]
        out = batch.ok("schedule", "disable", "weekly", "--target", "batch-sim", "--json")
        facts = {"schedule": "weekly", "run": found["run"], "action": "disable"}
        assert json.loads(out) == [facts]
        assert "disabled" in batch.ok("schedule", "list", "--target", "batch-sim")
        out = batch.ok("schedule", "enable", found["run"], "--target", "batch-sim")
        assert f"{found['run']} is enabled" in out
        printed = batch.ok("schedule", "list", "--target", "batch-sim")
        assert re.search(r"weekly +active +7d +[-0-9 ]*\d\d:\d\d:\d\d\n", printed)
        # Another pool has no such schedule.
        project = batch.fairway.folder / "fairway.yaml"
        declared = project.read_text()
        batch.target(batch={"pool": "other", "identity": IDENTITY})
        for action in ("disable", "delete"):
            words = ("schedule", action, "weekly", "--target", "batch-sim")
            batch.fairway.refused(*words, says="has no schedule `weekly`")
        project.write_text(declared)
        batch.ok("schedule", "delete", "weekly", "--target", "batch-sim")
        assert "has no schedules" in batch.ok("schedule", "list", "--target", "batch-sim")
        batch.fairway.refused(
            "schedule", "delete", "weekly", "--target", "batch-sim", says="has no schedule `weekly`"
        )
