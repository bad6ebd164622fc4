"""Jobs that run on a schedule, and the outputs of their runs."""

import json

from azure.storage.blob import ContainerClient
from batch_service import Batch
from waiting import until

from fairway_runner.engines.batch import client
from fairway_simulator.batch import Fault, StorageAccess
from fairway_simulator.batch.simulator import IDENTITY


class TestSchedules:
    """`fairway schedule`."""

    def test_batch_schedule_starts_ordinary_runs(self, batch: Batch) -> None:
        job = batch.fairway.job(
            "echo run $FAIRWAY_RUN; echo $FAIRWAY_RUN > $FAIRWAY_OUTPUT_WORDS/words",
            template="every-node",
            outputs={"words": {}},
        )
        words = ["--every", "6h", "--name", "nightly", "--target", "batch-sim"]
        assert "nightly runs on batch-sim" in batch.ok("schedule", "create", job, *words)
        assert batch.runs() == []
        batch.service.wait_for_job("nightly:job-1")
        batch.service.advance(6 * 3600)
        until(lambda: "nightly-2" in batch.ok("schedule", "list", "--target", "batch-sim"))
        batch.service.wait_for_job("nightly:job-2")
        assert "nightly-2" in batch.ok("list", "--target", "batch-sim")
        assert batch.runs() == ["nightly-1", "nightly-2"]
        for run in batch.runs():
            assert json.loads(batch.ok("show", run, "--json"))["state"] == "succeeded"
            assert batch.ok("logs", run) == f"run {run}\n"
            batch.ok("fetch", run)
            words = batch.fairway.folder / run / "0" / "words" / "words"
            assert words.read_text() == f"{run}\n"

    def test_batch_schedule_is_listed_disabled_enabled_and_deleted(
        self, batch: Batch, storage: StorageAccess
    ) -> None:
        job = batch.fairway.job("true", template="plain")
        common = ("--name", "weekly", "--target", "batch-sim")
        lost = {"status": 500, "applied": True, "path": "jobschedules", "method": "POST"}
        batch.service.faults.add(Fault("status", **lost, count=1))  # it is created nevertheless
        batch.ok("schedule", "create", job, "--cron", "30 2 * * 1", *common)
        other = batch.fairway.job("false", name="other.yaml", template="plain")
        taken = "the account already has a schedule `weekly`"
        outputs = ContainerClient.from_connection_string(storage.connection_string, "outputs")
        record = outputs.get_blob_client(client.record_blob("weekly"))
        before = record.get_blob_properties().etag
        words = ("schedule", "create", other, "--cron", "30 2 * * 1", *common)
        batch.fairway.refused(*words, says=taken)
        assert record.get_blob_properties().etag == before
        [found] = json.loads(batch.ok("schedule", "list", "--target", "batch-sim", "--json"))
        assert (found["name"], found["state"]) == ("weekly", "active")
        assert "T02:30" in found["next_run"]
        batch.fairway.refused(
            *("submit", job, "--run-id", "weekly", "--target", "batch-sim"),
            says="the account has a schedule with the id `weekly`",
        )
        out = batch.ok("schedule", "disable", "weekly", "--target", "batch-sim", "--json")
        assert json.loads(out) == [{"schedule": "weekly", "action": "disable"}]
        assert "disabled" in batch.ok("schedule", "list", "--target", "batch-sim")
        batch.ok("schedule", "enable", "weekly", "--target", "batch-sim")
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

    def test_batch_schedule_is_refused_if_its_name_cannot_begin_a_run_id(
        self, batch: Batch
    ) -> None:
        """No command would find its runs."""
        job = batch.fairway.job("true", template="plain")
        words = ("schedule", "create", job, "--every", "6h", "--target", "batch-sim", "--name")
        batch.fairway.refused(*words, "Nightly_2", says="`Nightly_2-1` is not a run's id")

    def test_batch_schedule_is_refused_if_a_run_has_its_name(self, batch: Batch) -> None:
        """Batch has one set of ids for jobs and schedules."""
        job = batch.fairway.job("true", template="plain")
        run = batch.submit(job, "--run-id", "weekly")
        run.wait()
        words = ("schedule", "create", job, "--every", "6h", "--target", "batch-sim", "--name")
        done = batch.fairway.within(*words, "weekly")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error: the account already has a job `weekly` [taken-run-id]\n"
            "  choose another with --name\n"
        )
        assert "has no schedules" in batch.ok("schedule", "list", "--target", "batch-sim")
        assert run.state == "succeeded"
        assert "weekly2 runs on batch-sim" in batch.ok(*words, "weekly2")
