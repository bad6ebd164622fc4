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
from typing import TYPE_CHECKING

from fairway_agent import record, state_files, wakeups
from fairway_agent.allocators.slurm import given, with_share
from fairway_agent.faults import Fault
from fairway_agent.setup import has_failed
from fairway_agent.shared import plans
from fairway_agent.slurm import commands, submissions
from fairway_agent.slurm.task import SlurmTask, job_id
from fairway_agent.slurm.watch import Watch
from fairway_agent.task_state import NODE, PREEMPTION

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.plan import RunPlan
    from fairway_agent.task_spec import TaskSpec

_CANCELLED = 130
_TERMINATED = 143
_FAULT = 74  # the code of a task that could not be started; "I/O error" in sysexits.h
_ROOM_WAIT = 600.0  # seconds in which a disk may have room again; the nodes are paid for meanwhile
_REQUEUE_PATIENCE = 60.0  # seconds until Slurm ends a job that it requeues
_SERVICE = 5
_LOST = {PREEMPTION: "its nodes were taken away", NODE: "a node of it was lost"}
_ENDS = {signal.SIGTERM: "ended", signal.SIGUSR1: "time", signal.SIGUSR2: "hand-over"}


@dataclass
class Job:
    """One task's attempts; `asked` is how Slurm, a person by it, or the run's own limit wants it to
    end."""

    task: SlurmTask
    states: state_files.States
    wakeup: socket.socket
    watch: Watch
    asked: str = ""

    def run(self) -> int:
        """Runs it until its end is written; the exit code that Slurm sees."""
        code = self._run()
        self.states.await_room(self.wakeup, _ROOM_WAIT)
        self._send_word()
        return code

    def refuse(self, reason: str) -> int:
        """Says that it could not be begun, or not go on; the exit code that Slurm sees."""
        status = self.task.status("failed")
        self.task.record(replace(status, ended=time.time(), exit_code=_FAULT, reason=reason))
        self.states.await_room(self.wakeup, _ROOM_WAIT)
        self._send_word()
        return _FAULT

    def _send_word(self) -> None:
        """Has the end of the run told, where somebody wants to hear of it and this was the last."""
        task = self.task
        if task.plan.notify is None:
            return
        from fairway_agent.slurm import reconcile, word

        with suppress(OSError, Fault, commands.Refused):  # whoever looks next tells it
            if word.is_last(task.run_folder, task.name, task.submission):
                reconcile.tell_end(task.run_folder)

    def _run(self) -> int:
        run = self.task.run_folder
        is_cancelled = submissions.cancelled(run) >= self.task.submission
        if is_cancelled or has_failed(run) or self.watch.is_over():
            self.task.record(replace(self.task.status("cancelled"), ended=time.time()))
            return _CANCELLED
        if lost := [each for each in (PREEMPTION, NODE) if self.task.is_used_up(each)]:
            return self._finish("failed", _SERVICE, reason=_LOST[lost[0]])
        while True:
            try:
                code = self._attempt()
            except (OSError, Fault, commands.Refused) as error:
                reason = f"it could not be started: {error}"
                return self._finish("failed", _FAULT, reason=reason)
            if self.asked == "hand-over":
                return self._hand_over(code)
            if self.asked == "ended":
                return self._stopped(code)
            if code == 0:
                return self._finish("succeeded", 0)
            self.task.failures += 1
            self.task.note_end()
            if self.asked or self.task.setup_failed() or not self.task.has_retry():
                return self._finish("failed", code)
            self.task.record(replace(self.task.status("queued"), last_exit_code=code))

    def _attempt(self) -> int:
        self.task.start()
        stopping = ""
        while True:
            if not self.asked and self.watch.is_over():
                self.asked = "limit"
            if self.asked and self.asked != stopping:
                stopping = self.asked
                self.task.stop(timed_out=stopping in ("time", "limit"))
            self.task.keep_deadline()
            if self.task.sampling is not None:
                self.task.sampling.keep()
            code = self.task.ended()
            if code is not None:
                return code
            self._wait()

    def _wait(self) -> None:
        """For a signal, for the task's deadline, or for room on a disk that is full."""
        due = [self.task.deadline()]
        if self.task.sampling is not None:
            due.append(self.task.sampling.due())
        if self.watch.due is not None and not self.asked:
            due.append(time.monotonic() + self.watch.due - time.time())
        if self.states.late:
            due.append(time.monotonic() + record.ROOM_PAUSE)
        wakeups.wait(self.wakeup, min((each for each in due if each is not None), default=None))
        self.states.write_late()

    def _stopped(self, code: int) -> int:
        """Slurm ends the job: because somebody cancelled it, or to start it again elsewhere. Which
        of the two it says when this has ended; see `settle`."""
        if submissions.cancelled(self.task.run_folder) >= self.task.submission:
            return self._finish("cancelled", _CANCELLED)
        self.task.keep_before("Slurm ended the one before, and began it again")
        status = replace(self.task.status("running"), stopped=True, ended=time.time())
        self.task.record(replace(status, exit_code=code, reason="ended by Slurm"))
        return _TERMINATED

    def _hand_over(self, code: int) -> int:
        """Its nodes are about to go: it waits for others, and starts again from its checkpoint."""
        self.task.ends[PREEMPTION] += 1
        if self.task.is_used_up(PREEMPTION):
            return self._finish("failed", code or _TERMINATED, reason=_LOST[PREEMPTION])
        status = replace(self.task.status("queued"), last_exit_code=code)
        self.task.record(replace(status, reason=_LOST[PREEMPTION]))
        self.task.keep_before("its nodes were taken away")
        try:
            commands.run(["scontrol", "requeue", job_id()])
        except commands.Refused as refused:
            reason = f"{_LOST[PREEMPTION]}, and Slurm does not requeue it: {refused}"
            return self._finish("failed", code or _TERMINATED, reason=reason)
        time.sleep(_REQUEUE_PATIENCE)  # Slurm ends this, and everything else of the job
        return _TERMINATED

    def _finish(self, state: str, code: int, reason: str | None = None) -> int:
        self.task.reason = reason
        known = self.task.finish(state, code)
        return code if known == state else code or _FAULT


