"""A run's limits, which each of its tasks checks for itself, with a fake clock."""

from pathlib import Path
from typing import Any

import pytest
from clocks import Clock
from run_folders import bring, take_over

from fairway_agent import control, limits, state_files
from fairway_agent import reconcile as shared_reconcile
from fairway_agent.control import Part
from fairway_agent.slurm import runs
from fairway_agent.slurm.jobs import SlurmJob
from fairway_agent.slurm.runs import Watch
from fairway_agent.spec import Budget, RunPlan, TaskSpec
from fairway_agent.state_files import ExceededLimit, TaskState
from fairway_boot.slurm import commands

TIME = RunPlan("job-a", "/x", tasks=3, max_duration=3600.0)
# 200 dollars at 12.50 an hour are 57,600 node-seconds.
COST = RunPlan("job-a", "/x", tasks=3, max_cost=Budget(200.0, "USD", 12.5))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.of(monkeypatch, limits, shared_reconcile)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Returns the Slurm commands that were given. All are refused: Slurm may be away when the run
    ends."""
    given: list[list[str]] = []

    def refuse(words: list[str]) -> str:
        given.append(words)
        raise commands.CommandFailed("slurm_kill_job error")

    monkeypatch.setattr(commands, "run", refuse)
    return given


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns a run of three tasks of two nodes each, all known to Slurm, on a partition of
    eight."""
    specs = [TaskSpec(index, nodes=2) for index in range(3)]
    bring(tmp_path, TIME, specs, {"nodes": {"min": 0, "max": 8}})
    (tmp_path / "tasks").mkdir()
    take_over(tmp_path, "12", tasks=3, nodes=2)
    return tmp_path


def _write(run: Path, index: int, state: TaskState) -> None:
    folder = run / "tasks" / str(index)
    folder.mkdir(exist_ok=True)
    state_files.write(folder, state)


def test_slurm_limits_max_duration_counts_from_the_first_task(
    run: Path, clock: Clock, said: list[list[str]]
) -> None:
    first, second = Watch(run, TIME, 0), Watch(run, TIME, 0)
    first.begin()
    assert not first.is_over()
    clock.now += 3000
    second.begin()
    assert not second.is_over()
    assert first.due == second.due == 1e9 + 3600
    clock.now = 1e9 + 3599.9
    assert not second.is_over()
    clock.now = 1e9 + 3600
    assert second.is_over()
    over = ExceededLimit("max_duration", "it was over its max_duration of 1h")
    assert control.read(run).of(0).limit == over
    assert said == [["scancel", "--state=PENDING", "12"]]
    assert first.is_over()  # it cancels nothing a second time
    assert len(said) == 1
    retried = Watch(run, TIME, 1)
    retried.begin()
    assert (retried.is_over(), control.read(run).of(1).limit) == (False, None)
    assert not Watch(run, TIME, 0).look_back()  # its beginning is that of another submission


def test_slurm_limits_max_cost_counts_the_nodes_of_all_tasks(
    run: Path, clock: Clock, said: list[list[str]]
) -> None:
    """Task 0 has held 2 nodes for 20,000 s: 40,000 of 57,600. With all 8 nodes of the partition the
    rest would last 2,200 s; with the 2 in use it lasts 8,800 s."""
    _write(run, 0, TaskState("succeeded", started=1e9 - 20_000, ended=1e9, held=20_000.0))
    _write(run, 1, TaskState("running", started=1e9, held=0.0))
    mine = Watch(run, COST, 0)
    mine.begin()
    assert not mine.is_over()
    assert mine.due == 1e9 + 2200
    clock.now += 2200
    assert not mine.is_over()
    # 44,400 are spent, and 13,200 left.
    assert mine.due == clock.now + 1650
    clock.now = 1e9 + 8795
    assert not mine.is_over()
    assert mine.due == 1e9 + 8800  # not 10 s later
    clock.now = 1e9 + 8800
    assert mine.is_over()
    assert control.read(run).of(0).limit == ExceededLimit(
        "max_cost", "it was over its max_cost of 200 USD"
    )


