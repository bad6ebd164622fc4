"""Code that runs on a node, without a node: secrets, attempts, ports, addresses, a full disk."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from run_folders import bring

from fairway_agent import batch, job_facts, machine
from fairway_agent.batch import attempt, notifications, preparation
from fairway_agent.batch import nodes as batch_side
from fairway_agent.batch.attempt import Batch
from fairway_agent.batch.folders import Folders
from fairway_agent.batch.nodes import BatchNodes
from fairway_agent.job_facts import JobFacts, TargetFacts
from fairway_agent.machine import Host
from fairway_agent.resources import SHARE_FILE, Allocation, Devices, Gpu, ResourceRequest
from fairway_agent.spec import Output, RunPlan, Staged, TaskSpec
from fairway_agent.state_files import CANCELLATION, CANCELLED, NO_START, PREEMPTION
from fairway_agent.task import attempts
from fairway_agent.task.attempts import Attempts, Patience
from fairway_agent.task.scheduled import run_attempts
from fairway_agent.task.task import Task
from fairway_boot import http
from fairway_boot.files import AgentError
from fairway_boot.imds import Metadata
from fairway_simulator.ssh.services import Services, running

pytestmark = pytest.mark.integration


def test_batch_secrets_are_read_from_the_vault_and_a_missing_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = TargetFacts(identity="/identities/pool")
    folders: Any = SimpleNamespace(job_facts=JobFacts(), target=target)
    with running(Services(secrets={"hub": 'hunter2 "quoted"'})) as azure:
        monkeypatch.setenv("FAIRWAY_METADATA_URL", azure.url)
        monkeypatch.setattr(http, "_FIRST_PAUSE", 0.0)
        folders.target = target._replace(vault_url=azure.url)
        assert Folders.secret_values(folders) == {}
        assert azure.requests == []
        folders.job_facts = JobFacts(secrets={"TOKEN": "keyvault:hub"})
        azure.faults = [("/secrets", 503), ("/secrets", 503)]
        assert Folders.secret_values(folders) == {"TOKEN": 'hunter2 "quoted"'}
        assert "msi_res_id=%2Fidentities%2Fpool" in azure.requests[0]
        folders.job_facts = JobFacts(secrets={"TOKEN": "keyvault:other"})
        with pytest.raises(AgentError, match=r"the secret other in .* cannot be read: HTTP 404"):
            Folders.secret_values(folders)


def test_batch_metadata_without_a_machine_name_gives_an_empty_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running(Services(faults=[("/metadata/instance", 404)])) as azure:
        assert Metadata(azure.url).name() == ""
        assert len(azure.requests) == 1


class TestAttempts:
    """Attempts of a task, which are counted in a file."""

    def test_batch_attempt_count_continues_for_each_task(self, tmp_path: Path) -> None:
        assert [attempt.count_attempt(tmp_path / "attempts", "0", 0) for _ in range(3)] == [0, 1, 2]
        assert attempt.count_attempt(tmp_path / "attempts", "1", 0) == 0
        assert attempt.count_attempt(tmp_path / "attempts", "0", 7) == 7
        assert attempt.count_attempt(tmp_path / "attempts", "0", 7) == 8

    def test_batch_attempt_that_gets_sigterm_counts_its_node_as_lost(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Batch, or a node that shuts down, sends the signal: exit code 0 is then no success."""
        before = signal.getsignal(signal.SIGTERM)
        monkeypatch.setattr(attempt, "run_attempts", lambda *_: signal.raise_signal(signal.SIGTERM))
        events = SimpleNamespace(start=lambda: None, stopped=threading.Event())
        scheduler = SimpleNamespace(nodes=SimpleNamespace(notice=""), events=events)
        try:
            attempt._watched(SimpleNamespace(), scheduler)
        finally:
            signal.signal(signal.SIGTERM, before)
        assert scheduler.nodes.notice == "the end"

    def test_batch_attempt_with_unreachable_nodes_counts_no_node_as_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        away = OSError("the node 10.0.0.2 cannot be reached")
        monkeypatch.setattr(attempt, "_bring_earlier_logs", lambda *_: None)
        monkeypatch.setattr(attempt, "task_of", Mock(side_effect=away))
        before = tmp_path / "0.ending"
        folders: Any = SimpleNamespace(
            task="0", before_file=before, make_directories=lambda _: None, shared=tmp_path
        )
        with pytest.raises(OSError, match="cannot be reached"):
            attempt._task_here(folders, TaskSpec(0, nodes=2), 0)
        why = before.read_text()
        assert why == "the one before was not started: the node 10.0.0.2 cannot be reached"


