"""What a task is told of the tasks of other runs that it waits for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.equal_tasks import EqualTasks, none_began
from fairway_agent.fields import Unfit
from fairway_agent.plan import Chained, RunPlan
from fairway_agent.task_spec import TaskSpec

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, state: str, **tasks: Any) -> EqualTasks:
    """What waits for the tasks of a run in that state."""
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({"state": state}))
    for name, facts in tasks.items():
        task = folder / "tasks" / name.removeprefix("t")
        task.mkdir(parents=True)
        (task / "state.json").write_text(json.dumps(facts))
    return EqualTasks(RunPlan("b-1", "code", equal={str(folder): "prepare"}))


ENDS: list[tuple[dict[str, Any] | None, str, str | list[int], str | None]] = [
    ({"state": "running", "attempt": 0}, "running", "succeeded", None),
    (None, "queued", "ended", None),
    ({"state": "succeeded", "attempt": 0, "exit_code": 0}, "running", "succeeded", ""),
    (
        {"state": "failed", "attempt": 0, "exit_code": 3},
        "running",
        "succeeded",
        "left out: prepare task 0 failed with exit code 3",
    ),
    ({"state": "failed", "attempt": 0, "exit_code": 3}, "running", [3], ""),
    ({"state": "failed", "attempt": 0, "exit_code": 3}, "running", "failed", ""),
    ({"state": "lost", "attempt": 0}, "failed", [5], ""),
    ({"state": "lost", "attempt": 0}, "failed", "succeeded", "left out: prepare task 0 was lost"),
    ({"state": "cancelled", "attempt": 0, "exit_code": 143}, "running", [130], ""),
    ({"state": "cancelled"}, "running", "succeeded", "left out: prepare task 0 did not begin"),
    (None, "cancelled", "failed", "left out: prepare task 0 did not begin"),
    (None, "cancelled", "ended", ""),
]


@pytest.mark.parametrize(("task", "state", "wanted", "said"), ENDS)
def test_a_task_is_judged_by_its_equal_one(
    tmp_path: Path, task: Any, state: str, wanted: Any, said: str | None
) -> None:
    found = made(tmp_path / "a-1", state, **({} if task is None else {"t0": task}))
    plan = RunPlan("b-1", "code", equal=found.plan.equal, conditions={"a-1": wanted})
    assert EqualTasks(plan).unmet({"a-1": 0}) == said


def test_what_goes_on_is_looked_at_again_and_an_end_is_not(tmp_path: Path) -> None:
    found = made(tmp_path / "a-1", "running", t0={"state": "running", "attempt": 0})
    assert found.unmet({"a-1": 0}) is None
    before = found.stamp()
    state = tmp_path / "a-1/tasks/0/state.json"
    state.write_text('{"state": "failed", "attempt": 0, "exit_code": 1}')
    (tmp_path / "a-1/state.new").write_text('{"state": "failed"}')
    (tmp_path / "a-1/state.new").replace(tmp_path / "a-1/state.json")
    assert found.stamp() != before
    found.forget_going()
    why = "left out: prepare task 0 failed with exit code 1"
    assert found.unmet({"a-1": 0}) == why
    state.write_text('{"state": "succeeded", "attempt": 1}')  # of a retry: it is decided
    found.forget_going()
    assert found.unmet({"a-1": 0}) == why


def test_what_nobody_sees_to_any_more_was_lost(tmp_path: Path) -> None:
    plan = made(tmp_path / "a-1", "running", t0={"state": "running", "attempt": 0}).plan
    found = EqualTasks(plan, lambda _: True)
    assert found.unmet({"a-1": 0}) == "left out: prepare task 0 was lost"
    assert found.unmet({"a-1": 1}) == "left out: prepare task 1 was lost"


def test_one_that_is_damaged_or_gone_is_told(tmp_path: Path) -> None:
    found = made(tmp_path / "a-1", "running", t0={"state": 3})
    assert found.unmet({"a-1": 0}) == "left out: prepare task 0 cannot be read"
    gone = EqualTasks(RunPlan("b-1", "code", equal={str(tmp_path / "c-1"): "prepare"}))
    assert gone.unmet({"c-1": 0}) == "left out: prepare task 0 was removed"


def test_a_last_task_comes_after_something(tmp_path: Path) -> None:
    made(tmp_path / "b-1", "running", t0={"state": "cancelled"})
    plan = RunPlan("b-1", "code", equal={"a-1": "prepare"})
    assert none_began(tmp_path / "b-1", plan)
    assert not none_began(tmp_path / "b-1", RunPlan("b-1", "code"))
    (tmp_path / "b-1/tasks/0/state.json").write_text('{"state": "failed", "attempt": 0}')
    assert not none_began(tmp_path / "b-1", plan)


def test_plans_and_lines_are_read_as_they_are_written() -> None:
    plan = RunPlan("b-1", "code", equal={"a-1": "prepare"}, chained=(Chained("x", "runs/a-1/y"),))
    assert RunPlan.from_json(json.loads(plan.text())) == plan
    assert plan.awaits(plan.chained[0])
    spec = TaskSpec(3, equal={"a-1": 1}, nodes=1, script="true")
    assert TaskSpec.from_json(json.loads(spec.line())) == spec
    for equal in ([], {"a-1": -1}, {"a-1": "x"}):
        with pytest.raises(Unfit, match="equal"):
            TaskSpec.from_json({**json.loads(spec.line()), "equal": equal})
    with pytest.raises(Unfit, match="equal"):
        RunPlan.from_json({**json.loads(plan.text()), "equal": {"a-1": 3}})
