"""What the server knows of the runs while commands change them beside it."""

from __future__ import annotations

import json
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import Finding, UserError
from fairway_web.runs import Runs
from fairway_web.threads import Refresher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conftest import MakeRun
    from starlette.testclient import TestClient

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

    monkeypatch.setattr("fairway_web.threads.refresh_all", look)
    refresher.start()
    refresher.watch()
    again.wait()
    refresher.end()
    assert told == [
        "the runs cannot be brought up to date: [Errno 13] Permission denied: 'state.json'"
    ]


def test_only_what_somebody_reads_is_brought_here(
    store: RunStore, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("job-a", "job-b"):
        make_run(name, [{"state": "running"}], "running")
    clock = [100.0]
    brought: list[tuple[str, bool]] = []

    def refresh(run: Run, *, logs: bool = False) -> None:
        # A server of an earlier test may still look at runs of its own.
        if run.folder.is_relative_to(store.folder):
            brought.append((run.id, logs))

    monkeypatch.setattr("fairway_web.threads.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("fairway_runner.runs.store.Run.refresh", refresh)
    refresher = Refresher(Runs(store.base))
    refresher.watch()
    refresher.look()
    assert brought == []
    refresher.watch("job-a")
    refresher.look()
    assert brought == [("job-a", True)]
    clock[0] += 31
    refresher.watch("job-b")
    refresher.look()
    assert brought == [("job-a", True), ("job-b", True)]


def test_pages_of_a_run_make_the_server_watch_it(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str | None] = []
    monkeypatch.setattr(Refresher, "watch", lambda _, run=None: looks.append(run))
    make_run("job-a")
    for path in ("/", "/api/v1/runs", "/api/v1/runs/job-a"):
        client.get(path)
    assert looks == [None] * 3
    for path in ("/runs/job-a", "/runs/job-a/sections", "/api/v1/runs/job-a/log"):
        client.get(path)
    assert looks[3:] == ["job-a"] * 3
