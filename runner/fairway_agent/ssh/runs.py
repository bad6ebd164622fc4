"""Starts and ends runs of a plain cluster, and reports their states and its nodes.

A run's `lock` is held by its supervisor for as long as it lives, and before that by the program
that starts it. Started as `runs FOLDER LOCK READY [retry]` on the main host, this is that
supervisor: the local one, see `fairway_agent.supervisor`, with hosts in place of cores.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fairway_agent import control, job_facts, processes, state_files
from fairway_agent.control import (
    end_supervisor,
    is_supervised,
    signal_supervisor,
    start_supervisor,
)
from fairway_agent.fanout import remote_exec
from fairway_agent.scratch import LEASE
from fairway_agent.shared import reports as messages
from fairway_agent.shared import runs
from fairway_agent.shared.runs import copy_code
from fairway_agent.ssh.cluster_nodes import NodeAllocator, Queue, queue_of
from fairway_agent.state_files import RunState
from fairway_boot import files
from fairway_boot.cluster import known_hosts, users
from fairway_boot.files import AgentError

_MODULE = "fairway_agent.ssh.runs"
_GRACE = 10.0  # seconds for processes that a lost run left on the main host
_LONGEST_END = 120.0  # seconds for the tasks of a run without a folder to end
_GONE = "its supervisor on the main host is gone"

# Variables of the ssh connection that started the run, and of another run.
_OUTER = ("SSH_", "FAIRWAY_RUN", "FAIRWAY_TASK", "SLURM_")


def submit(shared: Path, request: messages.SubmitRequest, _: object) -> messages.Done:
    """Starts the submission, unless that is done."""
    folder, number = shared / "runs" / request.run, request.submission
    while True:
        with free_lock(folder) as lock:
            known = state_files.read_run(folder)
            if known is not None and known.submission >= number:
                return messages.Done()
            if lock is not None:
                copy_code(shared, request.code, folder)
                kept = {
                    name: value for name, value in os.environ.items() if not name.startswith(_OUTER)
                }
                start_supervisor(_MODULE, folder, lock, kept, retry=number > 0)
                return messages.Done()
        # Another process is starting the same submission after its connection broke. Or the
        # supervisor of the last submission is still ending.
        time.sleep(control.PAUSE)


@contextmanager
def free_lock(folder: Path) -> Iterator[int | None]:
    """Holds the run's lock within the block and yields it, or None if another process has it."""
    lock = files.try_lock(folder / "lock")
    try:
        yield lock
    finally:
        if lock is not None:
            os.close(lock)


def cancel(shared: Path, request: messages.CancelRequest, _: object) -> messages.Done:
    folder = shared / "runs" / request.run
    if not request.task and not (folder / "plan.json").exists():
        _cancel_orphan(folder)
        runs.remove(folder)  # its supervisor has written there since
    return runs.cancel(shared, request, _cancel_run, _cancel_task)


def _cancel_orphan(folder: Path) -> None:
    """Ends the supervisor of a run whose folder was removed by hand, and waits until it and its
    tasks have ended: they hold nodes, and write there. Its lock is gone with the folder. Raises
    AgentError if that takes over 120 seconds, or another user owns the supervisor."""
    end, signalled = time.monotonic() + _LONGEST_END, set[int]()
    while active := processes.find_processes(_MODULE, str(folder)):
        if time.monotonic() > end:
            message = f"the folder of {folder.name} is gone, and its tasks have not ended"
            hint = f"end them on {os.uname().nodename}: kill {' '.join(map(str, active))}"
            raise AgentError("not-cancelled", message, hint)
        for pid in set(active) - signalled:
            try:
                os.kill(pid, signal.SIGUSR1)
            except ProcessLookupError:
                continue  # it has ended
            except PermissionError:  # another user's: waiting does not end it
                end = 0.0
        signalled.update(active)
        time.sleep(control.PAUSE)


def _cancel_task(folder: Path, request: messages.CancelRequest) -> None:
    """Records the cancellation, and has the run's supervisor look."""
    control.cancel(folder, request.submission, request.task)
    signal_supervisor(folder, signal.SIGHUP)


def _cancel_run(folder: Path, request: messages.CancelRequest) -> None:
    """Tells the supervisor to end; for a run that never started or is lost, writes the end
    itself."""
    with free_lock(folder) as lock:
        status = state_files.read_run(folder) or RunState()
        if lock is not None and status.is_active:
            processes.end(processes.sessions_of(folder, LEASE), _GRACE)
            ended = replace(status, state="cancelled", ended=time.time())
            state_files.write(folder, replace(ended, submission=request.submission))
        if lock is not None:
            return
    end_supervisor(folder, request.submission)


def states(shared: Path, request: messages.StatesRequest, _: object) -> messages.StatesReport:
    """Reports the states of the runs; an active run without a supervisor is lost."""
    found = runs.reports(shared, request.runs)
    for run, report in found.items():
        if not report or not report.state or not report.state.is_active:
            continue
        if is_supervised(shared / "runs" / run):
            continue
        # The run may have ended between the two reads, and recorded everything.
        again = runs.reports(shared, {run: request.runs[run]})[run]
        if again and again.state and again.state.is_active:
            lost = control.lost_state(shared / "runs" / run, again.state, _GONE)
            again = replace(again, state=lost)
        found[run] = again
    return messages.StatesReport(found)


def nodes(shared: Path, request: messages.NodesRequest, _: object) -> messages.NodesReport:
    """Returns the nodes, with the run on each. With `health` each is connected to."""
    queue = queue_of(request.queue, shared, request.group)
    used, known = users(queue, request.group), known_hosts(queue, request.group)
    ssh = shutil.which("ssh") is not None
    asked = [host.address for host in known if host.is_fresh and not host.is_near]
    gone = remote_exec.unreachable(asked) if request.health and ssh else []
    found = tuple(
        messages.NodeReport(
            name=host.name,
            address=host.address,
            reason=host.trouble,
            run=used.get(host.name, ""),
            age=host.age,
            fresh=host.is_fresh,
            own=host.is_own,
            unreachable=host.address in gone,
        )
        for host in known
    )
    return messages.NodesReport(found, runs.health(shared, has_ssh=ssh) if request.health else None)


def main() -> None:
    """Runs the supervisor; see the module's docstring for its arguments."""
    # What is asked about runs needs none of these.
    from fairway_agent.ssh.attempt import SshNodes
    from fairway_agent.supervisor import supervise
    from fairway_agent.task.scheduled import read_secrets

    folder, lock, ready = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        plan = job_facts.read_shared_plan(folder, retry="retry" in sys.argv[4:])
        read_secrets(folder, plan)
        target = job_facts.of_target(folder)
        place = queue_of(target.queue, folder.parents[1], target.name)
        queue = Queue(place, target.name, folder.name)
        supervise(folder, lock, ready, plan, allocator=NodeAllocator(queue), nodes=SshNodes())
    except AgentError as fault:
        sys.exit(fault.said)


if __name__ == "__main__":
    main()
