"""A run whose target does not answer is shown as it was last known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import UserError
from fairway_runner.runs.store import Run

if TYPE_CHECKING:
    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import RunStore


def _away(self: Run, *, logs: bool = False) -> None:
    raise UserError.of("no-connection", "host h cannot be reached", "is it up?", exit_code=5)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_is_known_is_shown_with_its_time(
    fairway: RunFairway,
    make_run: MakeRun,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    make_run("job-a", [{"state": "running"}], state="running", engine="ssh", target="lab")
    monkeypatch.setattr(Run, "refresh", _away)
    code, out, err = fairway(store.base.parent, "show", "job-a", *words)
    assert code == 5
    assert "error: host h cannot be reached [no-connection]\n  is it up?\n" in err
    assert "job-a is shown as last known at 20" in err
    if words:
        assert json.loads(out)["state"] == "running"
    else:
        assert "running" in out


def test_a_mistake_is_not_hidden(
    fairway: RunFairway, make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: Run, *, logs: bool = False) -> None:
        raise UserError.of("wrong-credentials", "you are not known there")

    make_run("job-a", [{}], engine="ssh", target="lab")
    monkeypatch.setattr(Run, "refresh", wrong)
    assert fairway(store.base.parent, "show", "job-a")[:2] == (2, "")
