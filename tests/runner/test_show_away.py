"""Runs on an unreachable target: shown as last known, and followed until the target answers."""

import json
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from azure.core.exceptions import ServiceRequestError
from clocks import Clock
from endings import refused
from programs import executable
from running import MakeRun, RunFairway
from targets import target_of

from fairway_agent import control
from fairway_agent.kubernetes.api import Api
from fairway_agent.main import MARK
from fairway_agent.spec import RunPlan
from fairway_agent.state_files import RunState
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands
from fairway_core.findings import UserError
from fairway_core.target import KubernetesAccess
from fairway_runner.engines import engine, outage
from fairway_runner.engines.azure_calls import Calls
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.engines.kubernetes.exec import Exec
from fairway_runner.engines.local import LocalEngine
from fairway_runner.engines.outage import OutageTolerance, TargetUnavailable, clock
from fairway_runner.engines.remote import engine as remote_engine
from fairway_runner.engines.remote.connection import Ended
from fairway_runner.engines.remote.mirror import Mirror
from fairway_runner.engines.remote.remote_host import RemoteHost
from fairway_runner.engines.remote.ssh import Ssh
from fairway_runner.engines.slurm import SlurmEngine
from fairway_runner.engines.ssh import SshEngine
from fairway_runner.runs.store import Run

AWAY = TargetUnavailable.of("no-connection", "host h cannot be reached", "is it up?", exit_code=5)
RUNNING = [{"state": "running", "log": "epoch 1\n"}]


@pytest.fixture
def running(make_run: MakeRun) -> Run:
    """A run in progress on a remote target."""
    return make_run("job-a", RUNNING, state="running", engine="ssh", target="lab")


