"""Environment of a task's script beyond the engine's part: inputs, folders, ports, the proxy."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fairway_agent import batch, job_facts, main, prepare, processes, scratch
from fairway_agent.fanout import launchers
from fairway_agent.machine import Host
from fairway_agent.resources import Share
from fairway_agent.spec import RunOutputInput, RunPlan, Staged, TaskSpec
from fairway_agent.ssh import attempt
from fairway_agent.ssh.attempt import SshNodes
from fairway_agent.task import attempts, scheduled
from fairway_agent.task.task import Task
from fairway_boot.files import AgentError


def _told(run: Path, index: int | str) -> dict[str, str]:
    task = Task(RunPlan("job-aaaaaa", str(run)), TaskSpec(index), run, run / "tasks" / str(index))
    return attempts.contract(task)


def test_contract_gives_the_outputs_of_all_tasks_only_to_the_last_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is submitted by a last task has tasks of its own."""
    monkeypatch.setenv("FAIRWAY_TASKS_DIR", "/of/the/run/that/submitted/this")
    for name in ("0/outputs/part", "1", "2/outputs/part", "setup/outputs/part"):
        (tmp_path / "tasks" / name).mkdir(parents=True)
    assert "FAIRWAY_TASKS_DIR" not in _told(tmp_path, 0)
    for _ in range(2):  # a second attempt gets the same folder
        given = Path(_told(tmp_path, "finally")["FAIRWAY_TASKS_DIR"])
        assert {each.name for each in given.iterdir()} == {"0", "2"}
        assert (given / "2" / "part").is_dir()


def test_missing_input_names_an_output_that_was_not_kept(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "job-aaaaaa"
    (run / "tasks").mkdir(parents=True)

    def missing(path: str) -> str:
        plan = RunPlan("job-aaaaaa", str(run), run_inputs=(RunOutputInput("model", path),))
        return attempts.missing_input(Task(plan, TaskSpec(0), run, run / "tasks/0"))

    kept = "runs/train-a/tasks/3/outputs/weights"
    assert missing(kept) == "task 3 of train-a has kept no file in `weights`"
    (tmp_path / kept).mkdir(parents=True)
    assert missing(kept) == ""
    gone = f"the input `model` no longer exists: {tmp_path}/run-inputs/abc"
    assert missing("run-inputs/abc") == gone


BOTH = {"OMPI_MCA_orte_tmpdir_base": "/x", "PRTE_MCA_prte_tmpdir_base": "/x"}


def _session(environment: dict[str, str]) -> dict[str, str]:
    found = launchers.session(Path("/x"), environment)
    return {name: value for name, value in found.items() if name.endswith("_tmpdir_base")}


def test_mpi_session_sets_open_mpi_4_and_5_and_replaces_an_inherited_folder() -> None:
    """The task's folder is removed with the task, but the run that it submitted may continue."""
    assert _session({"TMPDIR": "/y"}) == BOTH
    outer = launchers.session(Path("/of-the-task"), {})
    assert _session(outer) == BOTH
    said = {**outer, "OMPI_MCA_orte_tmpdir_base": "/mine"}
    assert _session(said) == {"PRTE_MCA_prte_tmpdir_base": "/x"}


@pytest.mark.parametrize("kind", ["", "_local", "_remote"])
@pytest.mark.parametrize("family", ["OMPI_MCA_orte", "PRTE_MCA_prte"])
def test_mpi_session_keeps_a_folder_set_by_the_user(family: str, kind: str) -> None:
    found = _session({f"{family}{kind}_tmpdir_base": "/mine"})
    other = {name: value for name, value in BOTH.items() if not name.startswith(family)}
    assert found == other


def test_mpi_session_folder_differs_for_each_attempt(tmp_path: Path) -> None:
    """On this machine the folder's name cannot be guessed, because all users share /tmp."""
    task = Task(RunPlan("job-aaaaaa", str(tmp_path)), TaskSpec(0), tmp_path, tmp_path / "t", 0)
    first, second = (attempts.contract(task)["PRTE_MCA_prte_tmpdir_base"] for _ in range(2))
    assert first != second
    assert not Path(first).exists()  # mpirun makes it
    there = Task(task.plan, task.spec, tmp_path / "runs" / "r", tmp_path / "t", 3, SshNodes())
    folder = Path(attempts.contract(there)["OMPI_MCA_orte_tmpdir_base"])
    assert (folder.name, folder.parent) == ("mpi3", scheduled.scratch_folder(there))
    assert not folder.exists()


def test_scratch_folder_of_a_task_differs_from_one_of_another_shared_folder(
    tmp_path: Path,
) -> None:
    """On a node's disk are the tasks of all runs that share the node."""
    found = set()
    for shared in ("lab", "home"):
        run = tmp_path / shared / "runs" / "job-a"
        task = Task(RunPlan("job-a", str(tmp_path)), TaskSpec(0), run, run / "tasks" / "0")
        folder = scheduled.scratch_folder(task)
        assert folder.parent == scratch.root() / "tasks"
        assert folder.name.startswith("job-a-0-")
        found.add(folder)
    assert len(found) == 2


def test_setup_of_a_run_of_the_same_id_in_another_shared_folder_runs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "root", lambda: tmp_path / "disk")
    monkeypatch.setenv("FAIRWAY_SCRATCH_DIR", str(tmp_path))
    setup, plan = TaskSpec(0, script="echo done >>log\n"), RunPlan("job-a", str(tmp_path))
    for shared in ("lab", "home", "lab", "home"):
        assert prepare._set_up(plan, setup, tmp_path / shared / "runs" / "job-a") == 0
    assert (tmp_path / "log").read_text() == "done\n" * 2


