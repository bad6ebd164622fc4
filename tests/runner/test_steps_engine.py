"""Start and end of a run's steps, also if an error affects one of them."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_agent.spec import Output, Retry, RunPlan, TaskSpec
from fairway_boot.files import try_lock
from fairway_core.findings import UserError
from fairway_runner.engines import steps
from fairway_runner.engines import workflow as standing
from fairway_runner.engines.engine import engine_of_steps
from fairway_runner.engines.outage import FAILED_PREDECESSOR, RunRefused, TargetUnavailable
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.clean import removable
from fairway_runner.runs.folder import steps_to_begin
from fairway_runner.runs.outputs import fetch
from fairway_runner.runs.records import (
    STEPS_ENGINE,
    STEPS_FILE,
    STEPS_LOCK,
    StepRecord,
    known_task,
    steps_text,
)
from fairway_runner.runs.store import Run, RunRecord, RunStore
from fairway_runner.runs.view import input_facts
from fairway_runner.submit.steps import prepare_steps

NAMES = ("one", "two")


@pytest.fixture
def whole(store: RunStore) -> Run:
    """A run of two independent steps."""
    return written(store, *(StepRecord(name, f"pipe-a-{name}", "local", {}) for name in NAMES))


@pytest.fixture
def waiting(store: RunStore) -> Run:
    """A run of two steps, the second of which waits for the first on its target."""
    first = StepRecord("one", "pipe-a-one", "local", {})
    second = StepRecord("two", "pipe-a-two", "local", {"one": "succeeded"}, waits=True)
    return written(store, first, second)


def written(store: RunStore, *steps: StepRecord) -> Run:
    """Creates a run of these steps, none of which has begun."""
    lines = [TaskSpec(index=i, nodes=0, params={"step": n}).line() for i, n in enumerate(NAMES)]
    files = {
        STEPS_FILE: steps_text(steps),
        "plan.json": RunPlan(run="pipe-a", directory="code", tasks=2).text(),
        "tasks.jsonl": "".join(lines),
    }
    return created(store, "pipe-a", files, tasks=2, engine=STEPS_ENGINE)


def created(store: RunStore, run_id: str, files: dict[str, str], **facts: Any) -> Run:
    """Creates a run of which nothing has begun."""
    known = {"name": "pipe", "target": "local", "created": 1e9, "job_file": "x", "fairway": "0"}
    known |= {"tasks": 1, **facts}
    files = {"job.json": json.dumps({"name": "pipe"}), **files}
    run, lock = store.create(RunRecord(id=run_id, **known), files)
    os.close(lock)
    return run


def step_of(store: RunStore, name: str, state: str = "queued", **facts: Any) -> Run:
    """Creates the run of a step, in the given state."""
    origin = {"code": "c" * 64, "step": {"of": "pipe-a", "name": name}}
    run = created(store, f"pipe-a-{name}", {"provenance.json": json.dumps(origin)}, **facts)
    (run.folder / "state.json").write_text(json.dumps({"state": state}))
    return run


def states(run: Run) -> list[str]:
    """Returns the state of each step."""
    known = [known_task(run.task_folder(index)) for index in range(len(NAMES))]
    return [each.state if each else "queued" for each in known]


@dataclass
class Starting:
    """A stand-in for the start of steps, which are in `state` at once, or fail with their error.
    `begun` has the started steps, each with its predecessors' runs."""

    errors: dict[str, UserError] = field(default_factory=dict)
    state: str = "succeeded"
    begun: list[tuple[str, list[str]]] = field(default_factory=list)

    def __call__(self, _: Run, step: StepRecord, store: RunStore, before: Sequence[Run]) -> Run:
        if error := self.errors.get(step.name):
            raise error
        self.begun.append((step.name, [each.id for each in before]))
        return step_of(store, step.name, self.state)


