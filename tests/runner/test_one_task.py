"""One task of a run is ended, where that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_agent.spec import RunPlan
from fairway_core.findings import UserError
from fairway_runner.runs import store

if TYPE_CHECKING:
    from conftest import MakeRun

    from fairway_runner.runs.store import Run


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """One of two tasks, of which nothing becomes anything."""
    run = make_run("job-aaaaaa", [{}, {"state": "running"}], state="running")
    plan = RunPlan(run.id, "code", tasks=2)
    (run.folder / "plan.json").write_text(plan.text())
    return run


def test_cancel_of_one_task_that_does_not_end_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    class Engine:
        pause = 0.0

        def refresh(self, *_: object, **__: object) -> None: ...

        def cancel_task(self, _: Run, task: int) -> None:
            told.append(task)

    monkeypatch.setitem(run.__dict__, "engine", Engine())
    monkeypatch.setattr(store, "_state", lambda *_: "running")
    now = iter((0.0, 10.0, 1e9))
    with pytest.raises(
        UserError, match="task 1 of job-aaaaaa is being ended, but is still running"
    ) as e:
        store.cancel_task(run, run.engine, "1", clock=lambda: next(now))
    assert (told, e.value.exit_code) == ([1], 5)
