"""Calls in a separate process with limited time and memory."""

import os
import pickle
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from endings import refused

from fairway_agent import process_limits
from fairway_agent.process_limits import OverLimit
from fairway_core.findings import Finding, Location
from fairway_runner import worker
from fairway_runner.engines.outage import RunRefused
from fairway_runner.runs.store import Run
from fairway_runner.targets.lookup import find_target

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    worker.close()


def test_worker_call_uses_folder_and_environment_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = worker.call(os.getpid)
    assert process != os.getpid()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRWAY_ENVIRONMENT", "own")
    assert worker.call(os.getcwd) == str(tmp_path)
    assert worker.call(os.getenv, "FAIRWAY_ENVIRONMENT") == "own"
    assert worker.call(os.getpid) == process


def test_worker_raises_errors_of_calls_in_another_process(tmp_path: Path) -> None:
    assert refused(lambda: worker.call(find_target, "none")).id == "unknown-target"
    with pytest.raises(FileNotFoundError) as missing:
        worker.call(os.listdir, str(tmp_path / "none"))
    assert missing.value.filename == str(tmp_path / "none")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        worker.call(divmod, 1, 0)
    found = Finding("a", "is wrong", "hint", "path", location=Location("f", 1, 2, "text"))
    error = pickle.loads(pickle.dumps(RunRefused([found], exit_code=5)))
    assert type(error) is RunRefused
    assert (error.findings, error.exit_code, str(error)) == ((found,), 5, "is wrong\n  hint")
    run = Run(tmp_path)
    run.__dict__["engine"] = open  # like a connection, it cannot be pickled
    assert pickle.loads(pickle.dumps(run)).__dict__ == {"folder": tmp_path}


def test_worker_call_over_the_time_limit_ends_only_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Holds also within a C function, which no signal interrupts."""
    process = worker.call(os.getpid)
    with monkeypatch.context() as limits:
        limits.setattr(worker, "CPU", 0.3)
        with pytest.raises(OverLimit):
            worker.call(sum, range(10**12))
        assert refused(lambda: worker.look_at_job(sum, range(10**12)), code=2).id == "heavy-job"
    assert worker.call(os.getpid) != process


@pytest.mark.skipif(
    process_limits.used_memory() is None, reason="the system does not say what it has"
)
def test_worker_call_over_the_memory_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MEMORY", 1 << 26)
    with pytest.raises(OverLimit):
        worker.call(list, range(10**10))
    assert worker.call(len, "abc") == 3


def test_worker_replaces_a_killed_process_and_lifts_limits() -> None:
    with pytest.raises(OverLimit):
        worker.call(bytes, 33 << 20)
    process = worker.call(os.getpid)
    os.kill(process, 9)
    worker._idle[0]._process.wait()
    assert worker.call(len, "abc") == 3
    usual = resource.getrlimit(resource.RLIMIT_DATA)
    limited = worker.call(signal.getitimer, signal.ITIMER_PROF)
    assert limited[0] > 0
    lifted = worker.call(
        eval,
        "[worker := __import__('fairway_runner.worker').worker, worker.remove_limits(),"
        " worker.signal.getitimer(worker.signal.ITIMER_PROF),"
        " worker.resource.getrlimit(worker.resource.RLIMIT_DATA)][2:]",
    )
    assert lifted == [(0.0, 0.0), usual]


_CALLER = """
import os, pathlib, sys
from fairway_runner import worker
print(worker.call(os.getpid), flush=True)
worker.call(pathlib.Path(sys.argv[1]).read_bytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="by a descriptor of Linux")
def test_worker_call_ends_if_its_caller_is_killed(tmp_path: Path) -> None:
    """Otherwise a submission of a killed server would continue beside the next server."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = [sys.executable, "-c", _CALLER, str(pipe)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as caller:
        process = os.pidfd_open(int(caller.stdout.readline()))
        with pipe.open("wb"):  # waits until the call reads it
            caller.kill()
            assert select.select([process], [], [], 60)[0]
    os.close(process)
