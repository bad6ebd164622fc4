"""What is written of runs and tasks: states, whole files, locks."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import record
from fairway_agent.run_state import RunState

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
    record.write_json(file, {"state": "queued"})

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.replace", fails)
    with pytest.raises(OSError, match="No space"):
        record.write_json(file, {"state": "running"})
    assert json.loads(file.read_text()) == {"state": "queued"}
    assert list(tmp_path.iterdir()) == [file]


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with record.alone(lock):
        assert record.try_lock(lock) is None
    held = record.try_lock(lock)
    assert held is not None
    assert record.try_lock(lock) is None
    assert not os.get_inheritable(held), "no program that is started keeps it"
    os.close(held)
    with record.alone(lock):
        pass


def test_a_folder_of_everybodys_has_its_rights_from_the_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while it makes one leaves none that others cannot use."""
    shares = tmp_path / "shares"
    shares.mkdir()
    shares.chmod(0o1777)

    def killed(*_: object, **__: object) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(os, "chmod", killed)
        with pytest.raises(SystemExit):
            record.make_folder(shares / "n1")
    assert list(shares.iterdir()) == []
    record.make_folder(shares / "n1" / "within")
    assert [(shares / "n1" / each).stat().st_mode & 0o7777 for each in (".", "within")] == [
        0o1777,
        0o1777,
    ]
    draft = tempfile.mkdtemp

    def after_another(**names: Any) -> str:
        (shares / "n2").mkdir()
        (shares / "n2" / "run").touch()
        return draft(**names)

    monkeypatch.setattr(tempfile, "mkdtemp", after_another)
    record.make_folder(shares / "n2")
    assert (shares / "n2" / "run").exists()
    assert sorted(each.name for each in shares.iterdir()) == ["n1", "n2"]


def test_a_folder_of_ones_own_stays_so(tmp_path: Path) -> None:
    record.make_folder(tmp_path / "own" / "deeper")
    assert not (tmp_path / "own" / "deeper").stat().st_mode & 0o022
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        record.make_folder(tmp_path / "file")
