"""A cluster's answers are checked before they touch this machine: a host may not be trusted."""

import base64
import importlib.util
import inspect
import json
import os
import py_compile
import re
import socket
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import executable, finished
from receivers import Receiver as ReceiverOfHooks
from targets import target_of
from waiting import until

from fairway_agent.control import Control
from fairway_agent.main import MARK
from fairway_agent.shared.reports import (
    NodesReport,
    NodesRequest,
    RunRequest,
    RunsRequest,
    StatesReport,
    StatesRequest,
)
from fairway_agent.spec import Receiver, RunPlan, TaskSpec
from fairway_agent.state_files import RunState
from fairway_core.findings import UserError
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.kubernetes.engine import KubernetesEngine
from fairway_runner.engines.outage import RunRefused, TargetUnavailable
from fairway_runner.engines.remote import mirror, submission_state
from fairway_runner.engines.remote.connection import Ended, Here, is_here
from fairway_runner.engines.remote.engine import RemoteEngine
from fairway_runner.engines.remote.mirror import Mirror
from fairway_runner.engines.remote.remote_host import RemoteHost, connection_to
from fairway_runner.engines.slurm import SlurmEngine
from fairway_runner.engines.ssh import SshEngine
from fairway_runner.runs.figures import figures
from fairway_runner.runs.store import Run, RunRecord, RunStore

MakeRun = Callable[..., "Run"]

TARGET = target_of("ssh", {"host": "lab-main"}, name="lab", nodes={"min": 1, "max": 1})
ELSEWHERE = {**TARGET.record(), "ssh": {"host": "localhost", "user": "", "shared": "/tmp"}}
RECORD = RunRecord("job-aaaaaa", "job", "lab", 1.7e9, 1, "job.yaml", "0", engine="ssh").to_json()
TASK = json.loads(TaskSpec(0, script="true").line())
FILES: dict[str, Any] = {
    "run.json": json.dumps(RECORD),
    "job.json": "{}",
    "plan.json": RunPlan("job-aaaaaa", "/code").text(),
    "target.json": json.dumps(ELSEWHERE),
    "provenance.json": json.dumps({"code": "c" * 64}),
    "tasks.jsonl": json.dumps(TASK) + "\n",
}


class Host:
    """A main host that gives a prepared answer to every request."""

    name = "lab-main"
    has_rsync = False

    def __init__(self, said: object) -> None:
        self.said = said if isinstance(said, str) else json.dumps(said)

    def run(self, *_: object, **__: object) -> Ended:
        return Ended(0, f"{MARK}{self.said}\n".encode(), "")


def mirror_of(said: object) -> Mirror:
    return Mirror(RemoteHost(Host(said), "/data/fairway"))  # type: ignore[arg-type]


def listing(files: dict[str, Any], run_id: str = "job-aaaaaa", submission: object = 0) -> object:
    return {"answer": {"runs": {run_id: files}, "submissions": {run_id: submission}}}


def everything_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_mirror_adopt_records_the_local_target_and_the_last_task(tmp_path: Path) -> None:
    """The run's own record may say `localhost`, which here would be this machine."""
    store = RunStore(tmp_path / ".fairway")
    assert mirror_of(listing(FILES, submission=2)).adopt(store, TARGET) == []
    (run,) = store.all()
    assert json.loads((run.folder / "target.json").read_text()) == TARGET.record()
    assert submission_state.SubmissionRecord.read(run) == submission_state.SubmissionRecord(
        2, complete=True
    )
    last = json.dumps({**TASK, "index": "finally"})
    files = {**FILES, "run.json": json.dumps({**RECORD, "tasks": 2}), "finally.jsonl": last}
    store = RunStore(tmp_path / "other")
    assert mirror_of(listing(files)).adopt(store, TARGET) == []
    (run,) = store.all()
    assert run.task_folder(1).name == "finally"
    assert [task.name for task in run.tasks] == ["0", "finally"]


def recorded(**facts: Any) -> dict[str, str]:
    return {"run.json": json.dumps({**RECORD, **facts})}


def tasks(file: str, *indices: object) -> dict[str, str]:
    return {f"{file}.jsonl": "".join(json.dumps({**TASK, "index": i}) + "\n" for i in indices)}


