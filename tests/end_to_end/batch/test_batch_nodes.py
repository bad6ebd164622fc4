"""Nodes that are preempted, and nodes as users list, change and reach them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_service import Batch
from program import Pipe

# Runs until SIGTERM, then saves its state and exits with 0. If it finds a saved state, it exits at
# once.
PROGRAM = """
import os, signal, sys, time
folder = os.environ["FAIRWAY_CHECKPOINT_DIR"]
file = os.path.join(folder, "step")
start = int(open(file).read()) if os.path.exists(file) else 0
print("attempt", os.environ["FAIRWAY_ATTEMPT"], "from step", start, flush=True)
def save(*_):
    print("saved", flush=True)
    open(file, "w").write("7")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
if start:
    print("done", flush=True)
    sys.exit(0)
with open(sys.argv[1], "w") as pipe:
    pipe.write("up\\n")
time.sleep(300)
"""


def resumable(batch: Batch, pipe: Pipe, **fields: Any) -> Path:
    (batch.fairway.folder / "train.py").write_text(PROGRAM)
    command = f"{sys.executable} train.py {pipe.path}"
    return batch.fairway.job(command, template="plain", checkpoint={"grace": "10s"}, **fields)


class TestPreemption:
    """A Spot node is preempted, and the task starts again on another node."""

    def test_batch_preemption_notice_lets_the_job_save_for_its_next_attempt(
        self, batch: Batch, pipe: Pipe
    ) -> None:
        run = batch.submit(resumable(batch, pipe))
        pipe.lines(1)
        run.refresh()
        node = str(run.task_status(0).node)
        [busy] = [each for each in run.engine.nodes() if each.run]
        assert (busy.name, busy.run) == (node, run.id)
        batch.service.preempt(node, notice=8)
        run.wait()
        assert run.state == "succeeded"
        log = batch.ok("logs", run.id).splitlines()
        assert log[0] == "attempt 0 from step 0"
        assert log[-2:] == ["attempt 1 from step 7", "done"]
        assert log[-3].startswith("fairway: attempt 2: Azure announced Preempt of its node; the c")
        assert "saved" in log
        assert "fairway: Azure announces: Preempt; the job has 10 s to save what it has" in log
        [task] = json.loads(batch.ok("show", run.id, "--json"))["task_list"]
        assert task["attempts"] == 2
        assert run.task_status(0).requeues == 1
        assert run.task_status(0).node != node

    def test_batch_preemption_notice_of_another_node_reaches_the_job(
        self, batch: Batch, pipe: Pipe
    ) -> None:
        run = batch.submit(resumable(batch, pipe, nodes=2))
        pipe.lines(1)
        run.refresh()
        main = str(run.task_status(0).node)
        [other] = [
            str(each["nodeInfo"]["nodeId"])
            for each in run.engine.account.subtasks(run.id, "0")  # type: ignore[attr-defined]
        ]
        assert other != main
        batch.service.preempt(other, notice=10)
        run.wait()
        assert run.state == "succeeded"
        log = batch.ok("logs", run.id).splitlines()
        assert "saved" in log
        assert log[-2:] == ["attempt 1 from step 7", "done"]


class TestNodes:
    """Commands on nodes."""

    def test_batch_nodes_are_listed_drained_resumed_reimaged_rebooted_and_resized(
        self, batch: Batch
    ) -> None:
        [found] = json.loads(batch.ok("doctor", "batch-sim", "--json"))
        assert (found["ok"], found["findings"]) == (True, [])
        list_ = ("nodes", "list", "batch-sim", "--json")
        listed = json.loads(batch.ok(*list_))
        assert [node["state"] for node in listed] == ["idle"] * 3
        name = listed[0]["name"]
        for _ in range(2):
            done = json.loads(batch.ok("nodes", "drain", "batch-sim", name, "--json"))
            assert done == [{"node": name, "action": "drain"}]
        reasons = {node["name"]: node["reason"] for node in json.loads(batch.ok(*list_))}
        assert "drained" in reasons[name]
        for action in ("resume", "reimage"):
            batch.ok("nodes", action, "batch-sim", name)
        batch.service.wait_for_node(name, "idle")
        batch.ok("nodes", "reboot", "batch-sim", name)
        nobody = ("nodes", "reboot", "batch-sim", "tvm-nobody")
        batch.fairway.refused(*nobody, says="the pool has no node `tvm-nobody`")
        batch.ok("pool", "resize", "batch-sim", "4")
        assert len(batch.service.node_ids()) == 4

    def test_batch_nodes_run_a_command_over_ssh(self, batch: Batch) -> None:
        node = batch.service.node_ids()[1]
        done = batch.fairway("ssh", "batch-sim", node, "--", "echo", "from  here")
        assert (done.returncode, done.stdout) == (0, "from  here\n"), done.stderr
        assert batch.fairway("ssh", "batch-sim", "--", "exit 7").returncode != 0

    def test_batch_nodes_keep_no_user_after_a_port_was_forwarded(
        self,
        batch: Batch,
        hello: Callable[..., str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (private := tmp_path / "private").mkdir()
        monkeypatch.setenv("TMPDIR", str(private))
        run = batch.run(hello("--target", "batch-sim"))
        with batch.service.node(str(run.task_status(0).node)) as node:
            assert not node.users
        assert not list(private.glob("fairway-login-*"))
        batch.ok("cancel", run.id)
