"""When the log of a task on a pool was printed, put together from what its attempts noted."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from fairway_agent.log_times import FILE, read
from fairway_agent.record import read_json, write_json
from fairway_agent.task_spec import TaskSpec
from fairway_agent.task_state import TaskState
from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.log_times import bring_log_times
from fairway_runner.engines.batch.logs import Logs
from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import Run, RunStore

if TYPE_CHECKING:
    from pathlib import Path


class Service:
    """What a node has of a task, and what is stored of it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.stored: dict[str, bytes] = {}
        self.status = 404

    def task_file(self, _job: str, _task: str, name: str, first: int, last: int) -> bytes:
        if name not in self.files:
            raise ServiceError(Finding("refused", "x"), status=self.status, code="")
        return self.files[name][first : last + 1]

    def read(self, _container: str, blob: str, offset: int = 0, length: int = 1 << 20) -> bytes:
        if blob not in self.stored:
            raise ServiceError(Finding("refused", "x"), status=404, code="")
        return self.stored[blob][offset : offset + length]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    record = RunRecord("r-1", "r", "b", time.time(), 1, "job.yaml", "0", engine="batch")
    made, lock = RunStore(tmp_path / ".fairway").create(record, {})
    os.close(lock)
    (made.folder / "tasks.jsonl").write_text(TaskSpec(0).line())
    return made


def follow(run: Run, service: Service, attempt: int, state: str = "running") -> None:
    code = 0 if state == "succeeded" else None
    status = TaskState(state, attempt=attempt, started=float(attempt + 1), exit_code=code)
    Logs(run, service, service, "r-1").follow({0: status})  # type: ignore[arg-type]
    run.task_folder(0).mkdir(parents=True, exist_ok=True)
    write_json(run.task_folder(0) / "state.json", status.to_json())


def bring(run: Run, service: Service) -> list[tuple[int, int]]:
    bring_log_times(run, service, service, "r-1", [run.log(0)])  # type: ignore[arg-type]
    return read(run.log(0).with_name(FILE))


def test_each_attempt_begins_where_its_log_does(run: Run) -> None:
    service = Service()
    service.files = {
        "wd/logs/attempt.txt": b"0 a\n",
        "stdout.txt": b"one\ntwo",
        "wd/logs/times.txt": b"4 100\n7 110\n",
    }
    follow(run, service, 0)
    assert bring(run, service) == [(4, 100), (7, 110)]
    # The next one: its log begins on a line of its own.
    service.files = {
        "wd/logs/attempt.txt": b"1 b\n",
        "stdout.txt": b"three\n",
        "wd/logs/stdout.0.txt": b"one\ntwo",
        "wd/logs/times.0.txt": b"4 100\n7 115\n",
        "wd/logs/times.txt": b"6 200\n",
    }
    follow(run, service, 1)
    assert run.log(0).read_bytes() == b"one\ntwo\nthree\n"
    assert bring(run, service) == [(4, 100), (7, 115), (14, 200)]
    # The node is gone: storage has it, as it has the log.
    service.stored = {
        f"r-1/0/{name.rpartition('/')[2]}": data for name, data in service.files.items()
    }
    service.files.clear()
    follow(run, service, 1, "succeeded")
    assert bring(run, service) == [(4, 100), (7, 115), (14, 200)]


def test_what_an_earlier_release_copied_has_no_times(run: Run) -> None:
    service = Service()
    service.files = {"wd/logs/attempt.txt": b"0 a\n", "stdout.txt": b"one\n"}
    service.files["wd/logs/times.txt"] = b"4 100\n"
    follow(run, service, 0)
    facts = read_json(run.folder / "logs.json")
    del facts["tasks"]["0"]["begins"]
    write_json(run.folder / "logs.json", facts)
    assert bring(run, service) == []
    service.files["wd/logs/attempt.txt"] = b"1 b\n"
    service.files["wd/logs/stdout.0.txt"] = b"one\n"
    follow(run, service, 1)
    assert bring(run, service) == []


def test_a_service_that_fails_is_no_node_that_is_gone(run: Run) -> None:
    service = Service()
    service.files = {"wd/logs/attempt.txt": b"0 a\n", "stdout.txt": b"one\n"}
    follow(run, service, 0)
    assert bring(run, service) == []  # nothing was noted yet
    service.status = 503
    with pytest.raises(ServiceError):
        bring(run, service)
