"""Cancellation of a job: its running tasks are signalled and waited for."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from pool import refused

from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch import states


@dataclass
class Orders:
    """A service with prepared answers to polls, which records the orders that it gets."""

    looks: list[Any]
    refusals: dict[str, ServiceError] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def _do(self, what: str) -> None:
        if what in self.refusals:
            raise self.refusals.pop(what)
        self.done.append(what)

    def order(self, _what: str, _method: str, path: str, **_body: Any) -> None:
        self._do(path.rpartition("/")[2])

    def delete_task_file(self, _job: str, task: str, _name: str) -> None:
        self._do(f"tell {task}")


class Account(Orders):
    """A job; each poll has its running tasks."""

    def running_tasks(self, _job: str) -> list[dict[str, Any]]:
        """The second word of a task is its start, if it differs from that of others."""
        found = [task.split() for task in (self.looks.pop(0) if self.looks else [])]
        return [{"id": id_, "executionInfo": {"startTime": "".join(at)}} for id_, *at in found]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_PAUSE", 0)


def end(account: Any) -> bool:
    return states.end_early(account, "job", 600)


@pytest.mark.parametrize(
    ("looks", "refusals", "done"),
    [
        # Tasks that start late are signalled too.
        ([["0"], ["0"], ["0", "1"], ["1"], []], {}, ["disable", "tell 0", "tell 1", "terminate"]),
        # A task that is not ready is signalled again.
        (
            [["0"], ["0"], []],
            {"tell 0": refused(404, "FileNotFound")},
            ["disable", "tell 0", "terminate"],
        ),
        # A task that begins again is signalled again.
        ([["0"], ["0 later"], []], {}, ["disable", "tell 0", "tell 0", "terminate"]),
        # An interrupted cancellation continues.
        ([["0"], []], {"disable": refused(409, "JobDisabled")}, ["tell 0", "terminate"]),
    ],
)
def test_batch_cancel_signals_all_running_tasks_and_waits_for_them(
    looks: list[list[str]], refusals: dict[str, ServiceError], done: list[str]
) -> None:
    account = Account(looks, refusals)
    assert end(account)
    assert (account.done, account.looks) == (done, [])


def test_batch_cancel_leaves_an_ending_job_alone_and_returns_false_for_a_missing_one() -> None:
    for code in ("JobCompleted", "JobBeingTerminated"):
        assert end(Account([], {"disable": refused(409, code)}))
    assert not end(Account([], {"disable": refused(404, "JobNotFound")}))
    for other in (refused(404), refused(409, "PoolBeingDeleted")):  # the first as from a proxy
        with pytest.raises(ServiceError):
            end(Account([], {"disable": other}))


class OneTask(Orders):
    """One task of a job."""

    def task(self, _job: str, _task: str) -> dict[str, Any]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def seen(state: str, started: str = "") -> dict[str, Any]:
    return {"id": "3", "state": state, "executionInfo": {"startTime": started or None}}


RUNS, AGAIN = seen("running", "10:00"), seen("running", "10:05")
WAITS, ENDED = seen("active"), seen("completed", "10:00")
LET_END = "3"  # the task is updated: no retries


@pytest.mark.parametrize(
    ("looks", "grace", "done"),
    [
        ([WAITS], 600, [LET_END, "terminate"]),
        ([RUNS, RUNS, RUNS, ENDED], 600, [LET_END, "tell 3"]),
        # The task has lost its node, or starts again anyway.
        ([RUNS, RUNS, WAITS], 600, [LET_END, "tell 3", "terminate"]),
        ([RUNS, RUNS, AGAIN], 600, [LET_END, "tell 3", "terminate"]),
        ([ENDED], 600, [LET_END]),
        ([RUNS], -100, [LET_END, "terminate"]),  # its grace has ended
    ],
)
@pytest.mark.parametrize("is_ready", [True, False])
def test_batch_end_task_signals_once_and_terminates_a_task_that_does_not_end(
    looks: list[dict[str, Any]], grace: float, done: list[str], is_ready: bool
) -> None:
    """A task that is not ready for the signal is signalled again."""
    refusals = {} if is_ready else {"tell 3": refused(404, "FileNotFound")}
    account: Any = OneTask([*looks] if is_ready else [looks[0], *looks], refusals)
    states.end_task(account, "job", "3", grace)
    assert account.done == done


def test_batch_end_task_leaves_an_ended_task_alone_and_raises_other_errors() -> None:
    for gone in (refused(404, "TaskNotFound"), refused(409, "TaskCompleted")):
        account: Any = OneTask([WAITS], {LET_END: gone})
        states.end_task(account, "job", "3", 600)
        assert account.done == []
    other: Any = OneTask([WAITS], {LET_END: refused(409, "JobBeingTerminated")})
    with pytest.raises(ServiceError):
        states.end_task(other, "job", "3", 600)
