"""The queue for the nodes of an ssh cluster, with runs of several users that end or are killed."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from run_folders import bring

from fairway_agent import control, job_facts, resources, state_files
from fairway_agent.fanout import remote_exec
from fairway_agent.machine import Host
from fairway_agent.resources import Devices, Gpu, ResourceRequest
from fairway_agent.shared.reports import CancelRequest, NodesRequest, RunRequest, StatesRequest
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.ssh import runs
from fairway_agent.ssh.cluster_nodes import NodeAllocator, Queue, note_user, queue_of
from fairway_agent.state_files import RunState
from fairway_boot import cluster
from fairway_boot.cluster import known_hosts, users
from fairway_boot.files import AgentError, try_lock


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Returns a shared folder in which three nodes have announced themselves."""
    folder = tmp_path / "clusters" / "pair" / "hosts"
    folder.mkdir(parents=True)
    for name in ("node-2", "node-10", "node-1"):
        (folder / name).write_text(f"10.0.0.{name[5:]}\n")
    return tmp_path


def names(taken: list[Host]) -> list[str]:
    return [host.name for host in taken]


def test_ssh_queue_knows_nodes_by_announcements_and_skips_unwell_ones(shared: Path) -> None:
    known = known_hosts(shared, "pair")
    nodes = [(f"node-{n}", f"10.0.0.{n}") for n in (1, 2, 10)]
    assert [(host.name, host.address) for host in known] == nodes
    assert all(host.is_fresh for host in known)
    said = "10.0.0.2 0f-boot 1000 7 of 8 GPUs\n"
    (shared / "clusters" / "pair" / "hosts" / "node-2").write_text(said)
    (shared / "clusters" / "pair" / "hosts" / "node-1").write_text("10.0.0.1 0f-boot 1000 \n")
    lacks = {host.name: host.trouble for host in known_hosts(shared, "pair")}
    assert lacks == {"node-1": "", "node-2": "7 of 8 GPUs", "node-10": ""}
    queue = Queue(shared, "pair", "a")
    assert names(queue.take(2)) == ["node-1", "node-10"]


def test_ssh_queue_skips_silent_nodes_by_the_clock_of_the_file_system(shared: Path) -> None:
    old = time.time() - cluster.FRESH - 1
    os.utime(shared / "clusters" / "pair" / "hosts" / "node-2", (old, old))
    (shared / "clusters" / "pair" / "hosts" / "node-3").touch()  # as it is being written
    fresh = {host.name: host.is_fresh for host in known_hosts(shared, "pair")}
    assert fresh == {"node-1": True, "node-2": False, "node-10": True}
    queue = Queue(shared, "pair", "a")
    assert queue.take(3) == []
    why = "waits for 3 nodes: 2 free of 2 that are up (silent, lost or unwell: node-2)"
    assert queue.reason == why
    assert queue.take(2)


