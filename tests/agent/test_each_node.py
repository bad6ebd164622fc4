"""Running a command once on each node of a task, over ssh and on a pool, with a stand-in for
ssh."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished

from fairway_agent import processes
from fairway_agent.fanout import remote_exec
from fairway_core import archives

pytestmark = pytest.mark.integration

# The other host is this machine, but signals to the task's sessions do not reach it. A server of a
# pool starts `fairway-node serve`, whatever command it is asked for.
_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
echo "$2" >>{folder}/reached
case $3 in
fairway-run)
    SSH_ORIGINAL_COMMAND=$3 exec setsid {python} {programs}/fairway-node serve {folder}/context ;;
*) exec setsid sh -c "$3" ;;
esac
"""

# Reports when it is up and each SIGTERM; ends when the test opens its gate.
_PROGRAM = """
import os, signal
rank = os.environ["FAIRWAY_NODE_RANK"]
def say(word):
    with open("said", "w") as pipe:
        pipe.write(f"{word} {rank}\\n")
signal.signal(signal.SIGTERM, lambda *_: say("told"))
say("up")
open(f"gate{rank}").read()
"""

# The rank that fails waits until the other ignores its signal.
_DEAF = """
if [ "$FAIRWAY_NODE_RANK" = 1 ]; then read -r _ <up; exit 9; fi
trap '' TERM; echo up >up; exec sleep 600
"""


@dataclass
class Task:
    """A task of two nodes; `start` runs a command on both."""

    folder: Path
    program: Path
    environment: dict[str, str]

    @property
    def is_pool(self) -> bool:
        """True if the nodes run servers of the task."""
        return "FAIRWAY_SSH_CONFIG" in self.environment

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.program, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the agent's programs, as a node unpacks them."""
    folder = tmp_path_factory.mktemp("programs")
    with tarfile.open(fileobj=io.BytesIO(archives.agent()[1])) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture(params=["ssh", "sshd"])
def task(request: pytest.FixtureRequest, programs: Path, tmp_path: Path) -> Iterator[Task]:
    """Yields a task of an ssh cluster, and one of a pool."""
    ssh = executable(
        tmp_path / "bin" / "ssh",
        _SSH.format(folder=tmp_path, python=sys.executable, programs=programs),
    )
    environment = {**os.environ, "PATH": f"{ssh.parent}:{os.environ['PATH']}", "NODE": "main"}
    facts = {
        "environment": {**environment, "HOME": "/other", "AZ_BATCH_NODE_ID": "other"},
        "code": str(tmp_path),
        "base": str(tmp_path),
    }
    (tmp_path / "context").write_text(json.dumps(facts))
    environment |= {"FAIRWAY_HOSTS": "n1,n2", "AZ_BATCH_NODE_ID": "main"}
    program = programs / "fairway_agent" / "fanout" / "ssh" / "fairway-each-node"
    if request.param == "sshd":
        environment["FAIRWAY_SSH_CONFIG"] = str(tmp_path / "config")
        program = programs / "fairway-each-node"
    mark = f"FAIRWAY_TASK={tmp_path}"
    yield Task(tmp_path, program, environment | {"FAIRWAY_TASK": str(tmp_path)})
    processes.end_all(lambda: processes.sessions_with(mark), 0)


def test_fanout_runs_on_each_node_and_names_an_unreachable_one(task: Task) -> None:
    command = 'echo "$FAIRWAY_NODE_RANK $NODE $AZ_BATCH_NODE_ID $0"'
    printed, errors = task.start("bash", "-c", command, "two  $words").communicate(timeout=300)
    other = "other" if task.is_pool else "main"
    lines = ["0 main main two  $words", f"1 main {other} two  $words"]
    assert sorted(printed.decode().splitlines()) == lines, errors
    assert (task.folder / "reached").read_text() == "n2\n"
    (task.folder / "bin" / "ssh").write_text("#!/bin/sh\nexit 255\n")
    process = task.start("sleep", "600")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 255
    assert errors == b"fairway: node n2 cannot be reached any more\n"


def test_fanout_kills_a_rank_that_ignores_sigterm_after_the_grace(task: Task) -> None:
    """The grace begins when the first rank fails."""
    os.mkfifo(task.folder / "up")
    hasty = "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    hasty += "from fairway_agent.fanout import remote_exec as r; r._GRACE = 0.1; r.main()"
    folder = task.program.parent if task.is_pool else task.program.parents[2]
    task.program = Path(sys.executable)
    process = task.start("-c", hasty, str(folder), "--each", "bash", "-c", _DEAF)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (9, b"")


def test_fanout_on_this_machine_kills_a_rank_that_ignores_sigterm(
    tmp_path: Path, repository: Path
) -> None:
    text = (repository / "runner/fairway_agent/fanout/local/fairway-each-node").read_text()
    assert "grace=30" in text
    program = executable(tmp_path / "each", text.replace("30", "1"))
    os.mkfifo(tmp_path / "up")
    environment = {**os.environ, "FAIRWAY_NODES": "2"}
    done = finished([program, "bash", "-c", _DEAF], cwd=tmp_path, env=environment)
    assert done.returncode == 9


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_fanout_by_srun_keeps_the_exit_code_on_a_full_disk(
    tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "0").symlink_to("/dev/full")
    executable(tmp_path / "scancel", "exit 0")
    facts = {"SLURM_NODEID": "0", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "2"}
    facts |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAIRWAY_TASK_FOLDER": str(tmp_path)}
    program = repository / "runner/fairway_agent/fanout/srun/fairway-on-node"
    done = finished([program, tmp_path, "0", "mark", "bash", "-c", "exit 9"], env=facts)
    assert done.returncode == 9


def test_fanout_passes_sigterm_once_and_waits_for_each_program(task: Task) -> None:
    """Each program gets one signal, and is not killed before it has saved its work."""
    (task.folder / "program.py").write_text(_PROGRAM)
    for name in ("said", "gate0", "gate1"):
        os.mkfifo(task.folder / name)
    process = task.start(sys.executable, "program.py")
    said = os.open(task.folder / "said", os.O_RDWR)  # so that it never ends
    with os.fdopen(said, "rb", buffering=0) as pipe:
        lines = iter(lambda: pipe.readline().decode(), "")
        assert {next(lines), next(lines)} == {"up 0\n", "up 1\n"}
        processes.signal_sessions({process.pid}, signal.SIGTERM)
        assert {next(lines), next(lines)} == {"told 0\n", "told 1\n"}
        for rank in "01":
            (task.folder / f"gate{rank}").write_bytes(b"")
        _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, b"")
        os.write(said, b"nothing more\n")
        assert next(lines) == "nothing more\n"


@pytest.mark.parametrize(("given", "seconds"), [({}, 30.0), ("10", 30.0), ("600.5", 600.5)])
def test_fanout_grace_is_at_least_30_seconds_or_the_grace_of_the_job(
    given: Any, seconds: float
) -> None:
    assert remote_exec.grace({"FAIRWAY_GRACE": given} if given else {}) == seconds
