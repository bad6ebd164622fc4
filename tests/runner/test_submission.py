"""Submissions: refusals before anything is written, chosen run ids, and limits on a run's cost."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway
from targets import target_of

from fairway_agent.spec import Budget, Staged
from fairway_core.cost.meters import VARIABLE
from fairway_core.cost.service import PriceService
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.local import LocalEngine
from fairway_runner.engines.remote.engine import RemoteEngine
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.runs.folder import TakenId
from fairway_runner.runs.records import read_plan
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.submit.prepare import PreparedRun, prepare
from fairway_runner.submit.run_plan import (
    Inputs,
    budget_of,
    inputs_of,
    require_readable,
    secret_values,
)
from fairway_runner.submit.submission import (
    error_with_state,
    find_recorded,
    repeat,
    require_run_id,
)


def _pool(**fields: Any) -> Target:
    return target_of("batch", {"endpoint": ""}, name="pool", **fields)


def _job(folder: Path, target: Target, **fields: Any) -> tuple[JobFile, Job]:
    file = folder / "job.yaml"
    file.write_text(json.dumps({"name": "a", "command": "true", **fields}, indent=1))
    job_file = load_job(file)
    return job_file, job_file.resolve(target)


def test_error_of_a_cancelled_submission_does_not_say_to_resume_it(make_run: MakeRun) -> None:
    run = make_run("job-a")
    ids = [
        [each.id for each in error_with_state(run, UserError.of(id_, "no")).findings]
        for id_ in ("cancelled-run", "host-failed")
    ]
    assert ids == [["cancelled-run"], ["host-failed", "cut-off-submission"]]


WORDS = {"from": "datasets:words/", "stage": "scratch"}


def test_input_from_a_container_is_staged_or_a_local_folder(tmp_path: Path) -> None:
    target = _pool(storage={"containers": ["datasets"]}, mounts={"data": "/data"})
    inputs = {"words": WORDS, "train": "data:/train"}
    job_file, job = _job(tmp_path, target, inputs=inputs)
    entry = Staged("words", "datasets", "words/", "scratch")
    found = inputs_of(job_file, job, target)
    assert found == Inputs({"FAIRWAY_INPUT_TRAIN": "/data/train"}, [entry])
    (tmp_path / "sets" / "words").mkdir(parents=True)
    target = Target.local().model_copy(update={"mounts": {"datasets": str(tmp_path / "sets")}})
    job_file, job = _job(tmp_path, target, inputs={"words": WORDS})
    found = Inputs({"FAIRWAY_INPUT_WORDS": str(tmp_path / "sets" / "words")})
    assert inputs_of(job_file, job, target) == found


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"from": "dataset:words/"}, "no storage container `dataset`"),
        ("datasets:words/", "`datasets` is a storage container"),
        ("dta:words/", "no mount `dta`"),
    ],
)
def test_input_that_is_unknown_is_refused_at_its_line(
    tmp_path: Path, source: object, message: str
) -> None:
    target = _pool(storage={"containers": ["datasets"]}, mounts={"data": "/data"})
    job_file, job = _job(tmp_path, target, inputs={"words": source})
    location = refused(lambda: inputs_of(job_file, job, target), message).location
    assert location is not None
    assert "words" in location.text or "from" in location.text


@pytest.mark.parametrize(
    ("target", "source", "message"),
    [
        (Target.local(), "keyvault:wandb", "`local` has no identity"),
        (_pool(vault_url="https://v"), "env:WANDB", "is not sent to `pool`"),
        (_pool(), "keyvault:wandb", "has no vault"),
    ],
)
def test_secret_that_the_target_cannot_read_is_refused(
    target: Target, source: str, message: str
) -> None:
    refused(lambda: require_readable({"WANDB": source}, target), message)


def test_secret_that_is_missing_or_short_is_refused_at_its_place(tmp_path: Path) -> None:
    require_readable({"WANDB": "env:WANDB"}, Target.local())
    require_readable({"WANDB": "keyvault:wandb"}, _pool(vault_url="https://v"))
    file = tmp_path / "job.yaml"
    file.write_text("name: job\ncommand: 'true'\nsecrets: {A: env:X, B: env:Y, C: env:Z}\n")
    job = load_job(file)
    sources = {"A": "env:X", "B": "env:Y", "C": "env:Z"}
    with pytest.raises(UserError) as raised, job.document.locating():
        secret_values(sources, {"Y": " abc\n", "Z": "long enough"})
    missing, short = raised.value.findings
    assert (missing.id, missing.path) == ("no-secret", "secrets.A")
    assert missing.location is not None
    assert (missing.location.line, missing.location.column) == (3, 14)
    assert (short.id, short.path) == ("short-secret", "secrets.B")
    assert "abc" not in short.message + short.hint
    assert secret_values({"C": "env:Z"}, {"Z": "long enough"}) == {"C": "long enough"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("container", {"image": "-x"}),
        ("inputs", {"a": {"from": "run"}}),
        ("inputs", {"a": {"from": "datasets"}}),
        ("inputs", {"a": {"from": "datasets:../x"}}),
    ],
)
def test_submission_refuses_invalid_values(tmp_path: Path, field: str, value: object) -> None:
    refused(lambda: _job(tmp_path, _pool(), **{field: value}))


def test_submission_records_the_release_command_of_a_job_that_has_one(
    tmp_path: Path, store: RunStore
) -> None:
    for release in (None, "rm -r /scratch/cache"):
        setup = {"command": "true", "release": release}
        job_file, _ = _job(tmp_path, _pool(), setup=setup, template="plain")
        lines = prepare(job_file, _pool(), store, asks=False).lines
        assert "setup.jsonl" in lines
        assert ("release.jsonl" in lines) is (release is not None)
    assert "rm -r /scratch/cache" in str(lines["release.jsonl"])


@pytest.mark.parametrize(
    ("priority", "number"), [("low", -500), ("normal", 0), ("high", 500), (-7, -7)]
)
def test_priority_of_each_form_has_a_number(tmp_path: Path, priority: object, number: int) -> None:
    assert _job(tmp_path, _pool(), priority=priority)[1].priority_number == number


def test_submission_with_the_same_job_and_id_finds_the_earlier_run(
    tmp_path: Path, store: RunStore
) -> None:
    def prepared(run_id: str, **fields: Any) -> PreparedRun:
        job_file, _ = _job(tmp_path, Target.local(), **fields)
        return prepare(job_file, Target.local(), store, run_id=run_id)

    made = prepared("chosen")
    run, lock = store.create(made.record, made.all_files())
    os.close(lock)
    assert find_recorded(made, store) == run
    assert find_recorded(prepared("another"), store) is None
    refused(lambda: find_recorded(prepared("chosen", note="another"), store), "is of another job")
    with pytest.raises(TakenId) as caught:
        store.create(made.record, {})
    assert (caught.value.findings[0].id, caught.value.exit_code) == ("taken-run-id", 2)


@pytest.mark.parametrize("run_id", ["", "A", "1a", "a/b", "a b", "../a", "a" * 64])
def test_submission_with_an_invalid_run_id_is_refused(run_id: str) -> None:
    refused(lambda: require_run_id(run_id), "is not a run's id")


def test_submission_that_loses_a_race_for_its_id_returns_the_existing_run(
    tmp_path: Path, here: RunFairway, monkeypatch: pytest.MonkeyPatch, store: RunStore
) -> None:
    """Both commands have found no such run."""
    (tmp_path / "job.yaml").write_text("name: a\ncommand: 'true'\n")
    words = ("submit", str(tmp_path / "job.yaml"), "--run-id", "a-1", "--quiet")
    assert here(*words)[:2] == (0, "a-1\n")
    begun = store.find("a-1").record
    looks: list[Run | None] = []

    def seen(*arguments: Any) -> Run | None:
        looks.append(find_recorded(*arguments) if looks else None)
        return looks[-1]

    monkeypatch.setattr("fairway_runner.submit.submission.find_recorded", seen)
    assert here(*words)[:2] == (0, "a-1\n")
    assert len(looks) == 2
    assert store.find("a-1").record == begun
    assert [each.name for each in store.folder.iterdir()] == ["a-1"]


@pytest.mark.parametrize("words", ["submit job.yaml --run-id a-2", "rerun a-1"])
def test_submission_interrupted_by_ctrl_c_names_the_recorded_run(
    tmp_path: Path,
    here: RunFairway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    store: RunStore,
    words: str,
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\ncommand: 'true'\n")
    assert here("submit", "job.yaml", "--run-id", "a-1")[0] == 0

    def interrupted(_: object, run: Run, lock: int, *__: object) -> None:
        os.close(lock)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalEngine, "start", interrupted)
    assert here(*words.split())[:2] == (130, "")
    left = next(each.id for each in store.unsorted() if each.id != "a-1")
    said = f"{left} is recorded, and may have started; see: fairway show {left}"
    assert said in caplog.messages


def test_submission_that_is_repeated_waits_for_the_first(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("a-1", [{"state": "queued"}], "queued", engine="slurm")
    lock = run.take_lock()

    def ended(_: Run) -> None:
        (run.folder / "state.json").write_text('{"state": "succeeded"}')
        os.close(lock)

    monkeypatch.setattr(Run, "await_lock", ended)
    assert repeat(run) is run
    os.close(run.take_lock())


def test_submission_dry_run_refuses_a_taken_id(
    tmp_path: Path, here: RunFairway, make_run: MakeRun
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\ncommand: 'true'\n")
    make_run("night-1")
    words = ("submit", str(tmp_path / "job.yaml"), "--run-id")
    for more in ((), ("--dry-run",)):
        done = here(*words, "night-1", *more)
        ends(done, 2, "the run `night-1` is of another job, or on another target", printed="")
    assert here(*words, "night-2", "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("asks", "copies", "connects"),
    [(True, True, 1), (True, False, 0), (False, True, 0), (False, False, 0)],
)
def test_submission_connects_early_only_if_it_will_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asks: bool, copies: bool, connects: int
) -> None:
    """A dry run, a job with several possible targets, and a refused job do not connect."""
    begun: list[str] = []
    noted = lambda engine: begun.append(engine.target.name)  # noqa: E731
    monkeypatch.setattr(RemoteEngine, "begin_connection", noted)
    target = target_of("slurm")
    store = RunStore(tmp_path / ".fairway")
    job_file, _ = _job(tmp_path, target)
    prepare(job_file, target, store, asks=asks, copies=copies)
    assert begun == ["nd"] * connects
    job_file, _ = _job(tmp_path, target, secrets={"TOKEN": "env:TOKEN"})
    refused(lambda: prepare(job_file, target, store, asks=asks, copies=copies))
    assert begun == ["nd"] * connects


def test_rerun_does_not_record_targets_passed_over_by_the_earlier_run(
    tmp_path: Path, here: RunFairway, store: RunStore
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\ntemplate: plain\ncommand: 'true'\n")
    assert here("submit", str(tmp_path / "job.yaml"), "--run-id", "a-1")[0] == 0
    known = store.find("a-1").folder / "provenance.json"
    known.write_text(json.dumps(json.loads(known.read_text()) | {"passed_over": {"nd": "full"}}))
    for more in ((), ("-s", "timeout=1h")):
        code, out, _ = here("rerun", "a-1", *more, "--json")
        assert code == 0
        file = store.folder / json.loads(out)["run_id"] / "provenance.json"
        facts = json.loads(file.read_text())
        assert facts["rerun_of"] == "a-1"
        assert "passed_over" not in facts


PAIR: dict[str, Any] = {
    "name": "pair",
    "engine": "ssh",
    "nodes": {"min": 2, "max": 2},
    "ssh": {"host": "h", "user": "u", "shared": "/data/fairway"},
}
DEPLOYED = {**PAIR, "environment": "lab", "vm_size": "Standard_ND96isr_H100_v5"}
JOB = Job.model_validate({"name": "a", "command": "true", "max_cost": 200})


@pytest.fixture(autouse=True)
def _nobody_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9/prices")


def _priced(facts: dict[str, Any], **more: Any) -> Target:
    return Target.model_validate({**facts, **more})


def test_max_cost_uses_the_price_of_the_target_or_its_size_and_is_in_the_plan(
    tmp_path: Path,
) -> None:
    assert budget_of(JOB, _priced(PAIR, price=12.5)) == Budget(200.0, "USD", 12.5)
    # The price in the catalogue's snapshot of prices.
    known = budget_of(JOB, _priced(DEPLOYED, region="eastus"))
    assert (known.hourly, known.node_seconds) == (98.32, pytest.approx(200 / 98.32 * 3600))
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ntemplate: plain\ncommand: 'true'\nmax_cost: 0.5\n")
    local = Target.local().model_copy(update={"price": 3600.0})
    prepared = prepare(load_job(file), local, RunStore(tmp_path / ".fairway"))
    (tmp_path / "plan.json").write_text(prepared.plan.text())
    assert read_plan(tmp_path).max_cost == Budget(0.5, "USD", 3600.0)
    plain = prepare(load_job(file, ["max_cost=null"]), local, RunStore(tmp_path / ".fairway"))
    assert json.loads(plain.plan.text())["max_cost"] is None


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        (PAIR, "price: 12.5"),
        (DEPLOYED, "fairway targets sync"),
        ({**DEPLOYED, "region": "southcentralus"}, "-s max_cost=null -s max_duration=SPAN"),
        ({"name": "local", "engine": "local", "nodes": {"min": 1, "max": 9}}, "price: 12.5"),
    ],
)
def test_max_cost_without_a_known_price_is_refused(
    facts: dict[str, Any], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = partial(PriceService, wait=lambda _: None)
    monkeypatch.setattr("fairway_core.cost.service.PriceService", service)
    unknown = r"the price of a node of `(pair|local)` is not known"
    assert hint in refused(lambda: budget_of(JOB, _priced(facts)), unknown, 2).hint