def test_ssh_queue_ignores_announcements_that_no_node_wrote(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, binary data, a folder, a pipe, which would block its reader, and a file of another
    user in the folder of the nodes."""
    folder = shared / "clusters" / "pair" / "hosts"
    before = [host.name for host in known_hosts(shared, "pair")]
    (tmp_path / "mine").write_text("10.0.0.66 boot 1000")
    (folder / "link").symlink_to(tmp_path / "mine")
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "other").write_text("10.0.0.66 boot 1000")
    of = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found = of(path)
        words = list(found)
        words[4] += path.name == "other"  # st_uid
        return os.stat_result(words)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert [host.name for host in known_hosts(shared, "pair")] == before


def test_ssh_queue_without_announcements_has_only_this_machine(tmp_path: Path) -> None:
    (host,) = known_hosts(tmp_path, "box")
    assert (host.name, host.address, host.is_own) == (os.uname().nodename, "localhost", True)
    queue = Queue(tmp_path, "box", "a")
    assert names(queue.take(1)) == [host.name]
    assert users(tmp_path, "box").keys() == {host.name}


def test_ssh_queue_hands_out_nodes_in_the_order_of_the_runs(shared: Path) -> None:
    """A run behind one that waits for more nodes gets none, however few it wants."""
    first, second, third = (Queue(shared, "pair", name) for name in "abc")
    held = first.take(2)
    assert names(held) == ["node-1", "node-2"]
    first.rest()
    assert second.take(2) == []
    assert second.reason == "waits for 2 nodes: 1 free of 3 that are up"
    assert third.take(1) == []
    assert third.reason == "waits behind b"
    assert second.take(2) == [], "which keeps its place where it asks again"
    assert third.take(1) == []
    first.give_back(held)
    assert third.take(1) == []
    assert names(second.take(2)) == ["node-1", "node-2"]
    assert third.take(1) == [], "b may want more"
    second.rest()
    assert names(third.take(1)) == ["node-10"]


def test_ssh_queue_reason_names_who_uses_the_nodes(shared: Path) -> None:
    """Largest count first, without nodes whose user is not recorded and the run's own."""
    waits = "waits for 1 node: 0 free of 3 that are up"
    two, one, mine = (Queue(shared, "pair", name) for name in ("b", "a", "me"))
    held = two.take(2)
    two.rest()
    held += one.take(1)
    one.rest()
    assert (mine.take(1), mine.reason) == ([], waits)
    for host, queue in zip(held, (two, two, one), strict=True):
        note_user(shared, "pair", host, queue.run)
    assert (mine.take(1), mine.reason) == ([], f"{waits}; b uses 2, a uses 1")
    one.give_back(held[2:])
    for host in mine.take(1):
        note_user(shared, "pair", host, mine.run)
    assert (mine.take(1), mine.reason) == ([], f"{waits}; b uses 2")


def test_ssh_queue_nodes_and_ticket_of_a_killed_process_are_free(shared: Path) -> None:
    program = f"""
from pathlib import Path
from fairway_agent.ssh.cluster_nodes import Queue
taker, waiter = (Queue(Path({str(shared)!r}), "pair", name) for name in ("taker", "waiter"))
taker.take(3), taker.rest(), waiter.take(1)
print("held", flush=True)
import signal; signal.pause()
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        mine = Queue(shared, "pair", "mine")
        waits = mine.take(1), mine.reason
        process.send_signal(signal.SIGKILL)
    assert (said, waits) == ("held\n", ([], "waits behind waiter"))
    assert names(mine.take(3)) == ["node-1", "node-2", "node-10"]


def test_ssh_queue_uses_a_lost_node_once_it_is_back(shared: Path) -> None:
    queue = Queue(shared, "pair", "a")
    queue.lose(["10.0.0.2"])
    assert names(queue.take(2)) == ["node-1", "node-10"]
    assert queue.take(1) == []
    later = time.time() + 2
    os.utime(shared / "clusters" / "pair" / "hosts" / "node-2", (later, later))
    queue.lost["node-2"] -= 2  # two seconds went by
    assert names(queue.take(1)) == ["node-2"]


def test_ssh_queue_skips_a_node_that_accepts_no_connection(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node died after its announcement: the task waits, and has not begun an attempt."""
    asked: list[list[str]] = []

    def unreachable(addresses: Iterable[str]) -> list[str]:
        asked.append(list(addresses))
        return [address for address in asked[-1] if address == "10.0.0.2"]

    monkeypatch.setattr(remote_exec, "unreachable", unreachable)
    nodes = NodeAllocator(Queue(shared, "pair", "a"))
    assert nodes.take(2, 2) is None
    assert nodes.reason == "waits for other nodes than node-2: no connection"
    assert users(shared, "pair") == {}, "others may have the nodes meanwhile"
    taken = nodes.take(2, 2)
    assert names(taken) == ["node-1", "node-10"]
    nodes.give_back(taken, 2)
    assert nodes.take(2, 2)
    assert asked == [["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.10"], []]


ADA, BOB = 30001, 30002


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields a queue for two nodes as the machines create it, in a folder that users can read."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    monkeypatch.setattr(remote_exec, "unreachable", lambda _: [])
    with TemporaryDirectory(prefix="fairway-queue-") as name:
        folder = Path(name)
        cluster = folder / "clusters" / "pair"
        (cluster / "hosts").mkdir(parents=True)
        for each in ("nodes", "queue"):
            (cluster / each).mkdir()
            (cluster / each).chmod(0o1777)
        (cluster / "queue.lock").touch()
        (cluster / "queue.lock").chmod(0o666)
        for node in ("node-1", "node-2"):
            (cluster / "hosts" / node).write_text(f"{node}\n")
        folder.chmod(0o755)
        yield folder


@contextmanager
def somebody(uid: int, act: Callable[[], Any]) -> Iterator[Any]:
    """Yields the result of `act` as another user, whose locks last until the context ends."""
    reading, writing = os.pipe()
    go_reading, go = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go)
        code = 1
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.umask(0o077)  # as restrictive as a user may set it
            os.write(writing, json.dumps(act()).encode())
            os.close(writing)
            os.read(go_reading, 1)
            code = 0
        except Exception:  # noqa: BLE001 - nobody else would print it
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    os.close(writing)
    os.close(go_reading)
    try:
        with os.fdopen(reading, "rb") as said:
            text = said.read()
        assert text, "it failed, see what it printed"
        yield json.loads(text)
    finally:
        os.close(go)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def take(
    queue: Path, run: str, nodes: int, wanted: ResourceRequest | None = None
) -> Callable[[], Any]:
    """Returns a function that takes nodes as a supervisor does and returns names and reason."""

    def act() -> Any:
        mine = NodeAllocator(Queue(queue, "pair", run))
        found = mine.take(nodes, 1, wanted)
        if found:
            mine.rest()
        return [[host.name for host in found or []], mine.reason]

    return act


