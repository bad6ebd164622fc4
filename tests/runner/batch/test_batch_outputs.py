"""What tasks have kept comes into the run's folder, and it is said how far that is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from fairway_agent.state_files import TaskState
from fairway_runner.engines.batch.outputs import collect, note_empty
from fairway_runner.engines.batch.pools import _of_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.runs.store import Run


class Storage:
    """Blobs in memory."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs

    def blobs(self, _: str, prefix: str) -> list[Any]:
        return [SimpleNamespace(name=n, etag="e") for n in self._blobs if n.startswith(prefix)]

    def write_to(self, _: str, name: str, file: BinaryIO) -> None:
        file.write(self._blobs[name])


def test_batch_outputs_report_progress_for_each_file(make_run: Callable[..., Run]) -> None:
    run = make_run("job-aaaaaa")
    storage: Any = Storage(
        {f"{run.id}/0/outputs/model/{name}": name.encode() for name in ("a", "b", "c")}
        | {f"{run.id}/0/outputs/../../owned": b"", f"{run.id}/1/outputs/x": b""}
    )
    told: list[tuple[int, int]] = []
    assert collect(run, storage, [0], lambda *each: told.append(each)) == 3
    assert told == [(1, 3), (2, 3), (3, 3)]
    found = sorted(path.name for path in (run.task_folder(0) / "outputs" / "model").iterdir())
    assert found == ["a", "b", "c"]
    assert collect(run, storage, [0], lambda *each: told.append(each)) == 0
    assert len(told) == 3


def test_batch_outputs_changed_here_are_fetched_again(make_run: Callable[..., Run]) -> None:
    """What a person has fetched is the same file, and it may have been changed since."""
    run = make_run("job-aaaaaa")
    storage: Any = Storage({f"{run.id}/0/outputs/a": b"weights", f"{run.id}/0/outputs/b": b"more"})
    assert collect(run, storage, [0]) == 2
    file = run.task_folder(0) / "outputs" / "a"
    fetched = run.folder / "fetched"
    fetched.hardlink_to(file)
    fetched.write_bytes(b"mine")
    assert collect(run, storage, [0]) == 1
    assert (file.read_bytes(), fetched.read_bytes()) == (b"weights", b"mine")


def test_outputs_without_a_blob_are_noted_once_the_run_has_ended(
    make_run: Callable[..., Run],
) -> None:
    """By one list; what is removed later was not empty."""
    outputs = {"model": "success", "plots": "always", "core": "failure"}
    run = make_run("job-aaaaaa", [{"outputs": outputs}] * 3)
    blobs = {f"{run.id}/0/outputs/model/a": b"", f"{run.id}/1/outputs/plots/b/c": b""}
    storage: Any = Storage(blobs)
    done, failed = TaskState("succeeded", ended=9.0), TaskState("failed", ended=9.0)
    found = {0: done, 1: done, 2: failed}
    note_empty(run, storage, found)
    assert [each.empty_outputs for each in found.values()] == [("plots",), ("model",), None]
    known = dict(found)
    del blobs[f"{run.id}/0/outputs/model/a"]
    note_empty(run, storage, found)
    assert found == known


def test_a_pool_that_does_not_say_its_size_is_not_taken_for_an_empty_one() -> None:
    pool = {"id": "sim", "state": "active", "enableInterNodeCommunication": True}
    job: Any = SimpleNamespace(nodes=2, container=None)
    target: Any = SimpleNamespace(name="batch-sim", spot=False, batch=None)
    assert list(_of_pool(pool, job, target)) == []
    [finding] = _of_pool({**pool, "targetDedicatedNodes": 1}, job, target)
    assert finding.id == "too-few-nodes"


@pytest.mark.parametrize(("formula", "count"), [("maxTemp = 1;", 0), ("maxNodes = 1;\nx = 2;", 1)])
def test_only_the_maximum_of_our_own_formulas_is_known(formula: str, count: int) -> None:
    pool = {"id": "sim", "state": "active", "enableInterNodeCommunication": True}
    pool |= {"enableAutoScale": True, "autoScaleFormula": formula}
    job: Any = SimpleNamespace(nodes=2, container=None)
    target: Any = SimpleNamespace(name="batch-sim", spot=False, batch=None)
    found = list(_of_pool(pool, job, target))
    assert len(found) == count
    said = "the autoscale formula of the pool `sim` allows at most 1 nodes"
    assert [each.message for each in found] == [said] * count


@pytest.mark.parametrize("state", ["deleting", "Deleting"])
def test_a_pool_that_is_going_takes_no_jobs(state: str) -> None:
    pool = {"id": "sim", "state": state, "taskSlotsPerNode": 1}
    job: Any = SimpleNamespace(nodes=1, container=None)
    target: Any = SimpleNamespace(name="batch-sim", spot=False, batch=None)
    findings = list(_of_pool(pool, job, target))
    assert findings[0].id == "pool-disabled"
    assert findings[0].message == "the pool `sim` accepts no jobs: it is deleting"
