"""Messages about a run that is followed or just started: why it waits, and new attempts."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import ends
from running import MakeRun, RunFairway

from fairway_boot.files import write_json
from fairway_cli.ui import follow
from fairway_cli.ui.follow import Remarks
from fairway_cli.ui.progress import print_started, watch_to_the_end
from fairway_runner.runs.store import Run, RunStore

WAITS = {"state": "queued", "reason": "waiting for nodes"}
# The states of the run and of its task at each refresh.
LOOKS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (WAITS, {"state": "queued"}),
    (WAITS, {"state": "queued"}),
    ({"state": "queued", "reason": "held"}, {"state": "queued"}),
    ({"state": "running", "reason": None}, {"state": "running", "attempt": 0}),
    (
        {"state": "queued", "reason": "it starts again in a moment"},
        {"state": "queued", "attempt": 0, "reason": "node n2 failed"},
    ),
    ({"state": "running", "reason": None}, {"state": "running", "attempt": 1}),
    (
        {"state": "failed", "reason": None},
        {"state": "failed", "attempt": 1, "reason": "n2 runs no containers", "exit_code": 5},
    ),
]


REASONS = [
    "job-aaaaaa is queued: waiting for nodes",
    "job-aaaaaa is queued: held",
    "job-aaaaaa is queued: it starts again in a moment",
    "job-aaaaaa is at attempt 2: node n2 failed",
]


@pytest.fixture
def elsewhere(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Makes a remote run whose states, and those of its tasks, change at each refresh."""

    def make(name: str, tasks: list[dict[str, Any]], looks: Any) -> Run:
        run = make_run(name, tasks, engine="ssh", target="pair")
        (run.folder / "engine.json").write_text('{"submission": 0, "complete": true}')
        left = iter(looks)

        def refresh(of: Run, *, logs: bool = False) -> None:
            if of.folder != run.folder:
                return  # a server in another thread looks at runs of its own
            folders = (run.folder, run.task_folder(0))
            for folder, state in zip(folders, next(left, looks[-1]), strict=False):
                write_json(folder / "state.json", state)  # whole, as what reads it may be a thread

        engine = SimpleNamespace(pause=0.0, deadline=600.0, within=lambda _: nullcontext())
        monkeypatch.setattr(Run, "refresh", refresh)
        monkeypatch.setattr(Run, "engine", engine)
        return run

    return make


@pytest.fixture
def run(elsewhere: Callable[..., Run]) -> Run:
    return elsewhere("job-aaaaaa", [{"log": "one"}], LOOKS)


def test_follow_prints_the_log_each_new_reason_and_the_end(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    watch_to_the_end(run)
    printed, said = capfd.readouterr()
    # The last line of the log has no newline.
    end = "job-aaaaaa failed (n2 runs no containers); its files are in "
    assert printed.startswith(f"job-aaaaaa runs on pair\none\n{end}")
    assert said.splitlines() == REASONS


def test_follow_with_json_prints_only_the_log_to_standard_error(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    watch_to_the_end(run, json_=True)
    assert capfd.readouterr().err == "one"


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("command", "code", "printed"), [("wait", 5, "job-aaaaaa failed\n"), ("logs -f", 0, "one")]
)
def test_follow_by_wait_and_logs_prints_each_reason_once(
    here: RunFairway, command: str, code: int, printed: str
) -> None:
    done = here(*command.split(), "job-aaaaaa")
    assert (done[:2], done[2].splitlines()) == ((code, printed), REASONS)


@pytest.mark.parametrize("json_", [False, True])
def test_follow_of_a_sweep_prints_why_it_waits_unless_json(
    elsewhere: Callable[..., Run], capsys: pytest.CaptureFixture[str], json_: bool
) -> None:
    """With JSON, standard error has the log lines of the tasks instead."""
    looks = [[WAITS], [WAITS], [{"state": "failed", "reason": "it was over"}]]
    watch_to_the_end(elsewhere("sweep-aaaaaa", [{}, {}], looks), json_=json_)
    said = "sweep-aaaaaa is queued: waiting for nodes"
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "is queued" in line] == ([] if json_ else [said])


