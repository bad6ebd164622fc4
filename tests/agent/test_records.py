"""Records of files and messages: round trips through their types, and errors of damaged ones."""

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_agent import job_facts, records, state_files
from fairway_agent.records import InvalidRecord, JsonRecord
from fairway_agent.resources import ResourceRequest
from fairway_agent.spec import (
    Best,
    Budget,
    IdleGpu,
    Output,
    Receiver,
    Retry,
    RunOutputInput,
    RunPlan,
    Staged,
    TaskSpec,
)
from fairway_agent.state_files import RunState, TaskState
from fairway_boot.files import AgentError


@dataclass(frozen=True, slots=True)
class Node(JsonRecord, label="a node"):
    name: str
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Answer(JsonRecord, label="the answer"):
    nodes: tuple[Node, ...]
    time: float
    is_up: bool
    last: Node | None
    by_run: Mapping[str, Node | None] = field(default_factory=dict)
    held: tuple[tuple[str, ...], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    more: object = None


LEAST = {"nodes": [], "time": 1, "is_up": True, "last": None}
NODES = st.builds(Node, st.text(max_size=4), st.integers(0, 99))
SECONDS = st.floats(0, 1e15)
ANSWERS = st.builds(
    Answer,
    *(st.lists(NODES, max_size=2).map(tuple), SECONDS, st.booleans(), st.none() | NODES),
    by_run=st.dictionaries(st.text(max_size=4), st.none() | NODES, max_size=2),
    held=st.lists(st.lists(st.text(max_size=4), max_size=2).map(tuple), max_size=2).map(tuple),
    sizes=st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
    reason=st.none() | st.text(max_size=4),
    more=st.none() | st.dictionaries(st.text(max_size=4), st.lists(st.integers() | st.text())),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@tried
@given(st.data(), ANSWERS)
def test_json_record_round_trips_and_a_damaged_one_is_refused_or_valid(
    data: st.DataObject, whole: Answer
) -> None:
    """Arbitrary JSON replaces an arbitrary part of the record."""
    facts = json.loads(json.dumps(whole.to_json()))
    assert Answer.from_json(facts) == whole
    place = facts
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    read, said = whole, ""
    try:
        read = Answer.from_json(facts)
    except InvalidRecord as invalid:
        said = str(invalid)
    assert said.isprintable()
    assert repr(Answer.from_json(json.loads(json.dumps(read.to_json())))) == repr(read)


def test_json_record_uses_defaults_ignores_unknown_fields_and_refuses_a_newer_plan() -> None:
    assert Answer.from_json({**LEAST, "newer": 1}) == Answer((), 1.0, is_up=True, last=None)
    facts = {**written(PLAN), "version": 2, "grace": {"of": "another kind"}}
    with pytest.raises(InvalidRecord, match="its version is 2, and this release reads 1"):
        RunPlan.from_json(facts)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"nodes": None}, "`nodes` of the answer is None"),
        ({"nodes": [3]}, "a node is not a mapping"),
        ({"nodes": [{"gpus": 8}]}, "`name` of a node is missing"),
        ({"nodes": [{"name": "a", "gpus": True}]}, "`gpus` of a node is True"),
        ({"nodes": [{"name": "a", "gpus": -1}]}, "`gpus` of a node is -1"),
        ({"nodes": [{"name": "a", "gpus": 1.5}]}, "`gpus` of a node is 1.5"),
        ({"nodes": [{"name": ["\x1b[2J"]}]}, "`name` of a node is"),
        ({"time": float("nan")}, "`time` of the answer is nan"),
        ({"time": 10**400}, "`time` of the answer is 1000"),
        ({"is_up": 1}, "`is_up` of the answer is 1"),
        ({"by_run": []}, r"`by_run` of the answer is \[\]"),
        ({"by_run": {"a": {}}}, "`name` of a node is missing"),
        ({"held": ["7"]}, "`0` of `held` of the answer is 7"),
        ({"held": [["a", 7]]}, "`1` of `0` of `held` of the answer is 7"),
        ({"sizes": {"a": "x"}}, "`a` of `sizes` of the answer is x"),
        ({"sizes": {"\x1b[2J": "x"}}, "` of `sizes` of the answer is x"),
        ({"reason": 7}, "`reason` of the answer is 7"),
    ],
)
def test_json_record_names_a_field_of_the_wrong_type(facts: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidRecord, match=said) as caught:
        Answer.from_json({**LEAST, **facts})
    assert "\x1b" not in str(caught.value)


