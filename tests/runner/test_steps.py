"""Files with `steps:`: the job of each step, and mistakes that are refused at their line."""

import json
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.jobs.steps import read_steps
from fairway_runner.runs.records import STEPS_FILE, recorded_steps
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.steps import prepare_steps

TRAIN: dict[str, Any] = {
    "command": "true",
    "outputs": {"model": {}},
    "metrics": {"loss": "loss=(.)", "norm": "norm=(.)"},
    "sweep": {"points": {"grid": {"x": [1, 2]}}},
    "params": {"x": 0},
}
BEST = {"model": {"best": {"step": "train", "metric": "loss"}}}


def write(folder: Path, named: Any, **common: Any) -> Path:
    """Writes a file of steps, each value on a separate line; JSON is YAML."""
    file = folder / "steps.yaml"
    file.write_text(json.dumps({"name": "pipe", "steps": named, **common}, indent=1))
    return file


def jobs(file: Path, *overrides: str) -> dict[str, Job]:
    """Returns the job of each step, in the order of the steps."""
    job_file = load_job(file, overrides)
    found = {}
    for step in read_steps(job_file.document, "pipe-a"):
        own = JobFile(step.document, file.parent)
        found[step.name] = next(own.tasks()).resolve(Target.local())
    return found


def test_steps_inherit_common_fields_and_accept_overrides_and_inputs(tmp_path: Path) -> None:
    named = {
        "late": {"after": "early", "command": "late"},
        "early": {"command": "early", "template": "every-node", "env": {"B": "2"}},
    }
    found = jobs(write(tmp_path, named, template="plain", env={"A": "1"}, tags=["x"]))
    assert list(found) == ["early", "late"]
    assert [each.name for each in found.values()] == ["pipe-early", "pipe-late"]
    assert [each.template for each in found.values()] == ["every-node", "plain"]
    assert [each.env for each in found.values()] == [{"B": "2"}, {"A": "1"}]
    assert {each.tags for each in found.values()} == {("x",)}
    inputs = {**BEST, "other": {"from": "step", "step": "train", "task": 1, "output": "model"}}
    named = {"train": TRAIN, "score": {"after": "train", "command": "a", "inputs": inputs}}
    found = jobs(write(tmp_path, named))["score"].model_dump(by_alias=True)["inputs"]
    assert found["model"]["best"]["run"] == "pipe-a-train"
    assert (found["other"]["from"], found["other"]["run"]) == ("run", "pipe-a-train")
    file = write(tmp_path, {"train": TRAIN, "score": {"command": "a"}}, params={"y": 1})
    words = ("steps.train.nodes=3", "steps.train.command=b", "steps.score.env.A=1", "params.y=2")
    found = jobs(file, *words)
    assert (found["train"].nodes, found["train"].command) == (3, "b")
    assert found["score"].env == {"A": "1"}
    assert found["score"].params == {"y": 2}


@pytest.mark.parametrize(
    ("after", "known"),
    [
        ("train", {"train": "succeeded"}),
        (["train", "other"], {"train": "succeeded", "other": "succeeded"}),
        ({"train": "failed", "other": "ended"}, {"train": "failed", "other": "ended"}),
    ],
)
def test_steps_conditions_of_each_form_are_parsed(tmp_path: Path, after: Any, known: Any) -> None:
    named = {"score": {"command": "a", "after": after}, "train": TRAIN, "other": {"command": "b"}}
    document = load_job(write(tmp_path, named)).document
    *_, last = read_steps(document, "pipe-a")
    assert (last.name, last.after) == ("score", known)


def _reading(**inputs: Any) -> dict[str, Any]:
    """Returns the step `train`, and the step `b` with these inputs."""
    return {"train": TRAIN, "b": {"command": "a", "after": "train", "inputs": inputs}}