def hosts(*addresses: str) -> list[Host]:
    """Returns hosts that are named by their addresses."""
    return [Host(address, address) for address in addresses]


def test_batch_nodes_list_the_main_node_first_and_know_their_own_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAIRWAY_NODE_ADDRESS", "127.0.1.2")
    assert batch_side.own_address(hosts("127.0.1.1", "127.0.1.2")) == "127.0.1.2"
    monkeypatch.delenv("FAIRWAY_NODE_ADDRESS", raising=False)
    # 203.0.113.0/24 is for documentation: no machine has such an address.
    assert batch_side.own_address(hosts("203.0.113.1", "127.0.1.2")) == "127.0.1.2"
    with pytest.raises(OSError, match="none of"):
        batch_side.own_address(hosts("203.0.113.1"))
    monkeypatch.setenv("AZ_BATCH_HOST_LIST", "10.0.0.4")
    assert batch_side.batch_nodes() == hosts("localhost")
    monkeypatch.setenv("AZ_BATCH_HOST_LIST", "10.0.0.4,10.0.0.5,10.0.0.6")
    monkeypatch.setenv("AZ_BATCH_MASTER_NODE", "10.0.0.5:6000")
    assert batch_side.batch_nodes() == hosts("10.0.0.5", "10.0.0.4", "10.0.0.6")


