"""Samples of a Batch run's nodes, copied from the files of its tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_boot.files import write_json
from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.task_files import TaskFiles, bring_figures
from fairway_runner.runs.figures import figures

if TYPE_CHECKING:
    from conftest import MakeRun

    from fairway_runner.runs.store import Run


class Files:
    """The files of a task on its node, and those that are kept in storage."""

    def __init__(self) -> None:
        self.node: dict[str, bytes] = {}
        self.kept: dict[str, bytes] = {}
        self.asked = 0

    def task_file(self, _job: str, _task: str, name: str, first: int, last: int) -> bytes:
        self.asked += 1
        if name not in self.node:
            raise _failed(404)
        if first >= len(self.node[name]):
            raise _failed(416)
        return self.node[name][first : last + 1]

    def read(self, _container: str, name: str, offset: int, length: int) -> bytes:
        if name not in self.kept:
            raise _failed(404)
        return self.kept[name][offset : offset + length]


def _failed(status: int) -> ServiceError:
    code = "BlobNotFound" if status == 404 else ""
    return ServiceError(Finding("refused", "no"), status=status, code=code)


def sample(time: float, node: object = "tvm-1_d") -> bytes:
    return json.dumps({"node": node, "time": time, "cpu": 0.5}).encode() + b"\n"


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """A run whose one task runs."""
    made = make_run("job-aaaaaa", state="running")
    write_json(made.task_folder(0) / "state.json", {"state": "running", "attempt": 0})
    return made


def bring(run: Run, files: Files) -> dict[str, list[float]]:
    """The times of each node's samples, after another look."""
    bring_figures(TaskFiles(run, files, files, "job"))  # type: ignore[arg-type]
    return {node: [each.time for each in samples] for node, samples in figures(run).items()}


def test_whole_lines_are_added_as_they_come(run: Run, files: Files) -> None:
    assert bring(run, files) == {}
    files.node = {"wd/logs/attempt.txt": b"0 a\n", "wd/logs/figures.txt": sample(1) + b'{"node": '}
    assert bring(run, files) == {"tvm-1_d": [1]}
    assert bring(run, files) == {"tvm-1_d": [1]}
    files.node["wd/logs/figures.txt"] = sample(1) + sample(2, "tvm-2_d") + sample(3)
    assert bring(run, files) == {"tvm-1_d": [1, 3], "tvm-2_d": [2]}


def test_another_attempt_begins_with_a_file_of_its_own(run: Run, files: Files) -> None:
    files.node = {"wd/logs/attempt.txt": b"0 a\n", "wd/logs/figures.txt": sample(1)}
    bring(run, files)
    files.node = {"wd/logs/attempt.txt": b"1 b\n", "wd/logs/figures.txt": sample(2) + sample(3)}
    assert bring(run, files) == {"tvm-1_d": [1, 2, 3]}


def test_another_attempt_on_the_same_node_adds_to_the_file(run: Run, files: Files) -> None:
    files.node = {"wd/logs/attempt.txt": b"0 a\n", "wd/logs/figures.txt": sample(1) + sample(2)}
    bring(run, files)
    files.node["wd/logs/attempt.txt"] = b"1 b\n"
    files.node["wd/logs/figures.txt"] += sample(3)
    assert bring(run, files) == {"tvm-1_d": [1, 2, 3]}


def test_batch_figures_of_a_retried_task_are_read_again(run: Run, files: Files) -> None:
    for attempt, text in enumerate((sample(1), sample(2))):
        state = {"state": "failed", "attempt": attempt, "exit_code": 1}
        write_json(run.task_folder(0) / "state.json", state)
        mark = f"{attempt} mark\n".encode()
        files.node = {"wd/logs/attempt.txt": mark, "wd/logs/figures.txt": text}
        found = bring(run, files)
    assert found == {"tvm-1_d": [1, 2]}


def test_batch_figures_are_read_from_storage_without_the_node(run: Run, files: Files) -> None:
    files.node = {"wd/logs/attempt.txt": b"0 a\n", "wd/logs/figures.txt": sample(1)}
    bring(run, files)
    state = {"state": "succeeded", "attempt": 0, "exit_code": 0}
    write_json(run.task_folder(0) / "state.json", state)
    files.node = {}
    names = {"attempt.txt": b"0 a\n", "figures.txt": sample(1) + sample(2)}
    files.kept = {f"job-aaaaaa/0/{name}": data for name, data in names.items()}
    assert bring(run, files) == {"tvm-1_d": [1, 2]}
    asked = files.asked
    assert bring(run, files) == {"tvm-1_d": [1, 2]}
    assert files.asked == asked  # all of it is there


@pytest.mark.parametrize("node", ["../../evil", "/tmp/evil", ".x", "", "a\x1b[2J", 3, None, ["a"]])
def test_a_task_names_no_file_here(run: Run, files: Files, node: Any) -> None:
    text = sample(1, node) + b"[1]\n" + b"[" * 50_000 + b"\n" + sample(2)
    files.node = {"wd/logs/attempt.txt": b"0 a\n", "wd/logs/figures.txt": text}
    assert bring(run, files) == {"tvm-1_d": [2]}
    assert [path.name for path in (run.folder / "figures").iterdir()] == ["tvm-1_d.jsonl"]