@pytest.mark.parametrize(
    "change",
    [
        *({"../../../../.bashrc": "touch x"}, {"engine.json": "{}"}, {"run.json": 3}),
        *({"run.json": "[" * 100_000}, {"job.json": "x"}, {"plan.json": "{}"}),
        *(recorded(id="../x"), recorded(id="job-bbbbbb"), recorded(created=None)),
        *(recorded(metrics={"loss": "("}), recorded(name="a\x1b[2J"), recorded(engine="local")),
        *(recorded(tasks=10**9), {"provenance.json": json.dumps({"code": "../../.ssh"})}),
        *(tasks("tasks", "../x"), tasks("tasks", "finally"), tasks("finally", "finally")),
        {**recorded(tasks=2), **tasks("finally", 0)},
        {**recorded(tasks=3), **tasks("finally", "finally", "finally")},
    ],
)
def test_mirror_adopt_reports_a_damaged_run_and_writes_nothing(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    store = RunStore(tmp_path / "home" / "project" / ".fairway")
    store.folder.mkdir(parents=True)
    run_id = "../x" if '"id": "../x"' in str(change) else "job-aaaaaa"
    (finding,) = mirror_of(listing({**FILES, **change}, run_id)).adopt(store, TARGET)
    assert finding.id == "damaged-run"
    assert finding.message.startswith(f"`{run_id[:70]}` on `lab` is a run that cannot be read: ")
    assert finding.hint == "it is in /data/fairway/runs there"
    assert everything_in(tmp_path) == set()


@pytest.mark.parametrize(
    "change",
    [
        *({"tasks": {name: {"state": "running"}}} for name in ("../../evil", "1", "00", "\u0660")),
        {"logs": {"../x": {"offset": 0, "data": "", "more": False}}},
        {"logs": {"0": {"offset": 0, "data": "no zlib"}}},
        {"state": {"state": "exploded"}},
    ],
)
def test_mirror_refresh_refuses_a_damaged_state_and_writes_nothing(
    tmp_path: Path, make_run: MakeRun, change: dict[str, Any]
) -> None:
    run = make_run("job-aaaaaa", state="running", engine="ssh", target="lab")
    submission_state.SubmissionRecord(0, complete=True).write(run)
    (run.folder / "tasks" / "0" / "state.json").unlink()
    before = everything_in(tmp_path)
    whole = {"state": {"state": "running"}, "tasks": {}, "logs": {}, "more": False, **change}
    there = mirror_of({"answer": {"runs": {run.id: whole}}})
    finding = refused(lambda: there.refresh([run], logs=True), code=5)
    assert finding.id == "host-failed"
    assert finding.hint == "nothing was taken from its answer; is it still the same host?"
    assert everything_in(tmp_path) - before <= {".fairway/runs/job-aaaaaa/mirror.lock"}


@pytest.mark.parametrize("said", ["{", "[]", "3", "[" * 100_000, '{"fault": {}}', '{"fault": 1}'])
def test_mirror_adopt_of_an_unreadable_answer_names_the_host(tmp_path: Path, said: str) -> None:
    refused(lambda: mirror_of(said).adopt(RunStore(tmp_path), TARGET), "lab-main")


@pytest.mark.parametrize(
    "nodes", [None, [{}], [{"name": "n1", "age": "1"}], [{"name": "n1", "address": 7}]]
)
def test_remote_nodes_refuse_a_damaged_answer(
    monkeypatch: pytest.MonkeyPatch, nodes: object
) -> None:
    host = RemoteHost(Host({"answer": {"nodes": nodes}}), "/data/fairway")  # type: ignore[arg-type]
    monkeypatch.setattr(RemoteEngine, "remote_host", host)
    engine = engine_for(TARGET)
    for look in (engine.nodes, lambda: engine.shell("n1")):
        refused(look, "gave an answer that cannot be read")
    assert [finding.id for finding in engine.doctor()] == ["host-failed"]


@pytest.mark.parametrize(
    ("ended", "message", "hint"),
    [
        (Ended(1, b"", "no tty\n"), "lab-main gave no answer: no tty", "ssh lab-main python3"),
        (Ended(9, b"", ""), "lab-main gave no answer: exit code 9", "ssh lab-main python3"),
        (Ended(127, b"", "sh"), "lab-main has no python3 of at least 3.10", "install it there"),
    ],
)
def test_mirror_adopt_without_an_answer_reports_the_error_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: Ended, message: str, hint: str
) -> None:
    monkeypatch.setattr(Host, "run", lambda *_, **__: ended)
    finding = refused(lambda: mirror_of("").adopt(RunStore(tmp_path), TARGET))
    assert finding.message == message
    assert hint in finding.hint


