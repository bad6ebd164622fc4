"""What a run is to do: written and read by the same types, and refused where it is damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import job_facts
from fairway_agent.records import Unfit
from fairway_agent.spec import Budget, IdleGpu, Output, Receiver, Retry, RunPlan, Staged, TaskSpec
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

PLAN = RunPlan(
    run="job-abc",
    directory="/data/code",
    tasks=3,
    max_parallel=2,
    after=("job-def",),
    needs=("mpirun",),
    retries=1,
    retry_limits={"node": 3, "preemption": 10},
    timeout=60.0,
    max_duration=3600.0,
    max_cost=Budget(200.0, "USD", 12.5),
    idle_gpu=IdleGpu(5.0, 1800.0, "cancel"),
    sample_every=2.0,
    signal="USR1",
    grace=5.0,
    secrets=("TOKEN",),
    notify=Receiver("https://example.org/x", ("failed",), "json", "TOKEN"),
    environment={"PATH": "/bin"},
    staged=(Staged("a", "c", "p/", "scratch"), Staged("b", "c", "q", "shared", "/data/b")),
)
SPEC = TaskSpec(
    index=2,
    nodes=4,
    processes_per_node=8,
    script="true\n",
    params={"lr": 0.1, "layers": [1, 2]},
    outputs={"model": Output("model/**", "success")},
    checkpoint="/data/checkpoints",
    environment={"OMP_NUM_THREADS": "1"},
)


def written(value: object) -> Any:
    return json.loads(json.dumps(value))


def test_plan_task_and_retry_records_round_trip() -> None:
    assert RunPlan.from_json(json.loads(PLAN.text())) == PLAN
    assert TaskSpec.from_json(json.loads(SPEC.line())) == SPEC
    for name in ("setup", "finally"):
        spec = TaskSpec.from_json(json.loads(TaskSpec(name).line()))
        assert (spec.name, spec.is_last) == (name, name == "finally")
    with pytest.raises(Unfit, match="`index` of a task is other"):
        TaskSpec.from_json({**json.loads(SPEC.line()), "index": "other"})
    for retry in (Retry((0, 2), {"failed": 1}, is_set_up=True, after=(), submission=3), Retry(())):
        assert Retry.from_json(written(retry.to_json())) == retry


def test_a_plan_of_a_newer_release_is_named_as_such() -> None:
    facts = {**written(PLAN.to_json()), "version": 2, "grace": {"of": "another kind"}}
    with pytest.raises(Unfit, match="its version is 2, and this release reads 1"):
        RunPlan.from_json(facts)


@pytest.mark.parametrize(
    ("make", "facts", "name", "value"),
    [
        (RunPlan, PLAN, "run", None),
        (RunPlan, PLAN, "tasks", True),
        (RunPlan, PLAN, "max_parallel", -1),
        (RunPlan, PLAN, "after", "job-def"),
        (RunPlan, PLAN, "conditions", {"job-def": "never"}),
        (RunPlan, PLAN, "conditions", {"job-def": []}),
        (RunPlan, PLAN, "conditions", {"job-def": ["3"]}),
        (RunPlan, PLAN, "timeout", float("nan")),
        (RunPlan, PLAN, "grace", 10**400),
        (RunPlan, PLAN, "max_cost", {"most": 1.0, "currency": "USD", "hourly": 0}),
        (RunPlan, PLAN, "idle_gpu", {"below": 5, "seconds": 9, "then": "shrug"}),
        (RunPlan, PLAN, "staged", [{"name": "a"}]),
        (TaskSpec, SPEC, "index", None),
        (TaskSpec, SPEC, "index", "other"),
        (TaskSpec, SPEC, "nodes", 1.5),
        (TaskSpec, SPEC, "params", [3]),
        (TaskSpec, SPEC, "outputs", {"model": {"pattern": "x"}}),
        (TaskSpec, SPEC, "wanted", {"cores": 0}),
    ],
)
def test_a_key_of_another_kind_is_refused(make: Any, facts: Any, name: str, value: object) -> None:
    facts = {**written(facts.to_json()), name: value}
    with pytest.raises(Unfit, match=" of "):
        make.from_json(facts)


@pytest.mark.parametrize(
    ("make", "facts", "name"),
    [(RunPlan, PLAN, "run"), (RunPlan, PLAN, "version"), (TaskSpec, SPEC, "index")],
)
def test_a_key_that_must_be_there_is_missed(make: Any, facts: Any, name: str) -> None:
    rest = {key: value for key, value in written(facts.to_json()).items() if key != name}
    with pytest.raises(Unfit, match=f"`{name}` of .* is missing"):
        make.from_json(rest)


@pytest.mark.parametrize("text", ["", "[]", '{"run": "x"', "[" * 100_000])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(Fault, match=r"plan\.json: damaged: ") as caught:
        job_facts.read_plan(tmp_path)
    assert caught.value.record["id"] == "damaged-run"
    assert caught.value.record["hint"]


def test_a_retry_stands_over_the_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(PLAN.text())
    assert job_facts.read_plan(tmp_path, retry=True) == PLAN, "nothing says what runs again"
    retry = Retry((1,), {"succeeded": 2}, is_set_up=True, after=(), submission=1)
    (tmp_path / "retry.json").write_text(json.dumps(retry.to_json()))
    read = job_facts.read_plan(tmp_path, retry=True)
    assert (read.after, read.done, read.is_set_up, read.submission) == ((), retry.done, True, 1)
    assert job_facts.read_plan(tmp_path) == PLAN
    assert (PLAN.done, PLAN.is_set_up, PLAN.submission) == ({}, False, 0)


def test_tasks_are_read_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    assert list(job_facts.read_specs(file)) == []
    first = TaskSpec(0, script="true").line()
    file.write_text(first + SPEC.line() + "{}\n")
    assert job_facts.read_spec(file, len(first)) == SPEC
    specs = job_facts.read_specs(file)
    assert [next(specs).index, next(specs).index] == [0, 2]
    with pytest.raises(Fault, match=r"tasks\.jsonl: damaged: `index` of a task is missing"):
        next(specs)
