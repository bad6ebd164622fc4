"""Parts of a run as sbatch takes them, and submissions with a refused or cancelled part."""

import io
import json
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from clocks import Clock
from programs import finished
from run_folders import bring, take_over

from fairway_agent import control, state_files
from fairway_agent.control import Numbers, Part
from fairway_agent.resources import ResourceRequest
from fairway_agent.shared.reports import CancelRequest, SubmitReport, SubmitRequest
from fairway_agent.slurm import jobs, runs, submit
from fairway_agent.slurm.nodes import Node, Resources
from fairway_agent.spec import Budget, RunPlan, Staged, TaskSpec
from fairway_agent.state_files import RunState
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

FOLDER = Path("/data/fairway/runs/job-abc")
PLAN = RunPlan("job-abc", str(FOLDER / "code"), grace=25.0)
ASKED = SubmitRequest("job-abc", 2, partition="nd", nice=1000)
PLAIN = Resources(ASKED, feature="", gpus=0, cpus=96)


def words(part: Part, plan: dict[str, Any] | None = None, **more: Any) -> list[str]:
    facts = {"folder": FOLDER, "resources": PLAIN, "dependency": "", **more}
    return submit.arguments(part=part, submission=2, plan=replace(PLAN, **(plan or {})), **facts)


ONE = Part("tasks", 0, [0], 1, 8)
POINTS = Part("tasks", 0, [0, 1, 2, 5, 7, 8], 1, 1)
WHOLE = ["--nodes=4", "--ntasks-per-node=8", "--exclusive", "--requeue", "--nice=1000"]
WHOLE += [f"--comment={ONE.comment(FOLDER, 2)}", "--signal=B:USR1@85"]
H100 = Resources(ASKED, "Standard_ND96isr_H100_v5", 8, 96)
OF_H100 = ["--constraint=Standard_ND96isr_H100_v5", "--gres=gpu:8"]
OF_TEAM = ["--account=vision", "--qos=urgent"]
AFTER = ["--dependency=afterok:7", "--kill-on-invalid-dep=yes"]
FEW = Resources(ASKED, "", 0, 4)


@pytest.mark.parametrize(
    ("part", "more", "has", "lacks"),
    [
        (Part("tasks", 0, [0], 4, 8), {}, WHOLE, ("--array", "--time", "--gres")),
        (POINTS, {}, ["--array=0-2,5,7-8"], ()),
        (POINTS, {"plan": {"max_parallel": 4}}, ["--array=0-2,5,7-8%4"], ()),
        (ONE, {"resources": H100}, OF_H100, ("--account", "--qos", "--dependency")),
        (
            ONE,
            {"resources": replace(H100, asked=replace(ASKED, account="vision", qos="urgent"))},
            OF_TEAM,
            (),
        ),
        (ONE, {"dependency": "afterok:7"}, AFTER, ("--constraint",)),
        (ONE, {"folder": Path("/100%A")}, ["--output=/100%%A/slurm.txt", "--chdir=/100%A"], ()),
        (ONE, {"resources": FEW}, ["--overcommit"], ()),
        (Part("tasks", 0, [0], 1, 4), {"resources": FEW}, [], ("--overcommit",)),
    ],
)
def test_slurm_submit_describes_a_part_of_a_run_to_sbatch(
    part: Part, more: dict[str, Any], has: list[str], lacks: tuple[str, ...]
) -> None:
    found = words(part, **more)
    assert {*has} <= {*found}
    assert not [word for word in found if lacks and word.startswith(lacks)]


NODE = Node(("nd96",), 8, 96, 1_900_000)


@pytest.mark.parametrize(
    ("gpus", "cores", "found", "part"),
    [
        (1, None, ["--cpus-per-task=12", "--mem=237500M", "--gres=gpu:1"], 0.125),
        (2, 30, ["--cpus-per-task=30", "--mem=593750M", "--gres=gpu:2"], 0.3125),
        (None, 24, ["--cpus-per-task=24", "--mem=475000M"], 0.25),
    ],
)
def test_slurm_submit_of_a_share_requests_its_gpus_cores_and_memory(
    gpus: int, cores: int, found: list[str], part: float
) -> None:
    """Memory is in proportion to the CPUs; the target's number of GPUs is for entire nodes."""
    resources = Resources(ASKED, "", 8, 96, node=NODE)
    one = Part("tasks", 0, [0, 1], 1, 4, gpus=gpus, cores=cores)
    said = words(one, resources=resources)
    assert set(found) <= set(said)
    assert sum(each.startswith("--gres") for each in said) == bool(gpus)
    assert "--ntasks-per-node=1" in said
    assert not {"--exclusive", "--mem=0", "--overcommit", "--gres=gpu:8"} & set(said)
    assert resources.node_fraction_of(one.wanted) == part
    assert resources.node_fraction_of(None) is None