def test_mirror_publish_reports_code_that_no_longer_exists(
    tmp_path: Path, make_run: MakeRun
) -> None:
    run = make_run("job-aaaaaa", engine="ssh", target="lab")
    (run.folder / "plan.json").write_text(RunPlan(run=run.id, directory="code").text())
    said = {"answer": {"has_code": False, "draft": "/d"}}
    finding = refused(lambda: mirror_of(said).publish(run, tmp_path / "gone"))
    assert finding.message == "the code of job-aaaaaa is neither here nor at /data/fairway"
    assert finding.hint == "submit the job again from its file"


@pytest.mark.parametrize(
    ("fault", "before", "kind"),
    [("refused-job", 0, RunRefused), ("refused-job", 1, UserError), ("no-answer", 0, UserError)],
)
def test_remote_hand_over_lets_only_a_refused_first_submission_go_to_another_target(
    monkeypatch: pytest.MonkeyPatch, make_run: MakeRun, fault: str, before: int, kind: Any
) -> None:
    said = {"fault": {"id": fault, "message": "no", "hint": "", "exit_code": 2}}
    monkeypatch.setattr(SlurmEngine, "remote_host", mirror_of(said).remote)
    monkeypatch.setattr(SlurmEngine, "request", lambda *_: RunsRequest())
    last = submission_state.SubmissionRecord(before)
    with pytest.raises(UserError) as caught:
        SlurmEngine(target_of("slurm")).hand_over(make_run("job-aaaaaa"), last, "c" * 16)
    assert isinstance(caught.value, RunRefused) is (kind is RunRefused)
    assert caught.value.findings[0].id == fault


@pytest.mark.parametrize("kind", [SshEngine, SlurmEngine, KubernetesEngine])
def test_remote_engine_calls_only_existing_agent_functions(kind: type[RemoteEngine[Any]]) -> None:
    """The functions are named in strings, which no type checker follows."""
    classes = [each for each in kind.__mro__ if issubclass(each, RemoteEngine)]
    source = "".join(map(inspect.getsource, (*classes, mirror)))
    shared = re.findall(r"\{SHARED\}\.([\w.]+)", source)
    own = {kind.NODES, "runs.states", *re.findall(r"self\.ask\(\"([\w.]+)\"", source)}
    assert {"receive", "states", "runs"} <= set(shared)
    assert "runs.cancel" in own
    called = [f"{mirror.SHARED}.{each}" for each in shared] + [
        f"{kind.NODE}.{each}" for each in own
    ]
    for module, _, function in (each.rpartition(".") for each in called):
        assert callable(getattr(import_module(module), function)), f"{module}.{function}"


def test_mirror_refresh_limits_the_unpacked_size_of_a_log_piece(make_run: MakeRun) -> None:
    """A few compressed kilobytes could fill the disk."""
    run = make_run("job-aaaaaa", state="running", engine="ssh", target="lab")
    submission_state.SubmissionRecord(0, complete=True).write(run)
    (run.folder / "tasks" / "0" / "state.json").unlink()
    data = base64.b64encode(zlib.compress(bytes(64 << 20))).decode()
    logs = {"0": {"offset": 0, "data": data, "more": False}}
    whole = {"state": {"state": "running"}, "tasks": {}, "logs": logs, "more": False}
    mirror_of({"answer": {"runs": {run.id: whole}}}).refresh([run], logs=True)
    assert run.log(0).stat().st_size == 4 << 20


def piece(text: bytes, offset: object = 0) -> dict[str, Any]:
    return {"offset": offset, "data": base64.b64encode(zlib.compress(text)).decode("ascii")}


def bring_samples(run: Run, nodes: object, *, more: bool = False) -> None:
    submission_state.SubmissionRecord(0, complete=True).write(run)
    whole = {"state": {"state": "running"}, "samples": nodes, "more": more}
    mirror_of({"answer": {"runs": {run.id: whole}}}).refresh([run], samples=True)


