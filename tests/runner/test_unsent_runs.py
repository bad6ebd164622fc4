"""Runs that were recorded, but never reached their target."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import ends, refused
from running import RunFairway

from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.engines.remote import engine as remote_engine
from fairway_runner.engines.remote.connection import Ended
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.store import Run, RunStore, refresh_all
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.submission import prepare_submission

TARGETS = """\
targets:
  - name: pair
    engine: ssh
    nodes: {{min: 2, max: 2}}
    mounts: {{data: {mount}}}
    ssh: {{host: {host}, user: me, shared: /data/fairway}}
"""


@dataclass
class Line:
    """Connections that answer the first `answers` commands; `asked` has the host of each."""

    answers: int = 0
    asked: list[str] = field(default_factory=list)

    def to(self, host: str, *_: Any) -> Any:
        def ask(*_: Any, **__: Any) -> Ended:
            return self.run(host)

        return SimpleNamespace(
            name=host, begin=lambda: None, has_rsync=False, run=ask, require_answer=ask
        )

    def run(self, host: str) -> Ended:
        self.asked.append(host)
        if len(self.asked) <= self.answers:
            return Ended(0, b"", "")
        raise TargetUnavailable.of("no-connection", f"{host} is away", "is it up?", exit_code=5)


@dataclass
class Unsent:
    """A project with a job and a target whose host is unreachable, so no run is sent."""

    project: Path
    fairway: RunFairway
    line: Line

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return self.fairway(self.project, *words)

    def declare(self, host: str = "10.0.0.4", mount: str = "/data") -> None:
        """Writes the target to fairway.yaml."""
        (self.project / "fairway.yaml").write_text(TARGETS.format(host=host, mount=mount))

    def submit(self) -> Run:
        """Submits the run, which fails as the host does not answer, and returns it."""
        words = ["submit", "job.yaml", "-t", "pair", "--run-id", "job-a"]
        ends(self(*words), 5, "[cut-off-submission]", printed="")
        return RunStore(self.project / ".fairway").find("job-a")


@pytest.fixture
def unsent(tmp_path: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch) -> Unsent:
    found = Unsent(tmp_path, fairway, Line())
    monkeypatch.setattr(remote_engine, "connection_to", found.line.to)
    found.declare()
    (tmp_path / "job.yaml").write_text("name: job\ncommand: 'true'\n")
    return found


def test_submission_without_the_named_ssh_configuration_leaves_no_run(
    unsent: Unsent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("FAIRWAY_SSH_CONFIG", "/nope")
    ends(unsent("submit", "job.yaml", "-t", "pair"), 2, "[no-ssh-config]", printed="")
    assert json.loads(unsent("list", "--json")[1]) == []


def test_unsent_run_is_listed_cancelled_and_cleaned_without_its_target(unsent: Unsent) -> None:
    run = unsent.submit()
    asked = list(unsent.line.asked)
    for words in (["show", "job-a"], ["list", "--state", "queued"]):
        code, out, _ = unsent(*words, "--json")
        assert code == 0
        facts = json.loads(out)
        reason = (facts if words[0] == "show" else facts[0])["reason"]
        assert "10.0.0.4 is away" in reason
        assert "fairway submit --resume job-a" in reason
    assert unsent("cancel", "job-a")[:2] == (0, "job-a cancelled\n")
    assert unsent("clean", "job-a", "--yes")[0] == 0
    assert not run.folder.exists()
    assert unsent.line.asked == asked


def test_unsent_run_cannot_be_waited_for_and_hints_at_resume(unsent: Unsent) -> None:
    run = unsent.submit()
    assert refused(run.wait, "submit --resume job-a").id == "cut-off-submission"
    run.cancel()
    asked = list(unsent.line.asked)
    assert unsent("submit", "--resume", "job-a")[0] == 0
    assert (run.state, unsent.line.asked) == ("cancelled", asked)


def test_partly_sent_run_stays_with_its_recorded_target(unsent: Unsent) -> None:
    """The host answered, but became unreachable before it confirmed the run."""
    unsent.line.answers = 1
    run = unsent.submit()
    assert not run.is_unsent
    assert len(unsent.line.asked) == 2
    refused(run.cancel, "is away", 5)
    assert run.state == "queued"
    assert len(refresh_all([run])) == 1
    assert len(unsent.line.asked) == 4
    unsent.declare(host="10.0.0.5")
    unsent.line.asked.clear()
    unsent.line.answers = 0
    assert unsent("submit", "--resume", "job-a")[0] == 5
    assert set(unsent.line.asked) == {"10.0.0.4"}


def test_unsent_run_in_submission_is_cancelled_only_by_its_target(unsent: Unsent) -> None:
    run = unsent.submit()
    asked = len(unsent.line.asked)
    lock = run.take_lock()
    try:
        refused(lambda: run.cancel(), "is away")
    finally:
        os.close(lock)
    assert len(unsent.line.asked) == asked + 1
    assert run.is_unsent
    run.cancel()
    assert run.state == "cancelled"


@pytest.mark.parametrize("words", ["--resume job-a", "job.yaml -t pair --run-id job-a"])
def test_unsent_run_is_resumed_at_the_current_address_of_its_target(
    unsent: Unsent, words: str
) -> None:
    run = unsent.submit()
    unsent.declare(host="10.0.0.5")
    unsent.line.asked.clear()
    code, _, err = unsent("submit", *words.split())
    assert (code, set(unsent.line.asked)) == (5, {"10.0.0.5"}), err
    assert json.loads((run.folder / "target.json").read_text())["ssh"]["host"] == "10.0.0.5"
    status = Run(run.folder).status
    assert (status.state, "10.0.0.5 is away" in (status.reason or "")) == ("queued", True)


def test_unsent_run_is_not_resumed_on_a_target_with_other_mounts(unsent: Unsent) -> None:
    run = unsent.submit()
    unsent.declare(mount="/elsewhere")
    asked = list(unsent.line.asked)
    ends(unsent("submit", "--resume", "job-a"), 2, "[changed-target]", "mounts")
    assert unsent.line.asked == asked
    assert json.loads((run.folder / "target.json").read_text())["mounts"] == {"data": "/data"}


def test_unsent_run_of_batch_stays_unsent_if_the_service_is_unavailable(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise TargetUnavailable.of("service-away", "the service is away", exit_code=5)

    run = make_run("job-a", [{"state": "queued"}], state="queued", engine="batch")
    account = SimpleNamespace(pool_facts=away)
    engine = BatchEngine.__new__(BatchEngine)
    monkeypatch.setitem(engine.__dict__, "account", account)
    refused(lambda: engine.start(run, run.take_lock(), run.folder, {}), "is away")
    assert run.is_unsent
    run.take_lock()  # the failed start released the lock


@pytest.fixture
def killed(tmp_path: Path, store: RunStore) -> Callable[..., Run]:
    """Leaves the record and a part of the code of a local run, whose submission was killed."""

    def submit(**fields: Any) -> Run:
        job = {"name": "job", "template": "plain", "command": "cat data", **fields}
        (file := tmp_path / "job.yaml").write_text(json.dumps(job))
        (tmp_path / "data").write_text("all of it")
        prepared = prepare_submission(load_job(file), store, run_id="job-a")
        code.snapshot(prepared.code, store.base / "code")
        run, lock = store.create(prepared.record, prepared.all_files())
        os.close(lock)
        (run.folder / "code.part").mkdir()
        (run.folder / "code.part" / "data").write_text("all")
        return run

    return submit


@pytest.mark.parametrize(
    "words", ["submit --resume job-a", "submit job.yaml --run-id job-a", "retry job-a"]
)
def test_killed_local_submission_starts_on_resume_and_only_once(
    killed: Callable[..., Run], here: RunFairway, words: str
) -> None:
    run = killed()
    facts = json.loads(here("show", "job-a", "--json")[1])
    assert facts["state"] == "lost"
    assert facts["reason"] == "it never began; resume it with: fairway submit --resume job-a"
    assert here("wait", "job-a")[0] == 5
    assert here(*words.split())[0] == 0
    run.wait()
    assert (run.state, run.log_text()) == ("succeeded", "all of it")
    ended = run.status
    assert here("submit", "--resume", "job-a")[0] == 0
    assert run.status == ended


def test_killed_local_submission_needs_its_secrets_again_on_resume(
    killed: Callable[..., Run], here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "long enough")
    run = killed(secrets={"KEY": "env:TOKEN"}, command='test "$KEY" = "long enough"')
    monkeypatch.delenv("TOKEN")
    ends(here("submit", "--resume", "job-a"), 2, "TOKEN is not set", printed="")
    assert run.never_began
    monkeypatch.setenv("TOKEN", "long enough")
    assert here("submit", "--resume", "job-a")[0] == 0
    run.wait()
    assert run.state == "succeeded"


@pytest.mark.parametrize("left", ["state.json", "setup/launch.sh", "tasks/0/launch.sh"])
def test_lost_local_run_that_had_started_is_not_resumed(
    killed: Callable[..., Run], here: RunFairway, left: str
) -> None:
    """A supervisor may be killed after it writes a script, before it records the start."""
    run = killed()
    assert run.never_began
    (file := run.folder / left).parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"state": "running", "started": 1.0}')
    assert "fairway retry job-a" in run.status.reason
    assert here("submit", "--resume", "job-a")[0] == 0
    assert (run.state, run.never_began) == ("lost", False)
