"""Runs on a plain cluster: real hosts with a real sshd, reached as a person's would be."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from fairway_simulator.ssh.cluster import SshCluster

EACH = "every-node"


# Holds a sweep's first tasks until three of them run: on a node each.
ALL_UP = 'mkdir -p "$FAIRWAY_SHARED_DIR/up"; touch "$FAIRWAY_SHARED_DIR/up/$FAIRWAY_TASK"; '
ALL_UP += 'while [ $(ls "$FAIRWAY_SHARED_DIR/up" | wc -l) -lt 3 ]; do sleep 0.05; done'


def remote(cluster: SshCluster, run: str) -> Path:
    """The run's folder on the shared file system."""
    return cluster.shared / "runs" / run


def supervisor_of(cluster: SshCluster, run: str) -> int:
    """The process that watches over a run, as this machine counts processes."""
    for pid in cluster.hosts["n1"].pids():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        program = b"fairway_agent.ssh.runs"
        if program in words and str(remote(cluster, run)).encode() in words:
            return pid
    raise AssertionError("nobody watches over the run")


def leftovers(cluster: SshCluster) -> list[str]:
    """The command lines of whatever runs on the hosts beside their sshd."""
    found = []
    for host in cluster.hosts.values():
        for pid in host.pids():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if words and not words.startswith("sshd: "):
                found.append(f"{host.name}: {words}")
    return found


def test_a_host_that_dies_fails_the_run_which_says_so(
    fairway: Any, cluster: SshCluster, signs: Any
) -> None:
    job = fairway.job(f"echo up >{signs}; sleep 600", template=EACH, nodes=3)
    run = fairway.submit(job, "-t", "pair")
    signs.lines(3)
    cluster.kill("n2")
    waited = fairway.within("wait", run)
    assert waited.returncode == 255
    (task,) = fairway.show(run)["task_list"]
    state = json.loads((remote(cluster, run) / "tasks" / "0" / "state.json").read_text())
    assert task["state"] == "failed"
    assert state["reason"] == "node n2 could not be reached any more"
    assert leftovers(cluster) == []


@pytest.mark.nightly
def test_mpi_ends_when_a_host_dies(fairway: Any, cluster: SshCluster, signs: Any) -> None:
    """mpirun started its daemon there; the run fails, names the node, and never hangs."""
    program = f"""
from mpi4py import MPI
open({str(signs)!r}, "w").write("up\\n")
while True:
    MPI.COMM_WORLD.barrier()
"""
    (fairway.folder / "program.py").write_text(program)
    job = fairway.job("python program.py", template="openmpi", nodes=3)
    run = fairway.submit(job, "-t", "pair")
    signs.lines(3)
    cluster.kill("n3")
    assert fairway.within("wait", run).returncode not in (0, 124, 130)
    state = json.loads((remote(cluster, run) / "tasks" / "0" / "state.json").read_text())
    assert state["reason"] == "node n3 could not be reached any more"
    # What serves the launcher on a node that is left ends by itself, once it hears of its end.
    until(lambda: not leftovers(cluster), lambda: leftovers(cluster))


def test_a_retry_leaves_out_a_host_that_died(fairway: Any, cluster: SshCluster, signs: Any) -> None:
    """The next attempt runs on the nodes that are left, from the task's checkpoint."""
    save = 'f=$FAIRWAY_CHECKPOINT_DIR/step; echo "$(cat $f 2>/dev/null)x" >$f'
    body = f"{save}; echo $(hostname) >{signs}; test $FAIRWAY_ATTEMPT = 1 || sleep 600; cat $f"
    main = "if test $FAIRWAY_NODE_RANK = 0; then " + body
    command = f"{main}; else echo $(hostname) >{signs}; sleep $((FAIRWAY_ATTEMPT ? 0 : 600)); fi"
    job = fairway.job(command, template=EACH, nodes=2, retry={"node": 1})
    run = fairway.submit(job, "-t", "pair")
    assert sorted(signs.lines(2)) == ["n1", "n2"]
    cluster.kill("n2")
    assert fairway.within("wait", run).returncode == 0
    assert sorted(signs.all()[2:]) == ["n1", "n3"]
    why, last = fairway.within("logs", run).stdout.splitlines()[-2:]
    assert why.startswith("fairway: attempt 2: node n2 could not be reached any more; the check")
    assert last == "xx"
    [task] = fairway.show(run)["task_list"]
    assert (task["attempts"], task["ends"]) == (2, {"node": 1})
    assert "tries   ended by a lost node\n" in fairway.within("show", run).stdout