NOT_AFTER = "`b` does not come after the step `train`"
REFUSED: list[tuple[Any, dict[str, Any], str, str]] = [
    ({}, {}, "`steps`: expected at least 1 item", "add one"),
    (3, {}, "`steps`: expected a mapping", ""),
    ({"A b": TRAIN}, {}, "`A b` is not a step's name", "up to 15 lower-case letters"),
    ({"a-name-of-16-let": TRAIN}, {}, "is not a step's name", ""),
    ({"a": TRAIN}, {"stesp": 1}, "unknown key `stesp`", "did you mean `steps`?"),
    ({"a": TRAIN}, {"sweep": {"points": {"repeat": 2}}}, "unknown key `sweep`", "in a step"),
    ({"a": TRAIN}, {"after": ["x"]}, "unknown key `after`", "write it in a step"),
    ({"a": {**TRAIN, "name": "x"}}, {}, "`name` applies to all steps", "beside `steps`"),
    ({"a": {**TRAIN, "code": {}}}, {}, "`code` applies to all steps", ""),
    ({"a": {**TRAIN, "after": "b"}}, {}, "there is no step `b`", ""),
    ({"train": TRAIN, "a": {"after": "tain"}}, {}, "there is no step `tain`", "`train`?"),
    ({"a": {"after": "a"}}, {}, "these steps wait for each other: a", "from `after`"),
    ({"a": {"after": "b"}, "b": {"after": "a"}}, {}, "wait for each other: a, b", ""),
    ({"a": TRAIN, "b": {"after": {"a": "done"}}}, {}, "expected one of `succeeded`", ""),
    ({"a": TRAIN, "b": {"after": {"a": {"exit_code": 300}}}}, {}, "at most 255", ""),
    ({"a": TRAIN, "b": {"after": {"a": {"exit_code": []}}}}, {}, "is empty", "exit_code: 3"),
    ({"a": TRAIN, "b": {"after": {"a": {"points": "equal"}}}}, {}, "key `points`", "after: STEP"),
    ({"a": TRAIN, "b": {"after": {"a": {"state": "failed"}}}}, {}, "key `state`", "{STEP: failed}"),
    ({"a": TRAIN, "b": {"after": {"a": {}}}}, {}, "the condition is empty", "exit_code: 3"),
    (_reading(m={"from": "step"}), {}, "the input `m` names no step", "step: NAME"),
    (_reading(m={"step": "train", "run": "x"}), {}, "`m` names a run and a step", "step: NAME"),
    ({"train": TRAIN, "b": {"inputs": BEST}}, {}, NOT_AFTER, "add it: after: [train]"),
    ({"a": TRAIN, "train": TRAIN, "b": {"after": "a", "inputs": BEST}}, {}, NOT_AFTER, ""),
]


@pytest.mark.parametrize(("named", "common", "message", "hint"), REFUSED)
def test_steps_with_a_mistake_are_refused_at_their_line(
    tmp_path: Path, named: Any, common: dict[str, Any], message: str, hint: str
) -> None:
    document = load_job(write(tmp_path, named, **common)).document
    finding = refused(lambda: read_steps(document, "pipe-a"), code=2)
    assert message in finding.message
    assert hint in finding.hint
    assert finding.location is not None


def _best(name: str = "model", **which: str) -> Any:
    return _reading(**{name: {"best": {"step": "train", **which}}})["b"]


@pytest.mark.parametrize(
    ("step", "message", "line"),
    [
        ({"command": "a", "nodse": 2}, "unknown key `nodse`", '"nodse": 2'),
        ({"command": "a", "target": ["a", "b"]}, "there is no target `a`", '"a",'),
        (_best("modle", metric="loss"), "the step `train` keeps no output `modle`", '"modle"'),
        (_best(metric="speed"), "no metric `speed`", "one of: loss, norm"),
        (_best(), "the step `train` has 2 metrics", "add metric: loss or norm"),
        (
            _best(metric="norm"),
            "it is not known whether lower or higher `norm` is better",
            "write better: lower, or better: higher, beside the metric's name",
        ),
    ],
)
def test_steps_with_a_mistake_in_one_job_start_nothing(
    tmp_path: Path, here: RunFairway, step: Any, message: str, line: str
) -> None:
    write(tmp_path, {"train": {**TRAIN, "template": "plain"}, "last": step}, template="plain")
    ends(here("submit", "steps.yaml"), 2, message, line, printed="")
    assert not (tmp_path / ".fairway" / "runs").exists()


def test_steps_that_cannot_be_submitted_are_refused(
    tmp_path: Path, here: RunFairway, make_run: MakeRun
) -> None:
    write(tmp_path, {"train": TRAIN}, template="plain")
    ends(here("render", "steps.yaml"), 2, "this needs a single job", '"steps": {')
    # A missing run is refused at once, not hours later when the step begins.
    inputs = {**BEST, "old": {"from": "run", "run": "nothing-here"}}
    last = {"command": "a", "after": "train", "inputs": inputs}
    write(tmp_path, {"train": TRAIN, "last": last}, template="plain")
    ends(here("submit", "steps.yaml", "--dry-run"), 2, "there is no run `nothing-here`", '"old": {')
    write(tmp_path, {"train": {**TRAIN, "template": "plain"}})
    said = f"the run of the step `train` cannot be named {'a' * 58}-train"
    done = here("submit", "steps.yaml", "--run-id", "a" * 58)
    ends(done, 2, said, "an ID of up to 57 lower-case letters")
    assert not (tmp_path / ".fairway" / "runs").exists()
    code, out, _ = here("submit", "steps.yaml", "--run-id", "a" * 57, "--dry-run")
    assert (code, "1 step on local" in out) == (0, True)
    make_run("pipe-a-train", state="succeeded")
    write(tmp_path, {"train": {**TRAIN, "template": "plain"}})
    done = here("submit", "steps.yaml", "--run-id", "pipe-a")
    ends(done, 2, "the run `pipe-a-train` already exists, and is not step `train` of this one")
    assert not (tmp_path / ".fairway/runs/pipe-a").exists()


