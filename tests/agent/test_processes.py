"""Finding and ending the processes of a task, and the limit on their time."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairway_agent import process_limits, processes
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task.task import Task

pytestmark = pytest.mark.integration


UP = "import signal, sys; {how}; print('up', flush=True); [signal.pause() for _ in iter(int, 1)]"
POLITE = UP.format(how="signal.signal(15, lambda *_: sys.exit(3))")
DEAF = UP.format(how="signal.signal(15, signal.SIG_IGN)")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program in its own session and waits until it is up. Ends it with the test."""
    programs: list[subprocess.Popen[str]] = []

    def begin(*command: str, **environment: str) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        programs.append(program)
        assert program.stdout.readline() == "up\n"
        return program

    yield begin
    for program in programs:
        with program:
            processes.kill({program.pid})


def test_processes_of_another_user_are_not_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task's `sudo` has children that the task's user may not kill: nothing waits for them
    forever."""
    program = start(sys.executable, "-c", POLITE)
    kill = os.kill

    def refuse(pid: int, number: int) -> None:
        if pid == program.pid:
            raise PermissionError
        kill(pid, number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        patch.setattr(os, "geteuid", lambda: 1000)
        assert processes.members({program.pid}) == set()
        processes.end({program.pid}, grace=60)
        processes.kill({program.pid})
    assert program.poll() is None


def test_processes_that_cannot_die_are_returned_after_a_while(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one in a system call of a driver: its task ends, and its log names the process."""
    pid = start(sys.executable, "-c", POLITE).pid
    task = Task(RunPlan("job-a", "/x"), TaskSpec(0), tmp_path, tmp_path, kill_at=0.0)
    task.process = SimpleNamespace(pid=pid, poll=lambda: None)  # type: ignore[assignment]
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_send", lambda *_: None)
        patch.setattr(processes, "PATIENCE", 0.0)
        assert processes.end_all(lambda: {pid}, 0.0) == {pid}
        task.check_timers()
        assert task.next_timer() == math.inf, "it is not killed again and again"
        task.process.poll = lambda: -9  # type: ignore[method-assign]
        assert task.ended() == 137
    said = f"fairway: killed processes have not ended, and may go on: {pid}\n"
    assert (tmp_path / "log.txt").read_text() == said * 2


def test_guard_that_was_killed_does_not_stop_its_supervisor() -> None:
    guard = processes.Guard((), 0.0, lambda _: False)
    os.kill(guard.pid, signal.SIGKILL)
    os.waitpid(guard.pid, 0)
    guard.watch(1)
    guard.forget(1)


TRAP = "trap 'echo told; exit 0' TERM; sleep 600 & echo up; while :; do wait; done"


@pytest.mark.parametrize(
    ("words", "grace", "printed", "code"),
    [
        ((sys.executable, "-c", DEAF), 0.0, "", -signal.SIGKILL),
        (("bash", "-c", '"$0" -c "$1"; echo "code $?"', sys.executable, POLITE), 60, "code 3\n", 0),
        (("bash", "-c", TRAP), 60, "told\n", 0),
        (("bash", "-c", "echo up; while :; do :; done"), 60, "", -signal.SIGTERM),
    ],
    ids=["it is deaf", "a shell outlives what it waits for", "with a trap", "a shell alone"],
)
def test_processes_get_sigterm_and_are_killed_after_the_grace(
    start: Start, words: tuple[str, ...], grace: float, printed: str, code: int
) -> None:
    program = start(*words)
    processes.end({program.pid}, grace)
    assert (program.communicate()[0], program.returncode) == (printed, code)


def test_processes_signal_skips_a_shell_that_only_waits(start: Start) -> None:
    """The trap keeps the shell alive if a launcher signals it together with its child."""
    script = 'trap : TERM; "$@"; echo "code $?"'
    shell = start("bash", "-c", script, "fairway-waits", sys.executable, "-c", POLITE)
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "kill", lambda pid, _: told.append(pid))
        processes.signal_sessions({shell.pid}, signal.SIGTERM)
    assert shell.pid not in told
    assert told


@pytest.mark.parametrize("turned", [False, True])
def test_processes_signal_reaches_a_shell_before_the_child_that_it_waits_for(
    start: Start, monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    """Otherwise the shell would continue after the child's end, and could end without its trap."""
    script = 'trap \'exit 0\' TERM; "$0" -c "$1"; true'
    shell = start("bash", "-c", script, sys.executable, POLITE)
    [child] = processes.members({shell.pid}) - {shell.pid}
    told: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", lambda pid, _: told.append(pid))
        order = [child, shell.pid] if turned else [shell.pid, child]
        processes.signal_processes(order, signal.SIGTERM)
    assert told == [shell.pid, child]


def test_processes_sessions_are_found_by_run_even_with_odd_process_names(
    start: Start, tmp_path: Path
) -> None:
    """Another project may have a run of the same ID."""
    folder, mark = tmp_path / "a#b" / "job-222222", "_FAIRWAY_MARK"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to("a#b")
    own = {"FAIRWAY_RUN": folder.name}
    program = (sys.executable, "-c", POLITE)
    marks: list[dict[str, str]] = [
        {},  # as in a container
        {mark: f"{folder}#0"},
        {mark: f"{tmp_path}/link/job-222222#0#1#node"},
    ]
    mine = [start(*program, **own, **each).pid for each in marks]
    start(*program, FAIRWAY_RUN="job-2222222")
    start(*program, **own, _FAIRWAY_MARK=f"{tmp_path}/other/job-222222#0")
    assert processes.sessions_of(folder, mark) == set(mine)
    rename = "open('/proc/self/comm', 'w').write(') Z 1 2 (x'); " + POLITE
    program = start(sys.executable, "-c", rename)
    assert processes.members({program.pid}) == {program.pid}


class _Slow:
    def __del__(self) -> None:
        while True:
            pass


def _run_for_ever() -> None:
    with process_limits.cpu_limit():
        _Slow()
        while True:
            pass


def test_cpu_limit_is_raised_again_if_a_finalizer_swallows_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.05)
    with pytest.raises(process_limits.OverLimit):
        _run_for_ever()
    assert capfd.readouterr().err == ""


def test_cpu_limit_restarts_for_each_prepared_use(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.05)
    with process_limits.prepared():
        for _ in range(2):
            with pytest.raises(process_limits.OverLimit):
                _run_for_ever()
            assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
            with process_limits.cpu_limit():
                assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0.0
    assert signal.getsignal(signal.SIGVTALRM) == before
