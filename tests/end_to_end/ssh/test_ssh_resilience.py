"""Failures between the user's machine and a cluster: killed commands and cut connections."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from programs import executable

from fairway_simulator.ssh.cluster import SshCluster

# Logs each command as a line in $SSH_LOG, and kills the caller after $KILL_AFTER commands.
WRAPPER = """#!/usr/bin/env bash
case " $* " in
*" -O "* | *" -G "*) exec {ssh} "$@" ;;
esac
printf '%s\\n' "${{*//$'\\n'/ }}" >>"$SSH_LOG"
[[ $(wc -l <"$SSH_LOG") == "${{KILL_AFTER:-0}}" ]] || exec {ssh} "$@"
{ssh} "$@"
caller=$PPID
# rsync's own connection: what called rsync is meant.
[[ " $* " != *" --server "* ]] || caller=$(awk '{{ print $4 }}' "/proc/$PPID/stat")
kill -KILL "$caller"
"""


@pytest.fixture
def ssh_log(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of ssh commands, one per line. Command number KILL_AFTER kills its caller."""
    executable(programs / "ssh", WRAPPER.format(ssh=shutil.which("ssh")))
    log = tmp_path / "ssh.log"
    log.touch()
    monkeypatch.setenv("SSH_LOG", str(log))
    return log


@pytest.mark.nightly
def test_ssh_submit_killed_at_any_command_resumes_and_runs_once(
    fairway: Any, cluster: SshCluster, ssh_log: Path
) -> None:
    """SIGKILL after each of its ssh commands in turn; then `--resume`, or the same submit again."""
    done = fairway.folder / "done"
    (fairway.folder / "code.txt").write_text("some code")
    killed = 0
    while True:
        ssh_log.write_text("")
        for name in ("fairway", "code"):
            shutil.rmtree(cluster.shared / name, ignore_errors=True)
        run = f"job-{killed}"
        job = fairway.job(f"cat code.txt; echo {run} >>{done}", template="plain")
        words = ["submit", job, "-t", "pair", "--run-id", run]
        first = fairway(*words, KILL_AFTER=str(killed + 1))
        if first.returncode == 0:
            break
        assert first.returncode == -signal.SIGKILL, first.stderr
        killed += 1
        ssh_log.write_text("")
        fairway.ok(*(words if killed % 2 else ["submit", "--resume", run]))
        assert fairway.within("wait", run).returncode == 0
        assert fairway.within("logs", run).stdout == "some code"
    # The connection, the first query, Fairway's files, the query again, the code, the start.
    assert killed == 6
    assert fairway.within("wait", f"job-{killed}").returncode == 0
    assert done.read_text().split() == [f"job-{number}" for number in range(killed + 1)]


def test_ssh_submit_cut_off_is_queued_with_a_hint_and_can_be_cancelled(
    fairway: Any, cluster: SshCluster, ssh_log: Path
) -> None:
    """The hint is the command that resumes it; once cancelled, it cannot be resumed."""
    job = fairway.job("true", template="plain")
    fairway("submit", job, "-t", "pair", "--run-id", "cut", KILL_AFTER="3")
    ssh_log.write_text("")
    facts = fairway.show("cut")
    assert facts["state"] == "queued"
    assert (
        facts["reason"] == "submission was interrupted; resume it with: fairway submit --resume cut"
    )
    assert fairway.within("cancel", "cut").returncode == 0
    assert fairway.show("cut")["state"] == "cancelled"
    assert fairway.within("submit", "--resume", "cut").returncode == 0
    assert fairway.within("wait", "cut").returncode == 130


# The connection, a check for a retry from elsewhere, the orders, the start.
@pytest.mark.parametrize("last", ["3", "4"], ids=["before its start", "after its start"])
@pytest.mark.nightly
def test_ssh_retry_that_is_killed_resumes_and_runs_once(
    fairway: Any, cluster: SshCluster, ssh_log: Path, last: str
) -> None:
    tries = fairway.folder / "tries"
    job = fairway.job(f"echo try >>{tries}; test $FAIRWAY_ATTEMPT != 0", template="plain")
    run = fairway.submit(job, "-t", "pair")
    assert fairway.within("wait", run).returncode == 1
    ssh_log.write_text("")
    assert fairway("retry", run, KILL_AFTER=last).returncode == -signal.SIGKILL
    ssh_log.write_text("")
    assert fairway.show(run)["state"] in ("queued", "running", "succeeded")
    assert fairway.within("submit", "--resume", run).returncode == 0
    assert fairway.within("wait", run).returncode == 0
    assert tries.read_text() == "try\ntry\n"


def test_ssh_logs_are_followed_without_gaps_over_a_broken_connection(
    fairway: Any, cluster: SshCluster, signs: Any, gate: Any
) -> None:
    """No line is printed twice either."""
    count = f"for i in 1 2 3; do echo line $i; echo $i >{signs}; read -r _ <{gate.path}; done"
    run = fairway.submit(fairway.job(count, template="plain"), "-t", "pair")
    signs.lines(1)
    following = fairway.start("logs", "-f", run)
    assert following.stdout.readline() == "line 1\n"
    for number in (2, 3):
        assert cluster.hosts["n1"].cut() > 0
        gate.open()
        signs.lines(number)
        assert following.stdout.readline() == f"line {number}\n"
    gate.open()
    rest, errors = following.communicate(timeout=300)
    assert (rest, errors, following.returncode) == ("", "", 0)


def test_ssh_commands_use_another_node_if_the_main_host_is_down(
    fairway: Any, cluster: SshCluster
) -> None:
    """Runs are shown, submitted and awaited through the other node."""
    target = cluster.target()
    target["ssh"]["others"] = ["", "n2"]
    (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
    ended = fairway.submit(fairway.job("true", template="plain"), "-t", "pair")
    assert fairway.within("wait", ended).returncode == 0
    cluster.kill("n1")
    shown = fairway("show", ended)  # a process, so that its warnings are in its stderr
    assert shown.returncode == 0, shown.stderr
    assert "n1 takes no connection; trying root@n2" in shown.stderr
    run = fairway.submit(fairway.job("true", template="plain"), "-t", "pair")
    assert fairway.within("wait", run).returncode == 0
    assert fairway("ssh", "pair", "--", "hostname").returncode == 0


@pytest.mark.parametrize("action", ["cancel", "retry", "clean"])
def test_ssh_run_without_its_folder_is_lost_and_any_action_ends_its_tasks(
    fairway: Any, cluster: SshCluster, signs: Any, tmp_path: Path, action: str
) -> None:
    """The tasks get their grace period, and their nodes are free afterwards."""
    ends = f"trap 'echo told >{tmp_path}/told; exit 0' TERM; sleep 600 & wait"
    command = f"[ -e {tmp_path}/told ] || {{ echo up >{signs}; {ends}; }}"
    run = fairway.submit(fairway.job(command, template="plain"), "-t", "pair")
    signs.lines(1)
    (cluster.shared / "runs" / run).rename(cluster.shared / "removed")  # the job still writes there
    shutil.rmtree(cluster.shared / "removed", ignore_errors=True)
    assert fairway.show(run)["state"] == "lost"
    done = fairway.within(action, run, *["--yes"] * (action == "clean"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "told").read_text() == "told\n"
    if action != "retry":
        assert action == "clean" or done.stdout == f"{run} cancelled\n"
        assert not (cluster.shared / "runs" / run).exists()
    else:
        assert fairway.within("wait", run).returncode == 0