def test_shared_queue_waits_for_nodes_of_another_user_and_then_gets_them(queue: Path) -> None:
    with somebody(ADA, take(queue, "hers", 2)) as [taken, _]:
        assert taken == ["node-1", "node-2"]
        with somebody(BOB, take(queue, "his", 1)) as [none, why]:
            assert none == []
            assert why == "waits for 1 node: 0 free of 2 that are up; hers uses 2"
            assert users(queue, "pair") == {"node-1": "hers", "node-2": "hers"}
    # Her files are still there, as are the ticket and the locks of a killed supervisor.
    with somebody(BOB, take(queue, "his", 2)) as [taken, _]:
        assert taken == ["node-1", "node-2"]
        assert users(queue, "pair") == {"node-1": "his", "node-2": "his"}
    assert users(queue, "pair") == {}


def test_shared_queue_serves_users_in_order_of_arrival(queue: Path) -> None:
    with somebody(ADA, take(queue, "holds", 1)), somebody(ADA, take(queue, "hers", 2)) as [_, why]:
        assert why == "waits for 2 nodes: 1 free of 2 that are up; holds uses 1"
        with somebody(BOB, take(queue, "his", 1)) as [none, why]:
            assert (none, why) == ([], "waits behind hers")


def test_shared_queue_with_a_lock_that_is_never_given_back_is_named_as_the_reason(
    queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 0.0)
    lock = queue / "clusters/pair/queue.lock"
    with (
        somebody(ADA, partial(try_lock, lock)),
        somebody(BOB, take(queue, "his", 1)) as [none, why],
    ):
        assert none == []
        assert f"holds {lock}" in why
        with pytest.raises(OSError, match=f"fuser -v {lock}"):
            cluster.runs(queue, "pair")
    with somebody(BOB, take(queue, "his", 1)) as [taken, _]:
        assert taken == ["node-1"]


