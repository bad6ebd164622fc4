"""Outcomes of tasks, from their records and the schedulers' views, and of the runs before a run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import bring, take_over

from fairway_agent import control, state_files
from fairway_agent.dependencies import evaluate, failed_dependencies
from fairway_agent.limits import Watch
from fairway_agent.reconcile import REPORT_WAIT, JobView, Reconciliation, reconcile, resolve
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState, TaskState

NOW = 1_700_000_000.0
ENDED = NOW - 10
LATE = ENDED + REPORT_WAIT
FRESH = TaskState()
RUNNING = TaskState("running", attempt=1, started=NOW - 60, node="nd-1")
STOPPED = TaskState("running", attempt=1, started=NOW - 60, stopped=True)
SAID = replace(STOPPED, node="nd-1", reason="its pod was ended")
WAITS = JobView("queued", "why")
PARTLY = JobView("running", "2 of its 3 pods run")
FULL = JobView("failed", "out of memory", 137, ENDED)
SILENT = JobView("failed", "no report", ended=ENDED, unreported=True)
UNDATED = JobView("failed", "no report", unreported=True)
OVER = JobView("failed", "over its limit", 124, ENDED, timed_out=True)
EARLY = JobView("failed", "x", ended=NOW - 90)
GONE = JobView("lost", "its job is gone")


def queued(reason: str | None, **ends: int) -> TaskState:
    """Returns the state of a queued task that has started before."""
    return TaskState("queued", attempt=1, started=NOW - 60, reason=reason, failures_by_cause=ends)


def ended(state: str, code: int, reason: str | None, when: float = ENDED) -> TaskState:
    """Returns the state of a task whose end the scheduler reported."""
    known = replace(RUNNING, state=state, ended=when, exit_code=code, reason=reason)
    return replace(known, timed_out=code == 124)


GOING = {
    "nothing is known": (FRESH, None, FRESH),
    "it never began": (FRESH, WAITS, FRESH),
    "node lost": (RUNNING, WAITS, queued("why", node=1)),
    "taken away": (STOPPED, JobView("queued"), queued("it starts again", preemption=1)),
    "it has a part": (queued("old", node=1), PARTLY, queued(PARTLY.reason, node=1)),
    "it has been whole": (RUNNING, PARTLY, RUNNING),
    "suspended": (RUNNING, JobView("running", "suspended", suspended=True), RUNNING),
    "memory": (RUNNING, FULL, ended("failed", 137, "out of memory")),
    "time": (RUNNING, OVER, ended("failed", 124, "over its limit")),
    "nobody knows it": (RUNNING, GONE, ended("lost", 5, "its job is gone", NOW)),
    # Times are whole seconds.
    "nothing ends before it began": (RUNNING, EARLY, ended("failed", 5, "x", NOW - 60)),
    "a report may come": (RUNNING, SILENT, RUNNING),
}
CANCELLED = {
    "nothing new is known": (RUNNING, None, RUNNING),
    "it has its grace": (RUNNING, JobView("running"), RUNNING),
    "cancelled": (RUNNING, FULL, ended("cancelled", 130, None)),
    "taken back": (RUNNING, GONE, ended("cancelled", 130, None, NOW)),
    "its report may come": (RUNNING, SILENT, RUNNING),
}
ROWS = [
    *((False, NOW, *each) for each in GOING.values()),
    *((True, NOW, *each) for each in CANCELLED.values()),
    (False, LATE, RUNNING, SILENT, ended("failed", 5, "no report")),
    (True, LATE, RUNNING, SILENT, ended("cancelled", 130, None)),
    (False, NOW + 1e6, RUNNING, UNDATED, RUNNING),
    (False, LATE, SAID, SILENT, ended("failed", 5, "its pod was ended")),
]


@pytest.mark.parametrize(
    ("cancelled", "now", "status", "view", "expected"),
    ROWS,
    ids=[
        *(*GOING, *CANCELLED, "no report", "no report of a cancelled one", "no time of its end"),
        "it has said why it was stopped",
    ],
)
def test_reconcile_resolves_the_state_of_a_task_from_its_job(
    cancelled: bool, now: float, status: TaskState, view: JobView | None, expected: TaskState
) -> None:
    found = resolve(status, view, cancelled=cancelled, now=now)
    assert found == expected
    # Looking again changes nothing.
    assert resolve(found, view, cancelled=cancelled, now=now + 1) == expected


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "lost"])
@pytest.mark.parametrize("view", [None, GONE, SILENT, WAITS, JobView("running")])
def test_reconcile_keeps_a_final_state(state: str, view: JobView | None) -> None:
    status = TaskState(state, exit_code=3)
    assert resolve(status, view, cancelled=True, now=NOW + 1e6) == status


def test_reconcile_adds_the_out_of_memory_reason_to_a_failed_task() -> None:
    found = resolve(TaskState("failed", exit_code=137), FULL, cancelled=False, now=NOW)
    assert found == TaskState("failed", exit_code=137, reason="out of memory")
    said = TaskState("failed", exit_code=137, reason="its own")
    assert resolve(said, FULL, cancelled=False, now=NOW) == said


BEGUN = TaskState("running", attempt=0, started=NOW, node="nd-1", gpus="3")
QUEUED = TaskState("queued", attempt=0, started=NOW - 60, reason="old")


class Scheduler(Reconciliation):
    """A scheduler that shows the first view of `listed` until it is listed again. `meanwhile` runs
    after each look."""

    WATCH = Watch
    listed: tuple[JobView, ...] = ()
    asked = 0

    def meanwhile(self) -> None:
        """Does nothing."""

    def look(self, *_: object) -> JobView:
        view = self.listed[self.asked]
        self.meanwhile()
        return view

    def list_again(self) -> None:
        self.asked += 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns a run with one task, which the scheduler has taken over."""
    folder = bring(tmp_path / "runs" / "job-1", RunPlan("job-1", "/c"))
    (folder / "tasks" / "0").mkdir(parents=True)
    take_over(folder, "7")
    return folder