def test_follow_of_a_lost_run_reports_it_with_a_hint_to_retry(
    make_run: MakeRun, here: RunFairway
) -> None:
    make_run("job-aaaaaa", [{"state": "lost"}], state="lost")
    lost = "job-aaaaaa is lost: its target no longer knows it"
    ends(here("logs", "-f", "job"), 5, lost, "run it again: fairway retry job-aaaaaa")


def test_resume_of_an_unrecorded_submission_hints_at_a_new_submission(here: RunFairway) -> None:
    done = here("submit", "--resume", "job-aaaaaa")
    ends(done, 2, "nothing of it was sent", "fairway submit JOB --run-id job-aaaaaa")


def test_follow_reports_a_full_disk_once_per_occurrence(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor can write neither states nor the reason for their absence."""
    run = make_run("job-aaaaaa", [{"state": "running"}], state="running")
    remarks = Remarks(run)
    remarks.look()  # a run that has just started is not probed
    monkeypatch.setattr(follow, "_PROBE_PAUSE", 0.0)
    opened = tempfile.TemporaryFile

    def failing(number: int, **_: object) -> None:
        raise OSError(number, os.strerror(number))

    full, denied = partial(failing, errno.ENOSPC), partial(failing, errno.EACCES)
    for open_ in (opened, full, full, opened, full, denied):
        monkeypatch.setattr(tempfile, "TemporaryFile", open_)
        remarks.next_probe = 0.0
        remarks.look()
    said = f"nothing can be written to {run.folder.parent}: No space left on device"
    line = f"job-aaaaaa waits, as {said}; to free some space: fairway clean"
    lines = [each for each in capsys.readouterr().err.splitlines() if "written" in each]
    assert lines == [line, line], "again once it has passed, and come again"


@pytest.mark.parametrize(("state", "again"), [("succeeded", "rerun"), ("failed", "retry")])
def test_submit_of_an_ended_run_reports_that_nothing_was_started(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], state: str, again: str
) -> None:
    run = make_run("job-aaaaaa", [{"state": state}], state=state, created=1e9)
    said = f"job-aaaaaa has ended already: {state}; nothing was started"
    print_started(run, asked=2e9)
    assert capsys.readouterr().out.splitlines() == [
        said,
        "  see it:     fairway show job-aaaaaa",
        f"  run again:  fairway {again} job-aaaaaa",
    ]
    watch_to_the_end(run, asked=2e9)
    assert capsys.readouterr().out.startswith(f"{said}\n")
    # A short run may have ended right after its start.
    print_started(run, asked=0.9e9)
    assert capsys.readouterr().out.startswith("job-aaaaaa runs on local\n")


FULL = Path("/dev/full")


@pytest.mark.integration
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [{}, {"quiet": True}, {"json_": True}])
def test_submit_names_the_run_on_standard_error_if_output_fails(
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: dict[str, bool],
) -> None:
    run = make_run("job-aaaaaa", [{"log": "loss 1\n"}])
    for say in (print_started, watch_to_the_end):
        descriptor = os.open(FULL, os.O_WRONLY)
        stream = os.fdopen(os.dup(descriptor), "w")
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(OSError, match="No space left"):
            say(run, **words)  # type: ignore[operator]
        monkeypatch.undo()
        os.close(descriptor)
        with pytest.raises(OSError, match="No space left"):
            stream.close()
        said = capsys.readouterr().err
        assert said.endswith("job-aaaaaa was started; see: fairway show job-aaaaaa\n")


@pytest.mark.integration
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_submit_to_a_full_output_starts_the_job_once_and_exits_with_5(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("{name: once, command: 'true'}\n")
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fairway_cli.entry", "submit", "-q", "job.yaml"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
    (folder,) = (each for each in (tmp_path / ".fairway/runs").iterdir() if each.name[0] != ".")
    run = RunStore(tmp_path / ".fairway").find(folder.name)
    run.wait()
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        f"{run.id} was started; see: fairway show {run.id}",
        "error: the output cannot be written: No space left on device",
    ]
    assert run.status.state == "succeeded"
