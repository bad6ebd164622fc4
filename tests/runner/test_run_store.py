"""Runs on disk: created atomically and in little memory, and found by the prefix of their id."""

import fcntl
import json
import os
import re
import shutil
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from endings import refused
from running import MakeRun

from fairway_agent import control, state_files
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState
from fairway_core import archives
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.jobs.job import Job
from fairway_runner.runs import store
from fairway_runner.runs.records import GONE
from fairway_runner.runs.store import Run, RunRecord, RunStore
from fairway_runner.submit import run_plan, submission
from fairway_runner.submit.run_plan import TaskLines, task_line


def record(run_id: str, created: float = 1.0) -> RunRecord:
    return RunRecord(run_id, "job", "local", created, 1, "job.yaml", "0")


def test_run_store_derives_states_from_the_lock_and_makes_unique_ids(store: RunStore) -> None:
    run, lock = store.create(record("job-aaaaaa"), {"tasks/0/launch.sh": "echo"})
    assert (run.folder / "tasks" / "0" / "launch.sh").read_text() == "echo"
    assert Run(run.folder).record == record("job-aaaaaa")
    assert (store.base / ".gitignore").read_text() == "*\n"  # Git does not see runs
    with (run.folder / "lock").open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert run.state == "queued"
    os.close(lock)
    assert run.state == "lost"
    state_files.write(run.folder, RunState("running", started=1.0))
    os.utime(run.folder / "state.json", (7.0, 7.0))
    status = run.status
    assert (status.state, status.ended, "fairway retry" in status.reason) == ("lost", 7.0, True)
    run.wait()
    assert run.exit_code == 5
    ids = {store.new_id("job") for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("job-[2-9a-hjkmnp-z]{6}", each) for each in ids)


