"""One attempt of a task on Batch, and the files that Batch keeps of it. Batch starts this as the
task's command, on the task's main node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import machine, processes, state_files
from fairway_agent.batch.folders import Folders, fail, say
from fairway_agent.batch.nodes import BatchNodes, ScheduledEvents, batch_nodes, share_of
from fairway_agent.batch.notifications import watch_of, write_exit_report
from fairway_agent.fanout import sshd_mesh
from fairway_agent.resources import SHARE_FILE, Allocation, NeverFits, look
from fairway_agent.state_files import CANCELLATION, NO_START, PREEMPTION, TaskState
from fairway_agent.task.attempts import Attempts, Patience, said_of
from fairway_agent.task.scheduled import ENDED, Scheduled, run_attempts, store_first_line
from fairway_agent.task.task import Task
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from fairway_agent.spec import TaskSpec

RUNNING = "fairway.running"
_NOT_STARTED = "the task was not started: "
_HELD = 600.0  # seconds to wait for a node that was given notice to be taken away
_ATTEMPT_PAUSE = 0.5  # seconds between two looks whether the task is to end


@dataclass
class Batch(Scheduled):
    """Backend of an attempt on Batch. Its attempt ends early if Azure takes one of its nodes away,
    which `events` announces, or if a client has removed the file RUNNING, which is all that a
    client can reach."""

    REFUSED: ClassVar[tuple[type[Exception], ...]] = (OSError, AgentError, NeverFits)
    RETRIES_HERE: ClassVar = False
    BEGUN_AGAIN: ClassVar = "its node was lost, or taken away without notice"

    nodes: BatchNodes = field(kw_only=True)
    events: ScheduledEvents = field(kw_only=True)
    first: int = field(kw_only=True)

    @property
    def _running(self) -> Path:
        return self.nodes.folders.work / RUNNING

    def resume(self, task: Task) -> None:
        """Continues the count of its previous attempts, on whichever nodes they ran."""
        track = self.nodes.track
        last = track.read() or TaskState()
        task.held = last.held or 0.0
        if last.state == "running":
            task.held += track.lived(last)
        if last.submission == task.submission:
            task.failures_by_cause.update(last.failures_including_current)
        if task.attempt + 1 != self.first:
            task.before = self.ended_before(task)

    def before_file(self, task: Task) -> Path:
        """Returns the file with the end of the previous attempt, in the folder that all nodes
        mount."""
        return self.nodes.folders.before_file

    def is_cancelled(self, task: Task) -> bool:
        """Returns False, as Batch starts nothing of a cancelled job; notes an exceeded limit."""
        self._look_at_limits(task)
        return False

    def begin(self, task: Task) -> bool:
        """Waits until others release the task's share of its node, and records it; returns False if
        the task is to end before."""
        super().begin(task)
        self._running.touch()
        sys.stdout.flush()
        if (wanted := task.spec.wanted) is None:
            return True
        file = self.nodes.folders.work / "logs" / SHARE_FILE
        file.unlink(missing_ok=True)  # left by an earlier attempt
        devices, said = look(), False
        while (share := share_of(devices, wanted)) is None:
            if not said:
                say(f"the task waits for {wanted} of its node")
            said = True
            time.sleep(_ATTEMPT_PAUSE)
            if self.nodes.notice or not self._running.exists():
                task.stopped_for = PREEMPTION if self.nodes.notice else CANCELLATION
                say("the task ends before it has begun")
                return False
        task.hosts = [replace(task.hosts[0], share=share)]
        allocation = Allocation(task.attempt + 1, share.gpus, share.cores, share.node_fraction)
        files.write_json(file, allocation.to_json())
        return True

    def look(self, task: Task) -> None:
        """Also checks if the task was cancelled or loses a node, and gives a sign of life."""
        if task.kill_at is None and not self._running.exists():
            say("the run is cancelled")
            task.stop(CANCELLATION)
        if self.nodes.notice:
            self.asked = ENDED
            task.reason = f"Azure announced {self.nodes.notice} of its node"
        else:
            self._look_at_limits(task)
        super().look(task)
        self.nodes.track.keep(time.monotonic())

    def _look_at_limits(self, task: Task) -> None:
        if self.nodes.over is None and self.watch.is_over() and (over := self.watch.over):
            self.nodes.over, task.reason = over, f"the run ends: {over.reason}"

    def next_timer(self) -> float | None:
        """Returns a time soon: no file and no thread wakes it up."""
        return time.monotonic() + _ATTEMPT_PAUSE

    def ended(self, task: Task, code: int) -> int:
        """Keeps what the next attempt needs; returns the exit code: never 0 for a cancelled one."""
        if task.stopped_for == CANCELLATION:
            code = state_files.CANCELLED
        store_first_line(self.before_file(task), task.before)
        if code or task.stopped_for or "FAIRWAY_LAST" in os.environ:  # it runs again in each retry
            _keep_log(self.nodes.folders, task.attempt)
        if self.nodes.notice and task.spec.wanted is None:
            self.events.approve()  # other tasks on a shared node may still be saving
        return code

    def interrupted(self, attempts: Attempts, code: int) -> bool:
        """Returns True if Batch restarts it elsewhere, or it continues here: nothing has failed."""
        task = attempts.task
        if task.stopped_for != PREEMPTION:
            return False
        code = code or state_files.TERMINATED
        task.record(replace(task.status("running"), exit_code=code, stopped=True))
        attempts.state, attempts.exit_code = "stopped", code
        return True

    def refusal(self, error: Exception) -> tuple[int, str]:
        """Returns the exit code that tells Batch that the task did not start, and the reason."""
        return NO_START, f"{_NOT_STARTED}{said_of(error)}"

    def close(self, task: Task) -> None:
        """Gives back the task's share, and writes into the log why nothing was started, or kept.
        A cancellation has to ask the next attempt now."""
        self._running.unlink(missing_ok=True)
        if task.share is not None:
            machine.give_back(task.share)
        last = self.nodes.recorded
        if last is not None and last.is_final and last.reason:
            if task.process is None:
                say(f"{_NOT_STARTED}{last.reason.removeprefix(_NOT_STARTED)}")
            elif "not be kept" in last.reason:
                say(last.reason)
        sys.stdout.flush()


def run_task() -> int:
    """Runs the entire attempt; returns the exit code for Batch."""
    os.dup2(1, 2)
    folders = Folders()
    if code := folders.setup_code():
        return _not_begun(folders, code, f"the setup failed on this node with exit code {code}")
    spec = folders.spec()
    first = int(os.environ.get("FAIRWAY_FIRST", "0"))
    wakeup, _ = processes.signal_wakeups(signal.SIGCHLD)
    while True:
        try:
            task, nodes = _task_here(folders, spec, first)
        except (OSError, AgentError, subprocess.CalledProcessError) as error:
            return _not_begun(folders, NO_START, f"{_NOT_STARTED}{said_of(error)}")
        watch = watch_of(folders, task.plan, folders.submission)
        if (status := final_state(nodes)) is not None:
            write_exit_report(folders, status, watch.over)
            return fail(f"{_NOT_STARTED}{status.reason}", status.exit_code or NO_START)
        events = ScheduledEvents(folders.base / "event", partial(nodes.give_notice, task))
        scheduler = Batch(wakeup, watch, nodes=nodes, events=events, first=first)
        code = _watched(task, scheduler)
        if nodes.recorded is None or nodes.recorded.is_final:
            return code
        _wait_to_go(task)


def _watched(task: Task, scheduler: Batch) -> int:
    """Runs the attempt and returns its exit code. Ends it if Azure takes a node away, or Batch or a
    shutdown of the node ends this program."""
    nodes = scheduler.nodes

    def end(*_: object) -> None:
        nodes.notice = nodes.notice or "the end"

    scheduler.events.start()
    signal.signal(signal.SIGTERM, end)
    code = run_attempts(Attempts(task, scheduler, Patience(0.0)), scheduler)
    scheduler.events.stopped.set()
    return code


def _wait_to_go(task: Task) -> None:
    """Waits until Batch takes the node, and restarts the task elsewhere; ending now would be a
    failure. If the node is not taken after all, the task continues here, and the attempt does not
    count."""
    say("the job has ended; this node waits to be taken away")
    time.sleep(_HELD)
    say("the node was not taken away: the task starts again here")
    task.record(task.status("queued"))


def _task_here(folders: Folders, spec: TaskSpec, first: int) -> tuple[Task, BatchNodes]:
    """Returns the task before its attempt, and its nodes. Raises OSError, AgentError or
    CalledProcessError if it cannot begin, and leaves word of that for the next attempt."""
    folders.make_directories(spec)
    number = count_attempt(folders.shared / "attempts", folders.task, first)
    try:
        _bring_earlier_logs(folders, number)
        return task_of(folders, spec, number)
    except (OSError, AgentError, subprocess.CalledProcessError) as error:
        store_first_line(folders.before_file, f"the one before was not started: {said_of(error)}")
        raise


def task_of(folders: Folders, spec: TaskSpec, number: int) -> tuple[Task, BatchNodes]:
    """Returns the task before its attempt of that number, with the job's secrets, and its nodes.
    Raises OSError or AgentError if nodes or secrets are not available."""
    values = folders.secret_values()
    os.environ.update(values)  # only into this process's memory
    code, secrets = str(folders.code), tuple(values)
    plan = replace(folders.plan, run=folders.run, directory=code, secrets=secrets, run_inputs=())
    nodes, hosts = BatchNodes(folders, plan), batch_nodes()
    task = Task(plan, spec, folders.shared, folders.base, number - 1, nodes=nodes, hosts=hosts)
    task.submission = folders.submission
    if len(hosts) > 1:
        nodes.config = sshd_mesh.connect(folders.mesh, [host.address for host in hosts])
    return task, nodes


def final_state(nodes: BatchNodes) -> TaskState | None:
    """Returns the end of a task that must not run again although Batch has restarted it, as it does
    after any exit code but 0; None if it may begin."""
    last = nodes.track.read()
    if last is None or last.submission != nodes.folders.submission:
        return None
    return last if last.is_final and last.stopped else None


def _not_begun(folders: Folders, code: int, why: str) -> int:
    """Records the end of a task that could not start, and returns its exit code."""
    write_exit_report(folders, TaskState("failed", ended=time.time(), exit_code=code, reason=why))
    return fail(why, code)


def _keep_log(folders: Folders, number: int) -> None:
    """Keeps this attempt's output for the next, which begins with an empty file."""
    logs = folders.shared / "logs" / folders.task
    sys.stdout.flush()
    try:
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(os.environ["AZ_BATCH_TASK_DIR"], "stdout.txt"), logs / f"{number}.txt")
    except OSError as error:  # the disk is full; the task's result still counts
        say(f"this attempt's log could not be kept for the next: {error}")


def _bring_earlier_logs(folders: Folders, number: int) -> None:
    """Puts the output of earlier attempts next to this one's, so that Batch keeps it as well, then
    writes this attempt's number, which tells a reader that the earlier logs are complete."""
    logs = folders.work / "logs"
    logs.mkdir(exist_ok=True)
    for log in sorted((folders.shared / "logs" / folders.task).glob("*.txt")):
        shutil.copyfile(log, logs / f"stdout.{log.name}")
    mark = f"{number} {os.urandom(8).hex()}\n"
    files.write_bytes(logs / "attempt.txt", mark.encode("ascii"))


def count_attempt(folder: Path, task: str, first: int) -> int:
    """Returns the number of the attempt that begins now, from 0, and at least `first`: the count of
    a task goes on when it moves to another node, as all nodes mount the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with files.hold_lock(folder / f"{task}.lock"):
        text = (folder / task).read_text(encoding="ascii") if (folder / task).exists() else ""
        attempt = max(int(text) if text.strip().isdecimal() else 0, first)
        files.write_bytes(folder / task, f"{attempt + 1}\n".encode("ascii"), durable=True)
    return attempt
