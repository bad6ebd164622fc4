"""States of a pool's runs on this machine while other commands submit, retry or cancel them."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pool import Files, refused
from running import MakeRun
from targets import target_of

from fairway_agent import state_files
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState, TaskState
from fairway_core.findings import Severity
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch import client, poller, states
from fairway_runner.engines.batch.adoption import adopt, note_later, write_history
from fairway_runner.engines.batch.poller import Poller
from fairway_runner.engines.batch.states import cancelled_alone
from fairway_runner.engines.batch.submission import RECORD, State
from fairway_runner.runs.folder import RunFolder
from fairway_runner.runs.records import read_plan
from fairway_runner.runs.store import Run, RunStore

OWN = [{"name": client.CREATED, "value": "1000000000.0"}]
ENDED_JOB = {
    "id": "r-1",
    "state": "completed",
    "metadata": OWN,
    "executionInfo": {"endTime": "2026-01-01T00:00:00Z"},
}
FAILED_TASK = {
    "id": "0",
    "state": "completed",
    "executionInfo": {"exitCode": 1, "startTime": "2026-01-01T00:00:00Z"},
}


STORAGE: Any = SimpleNamespace(blobs=lambda *_: ())
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


@pytest.fixture
def made(make_run: MakeRun) -> Callable[..., Run]:
    """Makes a run whose submission is complete, interrupted (False) or missing (None)."""

    def make(name: str = "r-1", tasks: int = 1, *, complete: bool | None = True) -> Run:
        run = make_run(name, [{"state": "queued"}] * tasks, state="queued", engine="batch")
        (run.folder / "plan.json").write_text(RunPlan(name, "/x").text())
        if complete is not None:
            State(0, jobs=(name,), complete=complete).write(run)
        return run

    return make


def account_that(**answers: Any) -> Any:
    """Returns an account with these answers, or functions that return them, and nothing else."""
    usual = dict.fromkeys(("tasks", "task_file", "preparation", "nodes"), ())
    usual |= {"running_tasks": ({},)}
    return SimpleNamespace(
        **{
            name: said if callable(said) else lambda *_, said=said: said
            for name, said in {**usual, "pool_facts": {}, **answers}.items()
        }
    )


def look(account: Any, *runs: Run) -> None:
    Poller(account, STORAGE).refresh(runs, logs=False)


@pytest.mark.parametrize("others", [0, 3])
def test_batch_run_that_is_submitted_during_a_refresh_is_not_lost(
    made: Callable[..., Run], others: int
) -> None:
    run = made(complete=False)
    found: dict[str, Any] = {}

    def jobs() -> list[Any]:
        found["r-1"] = {"id": "r-1", "state": "active", "metadata": OWN}
        State(0, jobs=("r-1",), complete=True).write(run)
        return []

    def find(name: str) -> Any:
        return found.get(name) if found else jobs() or None

    more = [made(f"o-{number}", complete=None) for number in range(others)]
    look(account_that(jobs=jobs, find_job=find, task_counts={"running": 1}), run, *more)
    assert run.state in ("queued", "running")


@pytest.mark.parametrize(
    "job",
    [
        None,
        {"id": "r-1", "state": "deleting", "metadata": OWN},
        {"id": "r-1", "state": "active"},  # another run has its id now
    ],
)
def test_batch_run_whose_job_was_deleted_is_lost_and_keeps_its_task_counts(
    made: Callable[..., Run], job: Any
) -> None:
    run = made(tasks=2)
    known = RunState("running", started=5.0, tasks={"running": 1, "succeeded": 1})
    state_files.write(run.folder, known)
    look(account_that(find_job=job), run)
    assert (ended := run.status.ended) is not None
    assert run.status == replace(known, state="lost", reason="its job was deleted", ended=ended)


def test_batch_run_retried_during_a_refresh_ignores_the_end_of_its_old_job(
    made: Callable[..., Run],
) -> None:
    run = made()

    def retry_meanwhile(*_: object) -> Any:
        State(1, jobs=("r-1.1",)).write(run)
        return [FAILED_TASK]

    look(account_that(find_job=ENDED_JOB, tasks=retry_meanwhile), run)
    assert (run.state, run.task_status(0).state) == ("queued", "queued")


def test_batch_task_state_keeps_what_a_newer_refresh_of_another_command_wrote(
    made: Callable[..., Run],
) -> None:
    run, state, going = made(), State(0, jobs=("r-1",), complete=True), RunState("running")
    late, other = (Poller(account_that(), STORAGE) for _ in range(2))
    runs = TaskState("running", attempt=1, started=5.0)
    other._write(run, state, {0: runs}, going)
    late._write(run, state, {0: TaskState("queued", attempt=0)}, going)
    assert run.task_status(0) == runs, "that was an attempt ago"
    # Batch may have queued it again, and does not say when: the next refresh shows it.
    late._write(run, state, {0: TaskState("queued", attempt=1)}, going)
    assert run.task_status(0).state == "queued"
    other._write(run, state, {0: runs}, going)
    assert run.task_status(0) == late._known(run, 0) == runs
    ended = replace(runs, state="succeeded", exit_code=0)
    other._write(run, state, {0: ended}, going)
    late._write(run, state, {0: runs}, going)
    assert run.task_status(0) == ended


def test_batch_setup_keeps_an_end_that_another_command_recorded(made: Callable[..., Run]) -> None:
    run = made()
    (folder := run.folder / "setup").mkdir()
    (run.folder / "setup.jsonl").touch()

    def preparation(_: str) -> list[Any]:
        state_files.write(folder, TaskState("succeeded", attempt=0, exit_code=0))
        info = {**STARTED, "state": "running"}
        return [{"nodeId": "n", "jobPreparationTaskExecutionInfo": info}]

    poller._watch_setup(run, account_that(preparation=preparation), "r-1", ended=False)
    assert state_files.read_task(folder).state == "succeeded"


def test_batch_note_later_ignores_the_retry_of_another_run_with_the_same_id(
    made: Callable[..., Run],
) -> None:
    run = made()
    job = {"id": "r-1-again1", "metadata": [{"name": client.SUBMISSION, "value": "1"}]}
    note_later(RunFolder(run.folder), account_that(), STORAGE, [job])
    assert State.read(run).submission == 0


def test_batch_note_later_keeps_a_retry_newer_than_the_listed_jobs(
    made: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, take_lock = made(), RunFolder.take_lock

    def retry_before(folder: RunFolder) -> int:
        State(2, jobs=("r-1.2",), complete=True).write(run)
        return take_lock(folder)

    monkeypatch.setattr(RunFolder, "take_lock", retry_before)
    job = {"id": "r-1.1", "metadata": [*OWN, {"name": client.SUBMISSION, "value": "1"}]}
    note_later(RunFolder(run.folder), account_that(), STORAGE, [job])
    state = State.read(run)
    assert (state.job, state.submission) == ("r-1.2", 2)


@pytest.mark.parametrize(
    ("before", "state", "said"),
    [("running", "queued", "submission was interrupted"), ("cancelled", "cancelled", "by hand")],
)
def test_batch_run_reports_an_interrupted_submission_unless_it_has_ended(
    made: Callable[..., Run], before: str, state: str, said: str
) -> None:
    run = made(complete=False)
    state_files.write(run.folder, RunState(before, reason="by hand"))
    look(account_that(), run)
    assert (run.state, run.status.reason.startswith(said)) == (state, True)


UNPREPARED = {"result": "Failure", "failureInfo": {"code": "ScriptFailed"}}


@pytest.mark.parametrize(
    ("status", "nodes", "ended", "state"),
    [
        (409, ["n"], True, "failed"),  # another command has ended the job meanwhile
        (503, ["n"], True, None),
        (503, [], False, "queued"),  # the pool has lost that node, and the next one may work
    ],
)
def test_batch_job_is_ended_if_its_preparation_failed_on_all_nodes(
    status: int, nodes: list[str], ended: bool, state: str | None
) -> None:
    told: list[str] = []

    def terminate(_what: str, _method: str, path: str, **_body: str) -> None:
        told.append(path)
        raise refused(status)

    account = account_that(
        preparation=[{"nodeId": "n", "jobPreparationTaskExecutionInfo": UNPREPARED}],
        nodes=[{"id": name} for name in nodes],
        order=terminate,
    )
    own, job = Poller(account, STORAGE), {"id": "r-1", "state": "active"}
    if state is None:
        with pytest.raises(ServiceError):
            own._end_unprepared(RunState("queued"), job, ended=ended)
    else:
        found = own._end_unprepared(RunState("queued"), job, ended=ended)
        assert (found.state, "ScriptFailed" in (found.reason or "")) == (state, True)
    assert told == ["/jobs/r-1/terminate"] * len(nodes)


@pytest.mark.parametrize("others", [0, 3])
def test_batch_run_reports_a_disabled_job_while_tasks_wait(
    made: Callable[..., Run], others: int
) -> None:
    """The job is requested alone, or in a list with others."""
    runs = [made(f"r-{number}", tasks=2) for number in range(1 + others)]
    running = {"id": "0", "executionInfo": STARTED, "state": "running"}
    tasks, counts = [running, {"id": "1", "state": "active"}], {"running": 1, "active": 1}
    jobs = [{"id": run.id, "state": "disabling", "metadata": OWN} for run in runs]
    account = account_that(jobs=jobs, find_job=jobs[0], tasks=tasks, task_counts=counts)
    look(account, *runs)
    for run in runs:
        assert run.state == "running"
        assert f"az batch job enable --job-id {run.id} " in (run.status.reason or "")
    for job in jobs:
        job["state"] = "active"
    look(account, *runs)
    assert [run.status.reason for run in runs] == [None] * len(runs)


def test_batch_run_that_is_retried_starts_with_its_own_first_task(made: Callable[..., Run]) -> None:
    """Not with those of earlier submissions, nor with a later attempt."""
    run = made(tasks=2)
    State(1, jobs=("r-1",), complete=True, only=(1,), first={"1": 1}).write(run)
    state_files.write(run.folder, RunState())
    run.task_folder(0).mkdir(parents=True, exist_ok=True)
    state_files.write(run.task_folder(0), TaskState("succeeded", attempt=0, started=1.0, ended=2.0))
    task: dict[str, Any] = {"id": "1", "state": "running", "executionInfo": STARTED}
    job = {"id": "r-1", "state": "active", "metadata": OWN}
    account = account_that(find_job=job, tasks=[task])
    look(account, run)
    assert (started := run.status.started) == states.seconds(STARTED["startTime"])
    task["executionInfo"] = {"startTime": "2026-01-01T01:00:00Z"}
    look(account, run)
    assert run.task_status(1).started != started == run.status.started


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("we need the nodes", "its job was ended in Azure Batch: we need the nodes"),
        (states.CANCELLED, None),
        ("AllTasksComplete", None),
    ],
)
def test_batch_run_reports_the_reason_with_which_its_job_was_ended(
    made: Callable[..., Run], why: str, reason: str | None
) -> None:
    run, ended = made(), {**ENDED_JOB["executionInfo"], "terminateReason": why}
    job = {**ENDED_JOB, "executionInfo": ended}
    look(account_that(find_job=job, tasks=[{"id": "0", "state": "active"}]), run)
    assert (run.state, run.status.reason) == ("cancelled", reason)


TARGET = target_of("batch", {"pool": "sim"}, name="mine")


def packed(files: dict[str, bytes], link: str = "") -> bytes:
    """Returns a record's archive with these files, and a symbolic link of that name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        if link:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member)
    return buffer.getvalue()