def test_steps_dry_run_starts_nothing(tmp_path: Path, here: RunFairway) -> None:
    named = {"train": TRAIN, "score": {"after": "train", "command": "a", "inputs": BEST}}
    write(tmp_path, named, template="plain")
    printed = "pipe is valid; it would start 2 steps on local\n"
    assert here("submit", "steps.yaml", "--dry-run") == (0, printed, "")
    assert not (tmp_path / ".fairway" / "runs").exists()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"steps": [3]}',
        '{"steps": [{"name": "a", "run": "../x", "target": "t", "after": {}}]}',
        '{"steps": [{"name": "a", "run": "x-a", "target": "t", "after": {"b": [true]}}]}',
        '{"steps": [{"name": "a", "run": "x-a", "target": "t", "after": {"b": 3}}]}',
    ],
)
def test_steps_file_that_is_damaged_is_reported(
    make_run: MakeRun, here: RunFairway, text: str
) -> None:
    run = make_run("pipe-abc", state="running")
    (run.folder / STEPS_FILE).write_text(text)
    refused(lambda: recorded_steps(run.folder), r"steps\.json: damaged")
    ends(here("wait", run.id), 2, "steps.json: damaged")


@pytest.mark.integration
def test_steps_with_very_many_tasks_need_confirmation(tmp_path: Path, here: RunFairway) -> None:
    sweep = {"command": "true", "sweep": {"points": {"repeat": 600}}}
    write(tmp_path, {"a": sweep, "b": sweep}, template="plain")
    ends(here("submit", "steps.yaml"), 2, "this starts 1,200 tasks")


WAITING: list[tuple[dict[str, Any], bool]] = [
    ({"after": "train"}, True),
    ({}, False),
    ({"after": {"train": "ended"}}, True),
    ({"after": {"train": "failed", "data": {"exit_code": [3]}}}, True),
    ({"after": "train", "inputs": BEST}, True),
    ({"after": "data", "inputs": {"d": {"from": "step", "step": "data"}}}, True),
    # `data` ends before, even if `train` never begins; but the waiting target cannot know that.
    ({"after": "train", "inputs": {"d": {"from": "step", "step": "data"}}}, False),
    ({"after": ["data", "train"], "inputs": {"d": {"from": "step", "step": "data"}}}, True),
]


@pytest.mark.parametrize(("last", "waits"), WAITING)
def test_steps_wait_on_their_target_if_it_sees_all_predecessors(
    tmp_path: Path, store: RunStore, last: dict[str, Any], *, waits: bool
) -> None:
    data = {"command": "true", "outputs": {"d": {}}}
    named = {"data": data, "train": {**TRAIN, "after": "data"}, "last": {"command": "true", **last}}
    prepared = prepare_steps(load_job(write(tmp_path, named, template="plain")), store)
    known = {each["name"]: each for each in json.loads(prepared.files[STEPS_FILE])["steps"]}
    assert (known["train"]["waits"], known["last"]["waits"]) == (True, waits)


SSH = {"name": "pair", "engine": "ssh", "ssh": {"host": "h", "user": "u", "shared": "/s"}}
CLUSTER = {"host": "h", "user": "u", "shared": "/s", "partition": "a"}
SLURM = {"name": "nd", "engine": "slurm", "slurm": CLUSTER}
POOL = {"name": "pool", "engine": "batch", "batch": {"endpoint": "e", "pool": "p", "identity": "i"}}
LOCAL = {"name": "local", "engine": "local"}


@pytest.mark.parametrize(
    ("one", "other", "sees"),
    [
        (LOCAL, LOCAL, True),
        (LOCAL, SSH, False),
        (SSH, LOCAL, False),
        (SSH, SSH, True),
        (SSH, SLURM, False),
        (SLURM, {**SLURM, "name": "cpu", "slurm": {**CLUSTER, "partition": "b"}}, True),
        (SLURM, {**SLURM, "slurm": {**CLUSTER, "shared": "/t"}}, False),
        (SLURM, {**SLURM, "environment": "prod"}, False),
        (POOL, POOL, False),
    ],
)
def test_engine_waits_only_for_runs_that_its_target_sees(
    one: dict[str, Any], other: dict[str, Any], *, sees: bool
) -> None:
    here, there = (
        Target.model_validate({"nodes": {"min": 0, "max": 1}, **each}) for each in (one, other)
    )
    assert engine_for(here).waits_for(there) is sees


def test_engine_of_this_machine_refuses_to_wait_for_a_remote_run(make_run: MakeRun) -> None:
    run = make_run("there-a", engine="ssh", target="pair")
    with pytest.raises(UserError, match="there-a runs on `pair`, not on this machine"):
        engine_for(Target.local()).predecessor(run)
