"""Requests to a run, in its control record."""

import json
import os
from pathlib import Path

import pytest

from fairway_agent import control
from fairway_agent.control import Control, Numbers, Part
from fairway_agent.records import UnreadableFile
from fairway_agent.state_files import ExceededLimit
from fairway_boot import files
from fairway_boot.files import AgentError

PART = {"stage": "tasks", "number": 0, "indices": "0", "nodes": 1, "width": 1}
FULL = Control(
    submission=1,
    parts=(
        Part("tasks", 0, Numbers([0, 1, 2, 5]), 1, 2, "7", gpus=1, cores=4, node_fraction=0.25),
        Part("finally", 1, Numbers([6]), 1, 1),
    ),
    complete=True,
    cancelled=0,
    cancelled_tasks={"3": 1},
    started=1e9,
    limit=ExceededLimit("max_cost", "it was over it"),
    failed_dependencies=("job-a failed",),
    notified=("start",),
    final={"succeeded": Numbers([0, 1])},
    ended={"job-a-0-0": "its image"},
    blocked={"controller": "no quota"},
)


def test_control_changes_are_read_back(tmp_path: Path) -> None:
    assert control.read(tmp_path) == Control()
    values = {name: getattr(FULL, name) for name in FULL.__dataclass_fields__}
    control.change(tmp_path, **values)
    assert control.read(tmp_path) == FULL


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parts", [{**PART, "stage": "../x"}]),
        ("parts", [{**PART, "indices": "0/../.."}]),
        ("parts", [{**PART, "indices": "0-9999999"}]),
        ("limit", {"limit": 3}),
        ("final", {"succeeded": [1]}),
        *(("best", {"m": choice}) for choice in (2, [2], [-1, 0.5], [2, float("inf")])),
    ],
)
def test_control_record_with_a_bad_value_is_reported_as_damaged(
    tmp_path: Path, name: str, value: object
) -> None:
    facts = {**FULL.to_json(), name: value}
    (tmp_path / "control.json").write_text(json.dumps(facts))
    with pytest.raises(UnreadableFile, match=r"control\.json: damaged: ") as caught:
        control.read(tmp_path)
    assert caught.value.said.endswith("; submit the job again from its file")


def test_control_record_of_another_version_is_refused(tmp_path: Path) -> None:
    facts = {**FULL.to_json(), "version": 9, "parts": {"of": "another kind"}}
    (tmp_path / "control.json").write_text(json.dumps(facts))
    with pytest.raises(
        UnreadableFile, match="its version is 9, and this release reads 1"
    ) as caught:
        control.read(tmp_path)
    assert "use the release that wrote it" in caught.value.said


def test_control_record_resets_for_a_new_submission_and_ignores_an_older_one(
    tmp_path: Path,
) -> None:
    control.change(
        tmp_path, 0, started=1.0, limit=ExceededLimit("max_cost", "why"), failed_dependencies=("a",)
    )
    control.cancel(tmp_path, 0)
    assert control.read(tmp_path).is_cancelled
    control.change(tmp_path, 1, started=2.0)
    known = control.read(tmp_path)
    assert (known.submission, known.started, known.limit, known.failed_dependencies) == (
        1,
        2.0,
        None,
        None,
    )
    assert not known.is_cancelled
    control.change(tmp_path, 0, started=3.0)
    assert control.read(tmp_path) == known


def test_control_cancel_applies_to_its_submission_and_earlier_ones(tmp_path: Path) -> None:
    """Another user may submit the run again meanwhile."""
    control.change(tmp_path, 0, started=1.0)
    control.cancel(tmp_path, 1)
    control.cancel(tmp_path, 1, "3")
    assert control.read(tmp_path).of(1).cancels("0")
    control.change(tmp_path, 1, complete=True)
    assert control.read(tmp_path).is_cancelled
    assert control.read(tmp_path).cancelled_names == {"3"}
    control.cancel(tmp_path, 1, "3")
    control.cancel(tmp_path, 2, "finally")
    control.cancel(tmp_path, 3, "../../x")  # not the name of a task, but a path
    named = [control.read(tmp_path).of(number).cancelled_names for number in (0, 1, 2, 3)]
    assert named == [{"3", "finally"}, {"3", "finally"}, {"finally"}, set()]


def test_control_start_supervisor_failure_reports_the_reason(tmp_path: Path) -> None:
    lock = files.open_lock(tmp_path / "lock")
    with pytest.raises(
        AgentError, match=r"did not start: .*No module named no_such_module"
    ) as caught:
        control.start_supervisor("no_such_module", tmp_path, lock, os.environ, retry=False)
    os.close(lock)
    assert str(tmp_path / "supervisor.log") in str(caught.value.record["hint"])
    assert not control.is_supervised(tmp_path)
