"""Tasks on Kubernetes that wait each for the task of their point: when their Jobs are made."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import state_files
from fairway_agent.kubernetes import keeper, submit
from fairway_agent.kubernetes.reconcile import reconcile_all
from fairway_agent.shared import plans, submissions
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster, Server

    from fairway_agent.run_state import RunState


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(submit, "Api", lambda: server)


class Pair:
    """A sweep of three tasks, and a run of which each waits for one of these, two for the same one;
    its last task comes after all."""

    EQUAL = (2, 0, 2, 1)

    def __init__(self, cluster: Cluster, server: Server, **plan: Any) -> None:
        self.cluster, self.server = cluster, server
        self.first = cluster.bring("first", [1, 1, 1])
        submit.answer(cluster.shared, cluster.request("first"), io.BytesIO())
        equal = {"equal": {"first": "prepare"}, "conditions": {"first": "succeeded"}}
        self.folder = cluster.bring("job-a", [1] * len(self.EQUAL), last=True, **equal, **plan)
        lines = (self.folder / "tasks.jsonl").read_text().splitlines()
        facts = [
            {**json.loads(line), "equal": {"first": number}}
            for line, number in zip(lines, self.EQUAL, strict=True)
        ]
        text = "".join(f"{json.dumps(each)}\n" for each in facts)
        (self.folder / "tasks.jsonl").write_text(text)

    def submit(self) -> list[str]:
        request = self.cluster.request("job-a")
        return [*submit.answer(self.cluster.shared, request, io.BytesIO()).jobs]

    def end(self, run: Path, task: str, state: str, code: int = 0, attempt: int = 0) -> None:
        folder = run / "tasks" / task
        folder.mkdir(parents=True, exist_ok=True)
        status = TaskState(state, attempt=attempt, exit_code=code, started=1.0, ended=2.0)
        state_files.write(folder, status)

    def due(self) -> list[list[int]]:
        """The tasks whose Jobs are to be made now."""
        known = submissions.read(self.folder)
        assert known is not None
        plan = plans.read(self.folder)
        return [[*part.indices] for part in keeper.due(self.folder, known, plan)]

    def begin(self) -> None:
        """Makes these."""
        known = submissions.read(self.folder)
        assert known is not None
        api: Any = self.server
        keeper._start(api, self.folder, known, plans.read(self.folder))

    def state(self) -> RunState:
        api: Any = self.server
        assert reconcile_all(api, [self.folder]) == {}
        found = state_files.read_run(self.folder)
        assert found is not None
        return found

    def task(self, name: str) -> TaskState | None:
        return state_files.read_task(self.folder / "tasks" / name)


def test_each_job_is_made_once_its_own_task_has_ended(cluster: Cluster, server: Server) -> None:
    pair = Pair(cluster, server)
    assert pair.submit() == []
    assert "job-a-0-keeper" in server.of("jobs")
    assert pair.due() == []
    state = pair.state()
    assert (state.state, state.reason) == ("queued", "waiting for prepare task 2")
    pair.end(pair.first, "2", "succeeded")
    assert pair.due() == [[0, 2]]
    pair.begin()
    assert pair.due() == []
    pair.end(pair.first, "1", "succeeded")
    assert pair.due() == [[3]]


def test_tasks_whose_own_has_failed_are_left_out_and_the_last_comes_after_all(
    cluster: Cluster, server: Server
) -> None:
    pair = Pair(cluster, server)
    pair.submit()
    pair.end(pair.first, "0", "succeeded")
    pair.end(pair.first, "1", "succeeded")
    pair.end(pair.first, "2", "failed", 3)
    assert pair.due() == [[1], [3]]
    pair.begin()
    assert pair.state().tasks == {"queued": 3, "cancelled": 2}
    why = "left out: prepare task 2 failed with exit code 3"
    assert [(t := pair.task(name)) and (t.state, t.reason, t.attempts) for name in ("0", "2")] == [
        ("cancelled", why, 0)
    ] * 2
    pair.end(pair.folder, "1", "succeeded")
    assert pair.due() == []
    pair.end(pair.folder, "3", "succeeded")
    assert pair.due() == [[4]], "the last task, once all others have ended"


def test_where_all_are_left_out_the_last_is_too(cluster: Cluster, server: Server) -> None:
    pair = Pair(cluster, server)
    pair.submit()
    for task in ("0", "1", "2"):
        pair.end(pair.first, task, "cancelled")
    state = pair.state()
    assert (state.state, state.tasks) == ("cancelled", {"cancelled": 5})
    assert pair.due() == []
    last = pair.task("finally")
    assert last is not None
    assert last.reason == "left out: no task has begun"


def test_one_that_waits_keeps_no_other_from_beginning(cluster: Cluster, server: Server) -> None:
    pair = Pair(cluster, server, max_parallel=1)
    pair.submit()
    pair.end(pair.first, "0", "succeeded")
    pair.end(pair.first, "1", "succeeded")
    assert pair.due() == [[1]], "one at a time"
    pair.begin()
    assert pair.due() == []
    pair.end(pair.folder, "1", "succeeded")
    assert pair.due() == [[3]]


def test_tasks_that_have_begun_before_wait_for_nothing_in_a_retry(
    cluster: Cluster, server: Server
) -> None:
    pair = Pair(cluster, server)
    (pair.folder / "tasks" / "0").mkdir(parents=True)
    state_files.write(pair.folder / "tasks" / "0", TaskState("queued", attempt=0))
    pair.submit()
    assert pair.due() == [[0]]