def test_shared_queue_never_gives_one_node_to_two_users(
    queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Devices((Gpu(0, ()), Gpu(1, ())), (0, 1), 2)
    said = json.dumps(node.to_json())
    monkeypatch.setattr(remote_exec, "output_of", lambda *_: said)
    monkeypatch.setattr(resources, "look", lambda: node)
    hers, his = (take(queue, run, 1, ResourceRequest(gpus=1)) for run in ("hers", "his"))
    with somebody(ADA, hers) as [hers, _], somebody(BOB, his) as [his, _]:
        assert (hers, his) == (["node-1"], ["node-2"])
        assert users(queue, "pair") == {"node-1": "hers", "node-2": "his"}


def test_shared_queue_ignores_foreign_files_in_its_folders(queue: Path) -> None:
    """Invalid names, files that cannot be opened, links and pipes: the user who creates them costs
    others at most the node that they name."""
    cluster = queue / "clusters" / "pair"

    def spoil() -> None:
        for name in ("0000", "0000000000000000000x", "00000000000000000001-\x1b[2J", ".draft"):
            (cluster / "queue" / name).touch()
        (cluster / "queue" / "00000000000000000001-closed").touch(0o600)
        (cluster / "queue" / "00000000000000000002-folder").mkdir()
        (cluster / "queue" / "00000000000000000003-link").symlink_to("/etc/passwd")
        (cluster / "nodes" / ".draft").touch()
        (cluster / "nodes" / "node-1").touch(0o600)
        os.mkfifo(cluster / "nodes" / "pipe")

    with somebody(ADA, spoil), somebody(BOB, take(queue, "his", 1)) as [taken, _]:
        assert taken == ["node-2"]

        def looks() -> Any:
            return [users(queue, "pair"), take(queue, "more", 1)()]

        with somebody(BOB, looks) as [used, [none, why]]:
            assert used["node-1"] == "another run"
            assert used["node-2"] == "his"
            assert none == []
            assert "his uses 1" in why


def test_shared_queue_hides_terminal_codes_in_the_recorded_user_of_a_node(queue: Path) -> None:
    for text in ("\x1b[2J", "x" * 4000, "two\nlines"):

        def act(text: str = text) -> Any:
            (node,) = Queue(queue, "pair", "hers").take(1)
            note_user(queue, "pair", node, text)

        with somebody(ADA, act):
            assert users(queue, "pair") == {"node-1": "another run"}


def queue_for(run: Path) -> Path:
    target = job_facts.of_target(run)
    return queue_of(target.queue, run.parents[1], target.name)


def test_shared_queue_trusts_only_hosts_and_folders_of_the_machines(
    queue: Path, tmp_path: Path
) -> None:
    def announce() -> Any:
        try:
            (queue / "clusters" / "pair" / "hosts" / "evil").write_text("10.0.0.66\n")
            return "written"
        except PermissionError:
            return "refused"

    with somebody(ADA, announce) as said:
        assert said == "refused"
    assert queue_of(str(queue), tmp_path, "pair") == queue
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    target = {"name": "pair", "ssh": {"queue": str(queue / "hers")}}
    (run / "target.json").write_text(json.dumps(target))
    with pytest.raises(AgentError, match=r"have no folder .*/hers yet") as refused:
        queue_for(run)
    assert "reimage them" in refused.value.said
    (queue / "hers").mkdir()
    assert queue_for(run) == queue / "hers"
    os.chown(queue / "hers", ADA, ADA)
    with pytest.raises(AgentError, match="hers is not the machines' own"):
        queue_for(run)
    (queue / "hers").rename(queue / "his")
    (queue / "hers").symlink_to(queue)
    with pytest.raises(AgentError, match="not the machines' own"):
        queue_for(run)
    (run / "target.json").write_text(json.dumps({"name": "pair", "ssh": {}}))
    assert queue_for(run) == tmp_path


def test_shared_queue_is_found_by_a_target_that_was_read_before_it_existed(tmp_path: Path) -> None:
    """Two queues for the same nodes would give each of them to two runs."""
    shared = tmp_path / "home" / "ada" / "fairway"
    run = shared / "runs" / "run"
    run.mkdir(parents=True)
    (run / "target.json").write_text(json.dumps({"name": "pair", "ssh": {}}))
    assert queue_for(run) == shared
    queue = tmp_path / "fairway-queue"
    (queue / "clusters" / "other").mkdir(parents=True)
    assert queue_for(run) == shared, "it is another cluster's"
    (queue / "clusters" / "pair" / "hosts").mkdir(parents=True)
    (queue / "clusters" / "pair" / "hosts" / "n1").write_text("10.0.0.4 gpus\n")
    assert queue_for(run) == queue
    answer = runs.nodes(shared, NodesRequest("pair", health=False), io.BytesIO())
    assert "n1" in {each.name for each in answer.nodes}
    if os.geteuid() == 0:
        os.chown(queue, ADA, ADA)  # who could announce hosts of her own there
        assert queue_for(run) == shared
        os.chown(queue, 0, 0)
    queue.rename(tmp_path / "elsewhere")
    queue.symlink_to(tmp_path / "elsewhere")
    assert queue_for(run) == shared


def test_cancel_of_a_run_whose_supervisor_dies_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is recorded before the supervisor gets its signal."""
    folder = tmp_path / "runs" / "job-a"
    bring(folder, RunPlan("job-a", "/code"), [TaskSpec(0)])
    state_files.write(folder, RunState("running", supervisor=os.getpid()))
    lock = try_lock(folder / "lock")
    assert lock is not None
    monkeypatch.setattr(control.os, "kill", lambda *_: os.close(lock))
    runs.cancel(tmp_path, CancelRequest("job-a", 0), io.BytesIO())
    report = runs.states(tmp_path, StatesRequest({"job-a": RunRequest()}), io.BytesIO())
    found = report.runs["job-a"]
    assert (found.state.state, found.state.reason) == ("cancelled", None)


@pytest.mark.parametrize(("longest", "may_kill"), [(0.1, True), (1e9, False)])
def test_cancel_of_a_removed_run_names_a_supervisor_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: float, may_kill: bool
) -> None:
    """At once if another user started the supervisor. A run whose name only begins alike is
    another, and cancelling a task does not end the run."""

    def forbid(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not may_kill:
        monkeypatch.setattr(runs.os, "kill", forbid)
    monkeypatch.setattr(runs, "_LONGEST_END", longest)
    words = ["sh", "-c", "trap '' USR1; echo; read _", "sh", runs._MODULE, f"{tmp_path}/runs/job-b"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        for run, task in (("job", ""), ("job-b2", ""), ("job-b", "1")):
            runs.cancel(tmp_path, CancelRequest(run, 0, task=task), io.BytesIO())
        with pytest.raises(AgentError, match="the folder of job-b is gone") as caught:
            runs.cancel(tmp_path, CancelRequest("job-b", 0), io.BytesIO())
    assert caught.value.record["hint"].endswith(f": kill {process.pid}")
