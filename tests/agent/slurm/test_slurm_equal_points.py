"""Runs of Slurm's whose tasks each wait for the task of another that has the same point."""

from __future__ import annotations

import io
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import record, state_files
from fairway_agent.faults import Fault
from fairway_agent.plan import Retry, RunPlan
from fairway_agent.run_state import RunState
from fairway_agent.shared import plans, submissions
from fairway_agent.slurm import commands, submit
from fairway_agent.slurm.cancel import Watch
from fairway_agent.slurm.job import Job
from fairway_agent.slurm.reports import SubmitRequest
from fairway_agent.slurm.task import SlurmTask
from fairway_agent.task_spec import LAST, TaskSpec
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REQUEST = SubmitRequest("own", 0, "c", partition="nd")
FAILED = "left out: prepare task 0 failed with exit code 1"


class Slurm:
    """It takes every job, notes it in a file, and starts none."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.dies_at = 0  # the number of a job of which its submitter does not hear any more

    @property
    def jobs(self) -> list[list[str]]:
        """The command lines that it was given."""
        text = self.file.read_text() if self.file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def run(self, words: list[str], **_: Any) -> str:
        if words[0] == "sbatch":
            with self.file.open("a") as file:
                file.write(json.dumps(words) + "\n")
            if len(self.jobs) == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"{100 + len(self.jobs)}\n"
        if words[0] == "squeue" and "own" in words:
            rows = [
                f"{101 + position}|N/A|PENDING|Dependency|||nd|N/A|1|{_option(each, 'comment')}\n"
                for position, each in enumerate(self.jobs)
            ]
            return "".join(rows)
        if words[0] == "squeue":
            rows = [f"70|{index}|RUNNING|None|n1||nd|N/A|1|first\n" for index in range(61)]
            return "".join(rows)
        return "(null)|(null)|4|8000\n" if words[0] == "sinfo" else ""


def _option(words: list[str], name: str) -> str:
    """The value of an option of sbatch; "" where it is not given."""
    return next((w.partition("=")[2] for w in words if w.startswith(f"--{name}=")), "")


@pytest.fixture(autouse=True)
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    slurm = Slurm(tmp_path / "jobs.jsonl")
    monkeypatch.setattr(commands, "run", slurm.run)
    monkeypatch.setenv("SLURM_JOB_ID", "80")
    return slurm


def write_run(folder: Path, plan: RunPlan, specs: list[TaskSpec]) -> None:
    (folder / "code").mkdir(parents=True)
    (folder / "plan.json").write_text(plan.text())
    (folder / "target.json").write_text(json.dumps({"name": "nd", "nodes": {"min": 0, "max": 2}}))
    (folder / "tasks.jsonl").write_text("".join(each.line() for each in specs))


def write_both(shared: Path, awaited: list[int], *, tasks: int = 3) -> Path:
    """A run that goes on as an array, and one each of whose tasks waits for one of its; the folder
    of the second."""
    first, own = shared / "runs" / "first", shared / "runs" / "own"
    write_run(first, RunPlan("first", "code", tasks=tasks), [TaskSpec(i) for i in range(tasks)])
    part = submissions.Part("tasks", 0, list(range(tasks)), 1, 1, job="70")
    submissions.Submission(0, [part], complete=True).write(first)
    state_files.write(first, RunState("running"))
    for index in range(tasks):
        (first / "tasks" / str(index)).mkdir(parents=True)
        state_files.write(first / "tasks" / str(index), TaskState("running", attempt=0))
    specs = [TaskSpec(index, equal={"first": each}) for index, each in enumerate(awaited)]
    plan = RunPlan("own", "code", tasks=len(specs), equal={"first": "prepare"})
    write_run(own, plan, specs)
    return own


def end(own: Path, index: int, state: str, code: int) -> None:
    """A task of the first run ends."""
    known = TaskState(state, attempt=0, exit_code=code, ended=1.0)
    state_files.write(own.parent / "first" / "tasks" / str(index), known)


def own_job(own: Path, index: int | str = 0, submission: int = 0) -> Job:
    """The job of one of its tasks, as it starts."""
    folder = own / "tasks" / str(index)
    folder.mkdir(parents=True, exist_ok=True)
    plan, states = plans.read(own), state_files.States()
    spec = TaskSpec(index) if index == LAST else submissions.spec_of(own, "tasks", int(index))
    task = SlurmTask(plan, spec, own, folder, submission=submission, states=states)
    task.resume_count()
    return Job(task, states, None, Watch(own, plan, submission))  # type: ignore[arg-type]


def test_tasks_that_wait_for_the_same_are_one_array(tmp_path: Path, slurm: Slurm) -> None:
    own = write_both(tmp_path, [2, 1, 0, 2, 1, 0])
    end(own, 1, "failed", 1)
    submit.answer(tmp_path, REQUEST, io.BytesIO())
    told = [(_option(each, "array"), _option(each, "dependency")) for each in slurm.jobs]
    assert told == [("0,3", "afterany:70_2"), ("1,4", ""), ("2,5", "afterany:70_0")]


def test_the_task_of_finally_waits_for_all_of_them(tmp_path: Path, slurm: Slurm) -> None:
    own = write_both(tmp_path, [1, 0])
    (own / "finally.jsonl").write_text(TaskSpec(LAST).line())
    submit.answer(tmp_path, REQUEST, io.BytesIO())
    assert _option(slurm.jobs[-1], "dependency") == "afterany:101:102"


def test_nothing_is_submitted_before_what_it_waits_for(tmp_path: Path, slurm: Slurm) -> None:
    own = write_both(tmp_path, [0])
    part = submissions.Part("tasks", 0, [0, 1, 2], 1, 1)
    submissions.Submission(0, [part], complete=False).write(own.parent / "first")
    with pytest.raises(Fault, match="first has not been submitted yet"):
        submit.answer(tmp_path, REQUEST, io.BytesIO())
    assert not slurm.jobs


@pytest.mark.parametrize("dies_at", [1, 2, 50, 51, 60, 61])
def test_each_is_submitted_once_wherever_that_is_killed(
    tmp_path: Path, slurm: Slurm, dies_at: int
) -> None:
    """Also between the notes of what Slurm has, where it has many."""
    write_both(tmp_path, list(range(61)), tasks=61)
    slurm.dies_at = dies_at
    if not (child := os.fork()):
        submit.answer(tmp_path, REQUEST, io.BytesIO())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    slurm.dies_at = 0
    report = submit.answer(tmp_path, REQUEST, io.BytesIO())
    assert report.jobs == tuple(str(101 + each) for each in range(61))
    assert len({_option(each, "comment") for each in slurm.jobs}) == len(slurm.jobs) == 61


def test_its_job_looks_how_the_equal_one_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_both(tmp_path, [0, 1])
    submit.answer(tmp_path, REQUEST, io.BytesIO())
    end(own, 1, "succeeded", 0)
    assert own_job(own, 1).why_left_out() == ""
    looks: Iterator[Callable[[], None]] = iter([lambda: None, lambda: end(own, 0, "failed", 1)])
    monkeypatch.setattr("fairway_agent.slurm.job.time.sleep", lambda _: next(looks)())
    waits = own_job(own, 0)
    assert waits.leave_out(waits.why_left_out()) == 130
    known = state_files.read_task(own / "tasks/0")
    assert known is not None
    assert (known.state, known.attempts, known.reason) == ("cancelled", 0, FAILED)


def test_its_job_ends_where_slurm_or_a_person_wants_it_to(tmp_path: Path) -> None:
    own = write_both(tmp_path, [0])
    submit.answer(tmp_path, REQUEST, io.BytesIO())
    waits = own_job(own)
    waits.asked = "ended"
    with pytest.raises(SystemExit):
        waits.why_left_out()
    assert state_files.read_task(own / "tasks/0") is None
    submissions.cancel(own, 0)
    assert waits.why_left_out() == ""  # and ends as one that was cancelled


def test_a_retry_of_what_has_begun_waits_for_nothing(tmp_path: Path, slurm: Slurm) -> None:
    own = write_both(tmp_path, [0, 0])
    submit.answer(tmp_path, REQUEST, io.BytesIO())
    for index in range(2):
        (own / "tasks" / str(index)).mkdir(parents=True)
    state_files.write(own / "tasks/0", TaskState("failed", attempt=0, exit_code=2, ended=1.0))
    state_files.write(own / "tasks/1", TaskState("cancelled", ended=1.0, reason=FAILED))
    record.write_json(own / "retry.json", Retry(only=(0, 1), submission=1).to_json())
    before = len(slurm.jobs)
    submit.answer(tmp_path, SubmitRequest("own", 1, "c", partition="nd"), io.BytesIO())
    told = [_option(each, "dependency") for each in slurm.jobs[before:]]
    assert told == ["", "afterany:70_0"]
    assert own_job(own, 0, submission=1).why_left_out() == ""


def test_nothing_comes_after_tasks_that_were_all_left_out(tmp_path: Path) -> None:
    own = write_both(tmp_path, [0])
    (own / "tasks/0").mkdir(parents=True)
    state_files.write(own / "tasks/0", TaskState("cancelled", ended=1.0, reason=FAILED))
    assert own_job(own, LAST).why_left_out() == "left out: no task has begun"
    state_files.write(own / "tasks/0", TaskState("failed", attempt=0, exit_code=1, ended=1.0))
    assert own_job(own, LAST).why_left_out() == ""
