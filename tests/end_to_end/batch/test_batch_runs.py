"""Runs on a Batch pool, from `fairway submit` to their end: real nodes, real MPI, real ssh."""

import json
import shutil
from collections.abc import Callable

from batch_service import Batch
from program import Gate, Pipe


class TestTheContract:
    """A job's script on its main host and on the other nodes, and the files that it keeps."""

    def test_batch_run_ends_all_nodes_with_the_exit_code_of_the_one_that_fails(
        self, batch: Batch
    ) -> None:
        command = (
            "$FAIRWAY_EACH_NODE bash -c '((FAIRWAY_NODE_RANK != 1)) && exec sleep 300; exit 9'"
        )
        job = batch.fairway.job(command, template="plain", nodes=3)
        assert batch.watch(job)[0] == 9

    def test_batch_run_outputs_include_hidden_files(self, batch: Batch) -> None:
        command = 'cd "$FAIRWAY_OUTPUT_MODEL"; mkdir -p a/.hydra; touch .hidden a/.hydra/x a/b'
        job = batch.fairway.job(command, template="plain", outputs={"model": {}})
        code, printed = batch.watch(job)
        assert code == 0, printed
        [run] = batch.runs()
        batch.ok("fetch", run)
        folder = batch.fairway.folder / run / "0" / "model"
        found = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
        assert found == {".hidden", "a/.hydra/x", "a/b"}


class TestFailures:
    """A run that fails reports where and why."""

    def test_batch_run_reports_the_failed_setup_of_another_node(self, batch: Batch) -> None:
        setup = "test $AZ_BATCH_NODE_ID != tvm-sim-2_d || exit 5"
        job = batch.fairway.job("echo never", nodes=3, template="plain", setup=setup)
        code, printed = batch.watch(job)
        assert code == 5, printed
        assert "fairway: the setup failed here with exit code 5" in printed
        assert "never" not in printed

    def test_batch_run_fails_if_its_node_cannot_be_prepared(
        self, make_batch: Callable[..., Batch], pipe: Pipe, gate: Gate
    ) -> None:
        batch = make_batch(nodes=1)
        held = f"exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}"
        first = batch.submit(batch.fairway.job(held, template="plain"))
        pipe.lines(1)
        run = batch.submit(batch.fairway.job("echo never", template="plain"))
        storage = run.engine.storage  # type: ignore[attr-defined]
        storage.delete("outputs", [f"{run.id}/record.tar.gz"])
        gate.open()
        first.wait()
        run.wait()
        assert (run.state, run.exit_code) == ("failed", 5)
        assert "tvm-sim-1_d could not be prepared" in str(run.status.reason)


class TestCancel:
    """`fairway clean`."""

    def test_batch_run_cleaned_leaves_no_blobs_and_its_id_can_be_reused(self, batch: Batch) -> None:
        job = batch.fairway.job(
            "echo x > $FAIRWAY_OUTPUT_KEPT/x", template="plain", outputs={"kept": {}}
        )
        run = batch.submit(job)
        run.wait()
        blobs = run.engine.storage  # type: ignore[attr-defined]
        assert [blob.name for blob in blobs.blobs("code", f"runs/{run.id}/")]
        assert [blob.name for blob in blobs.blobs("outputs", f"{run.id}/")]
        batch.ok("clean", run.id, "--yes")
        assert not [blob.name for blob in blobs.blobs("code", f"runs/{run.id}/")]
        assert not [blob.name for blob in blobs.blobs("outputs", f"{run.id}/")]
        assert not run.folder.exists()
        # Batch takes a while to delete the job; the id is taken until then.
        again = batch.submit(job, "--run-id", run.id)
        again.wait()
        assert again.state == "succeeded"


class TestElsewhere:
    """A run read from another machine, which has only the account."""

    def test_batch_run_retried_elsewhere_is_shown_with_its_new_state(self, batch: Batch) -> None:
        command = "echo run {{ params.n }}; "
        command += "test -e $FAIRWAY_SHARED_DIR/fixed || test {{ params.n }} != 1"
        job = batch.fairway.job(
            command,
            template="plain",
            params={"n": 0},
            sweep={"points": [{"grid": {"n": [0, 1]}}]},
            **{"finally": {"command": "echo all done"}},
        )
        assert batch.watch(job)[0] == 1
        [run] = batch.runs()
        folder = batch.fairway.folder
        shutil.copytree(folder / ".fairway", folder / "origin")
        (batch.data / "fairway" / "runs" / run / "fixed").touch()
        batch.ok("retry", run, "--failed")
        batch.ok("wait", run)
        said = batch.ok("logs", run)
        assert "lost its node" not in said
        assert said.count("[finally] all done") == 2
        shutil.rmtree(folder / ".fairway")
        batch.ok("list", "--target", "batch-sim")
        shown = json.loads(batch.ok("show", run, "--json"))
        assert shown["state"] == "succeeded"
        found = [(task["state"], task["attempts"]) for task in shown["task_list"]]
        assert found == [("succeeded", 1), ("succeeded", 2), ("succeeded", 2)]
        batch.fairway.refused("retry", run, says=f"every task of {run} succeeded")
        # On the machine that submitted the run, listing the target reveals the retry.
        shutil.rmtree(folder / ".fairway")
        shutil.copytree(folder / "origin", folder / ".fairway")
        assert json.loads(batch.ok("show", run, "--json"))["state"] == "failed"
        [listed] = json.loads(batch.ok("list", "--target", "batch-sim", "--json"))
        assert listed["state"] == "succeeded"
        shown = json.loads(batch.ok("show", run, "--json"))
        assert found == [(task["state"], task["attempts"]) for task in shown["task_list"]]
        assert batch.ok("logs", run).count("[finally] all done") == 2
        # A second retry is refused there, as the first one is found.
        shutil.rmtree(folder / ".fairway")
        (folder / "origin").rename(folder / ".fairway")
        batch.fairway.refused("retry", run, says=f"{run} was retried from elsewhere")
        assert json.loads(batch.ok("show", run, "--json"))["state"] == "succeeded"
        assert batch.ok("logs", run).count("[finally] all done") == 2
