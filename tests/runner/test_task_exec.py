"""Commands inside a task: the process that a command runs beside, and what it inherits."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import finished
from running import MakeRun

from fairway_agent import task_exec
from fairway_agent.task_exec import Process, chosen
from fairway_runner.engines.engine import inside_command
from fairway_runner.runs.store import enter

RUN = "job-inside"


def _process(pid: int, parent: int, name: str = "python", **variables: Any) -> Process:
    environment = {key.encode(): str(value).encode() for key, value in variables.items()}
    return Process(pid, parent, pid, name, environment)


# bash launch.sh → mpirun → ssh to the other node, and two ranks, one of them with a worker.
JOB = [
    _process(10, 1, "bash"),
    _process(11, 10, "mpirun"),
    _process(12, 11, "ssh"),
    _process(13, 11, "bash", OMPI_COMM_WORLD_RANK=4),
    _process(14, 11, "bash", OMPI_COMM_WORLD_RANK=5),
    _process(15, 13, OMPI_COMM_WORLD_RANK=4, MINE=1),
    _process(16, 14, OMPI_COMM_WORLD_RANK=5, MINE=1),
    _process(17, 16, OMPI_COMM_WORLD_RANK=5, MINE=1),
]


def test_task_exec_chooses_the_innermost_process_of_a_rank_first() -> None:
    for rank, pids in ((None, [15, 13]), (4, [15, 13]), (5, [17, 16, 14]), (0, []), (6, [])):
        assert [each.pid for each in chosen(JOB, rank)] == pids


def test_task_exec_chooses_a_process_of_a_task_without_ranks() -> None:
    job = [_process(10, 1, "bash"), _process(11, 10), _process(12, 10)]
    assert [each.pid for each in chosen(job, None)] == [11, 10]
    assert [each.pid for each in chosen(job, 0)] == [11, 10]
    assert chosen(job, 1) == []
    assert chosen([], None) == []
    # A launcher that a user started in a session has ranks of its own.
    beside = [_process(20, 1, "bash", FAIRWAY_PID=11), _process(21, 20, RANK=0, FAIRWAY_PID=11)]
    session = [_process(10, 1, "bash"), _process(11, 10, "sleep"), *beside]
    assert [each.pid for each in chosen(session, None)] == [11, 10]
    assert [each.pid for each in chosen(session, 0)] == [21]
    assert [each.pid for each in chosen(beside, None)] == [21]


def _shown(folder: Path, pid: int, parent: int, name: str, **more: str) -> None:
    """Writes a process of the task as /proc shows it."""
    own = {"FAIRWAY_RUN": RUN, "FAIRWAY_TASK": "0", **more}
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "environ").write_text("".join(f"{k}={v}\0" for k, v in own.items()))
    rest = " ".join(["S", str(parent), *["0"] * 17, str(pid), "0"])
    (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {rest}\n")


def test_task_exec_ignores_the_ssh_server_of_the_task(tmp_path: Path) -> None:
    """On several nodes, each has an ssh server for the others, with the task's variables."""
    _shown(tmp_path, 10, 1, "sshd", _FAIRWAY_SERVICE="1")
    _shown(tmp_path, 20, 1, "sshd")
    assert [each.pid for each in task_exec.processes_of_task(RUN, "0", tmp_path)] == [20]


def test_task_exec_tells_runs_of_one_id_in_several_shared_folders(tmp_path: Path) -> None:
    """Two projects on one machine, or two users' targets on one cluster, may have the same ID."""
    proc, link = tmp_path / "proc", tmp_path / "link"
    proc.mkdir()
    (tmp_path / "home").mkdir()
    link.symlink_to("home")
    for pid, shared in ((10, "lab"), (20, "home")):
        _shown(proc, pid, 1, "bash", FAIRWAY_SHARED_DIR=f"{tmp_path}/{shared}/runs/{RUN}/shared")
    for run, pids in ((RUN, [10, 20]), (f"{tmp_path}/lab/runs/{RUN}", [10])):
        assert [each.pid for each in task_exec.processes_of_task(run, "0", proc)] == pids
    [found] = task_exec.processes_of_task(f"{link}/runs/{RUN}", "0", proc)
    assert found.pid == 20


def test_task_exec_prefers_processes_in_the_container_over_the_docker_client(
    tmp_path: Path,
) -> None:
    """The client is older and on the host; the processes in the container are not its children."""
    for pid, parent, name in ((10, 1, "python3"), (20, 2, "bash"), (21, 20, "python")):
        _shown(tmp_path, pid, parent, name)
    _shown(tmp_path, 11, 10, "docker", _FAIRWAY_CONTAINER="fairway-job")
    assert [each.pid for each in chosen(task_exec.processes_of_task(RUN, "0", tmp_path), None)] == [
        21,
        20,
    ]