BEST = Best("loss", "loss=([0-9.]+)", lower=True)
PLAN = RunPlan(
    run="job-abc",
    directory="/data/code",
    tasks=3,
    max_parallel=2,
    after=("job-def",),
    conditions={"job-def": [3]},
    needs=("mpirun",),
    retries=1,
    retry_limits={"node": 3, "preemption": 10},
    timeout=60.0,
    max_duration=3600.0,
    max_cost=Budget(200.0, "USD", 12.5),
    idle_gpu=IdleGpu(5.0, 1800.0, "cancel"),
    sample_every=2.0,
    signal="USR1",
    grace=5.0,
    secrets=("TOKEN",),
    notify=Receiver("https://example.org/x", ("failed",), "json", "TOKEN"),
    environment={"PATH": "/bin"},
    staged=(Staged("a", "c", "p/", "scratch"), Staged("b", "c", "q", "shared", "/data/b")),
    run_inputs=(RunOutputInput("m", "runs/a-1/tasks/*/outputs/m", best=BEST),),
)
SPEC = TaskSpec(
    index=2,
    nodes=4,
    processes_per_node=8,
    script="true\n",
    params={"lr": 0.1, "layers": [1, 2]},
    outputs={
        "model": Output("model/**", "success", required=True),
        "logs": Output("a/*", "always", ("b",), ("*.tmp",)),
    },
    checkpoint="/data/checkpoints",
    environment={"OMP_NUM_THREADS": "1"},
    wanted=ResourceRequest(gpus=1, cores=3),
)
RUN = RunState("failed", "task 1 failed", 1e9, 1e9 + 5, 17, 2, {"failed": 1}, 124)
TASK = TaskState(
    state="failed",
    attempt=1,
    started=1e9,
    ended=1e9 + 5,
    held=9.5,
    exit_code=-9,
    timed_out=False,
    reason="its node failed",
    node="n1,n2",
    log_size=7,
    job="12_3",
    submission=1,
    requeues=2,
    stopped=True,
)
RETRY = Retry((0, 2), {"failed": 1}, is_set_up=True, after=(), submission=3)
WRONG = ("text", -1.5, 1e300, 10**400, float("nan"), {"a": {}}, [3])
TEXTS = ("reason", "node", "job", "task", "limit")


def written(record: JsonRecord) -> Any:
    return json.loads(json.dumps(record.to_json()))


@pytest.mark.parametrize(
    "record",
    [
        *(PLAN, SPEC, TaskSpec("setup"), TaskSpec("finally"), RETRY, Retry(())),
        *(RUN, RunState(), TASK, TaskState(), TaskState("running", best={"m": (2, 0.5)})),
    ],
)
def test_records_of_a_run_round_trip(record: JsonRecord) -> None:
    assert type(record).from_json(written(record)) == record
    assert type(record).from_json({**written(record), "more": {"a": 1}}) == record


@pytest.mark.parametrize(
    ("record", "name", "value"),
    [
        *((PLAN, "conditions", {"job-def": bad}) for bad in ("lost", [], ["3"], [True], 3, None)),
        (PLAN, "max_cost", {"most": 1.0, "currency": "USD", "hourly": 0}),
        (PLAN, "idle_gpu", {"below": 5, "seconds": 9, "then": "shrug"}),
        (PLAN, "idle_gpu", {"below": -1, "seconds": 9, "then": "warn"}),
        (PLAN, "run_inputs", [{"name": "m", "path": "a", "best": {"metric": "m", "pattern": "a"}}]),
        (PLAN, "staged", [{"name": "a"}]),
        (SPEC, "index", None),
        (SPEC, "index", "other"),
        (SPEC, "params", [3]),
        (SPEC, "outputs", {"model": {"pattern": "x"}}),
        (SPEC, "wanted", {"cores": 0}),
    ],
)
def test_records_of_a_run_refuse_an_invalid_value(
    record: JsonRecord, name: str, value: object
) -> None:
    with pytest.raises(InvalidRecord, match=" of "):
        type(record).from_json({**written(record), name: value})