def _read_secrets(run: Path, plan: RunPlan) -> None:
    if plan.secrets:
        from fairway_agent import job_secrets  # its imports take longer than the rest

        # Into this process's memory, and from there into that of the task.
        os.environ.update(job_secrets.secrets_of(run))


def _leave_trace(run: Path, part: str) -> None:
    """Says that this part of the submission is under way, for when Slurm has forgotten it."""
    trace = run / "jobs" / part
    if not trace.exists():
        trace.parent.mkdir(exist_ok=True)
        own = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"]
        record.write_bytes(trace, own.encode("ascii"))


def _once_there_is_room(action: Callable[[], object]) -> None:
    """Does it, again and again while the disk is full."""
    end = time.monotonic() + _ROOM_WAIT
    while True:
        try:
            action()
        except OSError as error:
            if error.errno not in record.NO_ROOM or time.monotonic() > end:
                raise
            time.sleep(record.ROOM_PAUSE)
        else:
            return


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
    _once_there_is_room(lambda: folder.mkdir(parents=True, exist_ok=True))
    states = state_files.States()
    task = SlurmTask(plan, spec, run, folder, submission=submission, states=states)
    job = Job(task, states, wakeup, Watch(run, plan, submission))
    for number, how in _ENDS.items():
        signal.signal(number, _asker(job, how))
    try:
        _once_there_is_room(lambda: _leave_trace(run, f"{stage}-{sys.argv[4]}-{submission}"))
        task.resume_count()
        _once_there_is_room(job.watch.begin)
        task.nodes = _nodes(run, spec, int(sys.argv[4]))
        _read_secrets(run, plan)
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


def _asker(job: Job, how: str) -> Callable[..., None]:
    def ask(*_: object) -> None:
        job.asked = how

    return ask


if __name__ == "__main__":
    main()