def test_remote_figures_are_appended_and_damaged_samples_skipped(make_run: MakeRun) -> None:
    run = make_run("job-aaaaaa")
    line = b'{"time": 1.7e9, "cpu": 0.5, "gpus": [{"index": 0, "use": 0.25}]}\n'
    bring_samples(run, {"nd-1": piece(line)})
    bring_samples(run, {"nd-1": piece(line)}, more=True)  # nothing new, however often it is fetched
    bring_samples(run, {"nd-1": piece(line, len(line))})
    (samples,) = figures(run).values()
    assert [(sample.cpu, sample.gpu_use) for sample in samples] == [(0.5, 0.25)] * 2
    run = make_run("job-bbbbbb")
    lines = [
        b"x",
        b"[1]",
        b'{"cpu": 1}',
        b'{"time": true}',
        b'{"time": 1e999}',
        b'{"time": -1}',
        b'{"time": 0, "gpus": [3]}',
        b'{"time": 0, "gpus": [{"use": 1}]}',
        b'{"time": 0, "gpus": {}}',
        b'{"time": 1, "cpu": "x", "gpus": [{"index": 0, "use": NaN}]}',
        b'{"time": 2, "cpu": ' + b"9" * 400 + b"}",
        b'{"time": ' + b"[" * 50_000,
        b'{"time": 3, "cpu": 0.5, "padding": "' + b"x" * (1 << 16) + b'"}',
        b'{"time": 4, "cpu": 0.',
    ]
    bring_samples(run, {"nd-1": piece(b"\n".join(lines))})
    (samples,) = figures(run).values()
    assert [(sample.time, sample.cpu) for sample in samples] == [(1, None), (2, None)]
    assert [gpu.use for gpu in samples[0].gpus] == [None]


@pytest.mark.parametrize(
    "nodes",
    [
        *({name: piece(b"{}\n")} for name in ("../../evil", "/tmp/evil", ".x", "a\x1b[2J", "")),
        *({"a" * 300: piece(b"{}\n")}, {"nd-1": piece(b"{}\n", -1)}),
        {"nd-1": {"offset": 0, "data": "AAAA"}},
    ],
)
def test_remote_figures_refuse_a_damaged_answer(make_run: MakeRun, nodes: object) -> None:
    run = make_run("job-aaaaaa")
    before = everything_in(run.folder)
    refused(lambda: bring_samples(run, nodes), code=5)
    assert everything_in(run.folder) <= before | {
        "engine.json",
        "mirror.lock",
        "figures/nd-1.jsonl",
    }
    assert list(figures(run).values()) in ([], [[]])


def test_remote_run_that_is_queued_has_no_node(make_run: MakeRun) -> None:
    run = make_run("job-aaaaaa", [{"state": "queued"}], state="queued", engine="ssh")
    engine = engine_for(TARGET)
    for call in (lambda: engine.main_host(run), lambda: engine.enter(run, 0, 0, [])):
        finding = refused(call)
        assert finding.message == "task 0 of job-aaaaaa has no node yet"
        assert finding.hint == "wait until it runs: fairway show job-aaaaaa"


def test_remote_doctor_reports_an_answer_without_health(monkeypatch: pytest.MonkeyPatch) -> None:
    host = RemoteHost(Host({"answer": {"nodes": []}}), "/data/fairway")  # type: ignore[arg-type]
    monkeypatch.setattr(RemoteEngine, "remote_host", host)
    (finding,) = engine_for(TARGET).doctor()
    assert finding.message.endswith("gave an answer that cannot be read: `health` is missing")