def record_of(run: Run) -> dict[str, bytes]:
    return {name: path.read_bytes() for name in RECORD if (path := run.folder / name).exists()}


def account_of(*jobs: tuple[str, dict[str, str]]) -> Any:
    """Returns an account with these jobs and their metadata."""
    listed = [
        {
            "id": name,
            "state": "active",
            "metadata": [{"name": k, "value": v} for k, v in of.items()],
        }
        for name, of in jobs
    ]
    return SimpleNamespace(jobs=lambda: listed, tasks=lambda *_: (), target=TARGET)


def test_batch_adopt_takes_only_plain_record_files_and_its_own_target(
    made: Callable[..., Run], store: RunStore
) -> None:
    run = made()
    elsewhere = {**TARGET.record(), "batch": {"pool": "sim", "endpoint": "https://evil.example"}}
    record = {**record_of(run), "target.json": json.dumps(elsewhere).encode()}
    others = {"../../outside": b"x", "state.json": b"{}"}
    shutil.rmtree(run.folder)
    blob = packed({**record, **others}, link="job.yaml")
    storage: Any = Files(stored={client.record_blob("r-1"): blob})
    assert adopt(store, account_of(("r-1", {client.RUN: "r-1"})), storage) == []
    names = {path.name for path in run.folder.iterdir()}
    assert names == {*record, "engine.json", "state.json", "lock"}
    own = {**record, "target.json": json.dumps(TARGET.record(), indent=1).encode()}
    assert {name: (run.folder / name).read_bytes() for name in record} == own
    assert not [*store.base.glob("outside"), *store.base.parent.glob("outside")]