def test_slurm_limits_are_checked_seldom_and_without_them_no_file_is_left(
    run: Path, clock: Clock
) -> None:
    _write(run, 0, TaskState("running", started=1e9 - 28_770, held=0.0))
    mine = Watch(run, COST, 0)
    mine.begin()
    assert not mine.is_over()
    assert mine.due == 1e9 + 10  # 60 node-seconds are left, which 8 nodes hold in 7.5 s
    mine = Watch(run, RunPlan("job-a", "/x"), 0)
    before = sorted(run.iterdir())
    mine.begin()
    assert (mine.due, mine.is_over(), mine.look_back()) == (None, False, False)
    assert sorted(run.iterdir()) == before


def test_slurm_reconcile_keeps_a_task_running_that_began_after_squeue(
    run: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """A job that was pending then may run by now."""
    Watch(run, TIME, 0).begin()
    _write(run, 0, TaskState("running", attempt=0, started=1e9))
    said = iter(("PENDING", "RUNNING"))
    monkeypatch.setattr(
        runs, "jobs_named", lambda _: [_element(0, next(said)), _element(1), _element(2)]
    )
    runs.reconcile_all([run])
    assert state_files.read_task(run / "tasks" / "0").state == "running"
    assert next(said, None) is None


@pytest.mark.parametrize(
    ("who", "states"), [("ours", ["running", "queued"]), ("another's", ["lost", "lost"])]
)
def test_slurm_reconcile_does_not_lose_a_job_that_an_operator_renamed(
    run: Path, monkeypatch: pytest.MonkeyPatch, clock: Any, who: str, states: list[str]
) -> None:
    """Another user's job may have its number if slurmctld has lost its state."""
    Watch(run, TIME, 0).begin()
    _write(run, 0, TaskState("running", attempt=0, started=1e9))
    shared = run.parent if who == "ours" else run.parent / "other"
    comment = Part("tasks", 0, [0], 1, 1).comment(shared / run.name, 0)
    asked = []

    def squeue(words: list[str]) -> str:
        asked.append(words)
        if "-j" not in words or words[0] != "squeue":
            return ""
        assert words[words.index("-j") + 1] == "12"
        rows = ("12|0|RUNNING|None|n1", "12|1|PENDING|Dependency|", "12|2|PENDING|Dependency|")
        return "".join(f"{row}|N/A|nd|N/A|1|{comment}\n" for row in rows)

    monkeypatch.setattr(commands, "run", squeue)
    runs.reconcile_all([run])
    found = [state_files.read_task(run / "tasks" / str(index)) for index in (0, 1)]
    assert [each.state if each else "queued" for each in found] == states
    assert sum("-j" in words for words in asked if words[0] == "squeue") <= 2


def _element(index: int, state: str = "PENDING") -> SlurmJob:
    return SlurmJob("12", index, state, "", "n1", "2001-09-09T01:46:40", "")


def test_slurm_reconcile_ends_a_run_over_its_limit_while_no_task_runs(
    run: Path, clock: Clock, said: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first task has lost its node and waits for another."""
    Watch(run, TIME, 0).begin()
    _write(run, 0, TaskState("queued", attempt=0, started=1e9))
    state = "PENDING"
    monkeypatch.setattr(runs, "jobs_named", lambda _: [_element(each, state) for each in range(3)])
    for seconds, given in ((3599, []), (1, [["scancel", "--state=PENDING", "12"]])):
        clock.now += seconds
        runs.reconcile_all([run])
        assert said == given
    state = "CANCELLED"
    runs.reconcile_all([run])
    found = state_files.read_run(run)
    assert (found.state, found.limit, found.tasks) == ("failed", "max_duration", {"cancelled": 3})
