"""What is written of runs and tasks: states, whole files, locks."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from fairway_agent import record
from fairway_agent.state_files import RunState
from fairway_boot import files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"succeeded": 2}, "succeeded"),
        ({}, "succeeded"),
        ({"succeeded": 1, "cancelled": 1}, "cancelled"),
        ({"cancelled": 1, "lost": 1}, "lost"),
        ({"cancelled": 1, "lost": 1, "failed": 1}, "failed"),
        ({"failed": 0, "succeeded": 1}, "succeeded"),
    ],
)
def test_a_run_ends_as_the_worst_of_its_tasks(counts: dict[str, int], state: str) -> None:
    """The same on every engine."""
    assert record.end_state(counts) == state
    assert record.end_state(counts, setup_failed=True) == "failed"


def test_a_run_goes_on_or_has_ended() -> None:
    assert {s for s in record.STATES if RunState(s).goes_on} == record.GOING_STATES
    assert {s for s in record.STATES if RunState(s).is_final} == record.FINAL_STATES
    assert not record.GOING_STATES & record.FINAL_STATES


def test_a_file_is_replaced_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    files.write_json(file, {"state": "queued"})

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.replace", fails)
    with pytest.raises(OSError, match="No space"):
        files.write_json(file, {"state": "running"})
    assert json.loads(file.read_text()) == {"state": "queued"}
    assert list(tmp_path.iterdir()) == [file]


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with files.alone(lock):
        assert files.try_lock(lock) is None
    held = files.try_lock(lock)
    assert held is not None
    assert files.try_lock(lock) is None
    assert not os.get_inheritable(held), "no program that is started keeps it"
    os.close(held)
    with files.alone(lock):
        pass
