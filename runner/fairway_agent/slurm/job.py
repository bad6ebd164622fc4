"""Program of a Slurm job on its first node: runs one task of a run, in all of its attempts.

Started by the batch script as `job RUN_FOLDER STAGE SUBMISSION PART [TASK]`; an array's element is
the task with its own number. Slurm's signals say how it is to end: USR1 that its time is up, USR2
that its nodes are about to go away and the task is to start again elsewhere, TERM that Slurm ends
or requeues it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import control, dependencies, job_facts, notify, processes
from fairway_agent.machine import Host
from fairway_agent.resources import Share, numbers_of, own_cores, ports_beside
from fairway_agent.shared import runs
from fairway_agent.slurm.allocation import SlurmNodes, job_id
from fairway_agent.slurm.runs import Watch, notify_end, reconcile_all
from fairway_agent.state_files import PREEMPTION, TERMINATED
from fairway_agent.task import scheduled
from fairway_agent.task.attempts import Attempts
from fairway_boot import files
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from fairway_agent.task.task import Task

_PORTS = 256  # ranges of ports, one of which each job selects by its ID
# Seconds, after Slurm has reported the ends of predecessors, until their states must be visible:
# their files may be delayed. And between two polls.
_ENDS_KNOWN = 300.0
_PAUSE = 1.0
_REQUEUE_PATIENCE = 60.0  # seconds until Slurm ends a requeued job
# Seconds between Slurm's signal to a task and to this program: Slurm signals a job's processes one
# after another, and its children may be first.
_SIGNALLED_WITHIN = 5.0
_ENDS = {
    signal.SIGTERM: scheduled.ENDED,
    signal.SIGUSR1: scheduled.TIME,
    signal.SIGUSR2: scheduled.HAND_OVER,
}


@dataclass
class Slurm(scheduled.Scheduled):
    """Backend of the attempts of a task in a Slurm job of its own. `part` is the number of the
    submission's part that the job belongs to."""

    FAULTS: ClassVar[tuple[type[Exception], ...]] = (AgentError, commands.CommandFailed)
    REFUSED: ClassVar[tuple[type[Exception], ...]] = (OSError, *FAULTS)
    STOPPED: ClassVar = "ended by Slurm"
    BEFORE: ClassVar = "Slurm ended the one before, and began it again"
    BEGUN_AGAIN: ClassVar = "its node failed, and Slurm began it again"

    part: int = 0

    def ended(self, task: Task, code: int) -> int:
        """Waits for Slurm's verdict: a task that ended by SIGTERM may have been ended by Slurm."""
        end = time.monotonic() + _SIGNALLED_WITHIN
        while code == TERMINATED and not self.asked and time.monotonic() < end:
            processes.wait(self.wakeup, end)
        return code

    def close(self, task: Task) -> None:
        """Has the run's last task report the end of the run: nothing else runs by then."""
        if task.plan.notify is None:
            return
        with suppress(*self.REFUSED):  # the next poll sends it
            if notify.record_end(task.run_folder, task.name, task.submission or 0):
                notify_end(task.run_folder)

    def may_begin(self, task: Task) -> bool:
        """Leaves it to Slurm's own dependencies if success is all that is required of other runs.
        Else waits for their ends, and raises AgentError if these are still unknown after 300
        seconds."""
        if not task.plan.conditions:
            return True
        submission = task.submission or 0
        # A retry of tasks that have started no longer waits for anything.
        plan = job_facts.read_shared_plan(task.run_folder, retry=submission > 0)
        if not plan.after:
            return True
        end = time.monotonic() + _ENDS_KNOWN
        while True:
            with suppress(*self.REFUSED):  # retried
                reconcile_all([Path(each) for each in plan.after])
            failed = dependencies.evaluate(task.run_folder, plan, submission)
            if failed is not None or self.is_cancelled(task):
                return not failed
            if self.asked:
                sys.exit(TERMINATED)  # checked again if Slurm restarts it
            if time.monotonic() > end:
                message = "it is not known how the runs that it comes after have ended"
                hint = f"once it is: fairway retry {task.run_folder.name}"
                raise AgentError("no-end", message, hint)
            time.sleep(_PAUSE)

    def prepare(self, task: Task) -> None:
        """Finds out which nodes, or which share of one, the job has, and fetches its secrets."""
        compact = os.environ["SLURM_JOB_NODELIST"]
        names = [compact]
        if "[" in compact or "," in compact:
            names = commands.run(["scontrol", "show", "hostnames", compact]).split()
        hosts = [Host(name, name) for name in names]  # the batch script's host first
        if task.spec.wanted is not None:
            parts = control.read(task.run_folder).parts
            fraction = next(
                (each.node_fraction for each in parts if each.number == self.part), None
            )
            listed = os.environ.get("SLURM_JOB_GPUS", "") if task.spec.wanted.gpus else ""
            ports = ports_beside([int(os.environ["SLURM_JOB_ID"]) % _PORTS], _PORTS)
            share = Share(numbers_of(listed), own_cores(), fraction or 1.0, ports)
            hosts = [replace(hosts[0], share=share)]
        task.hosts = hosts
        scheduled.read_secrets(task.run_folder, task.plan)

    def hand_over(self, attempts: Attempts, code: int) -> None:
        """Requeues the task, whose nodes are about to go, to restart from its checkpoint. The task
        fails if it has been preempted too often, or Slurm does not requeue it."""
        task = attempts.task
        task.failures_by_cause[PREEMPTION] += 1
        code = code or TERMINATED
        if task.retries_exhausted(PREEMPTION):
            attempts.finish("failed", code, scheduled.LOST[PREEMPTION])
            return
        task.record(replace(task.status("queued"), reason=scheduled.LOST[PREEMPTION]))
        scheduled.store_first_line(self.before_file(task), scheduled.LOST[PREEMPTION])
        try:
            commands.run(["scontrol", "requeue", job_id()])
        except commands.CommandFailed as refused:
            reason = f"{scheduled.LOST[PREEMPTION]}, and Slurm does not requeue it: {refused}"
            attempts.finish("failed", code, reason)
            return
        time.sleep(_REQUEUE_PATIENCE)  # Slurm ends this process, and the rest of the job
        attempts.state, attempts.exit_code = "stopped", TERMINATED


def main() -> None:
    run, stage, submission = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    index = int(sys.argv[5] if len(sys.argv) > 5 else os.environ["SLURM_ARRAY_TASK_ID"])
    wakeup, _ = processes.signal_wakeups(signal.SIGCHLD)
    try:
        plan = job_facts.read_shared_plan(run, retry=submission > 0)
        spec = runs.spec_of(run, stage, index)
    except AgentError as fault:
        sys.exit(str(fault))
    task = scheduled.task_in(run, plan, spec, SlurmNodes(), submission)
    slurm = Slurm(wakeup, Watch(run, plan, submission), part=int(sys.argv[4]))
    for number, how in _ENDS.items():
        signal.signal(number, slurm.ask(how))
    # Shows that this part of the submission has started, once Slurm has forgotten it.
    trace = run / "jobs" / f"{stage}-{slurm.part}-{submission}"
    own = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"]
    scheduled.retry_until_room(lambda: trace.parent.mkdir(exist_ok=True))
    if not trace.exists():
        scheduled.retry_until_room(lambda: files.write_bytes(trace, own.encode("ascii")))
    sys.exit(scheduled.run_attempts(Attempts(task, slurm), slurm))


if __name__ == "__main__":
    main()
