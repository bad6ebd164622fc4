"""What the server knows of the runs while commands change them beside it."""

from __future__ import annotations

import json
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import Finding, UserError
from fairway_web.project import Refresher, Runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conftest import MakeRun

    from fairway_runner.runs.store import Run, RunStore


def test_a_run_that_went_to_another_target_is_read_again(
    store: RunStore, make_run: MakeRun
) -> None:
    runs, run = Runs(store.base), make_run("job-a", target="first")
    assert [each.record.target for each in runs.unsorted()] == ["first"]
    facts = json.loads((run.folder / "run.json").read_text())
    (run.folder / "new").write_text(json.dumps({**facts, "target": "second"}))
    (run.folder / "new").replace(run.folder / "run.json")
    assert runs.find("job-a").record.target == "second"
    assert [each.record.target for each in runs.unsorted()] == ["second"]


def test_an_id_that_is_used_again_is_another_run(store: RunStore, make_run: MakeRun) -> None:
    runs, run = Runs(store.base), make_run("job-a", [{}])
    assert [each.record.tasks for each in runs.unsorted()] == [1]
    shutil.rmtree(run.folder)
    assert list(runs.unsorted()) == []
    with pytest.raises(UserError, match="there is no run `job-a`"):
        runs.find("job-a")
    make_run("job-a", [{}, {}])
    assert [each.record.tasks for each in runs.unsorted()] == [2]


def test_a_record_is_read_once(store: RunStore, make_run: MakeRun) -> None:
    make_run("job-a")
    runs = Runs(store.base)
    assert runs.find("job-a") is runs.find("job-a")
    assert list(runs.unsorted()) == [runs.find("job-a")]


def test_a_look_that_fails_is_told_and_not_the_last(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresher = Refresher(Runs(store.base), pause=0.0)
    told: list[str] = []
    again = threading.Event()

    def look(_: Iterable[Run]) -> list[Finding]:
        if not told:
            told.append("")
            raise PermissionError(13, "Permission denied", "state.json")
        told[0] = told[0] or refresher.findings[0].message
        again.set()
        return []

    monkeypatch.setattr("fairway_web.project.refresh_all", look)
    refresher.start()
    refresher.watch()
    again.wait()
    refresher.end()
    assert told == [
        "the runs cannot be brought up to date: [Errno 13] Permission denied: 'state.json'"
    ]