@pytest.mark.parametrize("words", ["show job-a", "show job-a --json", "logs job-a"])
def test_show_and_logs_of_an_unreachable_run_print_the_last_known_state_and_time(
    here: RunFairway, running: Run, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    (running.folder / ".answered").touch()
    monkeypatch.setattr(Run, "refresh", Mock(side_effect=AWAY))
    code, out, err = here(*words.split())
    assert code == 5
    assert "error: host h cannot be reached [no-connection]\n  is it up?\n" in err
    assert f"job-a is shown as last known at {clock(running.last_known)}\n" in err
    if words.startswith("logs"):
        assert out == "epoch 1\n"
    else:
        assert json.loads(out)["state"] == "running" if "--json" in words else "running" in out


def test_show_reports_a_user_error_instead_of_the_last_known_state(
    here: RunFairway, running: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: Run, **_: object) -> None:
        raise UserError.of("wrong-credentials", f"you are not known to {running.record.target}")

    monkeypatch.setattr(Run, "refresh", wrong)
    assert here("show", "job-a")[:2] == (2, "")


def _comes_back(run: Run, looks: int) -> Callable[..., None]:
    """Returns a refresh that fails `looks` times, and then records the end of the run."""
    left = [AWAY] * looks

    def refresh(*_: object, **__: object) -> None:
        if left:
            raise left.pop()
        with (run.folder / "tasks/0/log.txt").open("a") as log:
            log.write("epoch 2\n")
        (run.folder / "state.json").write_text(json.dumps({"state": "succeeded", "reason": None}))

    return refresh


def test_logs_follow_continues_when_the_host_is_reachable_again(
    here: RunFairway,
    running: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The host is unreachable from the first refresh on, so the known log comes first."""
    monkeypatch.setattr(Run, "refresh", _comes_back(running, 3))
    engine = SimpleNamespace(pause=0.0, deadline=600.0, within=lambda _: nullcontext())
    monkeypatch.setattr(Run, "engine", engine)
    known = clock(running.last_known)
    with caplog.at_level(logging.WARNING, "fairway"):
        code, out, _ = here("logs", "-f", "job-a")
    assert (code, out) == (0, "epoch 1\nepoch 2\n")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        f"host h cannot be reached; job-a is as last known at {known}; retrying until "
    )


ENGINES = {"ssh": SshEngine, "slurm": SlurmEngine, "batch": BatchEngine}


@pytest.mark.parametrize(("kind", "engine"), ENGINES.items())
def test_wait_continues_after_an_unreachable_host_on_every_engine(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, kind: str, engine: Any
) -> None:
    run = make_run("job-a", RUNNING, state="running", engine=kind, target="lab")
    (run.folder / "engine.json").write_text(json.dumps({"submission": 0, "complete": True}))
    refresh = _comes_back(run, 2)
    monkeypatch.setattr(engine, "refresh", refresh)
    monkeypatch.setattr(Mirror, "refresh", refresh)
    monkeypatch.setattr(engine, "mirror", Mirror(SimpleNamespace(deadline=600.0)), raising=False)
    monkeypatch.setattr(engine, "pause", 0.0)
    engine(target_of(kind, name="lab"), deadline=600.0).wait(run)
    assert run.state == "succeeded"


@pytest.mark.parametrize(("kind", "engine"), ENGINES.items())
def test_wait_for_an_incomplete_submission_fails_with_a_hint_to_resume(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, kind: str, engine: Any
) -> None:
    """The submitting command was killed, and the target has only a part of the run."""
    run = make_run("job-a", state="queued", engine=kind, target="lab")
    (run.folder / "engine.json").write_text('{"submission": 0, "complete": false}')
    looks = iter([None, None])
    monkeypatch.setattr(engine, "refresh", lambda *_, **__: next(looks))
    monkeypatch.setattr(engine, "pause", 0.0)
    with pytest.raises(UserError, match="fairway submit --resume job-a"):
        engine(target_of(kind, name="lab"), deadline=600.0).wait(run)


@pytest.mark.parametrize(
    ("kind", "seconds", "state"),
    [
        ("local", 70.0, "running"),
        ("ssh", 67.0, "running"),
        ("slurm", 87.0, "running"),
        ("slurm", 87.0, "queued"),  # incompletely submitted, with a job that is not known here
    ],
)
def test_cancel_waits_for_the_end_of_a_run_a_minute_longer_than_its_grace(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, kind: str, seconds: float, state: str
) -> None:
    """While its folder is full, nothing can write that it has ended."""
    run = make_run("job-a", state=state, engine=kind, target="lab")
    plan = "{" if kind == "local" else RunPlan(run.id, "/code", grace=7.0).text()
    (run.folder / "plan.json").write_text(plan)
    is_complete = state == "running"
    (run.folder / "engine.json").write_text(json.dumps({"submission": 0, "complete": is_complete}))
    time = Clock.of(monkeypatch, outage, engine, remote_engine)
    made: Any = {**ENGINES, "local": LocalEngine}[kind](target_of("ssh", name="lab"))
    for name in ("refresh", "request_end", "mirror"):
        monkeypatch.setattr(type(made), name, Mock(), raising=False)
    monkeypatch.setattr(control, "signal_supervisor", lambda *_: RunState("running"))
    with ExitStack() as ends:
        if kind == "local":
            ends.callback(os.close, run.take_lock())  # stands for a supervisor
        found = refused(lambda: made.cancel(run))
    assert (found.id, f"still `{state}`" in found.message) == ("not-ended", True)
    assert time.slept == pytest.approx(seconds, abs=3.0)


@pytest.mark.parametrize(("kind", "deadline"), [(TargetUnavailable, 0.0), (UserError, 600.0)])
def test_absence_is_tolerated_until_the_deadline_for_transient_errors_only(
    running: Run, kind: type[UserError], deadline: float
) -> None:
    def refuse() -> None:
        raise kind.of("some-id", "no", exit_code=5)

    with pytest.raises(UserError):
        OutageTolerance(running, deadline).call(refuse)


def _silent_slurm(folder: Path) -> None:
    executable(folder / "squeue", "echo Unable to contact slurm controller >&2; exit 1")
    commands.run(["squeue"])


def _silent_kubernetes(folder: Path) -> None:
    (folder / "token").write_text("t")
    Api(folder).call("GET", "/readyz")


def _silent_batch(folder: Path) -> None:
    def ask() -> None:
        raise ServiceRequestError(f"no answer for {folder}")

    Calls("Azure Batch", 0.0, "az login").call("ask", ask)


def _silent_host(folder: Path) -> None:
    for name in ("ssh", "kubectl"):
        executable(folder / name, "echo Connection timed out >&2; exit 255")
    Ssh("10.0.0.4", "").run(["true"], deadline=0.0)


def _silent_pod(folder: Path) -> None:
    with suppress(UserError):
        _silent_host(folder)
    access = KubernetesAccess(namespace="n", image="i:1", shared="/s", volumes={"data": "c"})
    Exec("nd", access).run(["true"], deadline=0.0)


@pytest.mark.parametrize(
    "ask", [_silent_slurm, _silent_kubernetes, _silent_batch, _silent_host, _silent_pod]
)
def test_target_of_any_engine_that_does_not_answer_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Path], None]
) -> None:
    """Its runs are then followed further, and a job with several targets tries the next one."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(Api, "_connect", Mock(side_effect=ConnectionRefusedError))
    monkeypatch.setattr("fairway_agent.kubernetes.api._PATIENCE", 0.0)
    with pytest.raises((AgentError, UserError)) as caught:
        ask(tmp_path)
    error = caught.value
    if isinstance(error, AgentError):  # sent in the answer of a host
        out = f"{MARK}{json.dumps({'fault': error.record})}".encode()
        with pytest.raises(UserError) as caught:
            RemoteHost(SimpleNamespace(name="h"), "/s")._answer(Ended(0, out, ""))  # type: ignore[arg-type]
        error = caught.value
    assert isinstance(error, TargetUnavailable)


def test_last_known_time_on_another_day_is_shown_with_its_date(running: Run) -> None:
    os.utime(running.folder / "state.json", (1e9, 1e9))
    assert clock(running.last_known).startswith("2001-09-")
    running.note_answer()
    assert abs(running.last_known - time.time()) < 3600