def test_checkpoints_of_a_cluster_stay_and_scratch_is_removed_with_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "root", lambda: tmp_path / "disk")
    plan, run = RunPlan("r", "/x"), tmp_path / "runs" / "r"
    for own, expected in (
        (None, "runs/r/checkpoints/0"),
        ("kept/here", "checkpoints/kept/here"),  # belongs to no run
        ("/data/x", "/data/x"),
    ):
        task = Task(plan, TaskSpec(0, checkpoint=own), run, tmp_path / "t", 0, SshNodes())
        assert task.nodes.directories(task)["FAIRWAY_CHECKPOINT_DIR"] == tmp_path / expected
    scratch.make(folder := scheduled.scratch_folder(task))
    task.nodes.leave(task)
    assert not folder.exists()


def test_input_folder_is_set_by_the_job_or_shared_by_inputs_of_the_same_blobs(
    tmp_path: Path,
) -> None:
    data, again, other = (
        scratch.input_folder(tmp_path, Staged(name, "inputs", path, "shared"))
        for name, path in (("data", "words/"), ("again", "words/"), ("data", "images/"))
    )
    assert data == again != other
    assert data.parent == tmp_path / "inputs"
    there = Staged("data", "inputs", "words/", "shared", to="/data/words")
    assert str(scratch.input_folder(tmp_path, there)) == "/data/words"


