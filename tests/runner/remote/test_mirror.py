"""Folders of runs that continue on another machine; here the host is this machine."""

import base64
import io
import json
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from targets import target_of

from fairway_agent import control, main
from fairway_agent.shared.reports import Piece, RunReport, RunsReport, RunsRequest
from fairway_agent.shared.runs import adopt
from fairway_agent.spec import RunOutputInput, RunPlan
from fairway_boot.files import AgentError
from fairway_core.findings import UserError
from fairway_runner.engines.outage import RunRefused
from fairway_runner.engines.remote import submission_state
from fairway_runner.engines.remote.connection import Command, Ended, Here
from fairway_runner.engines.remote.mirror import Mirror, add_pieces
from fairway_runner.engines.remote.remote_host import RemoteHost
from fairway_runner.engines.ssh import SshEngine
from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import Run, RunStore


class Near(Here):
    """This machine, where the agent answers without a process of its own."""

    def execute(self, command: Command) -> Ended:
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(command.data)))
            main.answer(command.words[-1], command.words[4])
        return Ended(0, said.getvalue().encode(), "")


NEWER = '{"version": 7, "state": "running"}'


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    """The runs of a shared folder on this machine."""
    return Mirror(RemoteHost(Near(), str(tmp_path / "shared"), 5.0))


def submitted(tmp_path: Path, name: str = "job-1", tasks: int = 1) -> Run:
    """A run that the cluster has taken over."""
    record = RunRecord(name, "job", "pair", time.time(), tasks, "job.yaml", "0", engine="ssh")
    run, lock = RunStore(tmp_path / ".fairway").create(record, {"plan.json": "{}"})
    os.close(lock)
    submission_state.SubmissionRecord(0, complete=True).write(run)
    return run


def there(tmp_path: Path, run: Run) -> Path:
    folder = tmp_path / "shared" / "runs" / run.id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text("{}")
    return folder


def say(folder: Path, state: str, log: bytes | None = None, **facts: Any) -> None:
    """Writes the state of a run, or of a task with its log, like a supervisor."""
    folder.mkdir(parents=True, exist_ok=True)
    if log is not None:
        (folder / "log.txt").write_bytes(log)
    (folder / "state.json").write_text(json.dumps({"state": state, **facts}))


