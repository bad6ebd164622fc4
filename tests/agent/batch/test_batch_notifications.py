"""Which node of a pool tells of a run that has ended, and what, by what its tasks have said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.batch import notifications
from fairway_agent.batch.folders import Folders
from fairway_agent.batch.notifications import FILE, Ending
from fairway_agent.records import Unfit
from fairway_agent.spec import Receiver as Hears
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import TaskState

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Receiver


def ending(
    task: str, state: str = "succeeded", ended: float = 1e9, node: str = "n1", **facts: Any
) -> Ending:
    status = TaskState(state, started=ended - 10, ended=ended, exit_code=int(state == "failed"))
    return Ending("job-a", task, node, status, **facts)


def test_a_record_is_read_as_it_was_written() -> None:
    mine = ending("3", "failed", limit="max_cost", why="it was over its max_cost of 200 USD")
    assert Ending.from_json(json.loads(json.dumps(mine.to_json()))) == mine
    for facts in (None, [], {}, {**mine.to_json(), "state": None}, {**mine.to_json(), "job": 3}):
        with pytest.raises(Unfit):
            Ending.from_json(facts)


@pytest.mark.parametrize(
    ("endings", "tasks", "done", "state", "counts"),
    [
        ([ending("0")], 1, {}, "succeeded", {"succeeded": 1}),
        ([ending("0"), ending("1", "failed")], 2, {}, "failed", {"succeeded": 1, "failed": 1}),
        # The job was ended before the others had begun.
        ([ending("0")], 3, {}, "cancelled", {"succeeded": 1, "cancelled": 2}),
        ([ending("1")], 2, {"succeeded": 1}, "succeeded", {"succeeded": 2}),
        ([ending("1")], 2, {"failed": 1}, "failed", {"failed": 1, "succeeded": 1}),
        # Its program was killed, and had said last that it runs.
        (
            [ending("0", "running"), ending("1")],
            2,
            {},
            "cancelled",
            {"succeeded": 1, "cancelled": 1},
        ),
        ([ending("0", "cancelled", limit="max_cost", why="w")], 1, {}, "failed", {"cancelled": 1}),
    ],
)
def test_the_state_of_the_run(
    endings: list[Ending], tasks: int, done: dict[str, int], state: str, counts: dict[str, int]
) -> None:
    found = notifications.state_of(endings, tasks, done)
    assert (found.state, dict(found.tasks)) == (state, counts)
    assert (found.started, found.ended) == (1e9 - 10, 1e9)
    assert (found.limit, found.reason) == (endings[0].limit, endings[0].why)


def test_batch_endings_of_other_jobs_and_damaged_files_are_skipped(tmp_path: Path) -> None:
    texts = [
        json.dumps(ending("0").to_json()),
        json.dumps({**ending("1").to_json(), "job": "job-a:job-2"}),
        "{",
        "[" * 100_000,
        "null",
    ]
    for number, text in enumerate(texts):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / FILE).write_text(text)
    assert notifications.endings_in(tmp_path, "job-a") == [ending("0")]
    assert notifications.endings_in(tmp_path / "nothing", "job-a") == []


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> Path:
    """A node `n1` on which the job's release task runs; its folder of endings."""
    prepared, work = tmp_path / "prepared", tmp_path / "release"
    (prepared / "record").mkdir(parents=True)
    hears = Hears("secret:HOOK", ("failed", "succeeded"), "auto", "HOOK")
    plan = RunPlan("job-a", "/x", tasks=2, secrets=("HOOK",), notify=hears)
    (prepared / "record" / "plan.json").write_text(plan.text())
    for name, value in (
        ("AZ_BATCH_JOB_PREP_WORKING_DIR", str(prepared)),
        ("AZ_BATCH_TASK_WORKING_DIR", str(work)),
        ("AZ_BATCH_JOB_ID", "job-a"),
        ("AZ_BATCH_NODE_ID", "n1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOOK", "")  # and gone again after the test
    monkeypatch.setattr(Folders, "secret_values", lambda _: {"HOOK": receiver.url})
    monkeypatch.setattr(notifications, "PAID_PAUSES", (0.0, 0.0))
    return work / notifications.BROUGHT


def bring(folder: Path, *endings: Ending) -> None:
    for each in endings:
        place = folder / "job-a" / "endings" / "0" / each.task
        place.mkdir(parents=True)
        (place / FILE).write_text(json.dumps(each.to_json()))


def test_the_node_of_the_last_task_tells(
    node: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To an address that no file has, and once more where that fails."""
    bring(node, ending("0", node="n2"), ending("1", "failed", 1e9 + 5))
    monkeypatch.setenv("AZ_BATCH_NODE_ID", "n2")
    assert notifications.send() == 0
    assert receiver.seen == 0
    monkeypatch.setenv("AZ_BATCH_NODE_ID", "n1")
    receiver.answers += [503, 0]
    assert notifications.send() == 0
    said = receiver.next()
    assert (said["run"], said["state"], said["seconds"]) == ("job-a", "failed", 15.0)
    assert (said["tasks"], receiver.seen) == ({"succeeded": 1, "failed": 1}, 3)


def test_a_receiver_that_is_away_is_named_and_its_address_is_not(
    node: Path, receiver: Receiver, capfd: pytest.CaptureFixture[str]
) -> None:
    bring(node, ending("0"), ending("1"))
    receiver.answers += [500, 500, 500]
    assert notifications.send() == 0
    said = capfd.readouterr().err
    assert "a notification was not delivered: the receiver answered 500" in said
    assert receiver.url not in said


def test_in_a_retry_what_was_done_counts(
    node: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(node, ending("1"))
    monkeypatch.setenv(notifications.DONE, '{"succeeded": 1}')
    assert notifications.send() == 0
    assert receiver.next()["tasks"] == {"succeeded": 2}


def test_batch_notification_of_a_job_that_never_began_is_not_sent(
    node: Path, receiver: Receiver
) -> None:
    assert notifications.send() == 0
    assert receiver.seen == 0
