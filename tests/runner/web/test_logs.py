"""Runs that commands change while the server shows them, and their logs."""

import json
import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from endings import answers
from running import MakeRun
from starlette.testclient import TestClient

from fairway_core.findings import Finding, UserError
from fairway_runner.runs.store import Run, RunStore
from fairway_web import logs
from fairway_web.logs import MOST, Logs, follow
from fairway_web.runs import Runs
from fairway_web.threads import Refresher


def test_web_log_stream_keeps_watching_the_run_until_its_end(make_run: MakeRun) -> None:
    """Each poll marks the log as read: remote logs are fetched only while somebody reads them."""
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    looks: list[str] = []

    def watch(name: str) -> None:
        looks.append(name)
        if len(looks) == 4:
            (run.folder / "new").write_text(json.dumps({"state": "failed"}))
            (run.folder / "new").replace(run.folder / "state.json")

    async def read() -> list[str]:
        return [event async for event in follow(run, Logs.of(run, "0"), [0], watch)]

    # In another thread: if a browser is driven, this one already runs an event loop.
    with ThreadPoolExecutor(1) as thread:
        first, *_, last = thread.submit(anyio.run, read).result()
    assert first == 'id: 4\ndata: "one\\n"\n\n'
    assert last == 'event: end\nid: 4\ndata: "failed"\n\n'
    assert looks == ["job-a"] * 4


def test_web_log_tail_of_a_long_log_begins_with_a_full_line(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"x" * MOST + b"\nlast\n")
    assert Logs([("", log)]).parts(ended=True) == ("last\n", (MOST + 6,))


def test_web_log_shows_progress_bar_without_newlines(client: TestClient, make_run: MakeRun) -> None:
    bar = "".join(f"\r{step} steps done" for step in range(30_000))
    assert len(bar) > MOST
    make_run("job-a", [{"log": bar}])
    assert ">29999 steps done</pre>" in client.get("/runs/job-a").text


LABELLED = "[1,0]<stdout>: a\n[1,1]<stdout>: b\nplain\n"


def test_web_log_of_all_tasks_is_merged_with_offsets_per_task(
    client: TestClient, make_run: MakeRun
) -> None:
    make_run("job-a", [{"log": "one\n"}, {"log": "two\nthree"}])
    answer = client.get("/api/v1/runs/job-a/log?task=all")
    assert answer.text == "[0] one\n[1] two\n[1] three\n"
    assert answer.headers["next-offset"] == "4-9"
    assert client.get("/api/v1/runs/job-a/log?task=all&from=4-4").text == "[1] three\n"
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "0-4"}
    answer = client.get("/api/v1/runs/job-a/log?task=all", headers=headers)
    said = 'id: 4-9\ndata: "[0] one\\n[1] three\\n"\n\n'
    assert answer.text == said + 'event: end\nid: 4-9\ndata: "succeeded"\n\n'
    said = (">[0] one\n[1] two\n[1] three\n</pre>", "<option selected>all</option>")
    answers(client.get("/runs/job-a?task=all"), 200, *said)


def test_web_log_splits_only_the_longest_lines_and_between_characters(
    client: TestClient, make_run: MakeRun
) -> None:
    long = "é" * (MOST // 4)
    make_run("job-a", [{"log": f"{long}\nx\n"}, {"log": f"a{long}{long}\n"}, {"log": "b"}])
    answer = client.get("/api/v1/runs/job-a/log?task=all")
    assert answer.text == f"[0] {long}\n[0] x\n[1] a{long}{long[:-1]}\n[2] b\n"
    offsets = answer.headers["next-offset"]
    answer = client.get(f"/api/v1/runs/job-a/log?task=all&from={offsets}")
    assert answer.text == "[1] é\n"


def test_web_log_of_all_tasks_is_refused_for_too_many_tasks(
    client: TestClient, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_LOGS", 2)
    make_run("job-a", [{}] * 3)
    answer = client.get("/api/v1/runs/job-a/log?task=all")
    answers(answer, 422, "job-a has 3 tasks: too many to read them as one")
    assert "<option>all" not in client.get("/runs/job-a").text


def test_web_log_labels_ranks_or_selects_one(client: TestClient, make_run: MakeRun) -> None:
    task = {"log": LABELLED, "processes_per_node": 2}
    run = make_run("job-a", [task])
    job = {"name": "job", "command": "true", "options": {"label_ranks": True}}
    (run.folder / "job.json").write_text(json.dumps(job))
    log = "/api/v1/runs/job-a/log"
    assert client.get(log).text == "[0] a\n[1] b\nplain\n"
    assert client.get(f"{log}?rank=1").text == "b\n"
    answers(client.get("/runs/job-a?rank=1"), 200, ">b\n</pre>", '<input name="rank" value="1"')
    make_run("job-b", [task, {"log": "[1,1]<stdout>: c\n"}])
    assert client.get("/api/v1/runs/job-b/log?task=all").text.endswith("[0] plain\n[1.1] c\n")


@pytest.mark.parametrize(
    ("rank", "status", "message"),
    [
        ("2", 404, "has no rank 2"),
        ("x", 422, "`rank` is not a number"),
        ("-1", 422, "`rank` is not a number"),
        ("1", 422, "does not say which rank printed a line"),
    ],
)
def test_web_log_of_an_unknown_or_invalid_rank_is_refused(
    client: TestClient, make_run: MakeRun, rank: str, status: int, message: str
) -> None:
    make_run("job-a", [{"log": "plain\n", "processes_per_node": 2}])
    for path in ("/api/v1/runs/job-a/log", "/runs/job-a"):
        answers(client.get(path, params={"rank": rank}), status, message)


def test_web_runs_follow_removed_and_reused_run_ids(store: RunStore, make_run: MakeRun) -> None:
    runs, run = Runs(store.base), make_run("job-a", [{}])
    assert [each.record.tasks for each in runs.unsorted()] == [1]
    assert list(runs.unsorted()) == [runs.find("job-a")]
    assert runs.find("job-a") is runs.find("job-a"), "its record is read once"
    shutil.rmtree(run.folder)
    assert list(runs.unsorted()) == []
    with pytest.raises(UserError, match="there is no run `job-a`"):
        runs.find("job-a")
    make_run("job-a", [{}, {}])
    assert [each.record.tasks for each in runs.unsorted()] == [2]


def test_refresher_reports_a_failed_refresh_and_continues(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway_web.threads._PAUSE", 0.0)
    refresher = Refresher(Runs(store.base))
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


def test_refresher_fetches_only_logs_that_somebody_reads(
    store: RunStore, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("job-a", "job-b"):
        make_run(name, [{"state": "running"}], "running")
    clock = [100.0]
    brought: list[tuple[str, bool]] = []

    def refresh(run: Run, *, logs: bool = False) -> None:
        # A server of an earlier test may still refresh its own runs.
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


def test_refresher_watches_a_run_whose_pages_are_requested(
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
