"""Who gets which nodes of a plain cluster, with runs that come, go and die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairway_agent.allocators.cluster_nodes import Nodes, Queue, known_hosts, note_user
from fairway_agent.fanout import remote_exec
from fairway_boot import cluster
from fairway_boot.cluster import users

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_agent.allocators.machine import Host


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A shared folder in which three nodes have announced themselves."""
    folder = tmp_path / "clusters" / "pair" / "hosts"
    folder.mkdir(parents=True)
    for name in ("node-2", "node-10", "node-1"):
        (folder / name).write_text(f"10.0.0.{name[5:]}\n")
    return tmp_path


def names(taken: list[Host]) -> list[str]:
    return [host.name for host in taken]


def test_nodes_are_known_by_what_they_wrote(shared: Path) -> None:
    known = known_hosts(shared, "pair")
    assert [(host.name, host.address) for host in known] == [
        ("node-1", "10.0.0.1"),
        ("node-2", "10.0.0.2"),
        ("node-10", "10.0.0.10"),
    ]
    assert all(host.is_fresh for host in known)


def test_silence_is_told_by_the_clock_of_the_file_system(shared: Path) -> None:
    old = time.time() - cluster.FRESH - 1
    os.utime(shared / "clusters" / "pair" / "hosts" / "node-2", (old, old))
    (shared / "clusters" / "pair" / "hosts" / "node-3").touch()  # as it is being written
    fresh = {host.name: host.is_fresh for host in known_hosts(shared, "pair")}
    assert fresh == {"node-1": True, "node-2": False, "node-10": True}
    queue = Queue(shared, "pair", "a")
    assert queue.take(3) == []
    assert (
        queue.reason
        == "waits for 3 nodes: 2 free of 2 that are up (silent, lost or unwell: node-2)"
    )
    assert queue.take(2)


def test_a_node_that_lacks_a_gpu_gets_no_task(shared: Path) -> None:
    said = "10.0.0.2 0f-boot 1000 7 of 8 GPUs\n"
    (shared / "clusters" / "pair" / "hosts" / "node-2").write_text(said)
    (shared / "clusters" / "pair" / "hosts" / "node-1").write_text("10.0.0.1 0f-boot 1000 \n")
    lacks = {host.name: host.trouble for host in known_hosts(shared, "pair")}
    assert lacks == {"node-1": "", "node-2": "7 of 8 GPUs", "node-10": ""}
    queue = Queue(shared, "pair", "a")
    assert names(queue.take(2)) == ["node-1", "node-10"]


def test_only_what_nodes_have_written_announces_one(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, bytes that are no text, a folder, a pipe, which would never be read to its end, and a
    file of somebody else in the folder of the nodes."""
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


def test_a_machine_that_nobody_announced_is_alone(tmp_path: Path) -> None:
    (host,) = known_hosts(tmp_path, "box")
    assert (host.name, host.address, host.is_own) == (os.uname().nodename, "localhost", True)
    queue = Queue(tmp_path, "box", "a")
    assert names(queue.take(1)) == [host.name]
    assert users(tmp_path, "box").keys() == {host.name}


def test_nodes_are_handed_out_in_the_order_of_the_runs(shared: Path) -> None:
    """A run behind one that waits for more nodes gets none, however few it wants."""
    first, second, third = (Queue(shared, "pair", name) for name in "abc")
    held = first.take(2)
    assert names(held) == ["node-1", "node-2"]
    first.rest()
    assert second.take(2) == []
    assert second.reason == "waits for 2 nodes: 1 free of 3 that are up"
    assert third.take(1) == []
    assert third.reason == "waits behind b"
    first.give_back(held)
    assert names(second.take(2)) == ["node-1", "node-2"]
    assert third.take(1) == [], "b may want more"
    second.rest()
    assert names(third.take(1)) == ["node-10"]


def test_ssh_queue_reason_names_who_uses_the_nodes(shared: Path) -> None:
    """By the most first; not of a node whose user nobody has noted, nor of the run's own."""
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


def test_a_run_that_asks_again_keeps_its_place(shared: Path) -> None:
    first, second = Queue(shared, "pair", "a"), Queue(shared, "pair", "b")
    held = first.take(3)
    first.rest()
    assert second.take(1) == []
    assert first.take(1) == []
    first.give_back(held)
    assert second.take(1) == []
    assert names(first.take(1)) == ["node-1"]


def test_ssh_queue_nodes_and_ticket_of_a_killed_process_are_free(shared: Path) -> None:
    """Its ticket and its nodes, with no word from it."""
    program = f"""
from pathlib import Path
from fairway_agent.allocators.cluster_nodes import Queue
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


def test_a_lost_node_is_used_when_it_is_back(shared: Path) -> None:
    queue = Queue(shared, "pair", "a")
    queue.lose(["10.0.0.2"])
    assert names(queue.take(2)) == ["node-1", "node-10"]
    assert queue.take(1) == []
    later = time.time() + 2
    os.utime(shared / "clusters" / "pair" / "hosts" / "node-2", (later, later))
    queue.lost["node-2"] -= 2  # two seconds went by
    assert names(queue.take(1)) == ["node-2"]


def test_a_node_that_takes_no_connection_is_left_out(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has died since it announced itself: the task waits, and has not begun an attempt."""
    asked: list[list[str]] = []

    def unreachable(addresses: Iterable[str]) -> list[str]:
        asked.append(list(addresses))
        return [address for address in asked[-1] if address == "10.0.0.2"]

    monkeypatch.setattr(remote_exec, "unreachable", unreachable)
    nodes = Nodes(Queue(shared, "pair", "a"))
    assert nodes.take(2, 2) is None
    assert nodes.reason == "waits for other nodes than node-2: no connection"
    assert users(shared, "pair") == {}, "others may have the nodes meanwhile"
    taken = nodes.take(2, 2)
    assert taken is not None
    assert names(taken) == ["node-1", "node-10"]
    nodes.give_back(taken, 2)
    assert nodes.take(2, 2)
    assert asked == [["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.10"], []]