LOST = replace(BEGUN, state="lost", exit_code=5, reason="its job is gone", timed_out=False)
LATER = {
    "begun since": (BEGUN, (WAITS, JobView("running")), BEGUN),
    "lost": (
        BEGUN,
        (WAITS, WAITS),
        replace(QUEUED, started=NOW, reason="why", failures_by_cause={"node": 1}),
    ),
    "submitted since": (BEGUN, (GONE, JobView("running")), BEGUN),
    "submitted since, and waits": (None, (GONE, WAITS), None),
    "lost each time": (BEGUN, (GONE, replace(GONE, ended=NOW)), replace(LOST, ended=NOW)),
    "stopped": (STOPPED, (WAITS,), queued("why", preemption=1)),
    "waits on": (QUEUED, (WAITS,), replace(QUEUED, reason="why")),
}


@pytest.mark.parametrize(("status", "listed", "expected"), LATER.values(), ids=LATER)
def test_reconcile_asks_the_scheduler_again_if_a_task_may_have_changed(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: TaskState | None,
    listed: tuple[JobView, ...],
    expected: TaskState | None,
) -> None:
    monkeypatch.setattr(Scheduler, "listed", listed)
    if status is not None:
        state_files.write(run / "tasks" / "0", status)
    assert reconcile([run], Scheduler) == {}
    assert state_files.read_task(run / "tasks" / "0") == expected
    assert state_files.read_run(run).state == (expected or FRESH).state


DONE = replace(BEGUN, state="succeeded", exit_code=0, ended=NOW)


@pytest.mark.parametrize(
    ("before", "listed", "after", "state"),
    [
        (None, (WAITS,), BEGUN, "queued"),
        (QUEUED, (WAITS,), BEGUN, "running"),
        # The task's job is gone by the second query.
        (BEGUN, (WAITS, GONE), DONE, "succeeded"),
    ],
)
def test_reconcile_keeps_the_record_of_a_task_that_begins_or_ends_meanwhile(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: TaskState | None,
    listed: tuple[JobView, ...],
    after: TaskState,
    state: str,
) -> None:
    folder = run / "tasks" / "0"
    if before is not None:
        state_files.write(folder, before)
    monkeypatch.setattr(Scheduler, "listed", listed)
    monkeypatch.setattr(Scheduler, "meanwhile", lambda _: state_files.write(folder, after))
    assert reconcile([run], Scheduler) == {}
    assert state_files.read_task(folder) == after
    assert state_files.read_run(run).state == state


