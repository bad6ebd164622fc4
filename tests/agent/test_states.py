"""Where a run and its tasks stand: written and read by the same types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway_agent import state_files
from fairway_agent.records import Unfit
from fairway_agent.state_files import RunState, TaskState

RUN = RunState("failed", "task 1 failed", 1e9, 1e9 + 5, 17, 2, {"failed": 1}, 124)
TASK = TaskState(
    state="failed",
    attempt=1,
    started=1e9,
    ended=1e9 + 5,
    held=9.5,
    exit_code=-9,
    timed_out=False,
    reason="its node failed",
    node="n1,n2",
    session=5,
    last_exit_code=3,
    log_size=7,
    job="12_3",
    submission=1,
    requeues=2,
    stopped=True,
    task="0",
    task_attempt=1,
)
WRONG = ("text", -1.5, 1e300, 10**400, float("nan"), {"a": {}}, [3])
TEXTS = ("reason", "node", "job", "task", "limit")


@pytest.mark.parametrize("state", [RUN, RunState(), TASK, TaskState()])
def test_states_of_run_and_task_round_trip(state: RunState | TaskState) -> None:
    assert type(state).from_json(json.loads(json.dumps(state.to_json()))) == state


def test_task_state_leaves_unknown_fields_out_of_json() -> None:
    assert TaskState("running", 0, 5.0).to_json() == {
        "state": "running",
        "attempt": 0,
        "started": 5.0,
    }


def test_a_key_that_another_release_wrote_is_left_alone() -> None:
    assert RunState.from_json({"state": "queued", "more": {"a": 1}}) == RunState()
    assert TaskState.from_json({"state": "queued", "more": {"a": 1}}) == TaskState()


@pytest.mark.parametrize("state", [RUN, TASK])
def test_a_key_of_another_kind_is_named(state: RunState | TaskState) -> None:
    facts: dict[str, Any] = json.loads(json.dumps(state.to_json()))
    for name in facts:
        for value in WRONG:
            if value == "text" and name in TEXTS:
                continue
            with pytest.raises(Unfit, match=f"`{name}` of "):
                type(state).from_json({**facts, name: value})


@pytest.mark.parametrize("facts", [{}, {"state": None}, {"state": "exploded"}, [], "queued", None])
def test_states_from_facts_without_a_state_are_refused(facts: object) -> None:
    for kind in (RunState, TaskState):
        with pytest.raises(Unfit, match="the state"):
            kind.from_json(facts)


def test_a_task_that_runs_again_counts_on() -> None:
    assert TASK.again == TaskState("queued", attempt=1, started=1e9, held=9.5)
    assert (TASK.attempts, TASK.again.attempts, TaskState().attempts) == (2, 2, 0)


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"succeeded": 2}, "succeeded"),
        ({}, "succeeded"),
        ({"succeeded": 1, "cancelled": 1}, "cancelled"),
        ({"cancelled": 1, "lost": 1}, "lost"),
        ({"cancelled": 1, "lost": 1, "failed": 1}, "failed"),
        ({"failed": 0, "succeeded": 1}, "succeeded"),
    ],
)
def test_a_run_ends_as_the_worst_of_its_tasks(counts: dict[str, int], state: str) -> None:
    """The same on every engine."""
    assert state_files.end_state(counts) == state
    assert state_files.end_state(counts, setup_failed=True) == "failed"


def test_a_run_goes_on_or_has_ended() -> None:
    assert {s for s in state_files.STATES if RunState(s).goes_on} == state_files.GOING_STATES
    assert {s for s in state_files.STATES if RunState(s).is_final} == state_files.FINAL_STATES
    assert not state_files.GOING_STATES & state_files.FINAL_STATES
