"""A job is ended early: its running tasks are told, and waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import cancelling


def refused(status: int, code: str) -> ServiceError:
    return ServiceError(Finding("refused", code), status=status, code=code)


@dataclass
class Account:
    """A job whose running tasks are those of one look after the other."""

    looks: list[list[str]]
    refusals: dict[str, ServiceError] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def _do(self, what: str) -> None:
        if what in self.refusals:
            raise self.refusals.pop(what)
        self.done.append(what)

    def disable_job(self, _job: str) -> None:
        self._do("disable")

    def terminate_job(self, _job: str, _reason: str) -> None:
        self._do("terminate")

    def delete_task_file(self, _job: str, task: str, _name: str) -> None:
        self._do(f"tell {task}")

    def running_tasks(self, _job: str) -> list[str]:
        return self.looks.pop(0) if self.looks else []

    def tasks(self, _job: str, _select: Any) -> list[dict[str, str]]:
        return [{"id": task, "state": "running"} for task in self.running_tasks("")]

    def task_counts(self, _job: str) -> dict[str, int]:
        """They "may not be up to date": see Get Task Counts."""
        return {"running": 0}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "_PAUSE", 0)


def end(account: Any) -> bool:
    return cancelling.end_early(account, "job", 600)


def test_all_are_waited_for_and_one_that_begins_only_now_is_told_too() -> None:
    account = Account([["0"], ["0"], ["0", "1"], ["1"], []])
    assert end(account)
    assert account.done == ["disable", "tell 0", "tell 1", "terminate"]
    assert account.looks == []


def test_one_that_cannot_be_told_yet_is_told_later() -> None:
    account = Account([["0"], ["0"], []], {"tell 0": refused(404, "FileNotFound")})
    assert end(account)
    assert account.done == ["disable", "tell 0", "terminate"]


def test_a_cancel_that_was_cut_off_goes_on() -> None:
    account = Account([["0"], []], {"disable": refused(409, "JobDisabled")})
    assert end(account)
    assert account.done == ["tell 0", "terminate"]


@pytest.mark.parametrize("code", ["JobCompleted", "JobBeingTerminated"])
def test_one_that_ends_by_itself_is_left_alone(code: str) -> None:
    assert end(Account([], {"disable": refused(409, code)}))


def test_another_refusal_is_said() -> None:
    with pytest.raises(ServiceError, match="PoolBeingDeleted"):
        end(Account([], {"disable": refused(409, "PoolBeingDeleted")}))


def test_a_job_that_is_gone() -> None:
    assert not end(Account([], {"disable": refused(404, "JobNotFound")}))
