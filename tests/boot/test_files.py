"""Files that are replaced as a whole, and locks."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from fairway_boot import files

if TYPE_CHECKING:
    from pathlib import Path


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