def test_logs_of_a_step_with_several_tasks_are_those_of_its_run(
    whole: Run, store: RunStore, here: RunFairway
) -> None:
    own = step_of(store, "two", "succeeded", tasks=2)
    for number in range(2):
        own.task_folder(number).mkdir(parents=True)
        own.log(number).write_text(f"line {number}\n")
    standing.WorkflowState.of(whole).look(1)
    ends(here("logs", whole.id, "--task", "two"), 0, printed="[0] line 0\n[1] line 1\n")
    assert [each.text for each in whole.logs(task="two", grep="1")] == ["line 1"]
    ends(here("logs", whole.id, "--task", "tow"), 2, "did you mean `two`?")
    ends(here("best", whole.id), 2, "[several-steps]", own.id)


def test_steps_are_found_by_id_prefix_and_fetched_only_once_begun(
    whole: Run, tmp_path: Path, store: RunStore
) -> None:
    refused(lambda: fetch(whole, tmp_path / "kept"), "no step of pipe-a has kept anything yet")
    with pytest.raises(UserError, match=f"the step {NAMES[0]} of pipe-a has kept nothing yet"):
        fetch(whole, tmp_path / "kept", NAMES[0])
    assert not (tmp_path / "kept").exists()
    step_of(store, "one")
    step_of(store, "two")
    assert store.find("pipe").id == whole.id
    assert store.find("pipe-a-o").id == "pipe-a-one"
    created(store, "pipe-b", {})
    refused(lambda: store.find("pipe"), "it matches 4 runs")