def test_connection_to_this_machine_by_name_uses_no_ssh_or_tunnel(tmp_path: Path) -> None:
    """An address does not count as this machine: a tunnel may end there."""
    here = connection_to("localhost", "anybody")
    assert isinstance(here, Here)
    assert is_here(socket.gethostname())
    assert not is_here("127.0.0.1")
    assert refused(lambda: connection_to("", "anybody")).id == "no-address"
    asked = NodesRequest("box")
    called = "fairway_agent.ssh.runs.nodes"
    found = RemoteHost(here, str(tmp_path / "shared")).call(called, asked, NodesReport)
    assert [node.name for node in found.nodes] == [os.uname().nodename]
    # A project may bring such a folder.
    (bundle,) = (tmp_path / "shared" / "fairway").iterdir()
    assert not [*bundle.rglob("__pycache__")]
    host = RemoteHost(here, str(tmp_path / "shared"))

    def refuses(file: Path) -> bool:
        finding = refused(lambda: host.call(called, asked, NodesReport))
        assert finding.hint.endswith(f": rm -r {bundle}")
        return (finding.id, finding.message.split()[0]) == ("foreign-agent", str(file))

    main = bundle / "__main__.py"
    kept, evil = main.read_bytes(), f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    main.write_text(evil.ljust(len(kept), "#"))
    assert refuses(main)
    main.write_bytes(kept)
    os.utime(main, (0, 0))
    stray = bundle / "json.py"
    makers: tuple[Callable[[], object], ...] = (
        lambda: stray.write_text(evil),
        lambda: os.mkfifo(stray),
        lambda: stray.symlink_to("/dev/zero"),
        lambda: stray.symlink_to(tmp_path),
    )
    for make in makers:
        make()
        assert refuses(stray)
        stray.unlink()
    assert not (tmp_path / "ran").exists()
    finding = refused(lambda: RemoteHost(here, "/proc/fairway").call(called, asked, NodesReport))
    assert finding.id == "unwritable-folder"
    with pytest.raises(TargetUnavailable, match=r"this host did not answer within 0\.3 s"):
        here.run(["sleep", "600"], deadline=1.0, timeout=0.3)
    finding = refused(lambda: here.interactive([], forward="6007:localhost:6006"))
    assert finding.hint == "connect to localhost:6006"


def test_connection_to_this_machine_takes_no_bytecode_from_the_shared_folder(
    tmp_path: Path, programs: Path, receiver: ReceiverOfHooks
) -> None:
    """Not even in the programs that a call starts, as the one that notifies of a run's end, or by
    which a task's script reaches its nodes."""
    (programs / "python3").symlink_to(sys.executable)
    for name in ("squeue", "sacct"):
        executable(programs / name, "exit 0")
    host = RemoteHost(connection_to("localhost", "anybody"), str(tmp_path / "shared"))
    host.call("fairway_agent.ssh.runs.nodes", NodesRequest("box"), NodesReport)
    (bundle,) = (tmp_path / "shared" / "fairway").iterdir()
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for source in bundle.rglob("*.py"):
        compiled = importlib.util.cache_from_source(str(source))
        py_compile.compile(str(evil), compiled, invalidation_mode=unchecked)
    run = tmp_path / "shared/runs/job-aaaaaa"
    run.mkdir(parents=True)
    wanted = Receiver(webhook=receiver.url, on=("succeeded",), form="slack")
    facts = {
        "plan": RunPlan(run.name, "/code", notify=wanted),
        "state": RunState("running"),
        "control": Control(complete=True),
    }
    for name, record in facts.items():
        (run / f"{name}.json").write_text(json.dumps(record.to_json()))
    states = StatesRequest({run.name: RunRequest()})
    host.call("fairway_agent.slurm.runs.states", states, StatesReport)
    until(lambda: receiver.seen or (tmp_path / "ran").exists())
    for name in ("fairway-each-node", "fairway-rsh"):
        finished(["sh", bundle / "fairway_agent/fanout/ssh" / name])
    assert not (tmp_path / "ran").exists()


def test_remote_host_refuses_a_shared_folder_of_this_machine_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for shared in (f"{tmp_path}/x", "/proc/self/cwd/x", "~/../x"):
        monkeypatch.setenv("HOME", str(tmp_path / "me"))
        engine = SshEngine(target_of("ssh", {"host": "localhost", "shared": shared}))
        finding = refused(lambda: engine.remote_host)  # noqa: B023
        assert (finding.id, f"{tmp_path}/x" in finding.message) == ("shared-in-project", True)
        monkeypatch.setenv("HOME", str(tmp_path))  # with all that its owner has
        assert engine.remote_host.shared == shared
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/sub").mkdir()
    monkeypatch.chdir(tmp_path / "repo/sub")
    engine = SshEngine(target_of("ssh", {"host": "localhost", "shared": "/proc/self/cwd/../x"}))
    assert refused(lambda: engine.remote_host).id == "shared-in-project"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**30)  # of a container, without an account
    engine = SshEngine(target_of("ssh", {"host": "localhost", "shared": "/nowhere"}))
    assert engine.remote_host.shared == "/nowhere"