@pytest.mark.parametrize("kind", ["link", "open", "foreign", "foreign-link"])
def test_scratch_that_another_user_could_change_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Everybody may create a folder of any name where the root is."""
    home, root = tmp_path / "home", tmp_path / "root"
    (home / "thesis").mkdir(parents=True)
    monkeypatch.setattr(scratch, "root", lambda: root)
    if kind == "foreign-link":
        root.symlink_to(tmp_path / "gone")
    elif kind == "link":
        root.mkdir(mode=0o700)
        (root / "tasks").symlink_to(home)
    else:
        (root / "tasks/thesis").mkdir(parents=True)
        root.chmod(0o777 if kind == "open" else 0o700)
    if kind == "foreign":
        monkeypatch.setattr(os, "getuid", lambda: root.stat().st_uid + 1)
    monkeypatch.setenv("FAIRWAY_SCRATCH_DIR", str(root / "tasks/job-a-0"))
    with pytest.raises(AgentError, match=f"{root}.* on ") as refused:
        scratch.prepare(os.environ)
    assert refused.value.record["id"] == "no-scratch"
    monkeypatch.setattr(job_facts, "read_shared_plan", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["prepare", "RUN"])
    with pytest.raises(SystemExit):
        prepare.main()
    reason = attempts.Backend().refusal(refused.value)[1]
    for said in (reason, capsys.readouterr().err):
        assert said.rstrip().endswith(f"; {scratch.FOREIGN_HINT}")
        assert "another user" not in said
    scratch.remove(root / "tasks/thesis")
    assert (home / "thesis").exists()
    assert kind not in ("open", "foreign") or (root / "tasks/thesis").exists()


def test_scratch_that_only_the_users_own_group_could_change_is_closed(tmp_path: Path) -> None:
    """Ubuntu gives each person a group, and a umask that lets it write."""
    (root := tmp_path / "root").mkdir()
    root.chmod(0o775)
    scratch.make(root / "tasks/job-a-0")
    assert root.stat().st_mode & 0o777 == 0o700


def begin(lease: str, **variables: str) -> subprocess.Popen[bytes]:
    """Starts a process of a task with this lease."""
    process = subprocess.Popen(
        ["sh", "-c", "echo; read _"],
        env={**os.environ, scratch.LEASE: lease, **variables},
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    # Popen returns in the middle of exec, when /proc may not show the environment yet.
    assert process.stdout.readline()
    return process


def test_scratch_prepare_ends_only_leftovers_on_the_tasks_own_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared node other tasks continue; a task with the entire node ends all leftovers."""
    # Other tests of this machine may have tasks on it.
    inside = processes.environments
    mine = lambda: [each for each in inside() if str(tmp_path) in "".join(each[1])]  # noqa: E731
    monkeypatch.setattr(processes, "environments", mine)
    monkeypatch.setattr(scratch, "_GRACE", 0.0)

    def lease(task: str, *cores: int) -> str:
        share = Share((), cores, 0.5, (0, 0)) if cores else None
        host = Host(os.uname().nodename, "localhost", share=share)
        return scratch.lease(tmp_path / "runs" / "sweep-a", task, 0, [host])

    def prepare(task: str, *cores: int, **more: str) -> list[str]:
        own = str(folder / f"sweep-a-{task}")
        scratch.prepare({scratch.LEASE: lease(task, *cores), "FAIRWAY_SCRATCH_DIR": own, **more})
        return sorted(each.name for each in folder.iterdir())

    folder = scratch.own_folder(tmp_path / "tasks")
    other = begin(lease("1", 2, 3), FAIRWAY_SCRATCH_DIR=str(folder / "sweep-a-1"))
    left = begin(lease("2", 1, 9), FAIRWAY_SCRATCH_DIR=str(folder / "sweep-a-2"))
    wide = begin(lease("4"))
    own, far = (
        begin(lease("0", 0, 1)),
        begin(f"{lease('2', 1, 9)}-too"),
    )  # of another node
    for name in ("sweep-a-1", "sweep-a-2", "sweep-z-0"):
        (folder / name).mkdir()
    try:
        assert prepare("0", 0, 1, FAIRWAY_CORES="0-1") == ["sweep-a-0", "sweep-a-1"]
        assert left.wait(300) < 0
        assert wide.wait(300) < 0
        assert (own.poll(), other.poll()) == (None, None)
        assert prepare("3") == ["sweep-a-3"]
        assert other.wait(300) < 0
        assert far.poll() is None
    finally:
        for process in (other, left, wide, own, far):
            process.kill()
            process.communicate()


@pytest.mark.integration
def test_free_port_is_below_the_ephemeral_range_and_fails_if_none_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = int(launchers._RANGE.read_text().split()[0])
    for _ in range(200):
        assert 6000 < launchers.free_port(8) <= first - 8
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(launchers, "_LOWEST", port - 2)
        monkeypatch.setattr(launchers, "_RANGE", tmp_path / "range")
        (tmp_path / "range").write_text(f"{port + 2}\t60999\n")
        with pytest.raises(OSError, match="no 3 ports in a row"):
            launchers.free_port(3)


@pytest.mark.parametrize("count", [22_768, 40_000])
def test_free_port_refuses_more_than_there_are(count: int) -> None:
    with pytest.raises(OSError, match=f"no {count} ports in a row"):
        launchers.free_port(count)


@pytest.mark.parametrize(("nodes", "here", "width"), [(3000, False, 8), (3, True, 24)])
def test_contract_port_is_the_first_of_one_for_each_process_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, here: bool, width: int
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(launchers, "free_port", lambda count, _: asked.append(count) or 10_000)
    hosts = [] if here else [Host(f"nd-{each}", f"nd-{each}") for each in range(nodes)]
    spec = TaskSpec(0, nodes=nodes, processes_per_node=8)
    task = Task(RunPlan("job-a", str(tmp_path)), spec, tmp_path, tmp_path / "t", hosts=hosts)
    assert (attempts.contract(task)["FAIRWAY_MAIN_PORT"], asked) == ("10000", [width])