@pytest.mark.nightly
def test_a_node_that_has_just_died_costs_no_attempt(fairway: Any, cluster: SshCluster) -> None:
    """It has announced itself a moment ago, and takes no connection: others are taken."""
    cluster.kill("n2")
    looked = fairway.within("doctor", "pair")
    assert looked.returncode == 5
    assert "the node n2 takes no connection from the main host" in looked.stdout
    job = fairway.job("hostname", template=EACH, nodes=2)
    printed = fairway.watch(job, "-t", "pair")
    assert {"n1", "n3"} <= set(printed.splitlines())
    (run,) = [each.name for each in remote(cluster, "").iterdir() if each.name[0] != "."]
    assert fairway.show(run)["task_list"][0]["attempts"] == 1


@pytest.mark.nightly
def test_ssh_second_run_waits_for_the_nodes_of_the_first(
    fairway: Any, cluster: SshCluster, signs: Any, gate: Any
) -> None:
    """One run at a time a node: runs start in the order of their submission, and say why not."""
    wide = fairway.job(
        f"echo wide >{signs}; read -r _ <{gate.path}", "wide.yaml", template=EACH, nodes=3
    )
    narrow = fairway.job(f"echo narrow >{signs}", "narrow.yaml", template="plain")
    first = fairway.submit(wide, "-t", "pair")
    signs.lines(3)
    second = fairway.submit(wide, "-t", "pair")
    third = fairway.submit(narrow, "-t", "pair")
    shown = [fairway.show_waiting(run) for run in (first, second, third)]
    assert [each["state"] for each in shown] == ["running", "queued", "queued"]
    assert shown[1]["reason"] == f"waits for 3 nodes: 0 free of 3 that are up; {first} uses 3"
    assert shown[2]["reason"] == f"waits behind {second}"
    nodes = json.loads(fairway.within("nodes", "list", "pair", "--json").stdout)
    assert [(node["name"], node["state"], node["run"]) for node in nodes] == [
        (name, "busy", first) for name in ("n1", "n2", "n3")
    ]
    gate.open(3)
    assert fairway.within("wait", first).returncode == 0
    assert signs.lines(6) == ["wide"] * 6
    gate.open(3)
    assert fairway.within("wait", second, third).returncode == 0
    assert signs.all() == ["wide"] * 6 + ["narrow"]


def test_the_queue_outlives_a_supervisor_that_is_killed(
    fairway: Any, cluster: SshCluster, signs: Any
) -> None:
    """Its nodes become free, its run is lost, and what it ran is ended before the next starts."""
    long = fairway.job(f"echo up >{signs}; exec sleep 600", "long.yaml", template=EACH, nodes=3)
    first = fairway.submit(long, "-t", "pair")
    signs.lines(3)
    next_ = fairway.job("pgrep -x sleep; echo looked", "next.yaml", template="plain", nodes=3)
    second = fairway.submit(next_, "-t", "pair")
    os.kill(supervisor_of(cluster, first), signal.SIGKILL)
    assert fairway.within("wait", first).returncode == 5
    assert fairway.show(first)["state"] == "lost"
    assert fairway.within("wait", second).returncode == 0
    assert fairway.within("logs", second).stdout == "looked\n"
    assert leftovers(cluster) == []


def test_shell_commands_reach_main_host_and_others(fairway: Any, cluster: SshCluster) -> None:
    for node in ("n1", "n3"):
        ran = fairway("ssh", "pair", node, "--", "hostname")
        assert (ran.returncode, ran.stdout.strip()) == (0, node), ran.stderr