def test_batch_adopt_reads_a_record_with_invalid_utf8(
    made: Callable[..., Run], store: RunStore
) -> None:
    run = made()
    record = record_of(run)
    plan = {**json.loads(record["plan.json"]), "environment": {"OWNER": "J?rg"}}
    record["plan.json"] = json.dumps(plan).encode().replace(b"?", b"\xf6")
    shutil.rmtree(run.folder)
    storage: Any = Files(stored={client.record_blob("r-1"): packed(record)})
    assert adopt(store, account_of(("r-1", {client.RUN: "r-1"})), storage) == []
    assert read_plan(run.folder).environment == {"OWNER": "J\ufffdrg"}


@pytest.mark.parametrize(
    ("job", "metadata"),
    [
        ("x", {client.RUN: "/../../outside"}),
        ("x", {client.RUN: "../outside"}),
        ("x", {client.RUN: "r-1/../../../outside"}),
        ("x", {client.RUN: "r-1"}),
        ("r-1", {client.RUN: "r-1", client.SUBMISSION: "3"}),
        ("R_1", {client.SCHEDULE: "r-1", client.RUN: "r-1"}),
    ],
)
def test_batch_adopt_ignores_a_job_that_no_submission_made(
    made: Callable[..., Run], store: RunStore, job: str, metadata: dict[str, str]
) -> None:
    """Anybody who may add jobs to the account can write metadata."""
    run = made()
    storage: Any = Files(stored={client.record_blob(metadata[client.RUN]): packed(record_of(run))})
    shutil.rmtree(run.folder)
    before = {*store.base.parent.rglob("*")}
    assert adopt(store, account_of((job, metadata)), storage) == []
    assert {*store.base.parent.rglob("*")} == before


