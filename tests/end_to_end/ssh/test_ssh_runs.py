"""Runs on a plain cluster: real hosts with a real sshd, reached as a user's would be."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from fairway_simulator.ssh.cluster import SshCluster

EACH = "every-node"


# Makes a sweep's first tasks wait until three of them run, each on its own node.
ALL_UP = 'mkdir -p "$FAIRWAY_SHARED_DIR/up"; touch "$FAIRWAY_SHARED_DIR/up/$FAIRWAY_TASK"; '
ALL_UP += 'while [ $(ls "$FAIRWAY_SHARED_DIR/up" | wc -l) -lt 3 ]; do sleep 0.05; done'


def remote(cluster: SshCluster, run: str) -> Path:
    """Returns the run's folder on the shared file system."""
    return cluster.shared / "runs" / run


def supervisor_of(cluster: SshCluster, run: str) -> int:
    """Returns the process id of a run's supervisor, as seen from this machine."""
    for pid in cluster.hosts["n1"].pids():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        program = b"fairway_agent.ssh.runs"
        if program in words and str(remote(cluster, run)).encode() in words:
            return pid
    raise AssertionError("nobody watches over the run")


def leftovers(cluster: SshCluster) -> list[str]:
    """Returns the command lines of all processes on the hosts other than sshd."""
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


@pytest.mark.nightly
def test_ssh_run_with_mpi_fails_and_names_the_host_that_died(
    fairway: Any, cluster: SshCluster, signs: Any
) -> None:
    """mpirun had started its daemon on that host; the run does not hang."""
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
    # The launcher's helpers on the remaining nodes exit once they notice that it has ended.
    until(lambda: not leftovers(cluster), lambda: leftovers(cluster))


def test_ssh_run_continues_without_a_host_that_died(
    fairway: Any, cluster: SshCluster, signs: Any
) -> None:
    """The next attempt runs on the remaining nodes, from the task's checkpoint."""
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
    assert (task["attempts"], task["failures_by_cause"]) == (2, {"node": 1})
    assert "tries   ended by a lost node\n" in fairway.within("show", run).stdout


def test_ssh_run_of_a_killed_supervisor_is_lost_and_the_next_run_starts(
    fairway: Any, cluster: SshCluster, signs: Any
) -> None:
    """The processes of the lost run are ended before the next run starts."""
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


def test_ssh_command_reaches_main_host_and_other_nodes(fairway: Any, cluster: SshCluster) -> None:
    for node in ("n1", "n3"):
        ran = fairway("ssh", "pair", node, "--", "hostname")
        assert (ran.returncode, ran.stdout.strip()) == (0, node), ran.stderr
