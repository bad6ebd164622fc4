"""What Slurm is handed of a run, where a part of it was refused, or cancelled before."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.shared.reports import SubmitReport, SubmitRequest
from fairway_agent.slurm import jobs, submit
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_boot.files import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = SubmitRequest("job-a", 0, "c", partition="nd")


class Slurm:
    """It refuses parts that take two nodes. Its jobs are in these states, one after the other at
    each look, and the last for ever."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.states = ["CANCELLED"]
        self.comment, self.partition = "", "nd"
        self.now = 0.0

    def run(self, words: list[str], **_: Any) -> str:
        if words[0] == "sbatch":
            if "--nodes=2" in words:
                raise commands.Refused("sbatch: error: Node count specification invalid")
            [self.comment] = [word[10:] for word in words if word.startswith("--comment=")]
            self.said.append("sbatch")
            return "7\n"
        if words[0] == "squeue" and self.comment:
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            self.said.append(state)
            return f"7|N/A|{state}|None|n1||{self.partition}|N/A|1|{self.comment}\n"
        if words[0] == "sinfo":
            return "(null)|(null)|4|8000\n"
        if words[0] == "scancel":
            self.said.append(" ".join(words))
        return ""

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    slurm = Slurm()
    for module in (submit, jobs):
        monkeypatch.setattr(module.commands, "run", slurm.run)
    clock = SimpleNamespace(monotonic=lambda: slurm.now, sleep=slurm.sleep)
    monkeypatch.setattr(submit, "time", clock)
    return slurm


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A shared folder with a run of a task on one node and a task on two."""
    folder = tmp_path / "runs" / "job-a"
    (folder / "code").mkdir(parents=True)
    (folder / "plan.json").write_text(RunPlan("job-a", str(folder / "code"), tasks=2).text())
    (folder / "target.json").write_text(json.dumps({"nodes": {"min": 0, "max": 2}}))
    lines = (TaskSpec(0, nodes=1).line(), TaskSpec(1, nodes=2).line())
    (folder / "tasks.jsonl").write_text("".join(lines))
    return tmp_path


def test_slurm_submit_refusal_waits_until_the_withdrawn_job_has_ended(
    slurm: Slurm, shared: Path
) -> None:
    """The run goes to another target next, where it must not run meanwhile."""
    slurm.states = ["RUNNING", "COMPLETING", "COMPLETING", "CANCELLED"]
    folder = shared / "runs" / "job-a"
    (folder / "code").rmdir()
    (folder / "provenance.json").write_text('{"code": "c"}')
    (shared / "code" / ".c.job-a").mkdir(parents=True)
    with pytest.raises(Fault) as caught:
        submit.answer(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "refused-job"
    assert slurm.said[:2] == ["sbatch", "scancel 7"]
    assert slurm.said[2:] == ["RUNNING", "COMPLETING", "COMPLETING", "CANCELLED"]
    assert list((shared / "runs").iterdir()) == []
    assert not (shared / "code" / "c").exists()


def test_slurm_submit_refuses_again_while_a_withdrawn_job_still_runs(
    slurm: Slurm, shared: Path
) -> None:
    slurm.states = ["RUNNING"]
    with pytest.raises(Fault) as caught:
        submit.answer(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "not-cancelled"
    assert "another that was cancelled has not ended: 7" in str(caught.value)
    slurm.states = ["CANCELLED"]
    with pytest.raises(Fault) as caught:
        submit.answer(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "refused-job"
    assert slurm.said.count("sbatch") == 1


@pytest.mark.parametrize(
    ("state", "partition", "trace", "submitted"),
    [
        ("PENDING", "nd", False, 0),
        ("PENDING", "nd,spare", False, 0),
        ("RUNNING", "nd", False, 0),
        ("CANCELLED", "nd", True, 0),
        ("CANCELLED", "nd", False, 1),
        ("FAILED", "nd", False, 1),
        ("RUNNING", "spare", False, 1),
        ("COMPLETING", "spare", False, 1),
    ],
)
def test_a_job_of_an_earlier_try_is_found(
    slurm: Slurm, shared: Path, state: str, partition: str, trace: bool, submitted: int
) -> None:
    """Not one of a partition that the run has left."""
    folder = shared / "runs" / "job-a"
    (folder / "tasks.jsonl").write_text(TaskSpec(0, nodes=1).line())
    slurm.states, slurm.partition, slurm.comment = [state], partition, "fairway job-a tasks 0 0"
    if trace:
        (folder / "jobs").mkdir()
        (folder / "jobs" / "tasks-0-0").write_text("7\n")
    assert submit.answer(shared, REQUEST, io.BytesIO()) == SubmitReport(("7",))
    assert slurm.said.count("sbatch") == submitted


def test_every_part_waits_for_the_runs_before(
    slurm: Slurm, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one of these fails, Slurm ends the first part, and what waits for that would begin."""
    folder = shared / "runs" / "job-a"
    plan = RunPlan("job-a", str(folder / "code"), tasks=2, after=["first"], max_parallel=1)
    (folder / "plan.json").write_text(plan.text())
    lines = (TaskSpec(0, nodes=1).line(), TaskSpec(1, nodes=3).line())
    (folder / "tasks.jsonl").write_text("".join(lines))
    (folder / "finally.jsonl").write_text(TaskSpec("finally").line())
    monkeypatch.setattr(submit, "_dependency_on_runs", lambda *_: "afterok:3")
    submitted = []

    def run(words: list[str], **options: Any) -> str:
        submitted.extend(word for word in words if word.startswith("--dependency="))
        return slurm.run(words, **options)

    monkeypatch.setattr(submit.commands, "run", run)
    submit.answer(shared, REQUEST, io.BytesIO())
    told = [word.removeprefix("--dependency=") for word in submitted]
    assert told == ["afterok:3", "afterok:3,afterany:7", "afterok:3,afterany:7:7"]
