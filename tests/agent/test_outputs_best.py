"""Which task of another run is the best, and that it stays so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import control, metric_logs, outputs, process_limits
from fairway_agent.records import Damaged, Unfit
from fairway_agent.spec import Best, Chained, RunPlan
from fairway_agent.state_files import TaskState
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

LOSS = "loss=([0-9.]+)"
LOGS = [
    ("succeeded", "loss=1\nloss=3\n"),
    ("failed", "loss=0\n"),
    ("succeeded", "loss=2\n"),
    ("succeeded", "loss=2.\n"),
    ("succeeded", ""),
    ("cancelled", "loss=0\n"),
]


def write_task(run: Path, number: int, state: str, log: str) -> None:
    """A task of a run, and what it has printed."""
    folder = run / "tasks" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"state": state, "attempt": 0}))
    (folder / "log.txt").write_text(log)


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """The folder of a run beside that of a sweep, a-1."""
    sweep = tmp_path / "runs" / "a-1"
    for number, (state, log) in enumerate(LOGS):
        write_task(sweep, number, state, log)
    (sweep / "plan.json").write_text(RunPlan("a-1", "code", tasks=len(LOGS)).text())
    folder = tmp_path / "runs" / "b-1"
    folder.mkdir()
    return folder


def plan(*, lower: bool = True, pattern: str = LOSS) -> RunPlan:
    """That of a run with an input of the best task."""
    entry = Chained("m", "runs/a-1/tasks/*/outputs/m", best=Best("loss", pattern, lower))
    return RunPlan("b-1", "code", chained=(entry, Chained("n", "runs/a-1/tasks/0/outputs/n")))


@pytest.mark.parametrize(("lower", "found"), [(True, (2, 2.0)), (False, (0, 3.0))])
def test_the_last_value_of_tasks_that_succeeded_decides(
    waiting: Path, found: tuple[int, float], *, lower: bool
) -> None:
    assert control.read(waiting).best == {}
    assert outputs.decide_best(waiting, plan(lower=lower)) == {"m": found}
    assert control.read(waiting).best == {"m": found}


def test_best_decision_is_kept_when_metrics_change_later(waiting: Path) -> None:
    outputs.decide_best(waiting, plan())
    write_task(waiting.parent / "a-1", 0, "succeeded", "loss=0\n")
    assert outputs.decide_best(waiting, plan()) == {"m": (2, 2.0)}
    (waiting / "control.json").unlink()
    assert outputs.decide_best(waiting, plan()) == {"m": (0, 0.0)}


def test_the_last_task_of_a_job_is_none_of_a_sweep(waiting: Path) -> None:
    (waiting.parent / "a-1/finally.jsonl").write_text("{}\n")
    write_task(waiting.parent / "a-1", 5, "succeeded", "loss=0\n")
    assert outputs.decide_best(waiting, plan()) == {"m": (2, 2.0)}


def test_a_value_long_before_the_end_is_found(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_logs, "_TAIL", 100)
    write_task(waiting.parent / "a-1", 4, "succeeded", "loss=0.5\n" + "more\n" * 1000)
    assert outputs.decide_best(waiting, plan()) == {"m": (4, 0.5)}


def test_a_run_without_such_an_input_reads_nothing(tmp_path: Path) -> None:
    chained = (Chained("n", "runs/a-1/tasks/0/outputs/n"),)
    assert outputs.decide_best(tmp_path / "nowhere", RunPlan("b-1", "code", chained=chained)) == {}


def test_best_without_a_printed_metric_is_refused_and_not_decided(waiting: Path) -> None:
    with pytest.raises(Fault, match="no task of a-1 that succeeded has printed `loss`") as caught:
        outputs.decide_best(waiting, plan(pattern="los=(.)"))
    assert caught.value.said.endswith("its pattern is: los=(.)")
    assert control.read(waiting).best == {}


def test_a_pattern_without_end_is_stopped(waiting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.1)
    write_task(waiting.parent / "a-1", 0, "succeeded", "a" * 60 + "!\n")
    with pytest.raises(Fault, match="the pattern of the metric `loss` was stopped"):
        outputs.decide_best(waiting, plan(pattern="((?:a+)+)$"))


def test_a_pattern_that_is_none_for_this_python_is_said(waiting: Path) -> None:
    with pytest.raises(Fault, match=r"the pattern of the metric `loss` is none for Python 3\."):
        outputs.decide_best(waiting, plan(pattern="loss=("))


@pytest.mark.parametrize(
    "text", ["[]", '{"m": 2}', '{"m": [2]}', '{"m": [-1, 0.5]}', '{"m": [2, Infinity]}']
)
def test_a_damaged_choice_is_named(waiting: Path, text: str) -> None:
    (waiting / "control.json").write_text(f'{{"version": 1, "best": {text}}}')
    with pytest.raises(Damaged, match=r"control\.json: damaged"):
        outputs.decide_best(waiting, plan())


def test_plans_and_states_keep_it() -> None:
    known = plan()
    assert RunPlan.from_json(json.loads(known.text())) == known
    assert known.chained[0].path_for({"m": (2, 0.5)}) == "runs/a-1/tasks/2/outputs/m"
    state = TaskState("running", best={"m": (2, 0.5)})
    assert TaskState.from_json(json.loads(json.dumps(state.to_json()))) == state


@pytest.mark.parametrize("facts", [{"metric": "m"}, {"metric": "m", "pattern": "a", "lower": 1}, 3])
def test_a_plan_that_names_no_metric_is_refused(facts: Any) -> None:
    with pytest.raises(Unfit, match="best"):
        Best.from_json(facts)
