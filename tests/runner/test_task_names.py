"""How the folders of a run's tasks are called, and which task a name from elsewhere stands for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import MakeRun

    from fairway_runner.runs.store import RunStore


@pytest.mark.parametrize("last", [None, "finally"])
def test_a_name_stands_for_one_task_or_none(
    make_run: MakeRun, store: RunStore, last: str | None
) -> None:
    """Somebody may have added a task to a job of Batch's by hand."""
    made = make_run("job-aaaaaa", [{}, {}, {}])
    if last is not None:
        tasks = made.folder / "tasks.jsonl"
        *first, line = tasks.read_text().splitlines(keepends=True)
        tasks.write_text("".join(first))
        (made.folder / "finally.jsonl").write_text(json.dumps({**json.loads(line), "index": last}))
    run = store.find("job-aaaaaa")
    name = last or "2"
    assert [run.task_name(index) for index in range(3)] == ["0", "1", name]
    assert [run.index_of(each) for each in ("0", "1", name)] == [0, 1, 2]
    wrong = {"3", "-1", "01", "³", "", "x", "9" * 40, "setup", "Finally", "2", "finally"} - {name}
    assert [each for each in wrong if run.index_of(each) is not None] == []
