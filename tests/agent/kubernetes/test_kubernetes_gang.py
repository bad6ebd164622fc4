"""The pods of a task on several nodes: arrival, replacement and waiting."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from clocks import Clock

from fairway_agent import control, processes, scratch
from fairway_agent.fanout import sshd_mesh
from fairway_agent.kubernetes import gang
from fairway_agent.kubernetes.gang import Gang, Member
from fairway_agent.state_files import TERMINATED
from fairway_boot import files
from fairway_boot.files import AgentError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.of(monkeypatch, gang, now=100.0)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the run's folder, with a pod's own facts in the environment."""
    told = {"POD": "job-a-0-0-1-abcde", "POD_UID": "u-1", "NODE": "nd-1"}
    for name, value in told.items():
        monkeypatch.setenv(f"_FAIRWAY_{name}", value)
    monkeypatch.setenv("FAIRWAY_NODE_ADDRESS", "10.0.0.2")
    monkeypatch.setattr(scratch, "root", lambda: tmp_path / "scratch")
    run = tmp_path / "job-a"
    run.mkdir()
    return run


def arrive(group: Gang, number: int, uid: str = "") -> None:
    member = Member(uid or f"u-{number}", f"pod-{number}", f"nd-{number}", f"10.0.0.{number + 1}")
    group.folder.mkdir(parents=True, exist_ok=True)
    files.write_json(group.folder / f"{number}.json", member.to_json())


def begun(run: Path, *ranks: int, size: int = 3) -> Gang:
    """Returns the pods of a task, of which those of these ranks have come."""
    group = Gang(run, "3", 0, size)
    for rank in ranks:
        arrive(group, rank)
    return group