def test_steps_follow_retries_a_step_after_a_fixable_error(
    whole: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error does not stop the other step, and the failed start is tried again."""
    errors = {"one": UserError.of("no-secret", "the variable TOKEN is not set")}
    monkeypatch.setattr(standing, "start_step", Starting(errors))
    refused(lambda: whole.follow(), "TOKEN")
    assert states(whole) == ["queued", "succeeded"]
    assert whole.state == "running"
    errors.clear()
    whole.follow()
    assert states(whole) == ["succeeded", "succeeded"]
    assert whole.state == "succeeded"


def test_steps_follow_resumes_a_recorded_step_that_was_not_sent(
    whole: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command sends the step. Otherwise it could run beside a run reported as failed."""

    def cut_off(_: Run, step: StepRecord, store: RunStore, before: Sequence[Run]) -> Run:
        if step.name == "one":
            step_of(store, "one", engine="ssh")
            raise UserError.of("unwritable-folder", "nothing can be written there")
        return step_of(store, step.name, "succeeded")

    monkeypatch.setattr(standing, "start_step", cut_off)
    sent: list[str] = []
    monkeypatch.setattr(steps, "resume", lambda run: sent.append(run.id))
    refused(lambda: whole.follow(), "nothing can be written")
    assert states(whole) == ["queued", "succeeded"]
    whole.follow()
    assert sent == ["pipe-a-one"]
    # A retry of the step may be cut off too, while the same process follows the run.
    whole.follow()
    assert sent == ["pipe-a-one", "pipe-a-one"]


def test_steps_refresh_removes_an_unstarted_step_only_with_the_lock(
    whole: Run, store: RunStore
) -> None:
    """Without the lock, another command may just have started the step anew."""
    half = step_of(store, "one")
    lock = try_lock(whole.folder / STEPS_LOCK)
    assert lock is not None
    whole.refresh()
    assert half.folder.exists()
    os.close(lock)
    whole.refresh()
    assert not half.folder.exists()
    assert states(whole) == ["queued", "queued"]


def test_steps_cancel_ends_reachable_steps_and_the_others_later(
    whole: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others end once their target answers; a step to be cancelled is never sent."""
    going = [step_of(store, name, "running") for name in NAMES]
    locks = [run.take_lock() for run in going]
    away = {"pipe-a-one"}

    def cancel(run: Run) -> None:
        if run.id == whole.id:
            engine_of_steps().cancel(run)
        elif run.id in away:
            raise TargetUnavailable.of("no-connection", "it does not answer", exit_code=5)
        else:
            (run.folder / "state.json").write_text('{"state": "cancelled", "started": 1.0}')

    def resume(run: Run) -> Run:
        raise AssertionError(run.id)

    monkeypatch.setattr(Run, "cancel", cancel)
    monkeypatch.setattr(steps, "resume", resume)
    refused(lambda: whole.cancel(), "does not answer")
    assert states(whole) == ["running", "cancelled"]
    away.clear()
    whole.follow()
    assert states(whole) == ["cancelled", "cancelled"]
    assert whole.state == "cancelled"
    for lock in locks:
        os.close(lock)


def test_steps_follow_refuses_a_foreign_run_with_the_id_of_a_step(
    whole: Run, store: RunStore
) -> None:
    step_of(store, "two", "succeeded")
    created(store, "pipe-a-one", {"provenance.json": json.dumps({"code": "c" * 64})})
    refused(lambda: whole.follow(), "`pipe-a-one` already exists")
    assert states(whole) == ["queued", "succeeded"]


def test_steps_retry_continues_with_other_steps_if_one_is_refused(
    whole: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that could be started is followed to its end."""
    errors = {"one": RunRefused.of("no-input", "gone"), "two": RunRefused.of("no-input", "gone")}
    monkeypatch.setattr(standing, "start_step", Starting(errors))
    whole.follow()
    assert (whole.state, states(whole)) == ("failed", ["failed", "failed"])
    assert whole.status.reason == "the step one failed: gone"
    step_of(store, "one", "failed")

    def again(run: Run) -> list[int]:
        raise RunRefused.of("no-input", f"{run.id} has no input")

    monkeypatch.setattr(steps, "run_again", again)
    errors.clear()
    (whole.folder / "retry.json").write_text(json.dumps(Retry(only=(0, 1)).to_json()))
    with pytest.raises(UserError, match="pipe-a-one has no input"):
        whole.engine.start(whole, whole.take_lock(), whole.folder, {}, retry=True)
    assert states(whole) == ["failed", "succeeded"]


def test_steps_input_run_is_kept_until_its_step_has_read_it(
    store: RunStore, make_run: MakeRun, tmp_path: Path
) -> None:
    data = make_run("data-a")
    spec = TaskSpec(index=0, nodes=1, outputs={"images": Output("**", "success")})
    (data.folder / "tasks.jsonl").write_text(spec.line())
    kept = data.folder / "tasks/0/outputs/images"
    kept.mkdir(parents=True)
    (kept / "x").write_text("x")
    inputs = {"images": {"from": "run", "run": "data-a"}}
    named = {"first": {}, "last": {"after": "first", "inputs": inputs}}
    job = tmp_path / "steps.yaml"
    common = {"name": "pipe", "template": "plain", "command": "true"}
    job.write_text(json.dumps({**common, "steps": named}))
    prepared = prepare_steps(load_job(job), store, run_id="pipe-a")
    run, lock = store.create(prepared.record, prepared.all_files())
    os.close(lock)
    assert input_facts(run)["last.images"] == {"run": "data-a", "task": "0", "output": "images"}
    make_run("pipe-a-first")
    for needed in ("data-a", "pipe-a-first"):
        why = f"pipe-a, which has not ended, needs outputs of {needed}"
        with pytest.raises(UserError, match=why):
            removable(store, [needed])


def test_steps_cancel_of_an_unstarted_step_lets_the_others_continue(
    whole: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.cancel("two")
    assert states(whole) == ["queued", "cancelled"]
    assert (whole.folder / "tasks" / "1" / "state.json").exists()
    status = known_task(whole.task_folder(1))
    assert status.reason == "cancelled before it began"
    monkeypatch.setattr(standing, "start_step", Starting())
    engine_of_steps().go_on(whole)
    assert states(whole) == ["succeeded", "cancelled"]
    whole.cancel("one")  # step one has ended and keeps its state
    assert states(whole) == ["succeeded", "cancelled"]
    refused(lambda: whole.cancel("three"), "has no task three")


def test_steps_follow_submits_a_waiting_step_while_its_predecessor_runs(
    waiting: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks: list[int] = []
    start = Starting(state="running")

    def watched(*given: Any) -> Run:
        locks.append((run := start(*given)).take_lock())
        return run

    monkeypatch.setattr(standing, "start_step", watched)
    assert steps_to_begin(waiting) == ["one", "two"]
    waiting.follow()
    waiting.follow()
    assert start.begun == [("one", []), ("two", ["pipe-a-one"])]
    assert steps_to_begin(waiting) == []
    for lock in locks:
        os.close(lock)


def test_steps_follow_makes_a_step_wait_for_all_but_succeeded_predecessors(
    waiting: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry runs an unsuccessful predecessor again, so the waiting step's target must know it."""
    after: dict[str, str | list[int]] = {"one": "succeeded", "three": "failed", "four": "succeeded"}
    names = ("one", "three", "four")
    known = [StepRecord(name, f"pipe-a-{name}", "local", {}) for name in names]
    known.append(StepRecord("two", "pipe-a-two", "local", after, waits=True))
    (waiting.folder / STEPS_FILE).write_text(steps_text(known))
    lock = step_of(store, "one", "running").take_lock()
    step_of(store, "three", "failed")
    step_of(store, "four", "succeeded")
    monkeypatch.setattr(standing, "start_step", start := Starting(state="cancelled"))
    waiting.follow()
    assert start.begun == [("two", ["pipe-a-one", "pipe-a-three"])]
    os.close(lock)


@pytest.mark.parametrize(
    ("state", "how", "whole"),
    [
        ("failed", "failed with exit code 5", ("failed", 5)),
        ("cancelled", "did not begin", ("succeeded", 0)),
    ],
)
def test_steps_follow_leaves_out_a_cancelled_waiting_step_with_its_reason(
    waiting: Run, store: RunStore, state: str, how: str, whole: tuple[str, int]
) -> None:
    step_of(store, "one", state)
    own = step_of(store, "two", "cancelled")
    waiting.follow()
    known = known_task(waiting.task_folder(1))
    assert (known.state, known.reason) == ("cancelled", f"left out: one {how}")
    assert (waiting.state, waiting.exit_code) == whole
    assert not standing.has_begun(own)


@pytest.mark.parametrize("is_refused", [False, True])
def test_steps_follow_leaves_out_a_waiting_step_only_after_its_predecessors_end(
    waiting: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    """The step may have been refreshed after them, or its target may be the first to see an end."""
    first = step_of(store, "one", "running")
    lock = first.take_lock()
    if is_refused:
        error = RunRefused.of(FAILED_PREDECESSOR, "`after`: pipe-a-one failed")
        monkeypatch.setattr(standing, "start_step", Starting({"two": error}))
    else:
        step_of(store, "two", "cancelled")
    waiting.follow()
    assert states(waiting) == ["running", "queued"]
    (first.folder / "state.json").write_text(json.dumps({"state": "failed"}))
    os.close(lock)
    waiting.follow()
    assert states(waiting) == ["failed", "cancelled"]


def test_steps_cancel_ends_waiting_steps_before_their_predecessors(
    waiting: Run, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = [step_of(store, name, "running").take_lock() for name in NAMES]
    ended: list[str] = []

    def cancel(run: Run) -> None:
        if run.id == waiting.id:
            engine_of_steps().cancel(run)
        else:
            ended.append(run.id)
            (run.folder / "state.json").write_text('{"state": "cancelled"}')

    monkeypatch.setattr(Run, "cancel", cancel)
    waiting.cancel()
    assert ended == ["pipe-a-two", "pipe-a-one"]
    assert (waiting.state, states(waiting)) == ("cancelled", ["cancelled", "cancelled"])
    for lock in locks:
        os.close(lock)
