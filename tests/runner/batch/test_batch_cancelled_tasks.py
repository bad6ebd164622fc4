"""Tasks of a pool that were ended each by itself, as another machine sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fairway_agent.spec import RunPlan
from fairway_runner.engines.batch import cancelling
from fairway_runner.engines.batch.cancelling import CancelledTasks
from fairway_runner.engines.batch.poller import Poller
from fairway_runner.engines.batch.submission import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import MakeRun

CANCELLED = {"exitCode": 130, "failureInfo": {"code": "FailureExitCode"}}
TERMINATED = {"failureInfo": {"code": "TaskEnded"}}


class Blobs:
    """A storage account that counts its lists."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.lists = 0

    def upload(self, _container: str, name: str, _data: bytes) -> None:
        self.names.append(name)

    def blobs(self, _container: str, prefix: str) -> Iterator[Any]:
        self.lists += 1
        return (SimpleNamespace(name=name) for name in self.names if name.startswith(prefix))


def submitted(submission: int = 0, cancelled: tuple[str, ...] = ()) -> State:
    return State("job-a", submission, True, 3, {}, None, cancelled)


def has(tasks: CancelledTasks, name: str, info: dict[str, Any]) -> bool:
    return tasks.has({"id": name, "executionInfo": info})


def test_another_machine_sees_which_were_ended_by_a_person() -> None:
    storage: Any = Blobs()
    cancelling.note_cancelled("job-a", submitted(), "1", storage)
    elsewhere = CancelledTasks("job-a", submitted(), storage)
    assert has(elsewhere, "1", CANCELLED)
    assert has(elsewhere, "1", TERMINATED)
    assert not has(elsewhere, "10", TERMINATED)
    assert not has(elsewhere, "1", {"exitCode": 1})
    assert storage.lists == 1
    # A retry runs it again.
    assert not has(CancelledTasks("job-a", submitted(1), storage), "1", CANCELLED)


def test_storage_is_not_asked_without_need() -> None:
    storage: Any = Blobs()
    own = CancelledTasks("job-a", submitted(cancelled=("1",)), storage)
    assert has(own, "1", CANCELLED)
    assert not has(own, "2", {"exitCode": 1})
    assert not own.has({"id": "0"})
    assert storage.lists == 0


def test_the_states_of_tasks_say_so(make_run: MakeRun) -> None:
    storage: Any = Blobs()
    run = make_run("job-a", [{}, {}, {}])
    (run.folder / "plan.json").write_text(RunPlan(run=run.id, directory="code").text())
    cancelling.note_cancelled(run.id, submitted(), "1", storage)
    ended = {"state": "completed", "executionInfo": CANCELLED}
    tasks = [{"id": name, **ended} for name in ("1", "2")]
    account: Any = SimpleNamespace(tasks=lambda *_: tasks)
    found = Poller(account, storage)._known_to_batch(run, {"state": "active"}, submitted())
    assert {number: each.state for number, each in found.items()} == {1: "cancelled", 2: "failed"}
