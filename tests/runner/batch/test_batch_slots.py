"""What tasks that share a node were lent, read from what they say of it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.state_files import TaskState
from fairway_boot.files import write_json
from fairway_core.findings import Finding, UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.schedules import _require_one_task
from fairway_runner.engines.batch.states import add_shares
from fairway_runner.engines.batch.task_files import TaskFiles
from fairway_runner.jobs.job import Job

if TYPE_CHECKING:
    from conftest import MakeRun

    from fairway_runner.runs.store import Run

LENT = {"attempt": 1, "gpus": [2, 3], "cores": [24, 25, 26], "part": 0.25}
RUNS = TaskState("running", attempt=1, started=100.0)


class Files:
    """The file of a task on its node, and the one in storage; none where there is no node."""

    def __init__(self) -> None:
        self.node: bytes | None = None
        self.kept: bytes | None = None
        self.status = 404
        self.asked = 0

    def task_file(self, _job: str, _task: str, name: str, _first: int, _last: int) -> bytes:
        assert name == "wd/logs/share.txt"
        self.asked += 1
        return self._given(self.node, self.status)

    def read(self, _container: str, name: str, _offset: int, _length: int) -> bytes:
        assert name.endswith("share.txt")
        return self._given(self.kept, 404)

    @staticmethod
    def _given(data: bytes | None, status: int) -> bytes:
        if data is None:
            code = "BlobNotFound" if status == 404 else ""
            raise ServiceError(Finding("refused", "no"), status=status, code=code)
        return data


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """A run whose one task wants two GPUs."""
    made = make_run("job-aaaaaa", state="running")
    write_json(made.folder / "job.json", {"gpus": 2, "cores": None})
    return made


def told(run: Run, files: Files, status: TaskState = RUNS) -> TaskState:
    """The task's state, once it is complete."""
    found = {0: status}
    add_shares(TaskFiles(run, files, files, "job"), found)  # type: ignore[arg-type]
    return found[0]


def test_a_running_task_is_asked_once(run: Run, files: Files) -> None:
    assert told(run, files) == RUNS, "it waits on its node"
    files.node = json.dumps(LENT).encode()
    known = told(run, files)
    assert (known.gpus, known.cores, known.part) == ("2-3", "24-26", 0.25)
    assert told(run, files, known) == known
    assert files.asked == 2


def test_another_attempt_has_something_else(run: Run, files: Files) -> None:
    files.node = json.dumps(LENT).encode()
    again = replace(RUNS, attempt=2, started=200.0)
    assert told(run, files, again) == again, "this is what the one before has said"
    files.node = json.dumps({**LENT, "attempt": 2, "gpus": [0, 1]}).encode()
    assert told(run, files, again).gpus == "0-1"


def test_batch_slots_of_an_ended_task_are_read_from_storage_once(run: Run, files: Files) -> None:
    files.kept = json.dumps(LENT).encode()
    assert told(run, files).gpus is None, "it is not there before the end"
    ended = replace(RUNS, state="succeeded", ended=300.0)
    assert told(run, files, ended).part == 0.25


def test_a_task_that_has_not_begun_is_not_asked(run: Run, files: Files) -> None:
    again = TaskState("queued", attempt=0, started=100.0)
    assert told(run, files, again) == again
    assert told(run, files, TaskState()) == TaskState()
    write_json(run.folder / "job.json", {})
    assert told(run, files) == RUNS, "it has the whole node"
    assert files.asked == 0


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        *(
            json.dumps({**LENT, **wrong}).encode()
            for wrong in (
                {"gpus": "0-99999999999"},
                {"gpus": [-1]},
                {"gpus": [10**9]},
                {"gpus": [True]},
                {"cores": [0] * 5000},
                {"part": 0},
                {"part": 1.5},
                {"part": "\x1b[2J"},
                {"attempt": -1},
                {"attempt": None},
            )
        ),
    ],
)
def test_batch_slots_from_an_invalid_share_are_not_shown(
    run: Run, files: Files, said: bytes
) -> None:
    files.node = said
    assert told(run, files) == RUNS


def test_a_service_that_refuses_is_heard(run: Run, files: Files) -> None:
    files.status = 403
    with pytest.raises(ServiceError):
        told(run, files)


def test_batch_slots_report_a_refusal_by_storage(run: Run, files: Files, monkeypatch: Any) -> None:
    def refused(*_: object) -> bytes:
        raise ServiceError(Finding("refused", "no"), status=403, code="AuthorizationFailure")

    monkeypatch.setattr(files, "read", refused)
    with pytest.raises(ServiceError):
        told(run, files, replace(RUNS, state="failed", ended=300.0))


def test_a_schedule_starts_no_task_beside_others() -> None:
    plan = SimpleNamespace(tasks=1)
    for fields in ({"gpus": 1}, {"cores": 2}):
        job = Job.model_validate({"name": "x", "command": "true", **fields})
        with pytest.raises(UserError, match="one task on one node, not a part of one"):
            _require_one_task(SimpleNamespace(job=job, plan=plan))  # type: ignore[arg-type]
    whole = Job.model_validate({"name": "x", "command": "true"})
    _require_one_task(SimpleNamespace(job=whole, plan=plan))  # type: ignore[arg-type]
