"""Runs on a Batch pool, from `fairway submit` to their end: real nodes, real MPI, real ssh."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Batch, Gate, Pipe


@pytest.mark.nightly
class TestDigits:
    """The example trains on the nodes of a pool."""

    @pytest.mark.parametrize("nodes", [1, 3])
    def test_it_learns(self, batch: Batch, repository: Path, nodes: int) -> None:
        job = repository / "examples" / "digits" / "job.yaml"
        settings = ["-s", f"nodes={nodes}", "-s", "params.epochs=12"]
        code, printed = batch.watch(job, *settings, "-s", "processes_per_node=1")
        assert code == 0, printed
        accuracy = re.findall(r"done: accuracy=([0-9.]+).*ranks=(\d+) nodes=(\d+)", printed)[-1]
        assert float(accuracy[0]) >= 0.95
        assert accuracy[1:] == (str(nodes), str(nodes))
        [run] = batch.runs()
        batch.ok("fetch", run)
        assert (batch.fairway.folder / run / "0" / "model" / "model.npz").is_file()

    def test_a_sweep_is_compared_and_fetched(self, batch: Batch, repository: Path) -> None:
        job = repository / "examples" / "digits" / "sweep.yaml"
        code, printed = batch.watch(job, "-s", "params.epochs=2")
        assert code == 0, printed
        [run] = batch.runs()
        assert batch.run(run).status.tasks == {"succeeded": 17}
        best = json.loads(batch.ok("best", run, "--metric", "accuracy", "--max", "--json"))
        values = [float(each) for each in re.findall(r"accuracy=([0-9.]+)", printed)]
        assert best["value"] == pytest.approx(max(values))
        assert "html" in batch.ok("report", run)
        batch.ok("fetch", run)
        kept = list((batch.fairway.folder / run).glob("*/model/model.npz"))
        assert len(kept) == 17


CONTRACT = r"""
test "$FAIRWAY_NODES" = 3 && test "$FAIRWAY_WORLD_SIZE" = 6
test "$(tr , '\n' <<<"$FAIRWAY_HOSTS" | sort -u | wc -l)" = 3
test "${FAIRWAY_HOSTS%%,*}" = "$FAIRWAY_MAIN_HOST"
test "$(wc -l <"$FAIRWAY_HOSTFILE")" = 3 && test "$FAIRWAY_MAIN_PORT" != 6000
test -d "$FAIRWAY_SHARED_DIR" && test -d "$FAIRWAY_CHECKPOINT_DIR" && test -d "$FAIRWAY_SCRATCH_DIR"
test "$FAIRWAY_ATTEMPT" = 0 && test -n "$FAIRWAY_RUN"
export WORD='two words'
$FAIRWAY_EACH_NODE bash -c 'echo "node $FAIRWAY_NODE_RANK $(hostname) $WORD $0" >&1' "an argument"
echo checked
"""


class TestTheContract:
    """What a launcher's script finds on its main host, and on the other nodes."""

    @pytest.mark.nightly
    def test_on_three_nodes(self, batch: Batch) -> None:
        job = batch.fairway.job(f"set -e\n{CONTRACT}", template="plain", nodes=3)
        code, printed = batch.watch(job, "-s", "processes_per_node=2")
        assert code == 0, printed
        found = sorted(re.findall(r"node (\d) (\S+) two words an argument", printed))
        assert [rank for rank, _ in found] == ["0", "1", "2"]
        assert len({host for _, host in found}) == 3
        assert printed.splitlines()[-2] == "checked" or "checked" in printed

    def test_a_node_that_fails_ends_the_others(self, batch: Batch) -> None:
        command = (
            "$FAIRWAY_EACH_NODE bash -c '((FAIRWAY_NODE_RANK != 1)) && exec sleep 300; exit 9'"
        )
        job = batch.fairway.job(command, template="plain", nodes=3)
        assert batch.watch(job)[0] == 9

    def test_code_setup_and_environment(self, batch: Batch) -> None:
        (batch.fairway.folder / "words.txt").write_text("from the code\n")
        job = batch.fairway.job(
            "cat words.txt built.txt; echo $COLOUR",
            template="plain",
            env={"COLOUR": "green"},
            setup="echo setting up; echo built > built.txt",
        )
        run = batch.submit(job)
        run.wait()
        assert run.status.state == "succeeded"
        assert batch.ok("logs", run.id, "--task", "0") == "from the code\nbuilt\ngreen\n"
        assert batch.ok("logs", run.id).splitlines()[0] == "[setup] setting up"

    @pytest.mark.nightly
    def test_a_setup_that_fails_ends_the_run_with_its_code(self, batch: Batch) -> None:
        job = batch.fairway.job("echo never", template="plain", setup="echo no room; exit 17")
        code, printed = batch.watch(job)
        assert code == 17, printed
        assert "the setup failed on this node with exit code 17" in printed
        [run] = batch.runs()
        assert batch.run(run).status.reason == "the setup failed with exit code 17"

    def test_what_begins_with_a_dot_is_kept(self, batch: Batch) -> None:
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
    """A run that fails says where and why."""

    @pytest.mark.nightly
    def test_a_rank_that_fails_gives_its_code_and_its_last_lines(self, batch: Batch) -> None:
        program = "echo rank $OMPI_COMM_WORLD_RANK is up; "
        program += "test $OMPI_COMM_WORLD_RANK != 2 || exit 23; sleep 60"
        code, printed = batch.watch(batch.fairway.job(program, nodes=3))
        assert code == 23, printed
        assert "rank 2 is up" in printed
        [run] = batch.runs()
        shown = json.loads(batch.ok("show", run, "--json"))
        assert (shown["state"], shown["task_list"][0]["exit_code"]) == ("failed", 23)

    def test_another_node_that_fails_is_named_with_its_last_lines(self, batch: Batch) -> None:
        setup = "test $AZ_BATCH_NODE_ID != tvm-sim-2_d || exit 5"
        job = batch.fairway.job("echo never", nodes=3, template="plain", setup=setup)
        code, printed = batch.watch(job)
        assert code == 5, printed
        assert "fairway: the setup failed here with exit code 5" in printed
        assert "never" not in printed

    def test_a_run_that_no_node_can_be_prepared_for_ends(
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

    @pytest.mark.nightly
    def test_a_failed_task_is_tried_again_and_its_attempts_count(self, batch: Batch) -> None:
        command = "echo attempt $FAIRWAY_ATTEMPT; test $FAIRWAY_ATTEMPT = 2"
        code, printed = batch.watch(batch.fairway.job(command, template="plain", retries=3))
        assert code == 0, printed
        [run] = batch.runs()
        log = batch.ok("logs", run).splitlines()
        assert log[::2] == ["attempt 0", "attempt 1", "attempt 2"]
        assert [line.split(":")[1] for line in log[1::2]] == [" attempt 2", " attempt 3"]
        assert json.loads(batch.ok("show", run, "--json"))["task_list"][0]["attempts"] == 3

    @pytest.mark.nightly
    def test_a_task_over_its_time_gets_the_signal_and_the_code_124(self, batch: Batch) -> None:
        command = "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done"
        job = batch.fairway.job(
            command, template="plain", timeout="2s", checkpoint={"grace": "20s"}
        )
        code, printed = batch.watch(job)
        assert code == 124, printed
        assert "up\n" in printed
        assert "saved\n" in printed
        [run] = batch.runs()
        assert batch.run(run).task_status(0, "failed").timed_out is True

    @pytest.mark.nightly
    def test_retry_runs_only_what_failed(self, batch: Batch) -> None:
        command = "echo run {{ params.n }}; "
        command += "test -e $FAIRWAY_SHARED_DIR/fixed || test {{ params.n }} != 1"
        job = batch.fairway.job(
            command,
            template="plain",
            params={"n": 0},
            sweep={"points": [{"grid": {"n": [0, 1, 2]}}]},
        )
        assert batch.watch(job)[0] == 1
        [run] = batch.runs()
        (batch.data / "fairway" / "runs" / run / "fixed").touch()
        batch.ok("retry", run, "--failed")
        batch.ok("wait", run)
        assert batch.run(run).status.tasks == {"succeeded": 3}
        tasks = json.loads(batch.ok("show", run, "--json"))["task_list"]
        assert [task["attempts"] for task in tasks] == [1, 2, 1]
        assert batch.ok("logs", run, "--task", "1") == (
            "run 1\nfairway: attempt 2: the run was retried\nrun 1\n"
        )


class TestSweeps:
    """One task a point, and what comes after all."""

    @pytest.mark.nightly
    def test_finally_runs_after_failures(self, batch: Batch) -> None:
        job = batch.fairway.job(
            "echo done >> $FAIRWAY_SHARED_DIR/log; exit {{ params.n }}",
            template="plain",
            params={"n": 0},
            sweep={"points": [{"grid": {"n": [0, 1]}}]},
            **{"finally": {"command": "wc -l < $FAIRWAY_SHARED_DIR/log"}},
        )
        code, printed = batch.watch(job)
        assert code == 1, printed
        [run] = batch.runs()
        assert "[finally] 2" in batch.ok("logs", run)

    def test_no_more_tasks_at_a_time_than_the_job_allows(
        self, batch: Batch, pipe: Pipe, gate: Gate
    ) -> None:
        command = f"exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}"
        job = batch.fairway.job(
            command,
            template="plain",
            params={"n": 0},
            sweep={"points": [{"grid": {"n": [0, 1, 2]}}], "max_parallel": 2},
        )
        run = batch.submit(job)
        pipe.lines(2)
        run.refresh()
        assert run.status.tasks == {"running": 2, "queued": 1}
        gate.open(3)
        run.wait()
        assert run.state == "succeeded"


class TestCancel:
    """A run is ended early."""

    @pytest.mark.nightly
    def test_it_ends_what_runs(self, batch: Batch, pipe: Pipe, gate: Gate) -> None:
        command = f"exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}"
        run = batch.submit(batch.fairway.job(command, template="plain"))
        pipe.lines(1)
        assert batch.ok("cancel", run.id) == f"{run.id} cancelled\n"
        assert run.exit_code == 130
        assert batch.ok("cancel", run.id) == f"{run.id} cancelled\n"

    def test_clean_leaves_nothing_behind(self, batch: Batch) -> None:
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
        # Batch is deleting its job for a while, and the id is taken for so long.
        again = batch.submit(job, "--run-id", run.id)
        again.wait()
        assert again.state == "succeeded"


class TestElsewhere:
    """A run is read from another machine, with nothing but the account."""

    def test_a_run_that_was_retried(self, batch: Batch) -> None:
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
        done = batch.fairway.within("retry", run)
        assert done.returncode == 2
        assert f"every task of {run} succeeded" in done.stderr
        # Where it began, the list of the target tells of the retry from elsewhere.
        shutil.rmtree(folder / ".fairway")
        shutil.copytree(folder / "origin", folder / ".fairway")
        assert json.loads(batch.ok("show", run, "--json"))["state"] == "failed"
        [listed] = json.loads(batch.ok("list", "--target", "batch-sim", "--json"))
        assert listed["state"] == "succeeded"
        shown = json.loads(batch.ok("show", run, "--json"))
        assert found == [(task["state"], task["attempts"]) for task in shown["task_list"]]
        assert batch.ok("logs", run).count("[finally] all done") == 2
        # And it is seen before it is repeated.
        shutil.rmtree(folder / ".fairway")
        (folder / "origin").rename(folder / ".fairway")
        done = batch.fairway.within("retry", run)
        assert done.returncode == 2
        assert f"{run} was retried from elsewhere" in done.stderr
        assert json.loads(batch.ok("show", run, "--json"))["state"] == "succeeded"
        assert batch.ok("logs", run).count("[finally] all done") == 2

    @pytest.mark.nightly
    def test_list_show_logs_and_fetch(self, batch: Batch) -> None:
        job = batch.fairway.job(
            "echo hello; echo kept > $FAIRWAY_OUTPUT_WORDS/words",
            template="plain",
            outputs={"words": {}},
        )
        run = batch.submit(job)
        run.wait()
        shutil.rmtree(batch.fairway.folder / ".fairway")
        assert run.id in batch.ok("list", "--target", "batch-sim")
        assert json.loads(batch.ok("show", run.id, "--json"))["state"] == "succeeded"
        assert batch.ok("logs", run.id) == "hello\n"
        batch.ok("fetch", run.id)
        assert (batch.fairway.folder / run.id / "0" / "words" / "words").read_text() == "kept\n"