@pytest.mark.parametrize("how", ["cut", "text", "empty", "another's", "another engine's"])
def test_batch_adopt_reports_a_damaged_record_and_adopts_the_other_runs(
    made: Callable[..., Run], store: RunStore, how: str
) -> None:
    good, bad = made(), made("r-2")
    record = packed(record_of(bad))
    records = {
        "cut": record[: len(record) // 2],
        "text": b"not found",
        "empty": packed({}),
        "another's": packed(record_of(good)),
        "another engine's": record,
    }
    if how == "another engine's":
        facts = json.loads((bad.folder / "run.json").read_bytes())
        (bad.folder / "run.json").write_text(json.dumps({**facts, "engine": "local"}))
        records[how] = packed(record_of(bad))
    stored = {client.record_blob("r-1"): packed(record_of(good))}
    storage: Any = Files(stored={**stored, client.record_blob("r-2"): records[how]})
    for run in (good, bad):
        shutil.rmtree(run.folder)
    jobs = [(name, {client.RUN: name}) for name in ("r-2", "r-1")]
    (finding,) = adopt(store, account_of(*jobs), storage)
    assert (finding.id, finding.severity) == ("damaged-run", Severity.WARNING)
    assert "`r-2` on `mine`" in finding.message
    assert [run.id for run in store.unsorted()] == ["r-1"]


def test_batch_run_counts_the_tasks_of_earlier_submissions(made: Callable[..., Run]) -> None:
    runs = [made(), made("r-2", complete=None)]
    State(1, jobs=("r-1.1",), complete=True, only=(3,), done={"succeeded": 3}).write(runs[0])
    job = {"id": "r-1.1", "state": "active", "metadata": OWN}
    look(account_that(find_job=job, task_counts={"running": 1}), *runs)
    assert runs[0].status.tasks == {"running": 1, "succeeded": 3}


def test_batch_run_whose_nodes_are_being_prepared_is_queued(made: Callable[..., Run]) -> None:
    runs = [made(tasks=2), made("r-2", complete=None)]
    job = {"id": "r-1", "state": "active", "metadata": OWN}
    counts = {"active": 1, "running": 1}  # as Batch counts them
    look(account_that(find_job=job, task_counts=counts, running_tasks=()), *runs)
    assert (runs[0].state, runs[0].status.tasks) == ("queued", {"queued": 2})


def test_batch_history_shows_tasks_the_user_ended_as_cancelled(made: Callable[..., Run]) -> None:
    """The run was retried since, with only its other task."""
    run = made(tasks=2)
    ended = {"exitCode": 130, "failureInfo": {"code": "FailureExitCode"}}
    first = [
        {**FAILED_TASK, "executionInfo": {**FAILED_TASK["executionInfo"], **ended}},
        {**FAILED_TASK, "id": "1"},
    ]
    tasks = {"r-1": first, "r-1.1": [{"id": "1", "state": "active"}]}
    account: Any = SimpleNamespace(tasks=lambda job, _: tasks[job])
    note = f"{client.cancelled_folder('r-1', 0)}0"
    storage: Any = SimpleNamespace(blobs=lambda *_: [SimpleNamespace(name=note)])
    retried = {**ENDED_JOB, "id": "r-1.1", "metadata": [{"name": client.SUBMISSION, "value": "1"}]}
    write_history(run.folder, account, storage, [ENDED_JOB, retried])
    state = State.read(run)
    assert run.task_status(0).state == "cancelled"
    assert (state.only, state.done) == ((1,), {"cancelled": 1})


BY_PERSON = {"exitCode": 130, "failureInfo": {"code": "FailureExitCode"}}
TERMINATED = {"failureInfo": {"code": "TaskEnded"}}


def has(is_cancelled: Callable[[Any], bool], name: str, info: dict[str, Any]) -> bool:
    return is_cancelled({"id": name, "executionInfo": info})


def test_batch_cancelled_tasks_of_a_submission_are_known_from_storage(make_run: MakeRun) -> None:
    storage: Any = Files()
    states.note_cancelled("job-a", 0, "1", storage)
    elsewhere = cancelled_alone("job-a", 0, storage)
    assert has(elsewhere, "1", BY_PERSON)
    assert has(elsewhere, "1", TERMINATED)
    assert not has(elsewhere, "10", TERMINATED)
    assert not has(elsewhere, "1", {"exitCode": 1})
    assert storage.lists == 1
    # A retry runs it again.
    assert not has(cancelled_alone("job-a", 1, storage), "1", BY_PERSON)
    storage: Any = Files()
    own = cancelled_alone("job-a", 0, storage)
    assert not has(own, "2", {"exitCode": 1})
    assert not own({"id": "0"})
    assert storage.lists == 0
    storage: Any = Files()
    run = make_run("job-a", [{}, {}, {}])
    (run.folder / "plan.json").write_text(RunPlan(run=run.id, directory="code").text())
    states.note_cancelled(run.id, 0, "1", storage)
    ended = {"state": "completed", "executionInfo": BY_PERSON}
    tasks = [{"id": name, **ended} for name in ("1", "2")]
    account: Any = SimpleNamespace(tasks=lambda *_: tasks)
    found = Poller(account, storage)._known_to_batch(
        run, {"state": "active"}, State(0, jobs=("job-a",))
    )
    assert {number: each.state for number, each in found.items()} == {1: "cancelled", 2: "failed"}


PREPARED = {
    "state": "completed",
    "startTime": "2026-03-01T12:00:00Z",
    "endTime": "2026-03-01T12:00:05Z",
}


def test_batch_setup_status_skips_nodes_without_facts(tmp_path: Path) -> None:
    """Both properties are optional in the service's model."""
    nodes: list[Any] = [
        {"nodeId": "waits"},
        {"nodeId": "without", "jobPreparationTaskExecutionInfo": PREPARED},
        {"nodeId": "n", "jobPreparationTaskExecutionInfo": {**PREPARED, "taskRootDirectory": "w"}},
    ]
    said = {"w/wd/setup.json": b'{"exit_code": 3}', "w/stdout.txt": b"words\n"}
    account: Any = SimpleNamespace(node_file=lambda _node, name, *_: said[name])
    log = tmp_path / "log.txt"
    found = poller.setup_status(nodes, account, log, ended=False)
    assert (found.node, found.state, found.exit_code) == ("n", "failed", 3)
    assert log.read_text() == "words\n"
    assert poller.setup_status(nodes[:1], account, log, ended=False) == TaskState()


@pytest.mark.parametrize(
    "said", [b"", b"garbage{", b"[]", b"{}", b'{"exit_code": 1e999}', b'{"exit_code": "no"}']
)
def test_batch_setup_status_ignores_an_invalid_report(tmp_path: Path, said: bytes) -> None:
    """A task can replace the report: it runs as the user that ran the setup."""
    info = {**PREPARED, "taskRootDirectory": "w"}
    nodes: list[Any] = [{"nodeId": "n", "jobPreparationTaskExecutionInfo": info}]
    account: Any = SimpleNamespace(node_file=lambda *_: said)
    for ended, state in ((False, "running"), (True, "succeeded")):
        found = poller.setup_status(nodes, account, tmp_path / "log.txt", ended=ended)
        assert (found.state, found.exit_code) == (state, None)
