"""Snapshots of code."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

from fairway_agent import clone
from fairway_runner.submit import snapshot

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_equal_code_is_taken_by_two_threads_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.txt").write_text("a")
    both, copy = Barrier(2), clone.copy

    def copied(*paths: Any) -> Any:
        both.wait(300)
        return copy(*paths)

    monkeypatch.setattr(clone, "copy", copied)
    code = snapshot.collect(tmp_path / "code")
    with ThreadPoolExecutor(2) as pool:
        takes = [pool.submit(snapshot.snapshot, code, tmp_path / "store") for _ in range(2)]
        first, second = (each.result() for each in takes)
    assert first == second
    assert [each.name for each in first.iterdir()] == ["a.txt"]
    assert list((tmp_path / "store").iterdir()) == [first]
