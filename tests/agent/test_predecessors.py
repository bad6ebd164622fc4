"""What a run is told of those that it comes after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.predecessors import unsuccessful

if TYPE_CHECKING:
    from pathlib import Path


def test_what_became_of_those_that_did_not_succeed_is_told(tmp_path: Path) -> None:
    texts = {
        "a-1": '{"state": "succeeded"}',
        "b-1": '{"state": "failed"}',
        "c-1": '{"state": "running"}',
        "d-1": '{"state": "succ',
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text(text)
    folders = [str(tmp_path / name) for name in (*texts, "e-1")]
    ended = ["b-1 failed", "c-1 running", "d-1 cannot be read", "e-1 was removed"]
    assert unsuccessful(folders) == ended
    assert unsuccessful(folders, going="was lost") == [ended[0], "c-1 was lost", *ended[2:]]
