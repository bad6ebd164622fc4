"""Runs that were recorded, and of which nothing ever reached their target."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from endings import ends

from fairway_core.findings import UserError
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.engines.remote import engine as remote_engine
from fairway_runner.engines.remote.connection import Ended
from fairway_runner.runs.store import Run, RunStore, refresh_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RunFairway

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
    """The connections to all hosts, by the host of each command: they answer the first few."""

    answers: int = 0
    asked: list[str] = field(default_factory=list)

    def to(self, host: str, *_: Any) -> Any:
        return SimpleNamespace(
            name=host, begin=lambda: None, has_rsync=False, run=lambda *_, **__: self.run(host)
        )

    def run(self, host: str) -> Ended:
        self.asked.append(host)
        if len(self.asked) <= self.answers:
            return Ended(0, b"", "")
        raise TargetUnavailable.of("no-connection", f"{host} is away", "is it up?", exit_code=5)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    monkeypatch.setattr(remote_engine, "connection_to", line.to)
    return line


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_target(tmp_path)
    (tmp_path / "job.yaml").write_text("name: job\ncommand: 'true'\n")
    return tmp_path


def write_target(project: Path, host: str = "10.0.0.4", mount: str = "/data") -> None:
    (project / "fairway.yaml").write_text(TARGETS.format(host=host, mount=mount))


@pytest.fixture
def submitted(project: Path, fairway: RunFairway, line: Line) -> Callable[[], Run]:
    """Submits a run to a host that is away."""

    def submit() -> Run:
        words = ["submit", "job.yaml", "-t", "pair", "--run-id", "job-a"]
        ends(fairway(project, *words), 5, "[cut-off-submission]", printed="")
        return RunStore(project / ".fairway").find("job-a")

    return submit


def test_unsent_run_is_listed_cancelled_and_cleaned_without_its_target(
    project: Path, fairway: RunFairway, line: Line, submitted: Callable[[], Run]
) -> None:
    run = submitted()
    asked = list(line.asked)
    for words in (["show", "job-a"], ["list", "--state", "queued"]):
        code, out, _ = fairway(project, *words, "--json")
        assert code == 0
        facts = json.loads(out)
        reason = (facts if words[0] == "show" else facts[0])["reason"]
        assert "10.0.0.4 is away" in reason
        assert "fairway submit --resume job-a" in reason
    assert fairway(project, "cancel", "job-a")[:2] == (0, "job-a cancelled\n")
    assert fairway(project, "clean", "job-a", "--yes")[0] == 0
    assert not run.folder.exists()
    assert line.asked == asked


def test_cancelled_unsent_run_is_not_resumed(
    project: Path, fairway: RunFairway, line: Line, submitted: Callable[[], Run]
) -> None:
    run = submitted()
    run.cancel()
    asked = list(line.asked)
    assert fairway(project, "submit", "--resume", "job-a")[0] == 0
    assert (run.state, line.asked) == ("cancelled", asked)


def test_run_of_which_something_may_have_been_sent_asks_its_target(
    project: Path, line: Line, submitted: Callable[[], Run]
) -> None:
    """The host answered, and was away before it said whether it has the run."""
    line.answers = 1
    run = submitted()
    assert not run.is_unsent
    assert len(line.asked) == 2
    with pytest.raises(UserError, match="is away") as caught:
        run.cancel()
    assert (caught.value.exit_code, run.state) == (5, "queued")
    assert len(refresh_all([run])) == 1
    assert len(line.asked) == 4


def test_cancel_beside_the_command_that_sends_a_run_asks_its_target(
    line: Line, submitted: Callable[[], Run]
) -> None:
    run = submitted()
    asked = len(line.asked)
    lock = run.take_lock()
    try:
        with pytest.raises(UserError, match="is away"):
            run.cancel()
    finally:
        os.close(lock)
    assert len(line.asked) == asked + 1
    assert run.is_unsent
    run.cancel()
    assert run.state == "cancelled"


def test_waiting_for_an_unsent_run_says_how_to_send_it(submitted: Callable[[], Run]) -> None:
    with pytest.raises(UserError, match="submit --resume job-a") as caught:
        submitted().wait()
    assert caught.value.findings[0].id == "cut-off-submission"


@pytest.mark.parametrize("words", [["--resume", "job-a"], ["job.yaml", "-t", "pair"]])
def test_resume_of_an_unsent_run_goes_to_its_target_as_it_is_now(
    project: Path, fairway: RunFairway, line: Line, submitted: Callable[[], Run], words: list[str]
) -> None:
    run = submitted()
    write_target(project, host="10.0.0.5")
    line.asked.clear()
    again = words if words[0] == "--resume" else [*words, "--run-id", "job-a"]
    code, _, err = fairway(project, "submit", *again)
    assert (code, set(line.asked)) == (5, {"10.0.0.5"}), err
    assert json.loads((run.folder / "target.json").read_text())["ssh"]["host"] == "10.0.0.5"
    status = Run(run.folder).status
    assert (status.state, "10.0.0.5 is away" in (status.reason or "")) == ("queued", True)


def test_resume_of_a_sent_run_stays_with_the_target_that_has_it(
    project: Path, fairway: RunFairway, line: Line, submitted: Callable[[], Run]
) -> None:
    line.answers = 1
    submitted()
    write_target(project, host="10.0.0.5")
    line.asked.clear()
    line.answers = 0
    assert fairway(project, "submit", "--resume", "job-a")[0] == 5
    assert set(line.asked) == {"10.0.0.4"}


def test_resume_on_a_target_with_other_mounts_is_refused(
    project: Path, fairway: RunFairway, line: Line, submitted: Callable[[], Run]
) -> None:
    run = submitted()
    write_target(project, mount="/elsewhere")
    asked = list(line.asked)
    ends(fairway(project, "submit", "--resume", "job-a"), 2, "[changed-target]", "mounts")
    assert line.asked == asked
    assert json.loads((run.folder / "target.json").read_text())["mounts"] == {"data": "/data"}


def test_batch_run_is_unsent_as_long_as_the_service_is_away(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise TargetUnavailable.of("service-away", "the service is away", exit_code=5)

    run = make_run("job-a", [{"state": "queued"}], state="queued", engine="batch")
    account = SimpleNamespace(pool_facts=away)
    engine = BatchEngine.__new__(BatchEngine)
    monkeypatch.setitem(engine.__dict__, "account", account)
    with pytest.raises(UserError, match="is away"):
        engine.start(run, run.take_lock(), run.folder, {})
    assert run.is_unsent
    run.take_lock()  # which was let go