@pytest.fixture
def prepared(node: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields the folder into which a user with umask 077 unpacked a job."""
    for name in ("FAIRWAY_TASK", "AZ_BATCH_JOB_PREP_WORKING_DIR"):  # of later tasks
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZ_BATCH_TASK_WORKING_DIR", str(node / "prep"))
    mask = os.umask(0o077)
    (node / "prep/code").chmod(0o700)
    (node / "prep/code/link").symlink_to("/etc/passwd")
    (node / "prep/record/setup.jsonl").write_text(TaskSpec("setup", script="id").line())
    yield node / "prep"
    os.umask(mask)


@pytest.mark.parametrize("is_admin", [True, False])
def test_batch_setup_as_admin_opens_its_files_to_the_tasks(prepared: Path, is_admin: bool) -> None:
    setup = {"command": "x", "admin": is_admin}
    (prepared / "record" / "job.json").write_text(json.dumps({"setup": setup}))
    script = "mkdir made; touch made/file; echo true >made/run; chmod +x made/run; "
    script += "mkdir ../../installed; touch ../../installed/program; stat -c %a ../setup.sh >mode"
    (prepared / "record" / "setup.jsonl").write_text(TaskSpec("setup", script=script).line())
    outside = Path("/etc/passwd").stat().st_mode
    assert preparation.prepare() == 0
    modes = {
        name: (prepared / name).stat().st_mode & 0o7
        for name in ("code", "code/made", "code/made/file", "code/made/run", "tasks.index")
    }
    assert set(modes.values()) == ({7, 6} if is_admin else {0})
    assert (modes["code/made/run"], modes["code/made/file"]) == ((7, 6) if is_admin else (0, 0))
    assert Path("/etc/passwd").stat().st_mode == outside
    installed = prepared.parent / "installed"
    modes = {path.stat().st_mode & 0o777 for path in (installed, installed / "program")}
    assert modes == ({0o755, 0o644} if is_admin else {0o700, 0o600})
    assert (prepared / "code" / "mode").read_text() == ("644\n" if is_admin else "600\n")


def test_batch_node_without_room_for_shared_inputs_says_so_to_its_tasks(
    prepared: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mount").write_text("no folder")
    plan = RunPlan("r", "code", staged=(Staged("data", "datasets", "a/", "shared"),))
    target = {"mounts": {"data": str(tmp_path / "mount")}, "batch": {}}
    bring(prepared / "record", plan, [TaskSpec(0)], target)
    assert preparation.prepare() == 0
    assert json.loads((prepared / "setup.json").read_text()) == {"exit_code": 126}
    assert "the inputs could not be shared: " in capfd.readouterr().out


class TestShares:
    """Tasks that take a share of their node."""

    devices = Devices((Gpu(0), Gpu(1)), (0, 1, 2, 3), 4)

    @pytest.fixture
    def work(self, node: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Returns the task's own folder."""
        (node / "task/wd/logs").mkdir()
        monkeypatch.setattr(attempt, "look", lambda: self.devices)
        monkeypatch.setattr(attempt, "_keep_log", lambda *_: None)
        monkeypatch.setattr(attempts, "launch", lambda task: setattr(task, "process", True))
        monkeypatch.setattr(Task, "ended", lambda task: len(task.share.gpus))
        monkeypatch.setattr(Task, "check_timers", lambda _: None)
        return node / "task/wd"

    @staticmethod
    def attempts(work: Path, gpus: int) -> Attempts:
        """Returns attempts of a task whose exit code is the number of its GPUs."""
        plan, spec = (
            RunPlan("r", "/code", sample_every=None),
            TaskSpec(0, wanted=ResourceRequest(gpus=gpus)),
        )
        nodes, hosts = BatchNodes(Folders(), plan), [Host("localhost", "localhost")]
        task = Task(plan, spec, work, work, 1, nodes=nodes, hosts=hosts, submission=0)
        watch = notifications.watch_of(nodes.folders, plan, 0)
        scheduler = Batch(None, watch, nodes=nodes, events=None, first=2)
        return Attempts(task, scheduler, Patience(0.0))

    def run(self, work: Path, gpus: int) -> int:
        """Runs a task with that many GPUs and returns its exit code."""
        mine = self.attempts(work, gpus)
        return run_attempts(mine, mine.backend)

    def test_batch_share_is_written_for_task_and_given_back_at_its_end(self, work: Path) -> None:
        assert self.run(work, 1) == 1
        allocation = Allocation.from_json(json.loads((work / "logs" / SHARE_FILE).read_bytes()))
        assert allocation == Allocation(2, (0,), (0, 1), 0.5)
        assert self.run(work, 2) == 2, "all of it is free again"
        folder = Path(os.environ["AZ_BATCH_NODE_SHARED_DIR"], "fairway-devices")
        assert folder.stat().st_mode & 0o777 == 0o700

    def test_batch_share_waits_for_devices_that_another_task_holds(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "logs" / SHARE_FILE).write_text("of an attempt before")
        other = batch_side.share_of(self.devices, ResourceRequest(gpus=1))

        def sleep(_: float) -> None:
            assert not (work / "logs" / SHARE_FILE).exists()
            machine.give_back(other)

        monkeypatch.setattr(attempt.time, "sleep", sleep)
        assert self.run(work, 2) == 2
        assert capsys.readouterr().out == "fairway: the task waits for 2 GPUs of its node\n"

    @pytest.mark.parametrize("notice", ["", "Preempt"])
    def test_batch_share_wait_ends_on_preemption_and_cancellation(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, notice: str
    ) -> None:
        other = batch_side.share_of(self.devices, ResourceRequest(gpus=1))
        mine = self.attempts(work, 2)

        def sleep(_: float) -> None:
            mine.backend.nodes.notice = notice
            if not notice:
                (work / attempt.RUNNING).unlink()

        monkeypatch.setattr(attempt.time, "sleep", sleep)
        assert run_attempts(mine, mine.backend) == CANCELLED
        assert not (work / attempt.RUNNING).exists(), "the next attempt has to be asked"
        assert mine.task.stopped_for == (PREEMPTION if notice else CANCELLATION)
        machine.give_back(other)

    def test_batch_share_is_refused_on_a_small_node_and_in_another_users_folder(
        self, work: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(work, 3) == NO_START
        said = "the task was not started: it needs 3 GPUs, and the node has 2 GPUs and 4 cores"
        assert said in capsys.readouterr().out
        elsewhere = work / "elsewhere"
        elsewhere.mkdir()
        folder = Path(os.environ["AZ_BATCH_NODE_SHARED_DIR"], "fairway-devices")
        shutil.rmtree(folder, ignore_errors=True)
        folder.symlink_to(elsewhere)
        assert self.run(work, 1) == NO_START
        assert "it is not a folder of this user's alone" in capsys.readouterr().out
        assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("command", batch._COMMANDS)
def test_batch_node_command_has_a_function(command: str) -> None:
    module, function = batch._COMMANDS[command]
    assert callable(getattr(import_module(module), function))


# The disk refuses calls whose path contains one of the parts in the last argument.
PROGRAM = """
import errno, os, sys
from pathlib import Path
import fairway_agent.batch as main
import shutil

def full(function):
    def refuse(*words, **more):
        for word in words:
            if isinstance(word, (str, Path)) and any(part in str(word) for part in PARTS):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(word))
        return function(*words, **more)
    return refuse

PARTS = sys.argv.pop().split(",")
shutil.copyfile, shutil.move = full(shutil.copyfile), full(shutil.move)
Path.write_text, Path.mkdir = full(Path.write_text), full(Path.mkdir)
sys.exit(main.main())
"""


def _run(node: Path, script: str, *parts: str, **variables: str) -> tuple[int, str]:
    """Runs a task with that script and returns its exit code and its log."""
    spec = TaskSpec(0, script=script, outputs={"model": Output("model/**", "always")})
    tasks = node / "prep/record/tasks.jsonl"
    for file in (tasks, tasks.with_name("finally.jsonl")):
        file.write_text(spec.line())
    job_facts.write_index(tasks, node / "prep/tasks.index")
    (node / "prep/setup.json").write_text(json.dumps({"exit_code": 0}))
    environment, log = {**os.environ, **variables}, node / "task/stdout.txt"
    words = [sys.executable, "-c", PROGRAM, "task", ",".join(parts) or "nowhere"]
    with log.open("wb") as out:
        done = subprocess.run(
            words, env=environment, stdout=out, stderr=subprocess.STDOUT, timeout=300, check=False
        )
    return done.returncode, log.read_text()


def test_batch_task_keeps_its_log_and_the_exit_code_of_its_program(node: Path) -> None:
    assert _run(node, "echo one; exit 3") == (3, "one\n")
    kept = list((node / "shared").rglob("logs/0/0.txt"))
    assert [each.read_text() for each in kept] == ["one\n"]


def test_batch_full_disk_unkept_log_does_not_change_the_exit_code(node: Path) -> None:
    found, log = _run(node, "echo one", "/logs/0", FAIRWAY_LAST="")
    assert found == 0
    assert log.startswith("one\nfairway: this attempt's log could not be kept for the next: ")
    assert "No space left on device" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(("code", "found"), [(0, 74), (3, 3)])
def test_batch_full_disk_unkept_outputs_change_the_exit_code_of_a_success_only(
    node: Path, code: int, found: int
) -> None:
    variables = {"FAIRWAY_SCHEDULE": "1", "AZ_BATCH_JOB_ID": "job-a:job-1"}
    script = f'echo one; echo m >"$FAIRWAY_OUTPUT_MODEL/m"; exit {code}'
    ended, log = _run(node, script, "wd/kept", **variables)
    assert ended == found
    assert "fairway: outputs could not be kept: [Errno 28] No space left on device" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("part", ["launch.sh", "/attempts", "wd/logs", "checkpoints"])
def test_batch_task_on_full_disk_that_cannot_begin_exits_69_with_one_line(
    node: Path, part: str
) -> None:
    code, log = _run(node, "echo one", part)
    assert code == 69
    assert log.startswith("fairway: the task was not started: [Errno 28] No space left on device")
    assert "Traceback" not in log
    assert "one\n" not in log


@pytest.mark.parametrize("code", [0, 127])
def test_batch_task_whose_log_cannot_grow_keeps_its_exit_code(node: Path, code: int) -> None:
    """The kernel refuses each further byte that the task or its log writes."""
    plan = RunPlan("job-a", "code", sample_every=None, needs=("torchrun",))
    (node / "prep/record/plan.json").write_text(plan.text())
    said = "launch.sh: line 1: torchrun: command not found"
    full = (
        "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_FSIZE, (0, -1))"
    )
    script = f"echo {said}; {sys.executable} -c '{full}' $PPID; exit {code}"
    found = _run(node, script, FAIRWAY_LAST="")
    assert found == (code, f"{said}\n")
