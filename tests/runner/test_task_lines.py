"""A sweep of very many tasks takes little memory on its way into the run's folder."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core import archives
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.jobs.job import Job
from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.submit import run_plan, submission
from fairway_runner.submit.run_plan import TaskLines, task_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 4_000
SCRIPT = "".join(f"export SOME_VARIABLE_{number}=its-value\n" for number in range(60))
MOST = 2 << 20  # bytes, where all lines are more than eight MiB


@contextmanager
def _little() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


def _record(tasks: int = COUNT) -> RunRecord:
    return RunRecord("many-aaaaaa", "many", "local", time.time(), tasks, "job.yaml", "0")


def _lines(count: int) -> TaskLines:
    job, engine = (
        Job.model_validate({"name": "many", "command": "true"}),
        engine_for(Target.local()),
    )
    lines = TaskLines()
    for number in range(count):
        lines.append(task_line(number, job, engine, f"{SCRIPT}echo é {number}\n"))
    return lines


def _made(folder: Path, files: dict[str, Any]) -> Run:
    run, lock = RunStore(folder / ".fairway").create(_record(), files)
    os.close(lock)
    return run


@pytest.mark.integration
def test_many_tasks_take_little_memory(tmp_path: Path) -> None:
    _lines(1)  # imports
    with _little():
        made = _lines(COUNT)
        run = _made(tmp_path, {"tasks.jsonl": made})
    lines = (run.folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(map(len, lines)) > 4 * MOST
    assert [json.loads(line)["index"] for line in lines] == list(range(COUNT))
    assert json.loads(lines[-1])["script"] == f"{SCRIPT}echo é {COUNT - 1}\n"
    assert (made.first, len(made)) == (f"{lines[0]}\n", COUNT)


def test_their_files_can_be_asked_for_again(tmp_path: Path) -> None:
    lines = _lines(300)
    first, second = (_made(tmp_path / name, {"tasks.jsonl": lines}) for name in ("a", "b"))
    text = (first.folder / "tasks.jsonl").read_bytes()
    assert text.count(b"\n") == 300
    assert (second.folder / "tasks.jsonl").read_bytes() == text


def test_records_are_packed_and_copied_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(SCRIPT * COUNT)
    with _little():
        archives.pack_folder(tmp_path)
    run = _made(tmp_path / "a", {"tasks.jsonl": _lines(COUNT)})
    with _little():
        copy = _made(tmp_path / "b", {"tasks.jsonl": submission.recorded_lines(run, "tasks.jsonl")})
    known = (run.folder / "tasks.jsonl").read_bytes()
    assert (copy.folder / "tasks.jsonl").read_bytes() == known


def test_lines_that_are_no_text_leave_no_half_of_a_run(tmp_path: Path) -> None:
    run = _made(tmp_path / "a", {})
    (run.folder / "tasks.jsonl").write_bytes(b"{}\n\xff\n")
    with pytest.raises(UserError, match=r"tasks\.jsonl: missing or damaged"):
        _made(tmp_path / "b", {"tasks.jsonl": submission.recorded_lines(run, "tasks.jsonl")})
    assert not list((tmp_path / "b" / ".fairway" / "runs").iterdir())


def test_lines_that_would_fill_a_disk_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_plan, "_MOST", 100)
    lines = TaskLines()
    lines.append("x" * 100)
    with pytest.raises(UserError) as caught:
        lines.append("x")
    assert [each.id for each in caught.value.findings] == ["heavy-job"]