def test_slurm_submit_keeps_gpus_and_times_within_what_slurm_accepts() -> None:
    resources = Resources(ASKED, "", 8, 96, node=replace(NODE, gpus=0))
    with pytest.raises(AgentError, match="a task needs 1 GPU, and Slurm knows of 0 GPUs a node in"):
        words(Part("tasks", 0, [0], 1, 1, gpus=1), resources=resources)
    few = Resources(ASKED, "", 8, 96, node=replace(NODE, cpus=4))
    assert "--cpus-per-task=1" in words(Part("tasks", 0, [0], 1, 9, gpus=1), resources=few)
    century = 36_500 * 86_400.0
    found = words(Part("tasks", 0, [0], 1, 1), {"timeout": century, "grace": century, "retries": 9})
    assert "--signal=B:USR1@65535" in found  # the most, by its manual
    [limit] = [int(word[7:]) for word in found if word.startswith("--time=")]
    assert limit * 60 < 2**31


@pytest.mark.parametrize(
    ("plan", "has_setup", "minutes"),
    [
        ({}, False, None),
        ({"max_cost": Budget(200.0, "USD", 12.5)}, False, None),
        # 3,600 s, 25 s of grace, 60 s of notice and 300 s: 66.4 minutes.
        ({"max_duration": 3600.0}, False, 67),
        ({"max_duration": 3600.0, "timeout": 600.0}, False, 17),
        ({"max_duration": 600.0, "timeout": 600.0, "retries": 9}, False, 17),
        ({"timeout": 60.0}, False, 8),
        ({"timeout": 43_200.0, "retries": 2}, False, 2168),
        ({"timeout": 60.0}, True, 68),
        ({"timeout": 60.0, "staged": (Staged("in", "c", "p", "shared"),)}, False, 68),
    ],
)
def test_slurm_submit_time_limit_leaves_room_for_the_limits_of_the_task(
    tmp_path: Path, plan: dict[str, Any], has_setup: bool, minutes: int | None
) -> None:
    if has_setup:
        (tmp_path / "setup.jsonl").touch()
    found = words(Part("tasks", 0, [0], 1, 1), plan, folder=tmp_path)
    limits = [word for word in found if word.startswith("--time")]
    assert limits == ([] if minutes is None else [f"--time={minutes}"])


