"""Slurm runs that come after others, with conditions on the ends of those."""

import io
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from run_folders import bring

from fairway_agent import control, job_facts, state_files
from fairway_agent.control import Numbers, Part
from fairway_agent.shared.reports import SubmitReport, SubmitRequest
from fairway_agent.slurm import job, submit
from fairway_agent.slurm.allocation import SlurmNodes
from fairway_agent.slurm.job import Slurm
from fairway_agent.slurm.runs import Watch, reconcile_all
from fairway_agent.spec import Retry, RunPlan, TaskSpec
from fairway_agent.state_files import RunState
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.scheduled import run_attempts
from fairway_agent.task.task import Task
from fairway_boot import files
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

WANTED: dict[str, str | list[int]] = {"mended": "failed", "coded": [3]}


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the commands that Slurm was given; it accepts every job and starts none."""
    told: list[str] = []

    def run(words: list[str], **_: Any) -> str:
        told.append(" ".join(words))
        return {"sbatch": f"{len(told)}\n", "sinfo": "(null)|(null)|4|8000\n"}.get(words[0], "")

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setenv("SLURM_JOB_ID", "80")
    return told


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Returns a shared folder with three ongoing runs and one that comes after them."""
    for number, name in enumerate(("well", *WANTED)):
        made(tmp_path, RunPlan(name, "code"))
        part = Part("tasks", 0, Numbers([0]), 1, 1, job=str(70 + number))
        control.change(tmp_path / "runs" / name, 0, parts=(part,))
        state_files.write(tmp_path / "runs" / name, RunState("running"))
    made(tmp_path, RunPlan("own", "code", after=("well", *WANTED), conditions=WANTED))
    return tmp_path


def made(shared: Path, plan: RunPlan) -> None:
    folder = shared / "runs" / plan.run
    bring(folder, plan, [TaskSpec(0, nodes=1)], {"nodes": {"min": 0, "max": 2}})


def ends(shared: Path, name: str, state: str) -> None:
    state_files.write(shared / "runs" / name, RunState(state, ended=1.0))


def submit_own(shared: Path, submission: int = 0) -> SubmitReport:
    request = SubmitRequest("own", submission, "c", partition="nd")
    return submit.submit(shared, request, io.BytesIO())


def own_job(shared: Path, submission: int = 0) -> tuple[Slurm, Task]:
    """Returns the starting job of the run that comes after the others, and its task."""
    run = shared / "runs" / "own"
    folder = run / "tasks" / "0"
    folder.mkdir(parents=True)
    plan, spec = job_facts.read_shared_plan(run), TaskSpec(0, nodes=1)
    task = Task(plan, spec, run, folder, nodes=SlurmNodes(), submission=submission)
    return Slurm(None, Watch(run, plan, submission)), task  # type: ignore[arg-type]


def test_slurm_after_is_submitted_as_afterok_and_afterany_dependencies(
    shared: Path, said: list[str]
) -> None:
    submit_own(shared)
    [words] = [each for each in said if each.startswith("sbatch")]
    assert " --dependency=afterok:70,afterany:71:72 " in words


def test_slurm_after_with_an_unmet_condition_is_refused_before_sbatch(
    shared: Path, said: list[str]
) -> None:
    ends(shared, "coded", "succeeded")
    with pytest.raises(AgentError, match=r"`after`: coded succeeded with exit code 0"):
        submit_own(shared)
    assert not any(each.startswith("sbatch") for each in said)
    assert not (shared / "runs" / "own").exists()  # other machines would find it queued for ever


def test_slurm_after_job_polls_predecessors_and_is_left_out_when_unmet(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(shared, "well", "succeeded")
    ends(shared, "mended", "lost")
    own, task = own_job(shared)
    looks = iter([lambda: None, lambda: ends(shared, "coded", "failed")])
    monkeypatch.setattr(job.time, "sleep", lambda _: next(looks)())
    assert not own.may_begin(task)  # a code of 5 is no 3
    assert next(looks, None) is None
    assert run_attempts(Attempts(task, own), own) == 130
    known = state_files.read_task(shared / "runs/own/tasks/0")
    assert (known.state, known.attempts) == ("cancelled", 0)


def test_slurm_after_job_gives_up_on_predecessors_that_stay_unknown(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, task = own_job(shared)
    monkeypatch.setattr(commands, "run", Mock(side_effect=AgentError("no-answer", "it is away")))
    now = iter(range(0, 1000, 200))
    monkeypatch.setattr(job.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(job.time, "sleep", lambda _: None)
    with pytest.raises(
        AgentError, match="it is not known how the runs that it comes after have ended"
    ) as caught:
        own.may_begin(task)
    assert caught.value.said.endswith("; once it is: fairway retry own")


def test_slurm_after_job_stops_waiting_when_slurm_ends_it(shared: Path) -> None:
    own, task = own_job(shared)
    own.asked = "ended"
    with pytest.raises(SystemExit):
        own.may_begin(task)
    assert state_files.read_task(shared / "runs/own/tasks/0") is None
    control.cancel(shared / "runs" / "own", 0)
    assert own.may_begin(task)  # and ends as one that was cancelled


def test_slurm_after_retry_with_an_unmet_condition_is_cancelled_with_the_reason(
    shared: Path, said: list[str]
) -> None:
    submit_own(shared)
    for name, state in (("well", "succeeded"), ("mended", "failed"), ("coded", "succeeded")):
        ends(shared, name, state)
    folder = shared / "runs" / "own"
    files.write_json(folder / "retry.json", Retry(only=(0,), submission=1).to_json())
    jobs = sum(words.startswith("sbatch") for words in said)
    assert submit_own(shared, 1).jobs == ()
    assert sum(words.startswith("sbatch") for words in said) == jobs
    reconcile_all([folder])
    found = state_files.read_run(folder)
    assert (found.state, found.submission) == ("cancelled", 1)
    assert found.reason == "not started: coded succeeded with exit code 0"


def test_slurm_after_retry_of_a_begun_run_does_not_wait_for_predecessors(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for a predecessor that runs again would hold nodes in vain, and a task that was once
    allowed to begin must not be left out."""
    ends(shared, "coded", "succeeded")
    known = Retry(only=(0,), after=(), submission=1)
    files.write_json(shared / "runs/own/retry.json", known.to_json())
    monkeypatch.setattr(job.time, "sleep", lambda _: pytest.fail("it waits"))
    own, task = own_job(shared, submission=1)
    assert own.may_begin(task)


def test_slurm_after_job_that_slurm_dropped_is_cancelled_with_its_reason(shared: Path) -> None:
    """Otherwise a run that expects its failure would begin. Slurm no longer knows the job, and
    there is no accounting."""
    submit_own(shared)
    ends(shared, "well", "failed")
    reconcile_all([shared / "runs/own"])
    found = state_files.read_run(shared / "runs/own")
    assert (found.state, found.reason) == ("cancelled", "not started: well failed")
