"""The curves of several runs over one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import UserError
from fairway_runner.runs.report import charts as drawing
from fairway_runner.runs.report.charts import overlay

if TYPE_CHECKING:
    from conftest import MakeRun

METRICS = {"loss": "loss=([0-9.]+)"}
LINE = "step {0} loss={0}\n"


def _log(first: int, last: int) -> str:
    return "".join(LINE.format(number) for number in range(first, last))


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
    assert found.left_out == 0


def test_overlay_draws_some_of_very_many_tasks(
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
