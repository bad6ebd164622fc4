"""Runs that no command follows: the server starts their next steps."""

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from running import MakeRun, RunFairway
from starlette.testclient import TestClient

from fairway_core.findings import UserError
from fairway_runner.runs.records import STEPS_FILE, StepRecord, steps_text
from fairway_runner.runs.store import Run, RunStore
from fairway_web.threads import Follower

pytestmark = pytest.mark.integration

# `score` reads the output of `data`, but only after `train`, so that no target waits with `score`.
_STEPS: dict[str, dict[str, Any]] = {
    "data": {"command": "touch $FAIRWAY_OUTPUT_D/d", "outputs": {"d": {}}},
    "train": {
        "after": "data",
        "command": "echo score={{ params.lr }}; echo {{ params.lr }} > $FAIRWAY_OUTPUT_MODEL/m",
        "params": {"lr": 0},
        "sweep": {"points": {"grid": {"lr": [3, 1]}}},
        "outputs": {"model": {}},
        "metrics": {"accuracy": "score=([0-9]+)"},
    },
    "score": {
        "after": "train",
        "inputs": {
            "model": {"best": {"step": "train", "metric": "accuracy"}},
            "d": {"from": "step", "step": "data"},
        },
        "command": "cat $FAIRWAY_INPUT_MODEL/m",
    },
    "report": {"after": {"score": "ended"}, "command": "echo {{ name }}"},
}


@pytest.fixture(autouse=True)
def ended(store: RunStore) -> Iterator[None]:
    """Cancels all runs after each test."""
    yield
    for run in store.unsorted():
        if run.record.engine != "batch":
            run.cancel()


def _with_a_step(run: Run) -> None:
    """Gives the run a step that is not submitted yet."""
    record = StepRecord("one", f"{run.id}-one", "far", {})
    (run.folder / STEPS_FILE).write_text(steps_text([record]))


def _submitted(store: RunStore, fairway: RunFairway, **changes: dict[str, Any]) -> Run:
    """Returns a run of these steps that no command follows, after its first steps have ended."""
    text = json.dumps({"name": "pipe", "template": "plain", "steps": {**_STEPS, **changes}})
    (store.base.parent / "fairway.yaml").write_text("{}\n")
    (store.base.parent / "pipe.yaml").write_text(text)
    code, printed, said = fairway(store.base.parent, "submit", "pipe.yaml", "--run-id", "pipe-a")
    assert code == 0, said
    assert "score, report, by: fairway wait pipe-a, or fairway serve\n" in printed
    store.find("pipe-a-train").wait()
    return store.find("pipe-a")


def _look(follower: Follower, *, all_: bool = False) -> int:
    """Refreshes runs once, waits for the end, and returns how many were refreshed."""
    threads = follower.look(all_=all_)
    for thread in threads:
        thread.join()
    return len(threads)


def _states(run: Run) -> list[str]:
    return [run.task_status(index).state for index in range(run.record.tasks)]


def test_follower_starts_the_next_steps_until_the_run_has_ended(
    store: RunStore, fairway: RunFairway, follower: Follower
) -> None:
    run = _submitted(store, fairway)
    run.refresh()
    assert _states(run) == ["succeeded", "succeeded", "queued", "queued"]
    due = "it can start now: fairway wait pipe-a"
    assert [run.task_status(index).reason for index in (2, 3)] == [due, "waiting for score"]
    assert _look(follower) == 1
    score = store.find("pipe-a-score")
    score.wait()
    assert score.log_text() == "3\n"
    store.find("pipe-a-report").wait()  # it was submitted together with `score`
    assert _look(follower) == 0
    assert _look(follower, all_=True) == 1  # the end of the run is recorded
    assert (run.state, follower.findings) == ("succeeded", [])
    assert _look(follower, all_=True) == 0
    ran = [each.record.id for each in store.all()]
    assert ran == ["pipe-a", "pipe-a-data", "pipe-a-train", "pipe-a-score", "pipe-a-report"]


def test_follower_reports_an_obstacle_once_and_clears_it(
    store: RunStore,
    fairway: RunFairway,
    follower: Follower,
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("WANTED", "long enough")
    run = _submitted(store, fairway, score={**_STEPS["score"], "secrets": {"TOKEN": "env:WANTED"}})
    monkeypatch.delenv("WANTED")
    with caplog.at_level(logging.WARNING, "fairway"):
        for _ in range(2):
            _look(follower)
    (finding,) = follower.findings
    assert finding.message.startswith("pipe-a: ")
    assert "WANTED" in finding.message
    assert caplog.text.count(finding.message) == 1
    assert "WANTED" in client.get("/").text
    assert _states(run) == ["succeeded", "succeeded", "queued", "queued"]
    monkeypatch.setenv("WANTED", "long enough")
    _look(follower)
    assert follower.findings == []
    assert "WANTED" not in client.get("/").text
    assert store.find("pipe-a-score").id == "pipe-a-score"


def test_follower_continues_other_runs_while_one_target_does_not_answer(
    store: RunStore,
    fairway: RunFairway,
    follower: Follower,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _submitted(store, fairway)
    _with_a_step(make_run("away-a", [{"state": "queued"}], "queued", engine="batch"))
    answer, real = threading.Event(), Run.follow

    def follow(run: Run, **words: Any) -> None:
        if run.id == "away-a":
            answer.wait()
            raise UserError.of("service-away", "`far` does not answer", "try again later")
        real(run, **words)

    monkeypatch.setattr(Run, "follow", follow)
    first = follower.look(all_=False)
    assert len(first) == 2
    while len([thread for thread in first if thread.is_alive()]) > 1:
        first[0].join(0.01)
        first[1].join(0.01)
    assert store.find("pipe-a-score").id == "pipe-a-score"
    assert _look(follower, all_=True) == 1  # the silent run is not refreshed a second time
    answer.set()
    for thread in first:
        thread.join()
    assert [each.message for each in follower.findings] == ["away-a: `far` does not answer"]


def test_follower_continues_after_an_unexpected_error(
    follower: Follower, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_a_step(make_run("job-a", [{"state": "queued"}], "queued", engine="batch"))

    def follow(_: Run, **_words: Any) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(Run, "follow", follow)
    for _ in range(2):
        assert _look(follower) == 1
    (finding,) = follower.findings
    assert finding.message == "job-a: the runs cannot be brought up to date: odd"


def test_follower_skips_runs_without_steps_and_ended_or_damaged_ones(
    follower: Follower, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "follow", lambda run, **_: pytest.fail(run.id))
    make_run("job-a", [{"state": "running"}], "running", engine="batch")
    make_run("job-b")
    _with_a_step(make_run("job-c", engine="batch"))  # the run has ended
    damaged = make_run("job-d", state="queued", engine="batch")
    _with_a_step(damaged)
    (damaged.folder / "state.json").write_text("{")
    assert _look(follower, all_=True) == 0
    assert follower.findings == []