def test_task_exec_enters_the_container_of_the_task(tmp_path: Path) -> None:
    """A mount namespace, in which a folder has other content, stands for the container."""
    (tmp_path / "seen").mkdir()
    own = "mount -t tmpfs none seen && touch seen/inside && echo up && read _"
    names = {"FAIRWAY_RUN": RUN, "FAIRWAY_TASK": "0"}
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", own],
        cwd=tmp_path,
        env={**os.environ, **names},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"up\n":
            pytest.skip("this machine lets nobody make a mount namespace")
        done = _beside("-", "sh", "-c", "ls seen; pwd")
        assert done.stdout == f"inside\n{tmp_path.resolve()}\n", done.stderr
    assert not (tmp_path / "seen" / "inside").exists()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A task: a shell that waits until this test closes its input."""
    names = {"FAIRWAY_RUN": RUN, "FAIRWAY_TASK": "0", "RANK": "3", "_FAIRWAY_MARK": "x"}
    with subprocess.Popen(
        ["sh", "-c", "echo up; read -r _"],
        cwd=tmp_path,
        env={**os.environ, **names},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"up\n"
        yield process


def _beside(rank: str, *command: str, run: str = RUN) -> subprocess.CompletedProcess[str]:
    return finished(inside_command(run, "0", [rank, *command], sys.executable))


def test_task_exec_runs_the_command_beside_its_rank_or_reports_what_is_missing(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    shown = 'echo "$RANK $FAIRWAY_PID ${_FAIRWAY_MARK-none}"; pwd; exit 9'
    for rank in ("-", "3"):
        done = _beside(rank, "sh", "-c", shown)
        assert done.stdout == f"3 {running.pid} none\n{tmp_path.resolve()}\n", done.stderr
        assert done.returncode == 9
    done = _beside("1", "true")
    assert done.returncode == 5
    assert "rank 1 of job-inside is not on this node: its ranks here are 3" in done.stderr
    done = _beside("-", "no-such-program")
    assert (done.returncode, "no-such-program: No such file" in done.stderr) == (127, True)
    done = _beside("-", "true", run="job-other")
    assert done.returncode == 5
    assert "no process of task 0 of job-other is on this node" in done.stderr
    done = _beside("-", "true", run="~/fairway/runs/job-other")
    assert "no process of task 0 of job-other is on this node" in done.stderr


def test_task_exec_reads_the_process_owner_from_its_status(tmp_path: Path) -> None:
    """The /proc folder of a non-dumpable process belongs to root; its status names the user."""
    ids = "Name:\ta:b\nUid:\t1001\t1002\t1002\t1002\nGid:\t100\t200\t200\t200\nGroups:\t44 200 \n"
    (tmp_path / "status").write_text(ids)
    assert task_exec._owner(tmp_path) == (1002, 200, [44, 200])
    own = (os.geteuid(), os.getegid(), sorted(os.getgroups()))
    assert task_exec._owner(Path("/proc/self")) == own


def test_task_exec_keeps_ld_preload_of_the_task_from_nsenter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(task_exec, "_namespaces", lambda _: ["/usr/bin/nsenter", "-m"])
    monkeypatch.setattr(os, "execvpe", lambda *words: started.append(words))
    process = _process(os.getpid(), 1, LD_PRELOAD="/tmp/mine.so", LANG="C")
    task_exec.enter(process, ["true"])
    ((_, words, environment),) = started
    assert words[-4:] == ["--", "env", "LD_PRELOAD=/tmp/mine.so", "true"]
    assert b"LD_PRELOAD" not in environment
    assert environment[b"LANG"] == b"C"


def test_task_exec_module_imports_no_fairway_package() -> None:
    source = Path(task_exec.__file__).read_text()
    assert "import fairway" not in source
    assert "from fairway" not in source


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"task": 3}, "has no task 3"),
        ({"task": 1}, "task 1 of job-a is running"),
        ({"node": 2}, "has no node 2"),
        ({"rank": 4}, "has no rank 4"),
    ],
)
def test_task_exec_refuses_unknown_tasks_nodes_and_ranks_of_the_run(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, int], says: str
) -> None:
    tasks = [{"state": "running", "nodes": 2, "processes_per_node": 2}, {"state": "queued"}]
    run = make_run("job-a", tasks, state="running", engine="ssh", target="pair")
    monkeypatch.setattr(type(run), "refresh", lambda *_, **__: None)
    refused(lambda: enter(run, ["true"], **wanted), says)