def test_run_store_shows_a_run_that_was_being_cancelled_as_cancelled(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor dies of something else before it has ended the tasks."""
    run, lock = store.create(record("job-aaaaaa"), {"plan.json": RunPlan("job-aaaaaa", "/").text()})
    state_files.write(run.folder, RunState("running", started=1.0, supervisor=os.getpid()))
    monkeypatch.setattr(control.os, "kill", lambda *_: os.close(lock))
    run.engine.cancel(run)
    assert (run.state, run.status.reason, run.exit_code) == ("cancelled", None, 130)
    assert run.state_at_end == "lost", "what it has left behind is ended first if it is retried"
    state_files.write(run.folder, RunState("running", started=1.0, submission=1))
    assert run.state == "lost", "the order was for an earlier submission"


def test_run_store_finds_runs_by_id_prefix(store: RunStore) -> None:
    for number, run_id in enumerate(["job-abcdef", "job-abcxyz", "other-222222"]):
        os.close(store.create(record(run_id, created=10.0 - number), {})[1])
    (store.folder / "half-removed").mkdir()
    (store.folder / "note.txt").touch()
    assert store.find("o").id == "other-222222"
    assert store.find("job-abcd").id == "job-abcdef"
    assert [run.id for run in store.all()] == ["other-222222", "job-abcxyz", "job-abcdef"]
    finding = refused(lambda: store.find("job-abc"), "ambiguous: it matches 2 runs")
    assert finding.hint == "one of: job-abcdef, job-abcxyz"
    assert refused(lambda: store.find("job-abcdfe")).hint == "did you mean `job-abcdef`?"
    for text in ("", ".", "..", "../runs/job-abcdef", "/"):
        with pytest.raises(UserError, match="there is no run"):
            store.find(text)
    for number in range(13):
        os.close(store.create(record(f"job-{number:06}"), {})[1])
    assert refused(lambda: store.find("zzzz")).hint == "list them: fairway list"


def test_run_store_ignores_runs_recorded_only_in_part(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(lambda: store.create(record("job-aaaaaa"), {"a": "", "a/b": ""}), "cannot be recorded")
    assert list(store.folder.iterdir()) == []
    # After `kill -9`, no cleanup runs.
    monkeypatch.setattr("pathlib.Path.rename", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        store.create(record("job-aaaaaa"), {})
    monkeypatch.undo()
    assert [path.name[:12] for path in store.folder.iterdir()] == [".job-aaaaaa."]
    run, lock = store.create(record("job-aaaaaa"), {})
    os.close(lock)
    assert [each.id for each in store.all()] == [run.id]


def test_run_store_writes_nothing_through_links_of_a_repository(
    store: RunStore, tmp_path: Path
) -> None:
    (other := tmp_path / "other").write_text("theirs")
    store.base.mkdir()
    (store.base / ".gitignore").symlink_to(other)
    os.close(store.create(record("job-aaaaaa"), {})[1])
    assert (store.base / ".gitignore").read_text() == "*\n"
    assert other.read_text() == "theirs"
    (store.base / ".gitignore").write_text("")
    store.make()
    assert (store.base / ".gitignore").read_text() == "*\n"
    for link in (store.folder, store.base):
        shutil.rmtree(link)
        link.symlink_to(tmp_path)
        finding = refused(lambda: store.create(record("job-aaaaab"), {}))
        assert (finding.id, f"rm {link}" in finding.hint) == ("linked-folder", True)
        link.unlink()


def test_cancel_of_one_task_that_does_not_end_is_reported(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("job-aaaaaa", [{}, {"state": "running"}], state="running")
    (run.folder / "plan.json").write_text(RunPlan(run.id, "code", tasks=2).text())
    told: list[int] = []

    class Engine:
        pause = 0.0

        def refresh(self, *_: object, **__: object) -> None: ...

        def cancel_task(self, _: Run, task: int) -> None:
            told.append(task)

    monkeypatch.setitem(run.__dict__, "engine", Engine())
    lock = run.take_lock()  # stands for a supervisor
    now = iter((0.0, 10.0, 1e9))
    monkeypatch.setattr(store, "time", SimpleNamespace(monotonic=lambda: next(now), sleep=id))
    message = "task 1 of job-aaaaaa is being ended, but is still running"
    refused(lambda: run.cancel("1"), message, 5)
    os.close(lock)
    assert told == [1]


@pytest.mark.parametrize("when", [1, 2])
def test_cancel_of_one_task_reports_that_the_folder_of_its_run_is_gone(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """The folder is gone before the cancel request, or right after it."""
    run = make_run("job-a", [{}, {"state": "running"}], state="running", engine="elsewhere")
    (run.folder / "plan.json").write_text(RunPlan(run.id, "code", tasks=2).text())
    told: list[object] = []

    class Engine:
        pause = 0.0
        looks = 0

        def refresh(self, *_: object, **__: object) -> None:
            self.looks += 1
            if self.looks == when:
                state_files.write(run.folder, RunState("lost", reason=GONE))

        def cancel_task(self, *asked: object) -> None:
            told.append(asked)

    monkeypatch.setitem(run.__dict__, "engine", Engine())
    finding = refused(lambda: run.cancel(1), "the folder of job-a is gone", 5)
    assert (finding.id, "fairway cancel job-a" in finding.hint) == ("gone-run", True)
    assert len(told) == when - 1
    run.cancel(0)  # this task had ended before


@pytest.mark.parametrize("last", [None, "finally"])
def test_task_name_identifies_one_task_or_none(
    make_run: MakeRun, store: RunStore, last: str | None
) -> None:
    """A user may have added a task to a Batch job by hand."""
    made = make_run("job-aaaaaa", [{}, {}, {}])
    if last is not None:
        tasks = made.folder / "tasks.jsonl"
        *first, line = tasks.read_text().splitlines(keepends=True)
        tasks.write_text("".join(first))
        (made.folder / "finally.jsonl").write_text(json.dumps({**json.loads(line), "index": last}))
    run = store.find("job-aaaaaa")
    name = last or "2"
    assert [run.task_name(index) for index in range(3)] == ["0", "1", name]
    assert [run.index_of(each) for each in ("0", "1", name)] == [0, 1, 2]
    wrong = {"3", "-1", "01", "³", "", "x", "9" * 40, "setup", "Finally", "2", "finally"} - {name}
    assert [each for each in wrong if run.index_of(each) is not None] == []


COUNT = 4_000
SCRIPT = "".join(f"export SOME_VARIABLE_{number}=its-value\n" for number in range(60))
MOST = 2 << 20  # bytes; all lines together are more than 8 MiB


@contextmanager
def _little() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


def _lines(count: int) -> TaskLines:
    job = Job.model_validate({"name": "many", "command": "true"})
    engine = engine_for(Target.local())
    lines = TaskLines()
    for number in range(count):
        lines.append(task_line(number, job, engine, f"{SCRIPT}echo é {number}\n"))
    return lines


def _made(folder: Path, files: dict[str, Any]) -> Run:
    many = RunRecord("many-aaaaaa", "many", "local", time.time(), COUNT, "job.yaml", "0")
    run, lock = RunStore(folder / ".fairway").create(many, files)
    os.close(lock)
    return run


@pytest.mark.integration
def test_task_records_of_many_tasks_are_made_in_little_memory(tmp_path: Path) -> None:
    _lines(1)  # imports
    with _little():
        made = _lines(COUNT)
        run = _made(tmp_path, {"tasks.jsonl": made})
    lines = (run.folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(map(len, lines)) > 4 * MOST
    assert [json.loads(line)["index"] for line in lines] == list(range(COUNT))
    assert json.loads(lines[-1])["script"] == f"{SCRIPT}echo é {COUNT - 1}\n"
    assert (made.first, len(made)) == (f"{lines[0]}\n", COUNT)


def test_task_records_are_written_packed_and_copied_in_little_memory(tmp_path: Path) -> None:
    lines = _lines(300)
    first, second = (_made(tmp_path / name, {"tasks.jsonl": lines}) for name in ("a", "b"))
    text = (first.folder / "tasks.jsonl").read_bytes()
    assert text.count(b"\n") == 300
    assert (second.folder / "tasks.jsonl").read_bytes() == text
    (tmp_path / "tasks.jsonl").write_text(SCRIPT * COUNT)
    with _little():
        archives.pack_folder(tmp_path)
    run = _made(tmp_path / "c", {"tasks.jsonl": _lines(COUNT)})
    with _little():
        copy = _made(tmp_path / "d", {"tasks.jsonl": submission.recorded_lines(run, "tasks.jsonl")})
    known = (run.folder / "tasks.jsonl").read_bytes()
    assert (copy.folder / "tasks.jsonl").read_bytes() == known


def test_task_records_that_are_damaged_or_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _made(tmp_path / "a", {})
    (run.folder / "tasks.jsonl").write_bytes(b"{}\n\xff\n")
    with pytest.raises(UserError, match=r"tasks\.jsonl: missing or damaged"):
        _made(tmp_path / "b", {"tasks.jsonl": submission.recorded_lines(run, "tasks.jsonl")})
    assert not list((tmp_path / "b" / ".fairway" / "runs").iterdir())
    monkeypatch.setattr(run_plan, "_MOST", 100)
    lines = TaskLines()
    lines.append("x" * 100)
    assert refused(lambda: lines.append("x")).id == "heavy-job"