def test_gang_is_complete_once_all_pods_have_come(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = begun(pod, 0, 2)
    assert not group.is_complete()
    arrive(group, 1)
    assert group.is_complete()
    assert not Gang(pod, "3", 1, 3).is_complete(), "another start"
    monkeypatch.setattr(sshd_mesh, "connect", lambda _, hosts: ",".join(hosts))
    hosts, config = group.connect_all()
    assert [host.name for host in hosts] == ["nd-0", "nd-1", "nd-2"]
    assert config == "10.0.0.1,10.0.0.2,10.0.0.3"
    assert not group.has_changed()
    arrive(group, 1, uid="another")
    assert group.has_changed()


@pytest.mark.parametrize(
    ("nodes", "access", "minutes", "hint"),
    [
        ({"min": 4, "max": 4}, {}, 15, "with a Kueue queue none starts before there is room"),
        ({"min": 1, "max": 4}, {}, 50, "with a Kueue queue none starts before there is room"),
        ({"min": 1, "max": 4}, {"queue": "nd"}, 50, "look at the nodes: `fairway nodes list"),
        ({"min": 1, "max": 4}, {"patience": 7200}, 120, "with a Kueue queue none starts"),
    ],
    ids=["all-there", "scales", "queue", "as-said"],
)
def test_gang_waits_for_its_pods_until_its_patience_ends(
    pod: Path, clock: Clock, nodes: dict[str, int], access: dict[str, Any], minutes: int, hint: str
) -> None:
    """Another task may hold the missing nodes and wait for those of this task."""
    own = {"image": "a", "head_image": "b", "service_account": "c", "head": "d", **access}
    (pod / "target.json").write_text(json.dumps({"nodes": nodes, "kubernetes": own}))
    group = begun(pod, 0)
    clock.now += minutes * 60
    assert not group.is_complete()
    clock.now += 1
    with pytest.raises(
        AgentError, match=f"1 of its 3 pods had started after {minutes} min"
    ) as raised:
        group.is_complete()
    assert raised.value.record["hint"].startswith(hint)


def test_gang_waits_longer_while_nodes_are_being_started(pod: Path, clock: Clock) -> None:
    """A node that does not come is retried, which the autoscaler reports with an event."""
    group = begun(pod, 0)
    why = "1 of its 3 pods run: waiting for 2 nodes: none fits; the pool scales up"
    for minute in range(4):
        control.note_lacking(pod, 0, "3", why, 60.0 * (minute + 1))
        assert not group.is_complete()
        clock.now += group.patience
        assert not group.is_complete()
    # From now on the autoscaler reports nothing.
    clock.now += 1
    said = "1 of its 3 pods had started after 15 min without another node: "
    with pytest.raises(AgentError) as raised:
        group.is_complete()
    assert str(raised.value) == said + why


def test_gang_gives_up_if_nodes_are_started_repeatedly_and_none_comes(
    pod: Path, clock: Clock
) -> None:
    """Azure lacks nodes: the autoscaler retries after a while, and the first pod holds its node."""
    group = begun(pod, 0)
    for minute in range(17):
        control.note_lacking(pod, 0, "3", "the pool scales up", 60.0 * (minute + 1))
        assert not group.is_complete()
        clock.now += group.patience / 2
    with pytest.raises(
        AgentError, match="1 of its 3 pods had started after 120 min: the pool scales"
    ):
        group.is_complete()
    group.begin()
    assert not group.is_complete(), "another attempt"


def test_gang_wait_ends_if_another_pod_is_blocked(pod: Path) -> None:
    """The run's controller has noted the reason, see `stuck_pods`."""
    group = begun(pod, 0)
    why = "its image own:1 cannot be pulled: manifest unknown"
    control.note_blocked(pod, 0, "3", why)
    with pytest.raises(AgentError, match=f"2 of its 3 pods did not start: {why}"):
        group.is_complete()
    assert not group.is_complete()  # the next attempt may succeed
    control.note_blocked(pod, 0, "3", why)
    arrive(group, 1)
    arrive(group, 2)
    assert group.is_complete()


def test_gang_waits_until_a_lost_pod_is_replaced_unless_that_is_blocked(
    pod: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an eviction of all pods the first may be back before the others. The wait ends if the
    image of one cannot be pulled on another node."""
    gone = {"10.0.0.2"}

    def connect(_: object, hosts: list[str]) -> str:
        if lost := gone & {*hosts}:
            raise OSError(f"the node {lost.pop()} cannot be reached: no route")
        return ",".join(hosts)

    monkeypatch.setattr(sshd_mesh, "connect", connect)
    group = begun(pod, 0, 1, size=2)
    assert group.connect_all() is None
    why = "its image own:1 cannot be pulled: manifest unknown"
    control.note_blocked(pod, 0, "3", why)
    with pytest.raises(AgentError, match=f"a pod that is gone cannot be replaced: {why}") as said:
        group.connect_all()
    assert "fairway retry RUN" in said.value.record["hint"]
    assert group.connect_all() is None  # the next attempt may succeed
    clock.now += group.patience + 1
    with pytest.raises(OSError, match=r"10\.0\.0\.2 cannot be reached"):
        group.connect_all()
    new = Member("another", "pod-1b", "nd-9", "10.0.0.9")
    files.write_json(group.folder / "1.json", new.to_json())
    found = group.connect_all()
    assert found[1] == "10.0.0.1,10.0.0.9"
    assert not group.has_changed()


def test_gang_remembers_a_terminated_pod_until_the_next_attempt(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal to the pod's predecessor no longer counts."""
    monkeypatch.setattr(sshd_mesh, "connect", lambda *_: pod)
    group = begun(pod, 0, 1, size=2)
    group.connect_all()
    assert not group.was_signalled()
    assert not group.has_changed()
    group.leave(1)  # as u-1, which is its id
    assert group.was_signalled()
    # Nothing starts there any more, and programs that run there are to end.
    assert group.has_changed()
    assert group.connect_all() is None
    arrive(group, 1, uid="another")
    assert group.was_signalled()
    group.connect_all()
    assert not group.was_signalled()


@pytest.mark.parametrize(
    ("left", "ends_after"),
    [
        pytest.param([set()], 0, id="nothing of the task is there"),
        pytest.param([{7}, {7}, set()], 2, id="the first pod ends it meanwhile"),
        pytest.param([{7}] * 9, 4, id="the task has ended and left something"),
    ],
)
def test_gang_terminated_pod_stays_while_the_first_pod_has_programs_in_it(
    pod: Path, monkeypatch: pytest.MonkeyPatch, left: list[set[int]], ends_after: int
) -> None:
    group = Gang(pod, "3", 0, 2)
    group.folder.mkdir(parents=True)
    waited: list[bool] = []

    def wait(_: object, deadline: float | None) -> None:
        """Notes if the wait has a deadline, which it has once the pod was terminated."""
        waited.append(deadline is not None)

    monkeypatch.setattr(gang, "_wait", wait)
    monkeypatch.setattr(gang, "_served", lambda: left.pop(0))
    told = iter([False, True])
    with socket.socket() as wakeup:
        code = gang.serve(group, 1, wakeup, lambda: next(told), lambda: len(waited) > ends_after)
    assert code == TERMINATED
    assert waited == [False] + [True] * ends_after
    assert (
        group.folder / "1.signalled"
    ).read_text() == "u-1"  # the first pod sees that it is leaving


def test_gang_finds_the_sessions_that_another_pod_started(pod: Path) -> None:
    (gang.base() / "sessions").mkdir(parents=True)
    for note in ("", "served-"):
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
            began = processes.start_ticks(process.pid)
            (gang.base() / "sessions" / f"{note}{process.pid}-{began - 1}").touch()
            assert gang._served() == set(), "it was another process of that number"
            (gang.base() / "sessions" / f"{note}{process.pid}-{began}").touch()
            assert gang._served() == {process.pid}
            process.kill()
        assert gang._served() == set()


def test_gang_finds_ranks_of_a_daemon_that_left_its_session(pod: Path) -> None:
    """Open MPI's daemons leave their session, and signals are for the ranks."""
    (gang.base() / "sessions").mkdir(parents=True)
    context = pod / "context.json"
    facts = {"environment": dict(os.environ), "code": str(pod), "base": str(gang.base())}
    context.write_text(json.dumps(facts))
    serve = f"from fairway_agent.fanout import sshd_mesh as f; f.serve({str(context)!r})"
    daemon = "setsid sh -c 'echo $$; exec sleep 600' & wait"
    with subprocess.Popen(
        [sys.executable, "-c", serve],
        env={**os.environ, "SSH_ORIGINAL_COMMAND": daemon},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        rank = int(process.stdout.readline())
        assert sshd_mesh.sessions(gang.base()) == {process.pid, rank}
        assert gang._served() == {process.pid, rank}
        processes.kill({process.pid, rank})
    assert gang._served() == set()


def test_gang_pod_joins_once_it_is_reachable_or_reports_why_it_is_not(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd_mesh, "install_keys", lambda _: None)
    why = "sshd is not on this node, or not in this image: install openssh-server"
    monkeypatch.setattr(sshd_mesh, "start_server", Mock(side_effect=OSError(why)))
    group = Gang(pod, "3", 0, 2)
    with pytest.raises(
        AgentError, match="a pod cannot be reached by the others: sshd is not"
    ) as raised:
        group.join(1, pod)
    assert "openssh-server and openssh-client" in raised.value.record["hint"]
    assert group.members() == [None, None], "the others wait for one that can be reached"
    monkeypatch.setattr(sshd_mesh, "start_server", lambda *_: 20_000)
    group.join(1, pod)
    assert group.members() == [None, Member("u-1", "job-a-0-0-1-abcde", "nd-1", "10.0.0.2")]
    context = gang.base() / "context.json"
    assert context.stat().st_mode & 0o777 == 0o600
    assert os.environ["_FAIRWAY_POD"] in context.read_text()