def counted(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that collects the modules that are called after this."""
    calls: list[str] = []
    call = RemoteHost.call

    def count(self: RemoteHost, module: str, *arguments: Any, **options: Any) -> Any:
        calls.append(module)
        return call(self, module, *arguments, **options)

    monkeypatch.setattr(RemoteHost, "call", count)
    return calls


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Runs the action, as another command, while the host answers."""
    call = RemoteHost.call

    def answer_late(self: RemoteHost, *arguments: Any, **options: Any) -> Any:
        answer = call(self, *arguments, **options)
        action()
        return answer

    monkeypatch.setattr(RemoteHost, "call", answer_late)


def test_mirror_refresh_fetches_states_and_logs_as_they_change(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(tmp_path, tasks=2)
    folder = there(tmp_path, run)
    say(folder / "tasks" / "0", "running", b"one\n", attempt=0)
    say(folder, "running")
    mirror.refresh([run])
    assert (run.state, run.log_text(0)) == ("running", "")
    mirror.refresh([run], logs=True)
    assert run.log_text(0) == "one\n"
    say(folder / "tasks" / "0", "succeeded", b"one\ntwo\n", exit_code=0)
    say(folder / "tasks" / "1", "failed", b"other", exit_code=3)
    say(folder, "failed")
    mirror.refresh([run], logs=True)
    assert (run.state, run.exit_code) == ("failed", 3)
    assert (run.log_text(0), run.log_text(1)) == ("one\ntwo\n", "other")
    (run.folder / "tasks/1/log.txt").unlink()
    mirror.refresh([run])
    assert run.log_text(1) == "", "those of an ended run come when they are wanted"
    mirror.refresh([run], logs=True)
    assert run.log_text(1) == "other"
    calls = counted(mirror, monkeypatch)
    mirror.refresh([run], logs=True)
    assert calls == [], "all is known of a run that has ended"
    runs = [submitted(tmp_path, name) for name in ("job-2", "job-3")]
    for run in runs:
        say(there(tmp_path, run), "succeeded")
    mirror.refresh(runs)
    assert ([run.state for run in runs], len(calls)) == (["succeeded"] * 2, 1)


def test_mirror_refresh_fetches_long_logs_in_pieces(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(tmp_path, tasks=2)
    folder = there(tmp_path, run)
    long = os.urandom(9 << 20)
    say(folder / "tasks" / "0", "succeeded", long)
    say(folder / "tasks" / "1", "succeeded", b"short")
    say(folder, "succeeded")
    calls = counted(mirror, monkeypatch)
    mirror.refresh([run], logs=True)
    assert run.log(0).read_bytes() == long
    assert run.log_text(1) == "short"
    assert len(calls) == 3


def test_mirror_refresh_fetches_samples_of_an_ended_run_once(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(tmp_path)
    folder = there(tmp_path, run)
    (folder / "figures").mkdir()
    long = os.urandom(9 << 20)
    (folder / "figures" / "n1.jsonl").write_bytes(long[:5])
    say(folder / "tasks" / "0", "running", b"", attempt=0)
    say(folder, "running")
    mirror.refresh([run], samples=True)
    assert not submission_state.SubmissionRecord.read(run).sampled
    (folder / "figures" / "n1.jsonl").write_bytes(long)
    say(folder / "tasks" / "0", "failed", b"log", exit_code=1, attempt=0)
    say(folder, "failed")
    mirror.refresh([run])
    assert not submission_state.SubmissionRecord.read(run).sampled, "nobody asked for them"
    mirror.refresh([run], samples=True)
    assert (run.folder / "figures" / "n1.jsonl").read_bytes() == long
    calls = counted(mirror, monkeypatch)
    mirror.refresh([run], samples=True)
    assert calls == [], "all is known of a run that has ended"
    mirror.refresh([run], logs=True, samples=True)
    assert run.log_text(0) == "log"
    (run.folder / "retry.json").write_text('{"only": [0], "done": {}, "is_set_up": true}')
    submission_state.begin(run, retry=True)
    assert not submission_state.SubmissionRecord.read(run).sampled


def test_retry_of_a_run_that_ended_before_it_was_submitted_is_a_new_submission(
    tmp_path: Path,
) -> None:
    """The target does not complete one that somebody has cancelled."""
    run = submitted(tmp_path)
    submission_state.SubmissionRecord(0).write(run)
    (run.folder / "retry.json").write_text('{"only": [0], "done": {}, "is_set_up": true}')
    for state, number in (("queued", 0), ("cancelled", 1)):
        say(run.folder, state)
        assert submission_state.begin(run, retry=True).submission == number


def test_mirror_refresh_completes_the_log_despite_a_concurrent_fetch_of_samples(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command fetches the samples, and ends while the host answers the other."""
    run = submitted(tmp_path)
    folder = there(tmp_path, run)
    say(folder / "tasks" / "0", "succeeded", b"log", exit_code=0, attempt=0)
    say(folder, "succeeded")
    begun = []

    def other() -> None:
        if not begun:
            begun.append(True)
            mirror.refresh([run], samples=True)

    meanwhile(monkeypatch, other)
    mirror.refresh([run], logs=True)
    assert (run.log_text(0), submission_state.SubmissionRecord.read(run).sampled) == ("log", True)


def test_mirror_refresh_does_not_write_the_record_of_a_submission_in_progress(
    mirror: Mirror, tmp_path: Path
) -> None:
    """The submitting command records itself that the cluster has the run, which may have ended."""
    run = submitted(tmp_path)
    submission_state.SubmissionRecord(0).write(run)
    say(there(tmp_path, run), "succeeded")
    before = (run.folder / "engine.json").stat()
    mirror.refresh([run], samples=True)
    assert run.state == "succeeded"
    after = (run.folder / "engine.json").stat()  # reading the file may change its atime
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_mirror_refresh_ignores_the_state_of_an_earlier_submission(
    mirror: Mirror, tmp_path: Path
) -> None:
    run = submitted(tmp_path)
    folder = there(tmp_path, run)
    say(folder / "tasks" / "0", "failed", b"", exit_code=1, attempt=0)
    say(folder, "failed", submission=0)
    mirror.refresh([run])
    retry = {"only": [0], "done": {}, "is_set_up": True}
    (run.folder / "retry.json").write_text(json.dumps(retry))
    submission_state.begin(run, retry=True)
    assert (run.state, run.task_status(0).state) == ("queued", "queued")
    mirror.refresh([run])
    assert run.state == "queued", "the cluster has not heard of the retry"
    assert "interrupted" in run.status.reason
    say(folder, "running", submission=1)
    mirror.refresh([run])
    assert run.state == "running"


def test_mirror_refresh_marks_runs_without_folder_as_lost_and_keeps_fetching_samples_of_lost_ones(
    mirror: Mirror, tmp_path: Path
) -> None:
    """A node that is cut off continues to sample."""
    run = submitted(tmp_path)
    mirror.refresh([run])
    assert (run.state, run.status.reason) == ("lost", "its folder is gone")
    assert run.exit_code == 5
    run = submitted(tmp_path, "job-2")
    say(there(tmp_path, run), "lost")
    mirror.refresh([run], samples=True)
    assert not submission_state.SubmissionRecord.read(run).sampled


def test_mirror_refresh_reports_an_interrupted_submission_but_none_in_progress(
    mirror: Mirror, tmp_path: Path
) -> None:
    """A submission in progress holds the run's lock; without the lock it was interrupted."""
    record = RunRecord("job-2", "job", "pair", 0.0, 1, "job.yaml", "0", engine="ssh")
    run, lock = RunStore(tmp_path / ".fairway").create(record, {})
    submission_state.begin(run, retry=False)
    mirror.refresh([run])
    assert run.status.reason is None
    os.close(lock)
    mirror.refresh([run])
    assert run.status.reason.startswith("submission was interrupted")


def test_mirror_refresh_does_not_lose_a_run_that_is_submitted_meanwhile(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host does not have the run when it is asked, and has it when it has answered."""
    run = submitted(tmp_path)
    submission_state.SubmissionRecord(0).write(run)
    taken_over = submission_state.SubmissionRecord(0, complete=True)
    meanwhile(monkeypatch, lambda: taken_over.write(run))
    mirror.refresh([run])
    assert run.state == "queued"


def test_mirror_refresh_ignores_an_answer_from_before_a_concurrent_retry(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submitted(tmp_path)
    folder = there(tmp_path, run)
    say(folder / "tasks" / "0", "failed", b"", exit_code=1, attempt=0)
    say(folder, "failed", submission=0)
    (run.folder / "retry.json").write_text('{"only": [0], "done": {}, "is_set_up": true}')
    meanwhile(monkeypatch, lambda: submission_state.begin(run, retry=True))
    mirror.refresh([run])
    assert (run.state, run.task_status(0).state) == ("queued", "queued")


def test_mirror_publish_is_repeatable_and_refuses_another_run_of_the_same_id(
    mirror: Mirror, tmp_path: Path
) -> None:
    (code := tmp_path / "code").mkdir()
    run, other = submitted(tmp_path / "a"), submitted(tmp_path / "b")
    for each in (run, other):
        (each.folder / "plan.json").write_text(RunPlan(each.id, "/x").text())
    mirror.publish(run, code)
    mirror.publish(run, code)
    with pytest.raises(RunRefused) as caught:
        mirror.publish(other, code)
    assert (caught.value.findings[0].id, caught.value.exit_code) == ("taken-run-id", 2)
    (received,) = (tmp_path / "shared" / "runs").iterdir()
    assert json.loads((received / "run.json").read_text())["created"] == run.record.created
    # Nor is it shown, ended or removed as the other one.
    say(received, "running")
    mirror.refresh([run])
    assert (run.state, mirror._state(other)) == ("running", None)
    made = SshEngine(target_of("ssh", {"host": "localhost", "shared": str(tmp_path / "shared")}))
    made.request_end(other)
    made.remove(other)
    mirror.refresh([run])
    assert (run.state, control.read(received).cancelled) == ("running", None)


def test_resumed_submission_is_not_refused_for_an_input_that_is_gone(tmp_path: Path) -> None:
    """Its tasks may run: nothing of it is forgotten, and no other target gets it."""
    run = submitted(tmp_path)
    (run.folder / "engine.json").unlink()
    entry = RunOutputInput("model", "runs/first/model")
    (run.folder / "plan.json").write_text(RunPlan(run.id, "/x", run_inputs=(entry,)).text())
    made = SshEngine(target_of("ssh", {"host": "localhost", "shared": str(tmp_path / "shared")}))
    for kind in (RunRefused, UserError):
        with pytest.raises(UserError, match="the input `model` no longer exists") as caught:
            made.start(run, run.take_lock(), tmp_path / "code", {})
        assert type(caught.value) is kind


def test_remote_remove_deletes_code_with_its_last_run(mirror: Mirror, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    code = shared / "code" / "0123456789abcdef"
    code.mkdir(parents=True)
    runs = [submitted(tmp_path, name) for name in ("job-1", "job-2", "broken")]
    for run in runs:
        folder = there(tmp_path, run)
        if run.id != "broken":
            (folder / "provenance.json").write_text(json.dumps({"code": f"{code.name}rest"}))
            adopt(shared / "code", code.name, run.id, "the code")
    for run, left in ((runs[2], True), (runs[0], True), (runs[1], False)):
        mirror.remote.call("fairway_agent.shared.runs.runs", RunsRequest(remove=run.id), RunsReport)
        assert not (shared / "runs" / run.id).exists()
        assert code.exists() is left
    assert (shared / "code").is_dir()


def test_remote_adopt_of_code_that_did_not_arrive_raises_a_fault(tmp_path: Path) -> None:
    with pytest.raises(AgentError) as caught:
        adopt(tmp_path / "code", "c" * 16, "job-1", "the code")
    assert caught.value.record["message"] == f"the code is not at {tmp_path}/code/{'c' * 16}"
    assert "submit it again" in caught.value.record["hint"]


def test_mirror_require_latest_reports_a_retry_from_another_machine(
    mirror: Mirror, tmp_path: Path
) -> None:
    """The other machine has retried a run that is still failed in the local record."""
    run = submitted(tmp_path)
    folder = there(tmp_path, run)
    say(folder / "tasks" / "0", "failed", b"", exit_code=1, attempt=0)
    say(folder, "failed", submission=0)
    mirror.refresh([run])
    mirror.require_latest(run)
    say(folder / "tasks" / "0", "succeeded", b"", exit_code=0, attempt=1)
    say(folder, "succeeded", submission=1)
    refused(lambda: mirror.require_latest(run), "job-1 was retried from elsewhere")
    assert (run.state, run.task_status(0).exit_code) == ("succeeded", 0)
    assert submission_state.SubmissionRecord.read(run) == submission_state.SubmissionRecord(
        1, complete=True
    )
    mirror.require_latest(run)


def test_mirror_adopt_reports_its_targets_damaged_runs_only(mirror: Mirror, tmp_path: Path) -> None:
    runs = tmp_path / "shared" / "runs"
    for name, text in {"a-1": "{", "b-1": "[]", "c-1": '{"target": "pair"}', "d-1": "\xff"}.items():
        (runs / name).mkdir(parents=True)
        (runs / name / "run.json").write_bytes(text.encode("latin-1"))
    target = target_of("ssh", {"shared": str(tmp_path / "shared")}, name="pair")
    found = mirror.adopt(RunStore(tmp_path / ".fairway"), target)
    assert [finding.message.partition("`")[2][:3] for finding in found] == ["c-1"]


@pytest.mark.parametrize(
    ("place", "file", "text", "id_"),
    [
        *(
            ("there", file, text, id_)
            for file in ("state.json", "tasks/0/state.json")
            for text, id_ in (('{"state": "run', "damaged-run"), (NEWER, "other-release"))
        ),
        *(("here", file, "{", "damaged-run") for file in ("engine.json", "tasks/0/state.json")),
        ("here", "tasks/0/state.json", NEWER, "other-release"),
        ("here", "engine.json", '{"submission": "x"}', "damaged-run"),
    ],
)
def test_mirror_refresh_of_a_damaged_run_updates_the_others(
    mirror: Mirror, tmp_path: Path, place: str, file: str, text: str, id_: str
) -> None:
    broken, sound = (submitted(tmp_path, name) for name in ("job-1", "job-2"))
    for run in (broken, sound):
        say(there(tmp_path, run), "succeeded")
        say(there(tmp_path, run) / "tasks" / "0", "succeeded", b"one")
    damaged = (broken.folder if place == "here" else there(tmp_path, broken)) / file
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_text(text)
    said = rf"job-1/{file}: {'of another release' if text == NEWER else 'damaged'}: "
    assert refused(lambda: mirror.refresh([broken, sound]), said).id == id_
    assert (broken.state, sound.state) == ("queued", "succeeded")
    if place == "there":
        refused(lambda: mirror.require_latest(broken), said)


def test_mirror_add_pieces_appends_missing_bytes_and_refuses_invalid_ones(tmp_path: Path) -> None:
    run = submitted(tmp_path)

    def piece(offset: int, data: bytes) -> Piece:
        return Piece(offset, base64.b64encode(zlib.compress(data)).decode())

    add_pieces(run, RunReport(None, logs={"0": piece(0, b"one\n")}))
    # Both readers requested the same offset; the second got more.
    add_pieces(run, RunReport(None, logs={"0": piece(0, b"one\ntwo\n")}))
    add_pieces(run, RunReport(None, logs={"0": piece(0, b"one\n")}))
    add_pieces(run, RunReport(None, logs={"0": piece(20, b"far behind\n")}))
    assert run.log_text(0) == "one\ntwo\n"
    finding = refused(lambda: add_pieces(run, RunReport(None, logs={"0": Piece(8, "no zlib")})))
    target = run.record.target
    assert finding.message == f"the host of `{target}` sent a piece of a file that cannot be read"
    assert finding.hint.startswith("nothing was taken from its answer")
    assert run.log_text(0) == "one\ntwo\n"
    # A repository with a run can hold links to anything.
    (kept := tmp_path / "kept").mkdir()
    (kept / "log.txt").write_text("kept\n")
    shutil.rmtree(run.folder / "tasks")
    (run.folder / "tasks").symlink_to(tmp_path)
    add_pieces(run, RunReport(None, logs={"0": piece(0, b"one\n")}))
    run.log(0).unlink()
    run.log(0).symlink_to(kept / "log.txt")
    add_pieces(run, RunReport(None, logs={"0": piece(0, b"two\n")}))
    assert run.log_text(0) == "two\n"
    assert [each.name for each in tmp_path.iterdir()] == [".fairway", "kept"]
    assert (kept / "log.txt").read_text() == "kept\n"