@pytest.mark.integration
@pytest.mark.parametrize("first", [None, 1024, 9000, 10_000])
def test_free_port_varies_if_the_ephemeral_range_leaves_no_room_or_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: int | None
) -> None:
    """Two tasks that start at once on a node most likely get different ports."""
    monkeypatch.setattr(launchers, "_RANGE", tmp_path / "range")
    if first is not None:
        (tmp_path / "range").write_text(f"{first}\t65535\n")
    found = {launchers.free_port() for _ in range(50)}
    assert len(found) > 10
    assert launchers._LOWEST <= min(found) <= max(found) < 32_768


NAMES = ("http_proxy", "https_proxy", "no_proxy")
EVERY = (*NAMES, *(name.upper() for name in NAMES))


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the proxy file of a machine; the environment has no proxy variables yet."""
    for name in EVERY:
        monkeypatch.setenv(name, "")  # so that it is restored afterwards
        monkeypatch.delenv(name)
    file = tmp_path / "proxy"
    file.write_text("".join(f"{name}=http://of-the-machine:80\n" for name in EVERY))
    monkeypatch.setattr(main, "PROXY", file)
    return file


def test_proxy_variables_that_are_set_already_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://of-the-job:80")
    monkeypatch.setenv("NO_PROXY", "")
    main.use_proxy()
    assert os.environ["https_proxy"] == "http://of-the-job:80"
    assert os.environ["NO_PROXY"] == ""
    assert os.environ["HTTPS_PROXY"] == "http://of-the-machine:80"


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe", b"PATH=/evil\nhttp_proxy\n =x\nLD_PRELOAD=x\n"]
)
def test_proxy_file_sets_no_other_variables(file: Path, content: bytes | None) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    before = dict(os.environ)
    main.use_proxy()
    assert dict(os.environ) == before


def test_proxy_is_set_by_each_entry_program_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On every engine: programs started by the bundle's name, and those that Batch starts."""
    (tmp_path / "said_proxy.py").write_text("import os; print(os.environ['HTTPS_PROXY'])")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["bundle", "said_proxy"])
    main.main()
    assert capsys.readouterr().out == "http://of-the-machine:80\n"
    for name in EVERY:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", ["fairway-agent", "unknown"])
    assert batch.main() == 2
    assert os.environ["no_proxy"] == "http://of-the-machine:80"


def _direct(tmp_path: Path, hosts: list[str], **said: str) -> tuple[str | None, str | None]:
    """Returns `no_proxy` and `NO_PROXY` of a task on these nodes."""
    plan = RunPlan("job-aaaaaa", str(tmp_path), environment=said)
    spec = TaskSpec(0, nodes=max(1, len(hosts)))
    mine, run = [Host(host, host) for host in hosts], tmp_path / "runs" / "r"
    run.mkdir(parents=True, exist_ok=True)
    (run / "job.json").write_text("{}")
    task = Task(plan, spec, run, run / "t", 0, nodes=SshNodes(), hosts=mine)
    found = attempts.contract(task)
    return found.get("no_proxy"), found.get("NO_PROXY")


def test_proxy_is_bypassed_between_the_nodes_of_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both by name and by address: some programs know no ranges, and no range contains a name."""
    assert _direct(tmp_path, ["nd-0", "nd-1"]) == (None, None), "there is no proxy"
    monkeypatch.setenv("no_proxy", "localhost,10.0.0.0/8")
    monkeypatch.setenv("NO_PROXY", "nd-1")
    assert _direct(tmp_path, ["nd-0", "nd-1"]) == ("localhost,10.0.0.0/8,nd-0,nd-1", "nd-1,nd-0")
    assert _direct(tmp_path, ["nd-0"], no_proxy="mine") == ("mine", "nd-1,nd-0")
    assert _direct(tmp_path, []) == ("localhost,10.0.0.0/8", "nd-1"), "all of it is here"
    monkeypatch.setenv("NO_PROXY", "*")
    assert _direct(tmp_path, ["nd-0"])[1] == "*"


def test_launch_on_a_host_without_free_ports_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["attempt", str(tmp_path), "script"])
    monkeypatch.setenv("FAIRWAY_PROCESSES_PER_NODE", "30000")
    with pytest.raises(SystemExit) as ended:
        attempt.main()
    assert (ended.value.code, capfd.readouterr().err[:26]) == (74, "fairway: no 30000 ports in")
