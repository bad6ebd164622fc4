"""A run that is over its time, by a clock of the test's own."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import supervisor
from fairway_agent.plan import RunPlan
from fairway_agent.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Supervisor, Any]]:
    """A supervisor of a run of at most an hour, and the clock that it looks at."""
    clock = SimpleNamespace(now=1e9)
    monkeypatch.setattr(
        supervisor, "time", SimpleNamespace(time=lambda: clock.now, monotonic=lambda: clock.now - 5)
    )
    left, right = socket.socketpair()
    with left, right:
        plan = RunPlan("job-a", str(tmp_path), max_duration=3600.0)
        yield Supervisor(tmp_path, plan, SimpleNamespace(pid=1), left, right), clock  # type: ignore[arg-type]


def test_it_is_looked_at_when_its_time_is_over(made: tuple[Supervisor, Any]) -> None:
    run, clock = made
    assert run._next_deadline() is None  # it has not begun: who waits for nodes loses nothing
    run._keep_limit()
    run.started = 1e9
    clock.now += 600
    assert run._next_deadline() == 1e9 + 3600 - 5
    run._keep_limit()
    assert not run.limited
    clock.now += 3000
    run._keep_limit()
    assert (run.limited, run.reason) == (True, "it was over its max_duration of 1h")
    assert (run._next_deadline(), run._outcome()) == (None, "failed")


def test_one_that_is_cancelled_before_is_cancelled(made: tuple[Supervisor, Any]) -> None:
    run, clock = made
    run.started, run.cancelled = 1e9, True
    clock.now += 7200
    run._keep_limit()
    assert (run.limited, run.reason) == (False, None)