@pytest.mark.parametrize("state", [RUN, TASK])
def test_records_of_a_run_name_a_field_of_the_wrong_type(state: RunState | TaskState) -> None:
    with pytest.raises(InvalidRecord, match="`state` of the state is missing"):
        type(state).from_json({})
    facts = written(state)
    for name in facts:
        for value in WRONG:
            if value == "text" and name in TEXTS:
                continue
            with pytest.raises(InvalidRecord, match=f"`{name}` of "):
                type(state).from_json({**facts, name: value})


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"succeeded": 2}, "succeeded"),
        ({}, "succeeded"),
        ({"succeeded": 1, "cancelled": 1}, "cancelled"),
        ({"cancelled": 1, "lost": 1}, "lost"),
        ({"cancelled": 1, "lost": 1, "failed": 1}, "failed"),
        ({"failed": 0, "succeeded": 1}, "succeeded"),
    ],
)
def test_states_of_tasks_give_an_ended_run_the_worst_of_them(
    counts: dict[str, int], state: str
) -> None:
    assert state_files.end_state(counts) == state
    assert state_files.end_state(counts, setup_failed=True) == "failed"


def test_states_are_either_ongoing_or_final() -> None:
    assert {s for s in state_files.STATES if RunState(s).is_active} == state_files.ACTIVE_STATES
    assert {s for s in state_files.STATES if RunState(s).is_final} == state_files.FINAL_STATES
    assert not state_files.ACTIVE_STATES & state_files.FINAL_STATES
    assert TASK.again == TaskState("queued", attempt=1, held=9.5)
    assert (TASK.attempts, TASK.again.attempts, TaskState().attempts) == (2, 2, 0)
    facts = {"version": 1, "state": "running", "attempt": 0, "started": 5.0}
    assert written(TaskState("running", 0, 5.0)) == facts


@pytest.mark.parametrize("text", ["", "[]", '{"run": "x"', "[" * 100_000])
def test_plan_file_that_is_damaged_is_named_with_a_hint(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(AgentError, match=r"plan\.json: damaged: ") as caught:
        job_facts.read_plan(tmp_path)
    assert caught.value.record["id"] == "damaged-run"
    assert caught.value.record["hint"]


def test_record_that_is_replaced_on_nfs_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bytes | OSError] = [OSError(errno.ESTALE, "Stale file handle"), b'{"a": 1}']

    def read_bytes(_: Path) -> bytes:
        if isinstance(answer := answers.pop(0), OSError):
            raise answer
        return answer

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert records.read(tmp_path / "control.json", dict) == {"a": 1}


def test_plan_is_read_with_its_retry_and_specs_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(PLAN.text())
    assert job_facts.read_plan(tmp_path, retry=True) == PLAN, "nothing says what runs again"
    retry = Retry((1,), {"succeeded": 2}, is_set_up=True, after=(), submission=1)
    (tmp_path / "retry.json").write_text(json.dumps(retry.to_json()))
    read = job_facts.read_plan(tmp_path, retry=True)
    assert (read.after, read.done, read.is_set_up, read.submission) == ((), retry.done, True, 1)
    assert job_facts.read_plan(tmp_path) == PLAN
    assert (PLAN.done, PLAN.is_set_up, PLAN.submission) == ({}, False, 0)
    file = tmp_path / "tasks.jsonl"
    assert list(job_facts.read_specs(file)) == []
    first = TaskSpec(0, script="true").line()
    file.write_text(first + SPEC.line() + "{}\n")
    assert job_facts.read_spec(file, len(first)) == SPEC
    specs = job_facts.read_specs(file)
    assert [next(specs).index, next(specs).index] == [0, 2]
    with pytest.raises(AgentError, match=r"tasks\.jsonl: damaged: `index` of a task is missing"):
        next(specs)


@pytest.mark.parametrize(
    ("state", "codes", "code"),
    [
        ("succeeded", [0, 0], 0),
        ("failed", [0, 7, 9], 7),
        ("cancelled", [143], 130),
        ("lost", [None], 5),
        pytest.param("lost", [137], 5, id="somebody deleted its Job, and its program was killed"),
    ],
)
def test_exit_code_of_a_run_is_that_of_its_first_failed_task_or_of_its_state(
    state: str, codes: list[int | None], code: int
) -> None:
    assert state_files.exit_code_of(RunState(state), codes) == code
