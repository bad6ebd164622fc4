"""What a job of Slurm's runs on its first node: one task of a run, in as many attempts as it has.

Started by the batch script as `job RUN_FOLDER STAGE SUBMISSION PART [TASK]`; an element of
an array is the task of its own number. Slurm's signals say how it is to end: USR1 that its
time is up, USR2 that its nodes are about to go and the task is to start again elsewhere, TERM
that Slurm ends or requeues it. Standard library only.
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

from fairway_agent import record, state_files, wakeups
from fairway_agent.allocators.slurm import given, with_share
from fairway_agent.faults import Fault
from fairway_agent.shared import plans, submissions
from fairway_agent.shared.attempts import (
    LOST,
    TERMINATED,
    Attempts,
    once_there_is_room,
    read_secrets,
)
from fairway_agent.slurm import commands
from fairway_agent.slurm.task import SlurmTask, job_id
from fairway_agent.slurm.watch import Watch
from fairway_agent.task_state import PREEMPTION

if TYPE_CHECKING:
    from fairway_agent.allocators.hosts import Host
    from fairway_agent.task_spec import TaskSpec

_REQUEUE_PATIENCE = 60.0  # seconds until Slurm ends a job that it requeues
_ENDS = {signal.SIGTERM: "ended", signal.SIGUSR1: "time", signal.SIGUSR2: "hand-over"}


@dataclass
class Job(Attempts):
    """One task's attempts in a job of Slurm's."""

    STOPPED: ClassVar = "ended by Slurm"
    BEFORE: ClassVar = "Slurm ended the one before, and began it again"
    REFUSED: ClassVar = (OSError, Fault, commands.Refused)

    def send_word(self) -> None:
        """Has it told by the last task: nobody else is there."""
        task = self.task
        if task.plan.notify is None:
            return
        from fairway_agent.shared import word
        from fairway_agent.slurm import reconcile

        with suppress(OSError, Fault, commands.Refused):  # whoever looks next tells it
            if word.is_last(task.run_folder, task.name, task.submission):
                reconcile.tell_end(task.run_folder)

    def handed_over(self, code: int) -> int:
        """Its nodes are about to go: it waits for others, and starts again from its checkpoint."""
        self.task.ends[PREEMPTION] += 1
        if self.task.is_used_up(PREEMPTION):
            return self.finish("failed", code or TERMINATED, reason=LOST[PREEMPTION])
        status = replace(self.task.status("queued"), last_exit_code=code)
        self.task.record(replace(status, reason=LOST[PREEMPTION]))
        self.task.keep_before("its nodes were taken away")
        try:
            commands.run(["scontrol", "requeue", job_id()])
        except commands.Refused as refused:
            reason = f"{LOST[PREEMPTION]}, and Slurm does not requeue it: {refused}"
            return self.finish("failed", code or TERMINATED, reason=reason)
        time.sleep(_REQUEUE_PATIENCE)  # Slurm ends this, and everything else of the job
        return TERMINATED


def _leave_trace(run: Path, part: str) -> None:
    """Says that this part of the submission is under way, for when Slurm has forgotten it."""
    trace = run / "jobs" / part
    if not trace.exists():
        trace.parent.mkdir(exist_ok=True)
        own = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"]
        record.write_bytes(trace, own.encode("ascii"))


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, stage, submission = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    index = int(sys.argv[5] if len(sys.argv) > 5 else os.environ["SLURM_ARRAY_TASK_ID"])
    wakeup, _ = wakeups.of_signals(signal.SIGCHLD)
    try:
        plan, spec = plans.read(run), submissions.spec_of(run, stage, index)
    except Fault as fault:
        sys.exit(str(fault))
    folder = run / "tasks" / spec.name
    once_there_is_room(lambda: folder.mkdir(parents=True, exist_ok=True))
    states = state_files.States()
    task = SlurmTask(plan, spec, run, folder, submission=submission, states=states)
    job = Job(task, states, wakeup, Watch(run, plan, submission))
    for number, how in _ENDS.items():
        signal.signal(number, job.ask(how))
    try:
        once_there_is_room(lambda: _leave_trace(run, f"{stage}-{sys.argv[4]}-{submission}"))
        task.resume_count()
        once_there_is_room(job.watch.begin)
        task.nodes = _nodes(run, spec, int(sys.argv[4]))
        read_secrets(run, plan)
        sys.exit(job.run())
    except (Fault, commands.Refused) as fault:
        sys.exit(job.refuse(str(fault)))


def _nodes(run: Path, spec: TaskSpec, number: int) -> list[Host]:
    """The nodes of the task's job, or what it has of one."""
    nodes = given()
    if spec.wanted is None:
        return nodes
    last = submissions.read(run)
    parts = last.parts if last is not None else []
    part = next((each.part for each in parts if each.number == number), None)
    return [with_share(nodes[0], spec.wanted, part)]


if __name__ == "__main__":
    main()
