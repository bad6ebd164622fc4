"""Slurm that does not answer, and damaged runs: other states are shown all the same."""

import io
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from run_folders import bring, take_over
from targets import target_of

from fairway_agent import control
from fairway_agent.shared.reports import CancelRequest, RunRequest, StatesRequest
from fairway_agent.slurm import runs
from fairway_agent.slurm.jobs import SlurmJob
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState
from fairway_boot.files import NO_ANSWER, AgentError
from fairway_boot.slurm import commands
from fairway_core.findings import UserError
from fairway_runner.engines.outage import OutageTolerance, clock
from fairway_runner.engines.remote import submission_state
from fairway_runner.engines.remote.mirror import Mirror
from fairway_runner.engines.slurm import SlurmEngine
from fairway_runner.runs.store import Run

TARGET = target_of("slurm")


@pytest.mark.parametrize("fault", [NO_ANSWER, "missing-tool"])
def test_slurm_states_without_an_answer_of_slurm_come_from_the_files_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    silent = Mock(side_effect=AgentError(fault, "slurmctld does not answer"))
    monkeypatch.setattr(runs, "reconcile_all", silent)
    folder = tmp_path / "runs" / "job-1"
    (folder / "tasks" / "0").mkdir(parents=True)
    (folder / "tasks" / "0" / "log.txt").write_text("one")
    (folder / "state.json").write_text(json.dumps({"state": "running"}))
    request = StatesRequest({"job-1": RunRequest(logs={"0": 0})})
    if fault != NO_ANSWER:
        with pytest.raises(AgentError):
            runs.states(tmp_path, request, io.BytesIO())
        return
    found = runs.states(tmp_path, request, io.BytesIO())
    assert found.silent == "slurmctld does not answer"
    report = found.runs["job-1"]
    assert report.state == RunState("running")
    assert "0" in report.logs


def going_run(folder: Path, after: tuple[str, ...] = ()) -> None:
    """Makes a run of one task that is a job of Slurm."""
    bring(folder, RunPlan(folder.name, "/code", after=after))
    take_over(folder, "7")
    for each in (folder, folder / "tasks" / "0"):
        each.mkdir(parents=True, exist_ok=True)
        (each / "state.json").write_text(json.dumps({"state": "running"}))


@pytest.mark.parametrize("file", ["state.json", "tasks/0/state.json", "control.json"])
@pytest.mark.parametrize(
    ("text", "id_", "why"),
    [
        ('{"state": "run', "damaged-run", "damaged"),
        ('{"version": 7}', "other-release", "of another release: its version is 7"),
    ],
)
def test_slurm_states_report_a_damaged_run_and_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, id_: str, why: str
) -> None:
    monkeypatch.setattr(runs, "jobs_named", lambda _: [])
    monkeypatch.setattr(runs, "look_up", lambda *_: None)
    for name in ("job-1", "job-2"):
        going_run(tmp_path / "runs" / name)
    (tmp_path / "runs" / "job-1" / file).write_text(text)
    request = StatesRequest({"job-1": RunRequest(), "job-2": RunRequest()})
    found = runs.states(tmp_path, request, io.BytesIO()).to_json()["runs"]
    assert isinstance(found, dict)
    known, said, _ = found["job-1"]["damaged"]
    assert (known, f"job-1/{file}: {why}" in said) == (id_, True)
    assert found["job-2"]["state"]["state"] == "lost"  # as Slurm knows no job of it


def test_slurm_cancel_of_a_damaged_run_finds_its_jobs_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_run(tmp_path / "runs" / "job-1")
    (tmp_path / "runs" / "job-1" / "control.json").write_text('{"parts": [')
    comment = control.own_comment(tmp_path / "runs" / "job-1") + "tasks 0 0"
    listed = SlurmJob("7", -1, "RUNNING", "", "", "", comment)
    ordered: list[Sequence[str]] = []
    monkeypatch.setattr(runs, "jobs_named", lambda _: [listed])
    monkeypatch.setattr(commands, "run", ordered.append)
    runs.cancel(tmp_path, CancelRequest("job-1", 0), io.BytesIO())
    assert [words[-1] for words in ordered] == ["7", "7"]


def test_slurm_states_end_a_run_whose_predecessor_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = SlurmJob("7", -1, "CANCELLED", "DependencyNeverSatisfied", "", "", "")
    monkeypatch.setattr(runs, "jobs_named", lambda _: [ended])
    for name, after in (("job-1", ()), ("job-2", ("job-1",))):
        going_run(tmp_path / "runs" / name, after)
    (tmp_path / "runs" / "job-1" / "state.json").write_text('{"state": "run')
    request = StatesRequest({"job-2": RunRequest()})
    found = runs.states(tmp_path, request, io.BytesIO()).runs["job-2"]
    reason = "not started: job-1 cannot be read"
    assert (found.state.state, found.state.reason) == ("cancelled", reason)


def test_slurm_refresh_without_an_answer_warns_once_until_the_deadline(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run("job-aaaaaa", state="running", engine="slurm", target="nd")
    submission_state.SubmissionRecord(0, complete=True).write(run)
    said = ["", "away", "away", "", "away"]
    monkeypatch.setattr(SlurmEngine, "mirror", property(lambda _: Mirror(None)))  # type: ignore[arg-type]
    monkeypatch.setattr(Mirror, "refresh", lambda *_, **__: said.pop(0))
    engine = SlurmEngine(TARGET, deadline=600.0)
    with caplog.at_level(logging.WARNING, "fairway"):
        for _ in range(5):
            engine.refresh([run])
    said_of_it = f"nd: away; states are as they were last known at {clock(run.last_known)}"
    assert [record.getMessage() for record in caplog.records] == [said_of_it] * 2
    said[:] = ["away"]
    engine.deadline = -1.0
    with pytest.raises(UserError, match="away") as caught:
        engine.refresh([run])
    assert (caught.value.findings[0].id, caught.value.exit_code) == (NO_ANSWER, 5)
    said[:] = ["away"]
    with pytest.raises(UserError, match="away"):
        OutageTolerance(run, 600.0).call(
            lambda: engine.refresh([run])
        )  # without waiting for another deadline
