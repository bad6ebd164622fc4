"""Outcomes of the runs that a run comes after, and its conditions on them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from run_folders import bring

from fairway_agent import state_files
from fairway_agent.predecessors import decide, unmet
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState, TaskState


def test_predecessors_unmet_are_named_with_exit_codes_and_decide_early(tmp_path: Path) -> None:
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
    ended = ["b-1 failed", "d-1 cannot be read", "e-1 was removed"]
    assert unmet(folders, {}) == ended
    assert unmet(folders, {}, going="was lost") == [ended[0], "c-1 was lost", *ended[1:]]
    folder = made(tmp_path / "bad", "failed", [0, 3])
    assert unmet([folder], {"bad": [4]}) == ["bad failed with exit code 3"]
    own = tmp_path / "own"
    own.mkdir()
    going, bad = made(tmp_path / "going", "running"), made(tmp_path / "late", "failed")
    assert decide(own, RunPlan("own", "code", after=(going, bad)), 0) == ["late failed"]


def made(folder: Path, state: str, codes: Sequence[int | None] = (), **facts: Any) -> str:
    """Creates a run whose tasks ended with these exit codes (None: not started). Returns its
    folder."""
    bring(folder, RunPlan(folder.name, "code", tasks=len(codes)))
    state_files.write(folder, RunState(state, **facts))
    for index, code in enumerate(codes):
        if code is not None:
            task = folder / "tasks" / str(index)
            task.mkdir(parents=True)
            ended = TaskState("failed" if code else "succeeded", attempt=0, exit_code=code)
            state_files.write(task, ended)
    return str(folder)


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ("succeeded", {"well"}),
        ("failed", {"bad", "lost", "over"}),
        ("ended", {"well", "bad", "lost", "over", "out", "ended"}),
        ([0], {"well"}),
        ([3, 4], {"bad"}),
        ([5], {"lost"}),
        ([124], {"over"}),
        ([130], {"ended"}),
    ],
)
def test_predecessors_unmet_applies_the_wanted_condition(
    tmp_path: Path, wanted: str | list[int], met: set[str]
) -> None:
    """By the exit code that commands report; a run that never began has none."""
    folders = [
        made(tmp_path / "well", "succeeded", [0]),
        made(tmp_path / "bad", "failed", [0, 3, 4]),
        made(tmp_path / "lost", "running", [0, None]),
        made(tmp_path / "over", "failed", [3], exit_code=124),
        made(tmp_path / "out", "cancelled", [None]),
        made(tmp_path / "ended", "cancelled", [0, None]),
    ]
    names = [folder.rpartition("/")[2] for folder in folders]
    found = unmet(folders, dict.fromkeys(names, wanted), going="was lost")
    assert set(names) - {each.partition(" ")[0] for each in found} == met


def test_predecessors_decision_is_kept_until_the_next_submission(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    first, other = made(tmp_path / "first", "running"), made(tmp_path / "other", "failed", [1])
    wanted: dict[str, str | list[int]] = {"first": "failed", "other": "ended"}
    plan = RunPlan("own", "code", after=(first, other), conditions=wanted)
    assert decide(own, plan, 0) is None
    (tmp_path / "first/state.json").write_text('{"state": "failed"}')
    assert decide(own, plan, 0) == []
    (tmp_path / "first/state.json").write_text('{"state": "running"}')  # during a retry
    assert decide(own, plan, 0) == []
    assert decide(own, plan, 1) is None
    (tmp_path / "first/state.json").write_text('{"state": "succeeded"}')
    assert decide(own, plan, 1) == ["first succeeded"]
