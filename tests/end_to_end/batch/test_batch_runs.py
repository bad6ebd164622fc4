"""Runs on a Batch pool: what they keep, failures, containers, release commands, notifications."""

import json
import shutil
from collections.abc import Callable

import pytest
from batch_service import Batch
from program import Gate, Pipe, Signs
from receivers import Receiver


class TestTheContract:
    """A job's script on its main host and on the other nodes, and the files that it keeps."""

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


def held(pipe: Pipe, gate: Gate) -> str:
    return f"echo attempt $FAIRWAY_ATTEMPT; exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}"


@pytest.mark.parametrize(
    ("notice", "limits", "reason"),
    [
        (0.0, {"node": 0}, "a node of it was lost; `retry: {node: 0}` is used up"),
        (8.0, {"preemption": 0}, "its nodes were taken away; `retry: {preemption: 0}` is used up"),
    ],
)
def test_batch_task_fails_when_lost_nodes_exceed_its_retry_limit(
    batch: Batch, pipe: Pipe, gate: Gate, notice: float, limits: dict[str, int], reason: str
) -> None:
    """Batch itself would start the task again, as it does after each of its own failures."""
    job = batch.fairway.job(
        held(pipe, gate), template="plain", retry={"error": 2, **limits}, checkpoint={"grace": "1s"}
    )
    run = batch.submit(job)
    pipe.lines(1)
    run.refresh()
    node = str(run.task_status(0).node)
    batch.service.preempt(node, **({"notice": notice} if notice else {}))
    run.wait()
    [task] = json.loads(batch.ok("show", run.id, "--json"))["task_list"]
    assert (task["state"], task["exit_code"], task["reason"]) == ("failed", 5, reason)
    assert (task["attempts"], task["failures_by_cause"]) == (1, {next(iter(limits)): 1})


def test_batch_container_ignores_the_entry_point_of_its_image(
    make_batch: Callable[..., Batch],
) -> None:
    batch = make_batch(nodes=1, vm_size="Standard_ND96asr_v4", images={"train:1": ["/bin/false"]})
    batch.target(vm_size="Standard_ND96asr_v4")
    job = batch.fairway.job(
        'echo "run: $(cat prepared)"',
        template="plain",
        setup="echo prepared >prepared",
        container={"image": "train:1", "shm_size": "16g", "options": ["--cap-add=SYS_PTRACE"]},
    )
    code, said = batch.watch(job)
    assert code == 0, said
    assert "run: prepared" in said


def test_batch_container_with_a_missing_image_reports_the_reason(
    make_batch: Callable[..., Batch],
) -> None:
    batch = make_batch(nodes=1, images={"train:1": []})
    job = batch.fairway.job("true", template="plain", container={"image": "train:2"})
    code, said = batch.watch(job)
    assert code != 0
    assert "There is no image train:2" in said


def setup(signs: Signs, kept: str = "kept") -> dict[str, str]:
    """Returns a setup that leaves a file on its node, and a release that prints the file."""
    return {
        "command": f"echo {kept} > ../left",
        "release": f'echo "$(cat ../left) of $FAIRWAY_RUN: $FAIRWAY_TASK" >{signs}',
    }


@pytest.mark.parametrize("command", ["true", "exit 3"])
def test_batch_release_runs_on_each_node_of_run(batch: Batch, signs: Signs, command: str) -> None:
    job = batch.fairway.job(command, template="plain", nodes=2, setup=setup(signs))
    run = batch.submit(job)
    assert signs.lines(2) == [f"kept of {run.id}: release"] * 2
    run.wait()
    assert run.exit_code == (0 if command == "true" else 3)


def test_batch_release_runs_after_cancel_and_after_failed_setup(
    batch: Batch, signs: Signs, gate: Gate
) -> None:
    held = f"echo up >{signs}; read -r _ <{gate.path}"
    run = batch.submit(batch.fairway.job(held, template="plain", setup=setup(signs)))
    signs.lines(1)
    batch.ok("cancel", run.id)
    assert signs.lines(2)[1] == f"kept of {run.id}: release"
    failing = setup(signs, "half")
    failing["command"] += "; exit 5"
    other = batch.submit(batch.fairway.job("true", template="plain", setup=failing))
    assert signs.lines(3)[2] == f"half of {other.id}: release"
    other.wait()
    assert other.exit_code == 5


@pytest.fixture
def receiver(batch: Batch, receiver: Receiver) -> Receiver:
    """A receiver that nodes can reach."""
    batch.service.lead_nodes_to(receiver.port)
    return receiver


def test_batch_notification_is_sent_once_for_a_sweep_and_once_for_its_retry(
    batch: Batch, receiver: Receiver
) -> None:
    """A node sends it, even though the receiver fails at first and no client waits for the run. The
    retry's counts include the tasks that it did not repeat."""
    receiver.answers += [503]
    sweep = {"points": [{"grid": {"x": [0, 3, 0]}}]}
    notify = {"webhook": receiver.url}
    command = 'test {{ params.x }} = 0 || test "$FAIRWAY_ATTEMPT" = 1'
    job = batch.fairway.job(command, template="plain", sweep=sweep, notify=notify)
    run = batch.submit(job)
    said = receiver.next()
    assert (said["run"], said["state"]) == (run.id, "failed")
    assert said["tasks"] == {"succeeded": 2, "failed": 1}
    run.wait()
    assert receiver.seen == 2
    batch.ok("retry", run.id)
    said = receiver.next()
    assert (said["state"], said["tasks"]) == ("succeeded", {"succeeded": 3})