def test_predecessors_unmet_are_named_with_exit_codes_and_decide_early(tmp_path: Path) -> None:
    texts = {
        "a-1": '{"state": "succeeded"}',
        "b-1": '{"state": "failed"}',
        "c-1": '{"state": "running"}',
        "d-1": '{"state": "succ',
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text(text)
    folders = [str(tmp_path / name) for name in (*texts, "e-1")]
    ended = ["b-1 failed", "d-1 cannot be read", "e-1 was removed"]
    assert failed_dependencies(folders, {}) == ended
    assert failed_dependencies(folders, {}, active="was lost") == [
        ended[0],
        "c-1 was lost",
        *ended[1:],
    ]
    folder = made(tmp_path / "bad", "failed", [0, 3])
    assert failed_dependencies([folder], {"bad": [4]}) == ["bad failed with exit code 3"]
    own = tmp_path / "own"
    own.mkdir()
    active, bad = made(tmp_path / "going", "running"), made(tmp_path / "late", "failed")
    assert evaluate(own, RunPlan("own", "code", after=(active, bad)), 0) == ["late failed"]


def made(folder: Path, state: str, codes: Sequence[int | None] = (), **facts: Any) -> str:
    """Creates a run whose tasks ended with these exit codes (None: not started). Returns its
    folder."""
    bring(folder, RunPlan(folder.name, "code", tasks=len(codes)))
    state_files.write(folder, RunState(state, **facts))
    for index, code in enumerate(codes):
        if code is not None:
            task = folder / "tasks" / str(index)
            task.mkdir(parents=True)
            ended = TaskState("failed" if code else "succeeded", attempt=0, exit_code=code)
            state_files.write(task, ended)
    return str(folder)


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ("succeeded", {"well"}),
        ("failed", {"bad", "lost", "over"}),
        ("ended", {"well", "bad", "lost", "over", "out", "ended", "dead"}),
        ([0], {"well"}),
        ([3, 4], {"bad"}),
        ([5], {"lost"}),
        ([124], {"over"}),
        ([130], {"ended", "dead"}),
    ],
)
def test_predecessors_unmet_applies_the_wanted_condition(
    tmp_path: Path, wanted: str | list[int], met: set[str]
) -> None:
    """By the exit code that commands report; a run that never began has none."""
    folders = [
        made(tmp_path / "well", "succeeded", [0]),
        made(tmp_path / "bad", "failed", [0, 3, 4]),
        made(tmp_path / "lost", "running", [0, None]),
        made(tmp_path / "over", "failed", [3], exit_code=124),
        made(tmp_path / "out", "cancelled", [None]),
        made(tmp_path / "ended", "cancelled", [0, None]),
        made(tmp_path / "dead", "running", [0, None]),  # its supervisor, while it was cancelled
    ]
    control.cancel(tmp_path / "dead", 0)
    names = [folder.rpartition("/")[2] for folder in folders]
    found = failed_dependencies(folders, dict.fromkeys(names, wanted), active="was lost")
    assert set(names) - {each.partition(" ")[0] for each in found} == met


def test_predecessors_decision_is_kept_until_the_next_submission(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    first, other = made(tmp_path / "first", "running"), made(tmp_path / "other", "failed", [1])
    wanted: dict[str, str | list[int]] = {"first": "failed", "other": "ended"}
    plan = RunPlan("own", "code", after=(first, other), conditions=wanted)
    assert evaluate(own, plan, 0) is None
    (tmp_path / "first/state.json").write_text('{"state": "failed"}')
    assert evaluate(own, plan, 0) == []
    (tmp_path / "first/state.json").write_text('{"state": "running"}')  # during a retry
    assert evaluate(own, plan, 0) == []
    assert evaluate(own, plan, 1) is None
    (tmp_path / "first/state.json").write_text('{"state": "succeeded"}')
    assert evaluate(own, plan, 1) == ["first succeeded"]
