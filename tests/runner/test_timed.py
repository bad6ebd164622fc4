"""When the values of metrics were printed, and the curves of several runs over one another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import UserError
from fairway_runner.runs import timed as module
from fairway_runner.runs.report import overlay as drawing
from fairway_runner.runs.report.overlay import overlay
from fairway_runner.runs.timed import timed

if TYPE_CHECKING:
    from conftest import MakeRun

    from fairway_runner.runs.store import Run

METRICS = {"loss": "loss=([0-9.]+)"}
LINE = "step {0} loss={0}\n"


def _log(first: int, last: int) -> str:
    return "".join(LINE.format(number) for number in range(first, last))


def _noted(run: Run, *notes: tuple[int, int]) -> None:
    text = "".join(f"{size} {moment}\n" for size, moment in notes)
    (run.log(0).with_name("log.times")).write_text(text)


def test_values_between_two_notes_are_spread_evenly(make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": _log(0, 8)}], metrics=METRICS)
    size = len(LINE.format(0))
    _noted(run, (2 * size, 1_000_000_010), (6 * size, 1_000_000_030))
    (task,) = run.tasks
    # It began at 1e9 and the note of its end is that of the task, which is over before the last.
    assert timed(task)["loss"] == [
        *((5.0, 0.0), (10.0, 1.0)),
        *((15.0, 2.0), (20.0, 3.0), (25.0, 4.0), (30.0, 5.0)),
        *((30.0, 6.0), (30.0, 7.0)),
    ]


def test_a_short_task_has_the_times_of_its_own(make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": _log(0, 5)}], metrics=METRICS)
    (task,) = run.tasks
    assert [at for at, _ in timed(task)["loss"]] == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("notes", [[(10**9, 1)], [(1, 10**30)], []])
def test_a_note_that_cannot_be_is_none(make_run: MakeRun, notes: list[tuple[int, int]]) -> None:
    run = make_run("job-a", [{"log": _log(0, 5), "state": "running"}], "running", metrics=METRICS)
    state = run.task_folder(0) / "state.json"
    facts = json.loads(state.read_text())
    state.write_text(json.dumps({**facts, "ended": None}))
    _noted(run, *notes)
    (task,) = run.tasks
    assert timed(task) == {}
    assert overlay([run], by_time=True).timeless


def test_of_a_long_log_a_part_is_read(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("job-a", [{"log": _log(0, 1000)}], metrics=METRICS)
    size = run.log(0).stat().st_size
    _noted(run, *((size * part // 50, 1_000_000_000 + part) for part in range(1, 51)))
    monkeypatch.setattr(module, "_MOST", 10)
    monkeypatch.setattr(module, "_BUDGET", 2000)
    (task,) = run.tasks
    points = timed(task)["loss"]
    assert 5 < len(points) <= 11
    assert points == sorted(points)
    assert points[0][0] <= 5 < 45 < points[-1][0] <= 50


def test_runs_are_laid_over_one_another(make_run: MakeRun) -> None:
    runs = [
        make_run("job-a", [{"log": _log(0, 5)}, {"log": _log(5, 9)}], metrics=METRICS),
        make_run("job-b", [{"log": _log(3, 7)}], metrics=METRICS),
        make_run("job-c", [{"log": "nothing\n"}]),
    ]
    found = overlay(runs)
    ((name, chart),) = found.charts
    assert name == "loss"
    assert chart.count('class="series') == 3
    for title in ("job-a/0: 4", "job-a/1: 8", "job-b: 6", "3 tasks", ">step<"):
        assert title in chart
    assert found.legend == [("job-a", "c0"), ("job-b", "c1"), ("job-c", "c2")]
    assert (found.left_out, found.timeless) == (0, False)
    ((_, by_time),) = overlay(runs, by_time=True).charts
    assert ">seconds<" in by_time
    assert by_time.count('class="series') == 3


def test_of_very_many_tasks_some_are_drawn(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "MOST_CURVES", 2)
    run = make_run("job-a", [{"log": _log(0, 5)}] * 3, metrics=METRICS)
    found = overlay([run])
    assert found.left_out == 1
    assert found.charts[0][1].count('class="series') == 2


def test_a_damaged_run_is_named(make_run: MakeRun) -> None:
    run = make_run("job-a", metrics=METRICS)
    (run.folder / "tasks.jsonl").write_text("{")
    with pytest.raises(UserError, match="job-a"):
        overlay([run])
