"""Outputs of tasks in the run's folder, and the progress that is shown."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, BinaryIO

from fairway_agent.state_files import TaskState
from fairway_runner.engines.batch.outputs import collect, note_empty
from fairway_runner.runs.store import Run

LONG = "ü" * 127  # bytes of UTF-8: 254


class Storage:
    """Blobs in memory."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs

    def blobs(self, _: str, prefix: str) -> list[Any]:
        """Lists the blobs; what comes last was written last."""
        return [
            SimpleNamespace(name=name, etag=f"{data!r}", last_modified=when)
            for when, (name, data) in enumerate(self._blobs.items())
            if name.startswith(prefix)
        ]

    def write_to(self, _: str, name: str, file: BinaryIO) -> None:
        file.write(self._blobs[name])


def test_batch_outputs_are_collected_once_unless_changed_locally_with_progress_for_each_file(
    make_run: Callable[..., Run],
) -> None:
    """A fetched file is a hard link to the run's file, and the user may have changed it."""
    run = make_run("job-aaaaaa")
    storage: Any = Storage(
        {f"{run.id}/0/outputs/model/{name}": name.encode() for name in ("a", "b", LONG)}
        | {f"{run.id}/0/outputs/../../owned": b"", f"{run.id}/1/outputs/x": b""}
    )
    told: list[tuple[int, int]] = []
    collect(run, storage, [0], lambda *each: told.append(each))
    model = run.task_folder(0) / "outputs" / "model"
    assert sorted(path.name for path in model.iterdir()) == ["a", "b", LONG]
    fetched = run.folder / "fetched"
    fetched.hardlink_to(model / "a")
    fetched.write_bytes(b"mine")
    for _ in range(2):
        collect(run, storage, [0], lambda *each: told.append(each))
    assert told == [(1, 3), (2, 3), (3, 3), (1, 1)]
    assert ((model / "a").read_bytes(), fetched.read_bytes()) == (b"a", b"mine")


def test_batch_outputs_of_a_later_attempt_replace_a_file_by_a_folder_and_back(
    make_run: Callable[..., Run],
) -> None:
    run = make_run("job-aaaaaa")
    kept, top = {f"{run.id}/0/outputs/a": b"1"}, run.task_folder(0) / "outputs"
    storage: Any = Storage(kept)
    collect(run, storage, [0])
    kept[f"{run.id}/0/outputs/a/b"] = b"2"
    collect(run, storage, [0])
    assert (top / "a" / "b").read_bytes() == b"2"
    del kept[f"{run.id}/0/outputs/a"]
    kept[f"{run.id}/0/outputs/a"] = b"3"
    collect(run, storage, [0])
    assert (top / "a").read_bytes() == b"3"


def test_batch_outputs_without_blobs_are_recorded_as_empty(make_run: Callable[..., Run]) -> None:
    """Outputs that are removed later were not empty."""
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