def test_slurm_submit_script_is_valid_bash_for_any_folder_name(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(touch owned) here"
    folder.mkdir()
    text = submit.batch_script(folder, Part("tasks", 0, [4], 1, 1), 0)
    script = tmp_path / "script.sh"
    # The program prints its arguments instead of starting.
    script.write_text(text.replace('exec "$python" -s', "printf '%s\\n'"))
    done = finished(["bash", script], cwd=folder, check=True)
    assert done.stdout.splitlines()[2:] == [str(folder), "tasks", "0", "0", "4"]
    assert list(folder.iterdir()) == []


REQUEST = SubmitRequest("job-a", 0, "c", partition="nd")


class Slurm:
    """A Slurm that refuses parts of two nodes. Its jobs go through `states`, one at each look, and
    stay in the last."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.states = ["CANCELLED"]
        self.comment, self.partition, self.elements = "", "nd", ("N/A",)

    def run(self, words: list[str], **_: Any) -> str:
        if words[0] == "sbatch":
            if "--nodes=2" in words:
                raise commands.CommandFailed("sbatch: error: Node count specification invalid")
            [self.comment] = [word[10:] for word in words if word.startswith("--comment=")]
            self.said.append("sbatch")
            return "7\n"
        if words[0] == "squeue" and self.comment:
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            self.said.append(state)
            rest = f"{state}|None|n1||{self.partition}|N/A|1|{self.comment}\n"
            return "".join(f"7|{each}|{rest}" for each in self.elements)
        if words[0] == "sinfo":
            return "(null)|(null)|4|8000\n"
        if words[0] == "scancel":
            self.said.append(" ".join(words))
        return ""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    slurm = Slurm()
    monkeypatch.setattr(commands, "run", slurm.run)
    Clock.of(monkeypatch, runs)
    return slurm


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Returns a shared folder with a run of a task on one node and a task on two."""
    folder = tmp_path / "runs" / "job-a"
    plan, specs = RunPlan("job-a", str(folder / "code"), tasks=2), [TaskSpec(0), TaskSpec(1, 2)]
    bring(folder, plan, specs, {"nodes": {"min": 0, "max": 2}})
    return tmp_path


@pytest.mark.parametrize(
    ("second", "refused"),
    [
        (TaskSpec(1, nodes=2), "refused-job"),
        (TaskSpec(1, nodes=1, wanted=ResourceRequest(9)), "no-share"),
    ],
)
def test_slurm_submit_refusal_waits_until_the_withdrawn_job_has_ended(
    slurm: Slurm, shared: Path, second: TaskSpec, refused: str
) -> None:
    """The run goes to another target next, and must not run here meanwhile."""
    slurm.states = ["RUNNING", "COMPLETING", "COMPLETING", "CANCELLED"]
    folder = shared / "runs" / "job-a"
    (folder / "tasks.jsonl").write_text(TaskSpec(0, nodes=1).line() + second.line())
    (folder / "code").rmdir()
    (folder / "provenance.json").write_text('{"code": "c"}')
    (shared / "code" / ".c.job-a").mkdir(parents=True)
    with pytest.raises(AgentError) as caught:
        submit.submit(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == refused
    assert slurm.said[:2] == ["sbatch", "scancel 7"]
    assert slurm.said[2:] == ["RUNNING", "COMPLETING", "COMPLETING", "CANCELLED"]
    assert list((shared / "runs").iterdir()) == []
    assert not (shared / "code" / "c").exists()


def test_slurm_submit_keeps_a_run_whose_withdrawn_job_has_not_ended(
    slurm: Slurm, shared: Path
) -> None:
    slurm.states = ["RUNNING"]
    with pytest.raises(AgentError) as caught:
        submit.submit(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "not-cancelled"
    assert "another that was cancelled has not ended: 7" in str(caught.value)
    slurm.states = ["CANCELLED"]
    with pytest.raises(AgentError) as caught:
        submit.submit(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "cut-off-submission"
    assert slurm.said.count("sbatch") == 1
    assert (shared / "runs" / "job-a").is_dir()


def cut_off(shared: Path, job: str = "") -> Path:
    """Returns the folder of the run after its submitter was killed."""
    folder = shared / "runs" / "job-a"
    take_over(folder, job, tasks=2)
    control.change(folder, 0, complete=False)
    return folder


def no_partition(_: object) -> Resources:
    raise AgentError("no-partition", "Slurm has no partition `nd`", "", 2)


@pytest.mark.parametrize("left", ["record", "trace", "listed"])
def test_slurm_submit_that_fails_later_keeps_what_an_earlier_try_has_begun(
    slurm: Slurm, shared: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    folder = cut_off(shared, "7" if left == "record" else "")
    if left == "record":
        other = Part("tasks", 1, Numbers([2]), 2, 1)
        control.change(folder, 0, parts=(*control.read(folder).parts, other))
    if left == "trace":
        (folder / "jobs").mkdir()
        (folder / "jobs" / "tasks-0-0").write_text("7\n")
    slurm.comment = ONE.comment(folder, 0) if left == "listed" else ""
    slurm.states = ["RUNNING"]
    monkeypatch.setattr(submit, "partition_resources", no_partition)
    with pytest.raises(AgentError, match="Slurm has no partition") as caught:
        submit.submit(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "cut-off-submission"  # for clients, it is not refused
    assert folder.is_dir()
    assert not any(each.startswith("scancel") for each in slurm.said)
    control.change(folder, 0, parts=[replace(control.read(folder).parts[0], job="7")])
    assert submit.submit(shared, REQUEST, io.BytesIO()).jobs == ("7",), "nothing is left to do"


@pytest.mark.parametrize("is_damaged", [False, True])
def test_slurm_submit_of_a_refused_retry_ends_the_run_for_everybody(
    slurm: Slurm, shared: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    folder = shared / "runs" / "job-a"
    take_over(folder, "7", tasks=2)
    state_files.write(folder, RunState("failed", ended=1.0))
    retry = {"only": [0, 1], "done": {}, "is_set_up": False, "submission": 1}
    (folder / "retry.json").write_text(json.dumps(retry))

    def fail(_: object) -> None:
        if is_damaged:
            (folder / "state.json").write_text("{")
        no_partition(None)

    monkeypatch.setattr(submit, "partition_resources", fail)
    with pytest.raises(AgentError, match="Slurm has no partition"):
        submit.submit(shared, replace(REQUEST, submission=1), io.BytesIO())
    found = state_files.read_run(folder)
    assert (found.state, found.submission) == ("failed", 1)
    assert found.tasks == ({} if is_damaged else {"cancelled": 2})
    assert found.reason == "the retry was refused: Slurm has no partition `nd`"


def test_slurm_cancel_ends_a_run_whose_submission_was_cut_off(slurm: Slurm, shared: Path) -> None:
    """Commands elsewhere wait for its end, and nobody may complete it afterwards."""
    folder = cut_off(shared)
    for state in ("queued", "cancelled"):
        runs.reconcile_all([folder])
        assert state_files.read_run(folder).state == state
        runs.cancel(shared, CancelRequest("job-a", 0), io.BytesIO())
    with pytest.raises(AgentError) as caught:
        submit.submit(shared, REQUEST, io.BytesIO())
    assert caught.value.record["id"] == "cancelled-run"
    assert slurm.said == []


def test_slurm_cancel_of_a_cut_off_run_waits_for_its_unrecorded_job(
    slurm: Slurm, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared / "runs" / "job-a"
    (folder / "tasks.jsonl").write_text(TaskSpec(0, nodes=1).line())
    take_over(folder, "")
    control.change(folder, 0, complete=False)
    slurm.comment = ONE.comment(folder, 0)
    ended = f"6|N/A|CANCELLED|None|n1||nd|N/A|1|{slurm.comment}\n"  # of an earlier try
    monkeypatch.setattr(jobs.commands, "run", lambda words: ended + slurm.run(words))
    for state in ("RUNNING", "CANCELLED"):
        slurm.states = [state]
        runs.cancel(shared, CancelRequest("job-a", 0), io.BytesIO())
        runs.reconcile_all([folder])
        assert state_files.read_run(folder).is_final == (state == "CANCELLED")


def test_slurm_cancel_ends_the_jobs_of_a_run_whose_folder_is_full(
    slurm: Slurm, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared / "runs" / "job-a"
    take_over(folder, "7", tasks=2)
    monkeypatch.setattr(control.files, "write_json", Mock(side_effect=OSError(ENOSPC, "full")))
    slurm.comment, slurm.states = ONE.comment(folder, 0), ["RUNNING"]
    runs.cancel(shared, CancelRequest("job-a", 0), io.BytesIO())
    assert "scancel --batch --signal=TERM 7" in slurm.said
    slurm.elements, slurm.said = ("0", "1"), []
    runs.cancel(shared, CancelRequest("job-a", 0, task="1"), io.BytesIO())
    assert slurm.said[1:] == ["scancel --batch --signal=TERM 7_1"]


def test_slurm_cancel_reports_that_slurm_lists_no_jobs(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(shared)
    monkeypatch.setattr(
        jobs.commands, "run", Mock(side_effect=commands.CommandFailed("squeue: why"))
    )
    for act, asked in ((submit.submit, REQUEST), (runs.cancel, CancelRequest("job-a", 0))):
        with pytest.raises(AgentError, match="does not list its jobs: squeue: why") as caught:
            act(shared, asked, io.BytesIO())
        assert caught.value.record["exit_code"] == 5


@pytest.mark.parametrize(
    ("owner", "known", "ended"),
    [
        ("runs/job-b", ("7",), ["scancel 7"]),
        ("runs/job-b", ("8",), []),
        ("runs/job-bb", ("7",), []),
        ("other/runs/job-b", ("7",), []),
    ],
)
def test_slurm_cancel_of_a_run_without_a_folder_ends_its_job(
    slurm: Slurm, shared: Path, owner: str, known: tuple[str, ...], ended: list[str]
) -> None:
    """Not a job of a run of the same name in another shared folder, nor one that has its number
    now."""
    slurm.comment = ONE.comment(shared / owner, 0)
    slurm.states = ["RUNNING", "COMPLETING", "CANCELLED"]
    late = shared / "runs" / "job-b" / "tasks" / "0"
    late.mkdir(parents=True)  # written by the job since
    runs.cancel(shared, CancelRequest("job-b", 0, marks=known), io.BytesIO())
    assert not late.exists()
    assert [each for each in slurm.said if each.startswith("scancel")] == ended
    assert (slurm.said[-1] == "CANCELLED") == bool(ended), "it is waited for"


def test_slurm_cancel_of_a_task_of_a_run_without_a_folder_ends_no_other_task(
    slurm: Slurm, shared: Path
) -> None:
    """Nor does it write to the run's folder, where nothing would read it."""
    slurm.comment, slurm.states = ONE.comment(shared / "runs/job-b", 0), ["RUNNING"]
    late = shared / "runs" / "job-b" / "tasks" / "1"
    late.mkdir(parents=True)
    runs.cancel(shared, CancelRequest("job-b", 0, task="0", marks=("7",)), io.BytesIO())
    assert slurm.said == []
    assert [each.name for each in late.parents[1].iterdir()] == ["tasks"]


def test_slurm_cancel_of_a_run_without_a_folder_names_a_job_that_does_not_end(
    slurm: Slurm, shared: Path
) -> None:
    slurm.comment, slurm.states = ONE.comment(shared / "runs/job-b", 0), ["RUNNING"]
    with pytest.raises(AgentError, match="the folder of job-b is gone, and its job") as caught:
        runs.cancel(shared, CancelRequest("job-b", 0, marks=("7",)), io.BytesIO())
    assert caught.value.record["hint"].endswith("(squeue -j 7): fairway cancel job-b")


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
def test_slurm_submit_finds_the_job_of_an_earlier_try(
    slurm: Slurm, shared: Path, state: str, partition: str, trace: bool, submitted: int
) -> None:
    """Except a job in a partition that the run has left."""
    folder = shared / "runs" / "job-a"
    (folder / "tasks.jsonl").write_text(TaskSpec(0, nodes=1).line())
    slurm.states, slurm.partition = [state], partition
    slurm.comment = ONE.comment(folder, 0)
    if trace:
        (folder / "jobs").mkdir()
        (folder / "jobs" / "tasks-0-0").write_text("7\n")
    assert submit.submit(shared, REQUEST, io.BytesIO()) == SubmitReport(("7",))
    assert slurm.said.count("sbatch") == submitted


def test_slurm_run_of_the_same_id_in_another_shared_folder_is_left_alone(
    slurm: Slurm, shared: Path
) -> None:
    """A partition runs the jobs of all projects and users."""
    other = ONE.comment(shared / "other" / "runs" / "job-a", 0)
    (shared / "runs" / "job-a" / "tasks.jsonl").write_text(TaskSpec(0, nodes=1).line())
    slurm.comment, slurm.states = other, ["RUNNING"]
    assert submit.submit(shared, REQUEST, io.BytesIO()) == SubmitReport(("7",))
    assert slurm.said.count("sbatch") == 1, "its job is not taken for this run's"
    cut_off(shared)
    slurm.comment, slurm.said = other, []
    runs.cancel(shared, CancelRequest("job-a", 0), io.BytesIO())
    assert not any(each.startswith("scancel") for each in slurm.said)


def test_slurm_comment_is_that_of_the_folder_itself(tmp_path: Path) -> None:
    """Two targets may name one shared folder in two ways."""
    (tmp_path / "data" / "runs" / "job-a").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    names = [tmp_path / each / "runs" / "job-a" for each in ("data", "link", "else")]
    same, linked, other = (ONE.comment(each, 0) for each in names)
    assert same == linked != other
    assert all(each.startswith("fairway job-a ") for each in (same, other))


def test_slurm_submit_makes_every_part_depend_on_the_earlier_runs(
    slurm: Slurm, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an earlier run fails, Slurm ends the first part, and parts that wait for that would
    begin."""
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
    submit.submit(shared, REQUEST, io.BytesIO())
    told = [word.removeprefix("--dependency=") for word in submitted]
    assert told == ["afterok:3", "afterok:3,afterany:7", "afterok:3,afterany:7:7"]
