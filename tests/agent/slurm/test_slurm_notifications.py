"""Notifications of a run on Slurm: sent once, by its last job or by the next command."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from receivers import Receiver
from run_folders import bring, take_over

from fairway_agent import notify, state_files
from fairway_agent.shared.reports import SubmitReport, SubmitRequest
from fairway_agent.slurm import runs, submit
from fairway_agent.slurm.jobs import SlurmJob
from fairway_agent.spec import Receiver as Told
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState, TaskState
from fairway_boot.slurm import commands


@pytest.fixture
def run(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Returns a function that creates a run of two tasks, which Slurm runs as the array 7."""
    listed = [SlurmJob("7", index, "RUNNING", "None", "n1", "", "") for index in range(2)]
    monkeypatch.setattr(runs, "jobs_named", lambda _: listed)
    monkeypatch.setattr(notify, "PAID_PAUSES", (0.0, 0.0))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def make(on: tuple[str, ...] = ("failed", "succeeded"), secret: str | None = None) -> Path:
        url = "" if secret else receiver.url
        secrets = (secret,) if secret else ()
        plan = RunPlan("job-1", "/c", 2, notify=Told(url, on, "json", secret), secrets=secrets)
        folder = bring(tmp_path / "runs" / "job-1", plan)
        take_over(folder, "7", tasks=2)
        return folder

    return make


def end(folder: Path, task: int, state: str = "succeeded") -> None:
    """Writes a task's last state, as its job does."""
    (folder / "tasks" / str(task)).mkdir(parents=True, exist_ok=True)
    code = int(state != "succeeded")
    status = TaskState(state, attempt=0, started=10.0, ended=20.0, exit_code=code)
    state_files.write(folder / "tasks" / str(task), status)


def test_slurm_notification_of_the_end_is_sent_once_by_the_last_job(
    run: Callable[..., Path], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run()
    receiver.answers += [500]
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    end(folder, 0)
    assert not notify.record_end(folder, "0", 0)
    end(folder, 1, "queued")
    assert not notify.record_end(folder, "1", 0), "it was requeued"
    end(folder, 1, "failed")
    assert notify.record_end(folder, "1", 0)
    assert not notify.record_end(folder, "0", 1), "of another submission"
    assert not notify.record_end(folder.with_name("job-2"), "0", 0)
    for _ in range(2):
        runs.notify_end(folder)
    said = receiver.next()
    assert (said["event"], said["tasks"]) == ("failed", {"succeeded": 1, "failed": 1})
    assert (receiver.seen, receiver.taken.empty()) == (2, True)
    assert not (folder / "notify.log").exists()


def test_slurm_notification_with_a_secret_address_is_sent_by_the_jobs(
    run: Callable[..., Path], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a user without the secret has seen the end before."""
    folder = run(secret="HOOK")
    end(folder, 0)
    end(folder, 1)
    runs.reconcile_all([folder])
    seen = state_files.read_run(folder)
    assert seen.state == "succeeded"
    assert receiver.seen == 0
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    monkeypatch.setenv("HOOK", receiver.url)
    runs.notify_end(folder)
    assert receiver.next()["state"] == "succeeded"


def test_slurm_notification_of_waiting_is_sent_once_per_submission(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, told = run(on=("waiting",)), []
    waits = [SlurmJob("7", index, "PENDING", "Resources", "", "", "") for index in range(2)]
    monkeypatch.setattr(runs, "jobs_named", lambda _: waits)
    monkeypatch.setattr(notify, "notify", lambda *what: told.append(what[2].reason))
    for _ in range(2):
        runs.reconcile_all([folder])
    assert told == ["waiting for nodes"]
    plan = RunPlan.from_json(json.loads((folder / "plan.json").read_text()))
    again = RunState("queued", "held", submission=1)
    assert notify.should_notify(folder, plan, again)
    assert not notify.should_notify(folder, plan, again)
    assert not notify.should_notify(folder, plan, RunState("queued", submission=2))


def test_slurm_submit_succeeds_when_squeue_does_not_answer_afterwards(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Mock(
        side_effect=commands.CommandFailed("squeue: error: Unable to contact slurm controller")
    )
    monkeypatch.setattr(runs, "jobs_named", look)
    folder = run()
    request = SubmitRequest(folder.name, 0)
    assert submit.submit(folder.parents[1], request, io.BytesIO()) == SubmitReport(("7",))
    look.assert_called_once()


def test_slurm_notification_that_fails_is_logged(
    run: Callable[..., Path], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run()
    receiver.answers += [503, 503, 503]
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    end(folder, 0)
    end(folder, 1)
    runs.notify_end(folder)
    said = "fairway: a notification was not delivered: the receiver answered 503\n"
    assert (folder / "notify.log").read_text() == said
    state = state_files.read_run(folder)
    assert state.state == "succeeded"
