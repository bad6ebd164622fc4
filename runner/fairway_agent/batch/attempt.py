"""What Batch starts as a task's command, on its main node: the task, and what Batch keeps of it.

Which attempt this is stands in a file that the next attempt finds, and in another why the one
before ended.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import outputs, record
from fairway_agent.batch.folders import Folders, fail, say
from fairway_agent.batch.scheduled_events import ScheduledEvents
from fairway_agent.batch.task import BatchTask, make_directories
from fairway_agent.batch.tracking import write_ending
from fairway_agent.fanout.sshd import server
from fairway_agent.log_marks import RETRIED
from fairway_agent.task_state import IO_ERROR, NO_START, TaskState
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from fairway_agent.task_spec import TaskSpec

_FULL = "its outputs could not be kept"
_HELD = 600.0  # seconds for which a node that was given notice is waited to go


def run_task() -> int:
    """The whole attempt; returns the exit code that Batch sees."""
    os.dup2(1, 2)
    folders = Folders()
    code = folders.setup_code()
    if code:
        why = f"the setup failed on this node with exit code {code}"
        return _not_begun(folders, fail(why, code), why)
    spec = folders.spec()
    first, counted = int(os.environ.get("FAIRWAY_FIRST", "0")), folders.shared / "attempts"
    while True:
        try:
            number, task = _task_here(folders, spec, counted, first)
        except (OSError, Fault, subprocess.CalledProcessError) as error:
            why = f"the task was not started: {error}"
            return _not_begun(folders, fail(why, NO_START), why)
        if (status := task.ended_before() or task.refusal_now()) is not None:
            _say_ending(task, status)
            return fail(f"the task was not started: {status.reason}", status.exit_code or NO_START)
        task.before = ending_before(counted, folders.task, number, first)
        events = ScheduledEvents(folders.base / "event", task.give_notice)
        status = _watched(task, events)
        code = status.exit_code or 0
        keep_ending(counted, folders.task, number, task.before)
        if code or "FAIRWAY_LAST" in os.environ:  # which runs again in each retry
            _keep_log(folders, number)
        if task.notice and spec.wanted is None:  # others of the node may be saving what they have
            events.approve()
        if status.is_final:
            kept = _keep(task, spec, code)
            if kept != code:
                status = replace(status, state="failed", exit_code=kept, reason=_FULL)
            _say_ending(task, status)
            return kept
        _wait_to_go(task)


def _task_here(
    folders: Folders, spec: TaskSpec, counted: Path, first: int
) -> tuple[int, BatchTask]:
    """The number of the attempt that begins now, and the task; the next attempt is told if it
    cannot begin."""
    make_directories(folders, spec)
    number = count_attempt(counted, folders.task, first)
    try:
        _bring_earlier_logs(folders, number)
        return number, BatchTask.here(folders, spec, number)
    except (OSError, Fault, subprocess.CalledProcessError) as error:
        keep_ending(counted, folders.task, number, f"the one before was not started: {error}")
        raise


def _wait_to_go(task: BatchTask) -> None:
    """Ending now would be a failure; a node that is taken away is none, and Batch starts the task
    elsewhere. Where it is not taken after all, the task goes on here."""
    say("the job has ended; this node waits to be taken away")
    time.sleep(_HELD)
    say("the node was not taken away: the task starts again here")
    task.note_stay()


def _keep(task: BatchTask, spec: TaskSpec, code: int) -> int:
    """Puts what it has written where Batch takes it from; the exit code then."""
    try:
        _finish(task)
        outputs.drop_excluded(_work() / "outputs", spec.outputs)
        if "FAIRWAY_SCHEDULE" in os.environ:
            _keep_scheduled(task.folders, spec, succeeded=code == 0)
    except OSError as error:  # the disk is full
        say(f"outputs could not be kept: {error}")
        return code or IO_ERROR
    return code


def _watched(task: BatchTask, events: ScheduledEvents) -> TaskState:
    def end(*_: object) -> None:
        """Batch, or a node that shuts down, ends this program: the task loses its node."""
        task.notice = task.notice or "the end"

    events.start()
    signal.signal(signal.SIGTERM, end)
    status = task.run()
    events.stopped.set()
    return status


def _not_begun(folders: Folders, code: int, why: str) -> int:
    """Says how a task ended that could not be begun; returns its exit code."""
    status = TaskState("failed", ended=time.time(), exit_code=code, reason=why)
    write_ending(folders, status)
    return code


def _say_ending(task: BatchTask, status: TaskState) -> None:
    over = task.over if task.over is not None else task.watch.over if status.stopped else None
    write_ending(task.folders, status, over)


def _work() -> Path:
    """The folder from which Batch takes files away."""
    return Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"])


def _finish(task: BatchTask) -> None:
    """Puts outputs and the other nodes' files where Batch takes them from."""
    work, folders = _work(), task.folders
    if work != folders.base:
        shutil.rmtree(work / "outputs", ignore_errors=True)
        (folders.base / "outputs").mkdir(exist_ok=True)
        shutil.move(folders.base / "outputs", work / "outputs")
    if folders.scratch.parent.parent.name == "fairway":
        shutil.rmtree(folders.scratch, ignore_errors=True)
    if task.config is None:
        return
    for name in ("stdout", "stderr"):
        printed = server.order(task.config, task.others, f"fairway-output {name}.txt")
        for rank, text in enumerate(printed.values(), start=1):
            if text:
                (work / "logs" / f"{name}.node{rank}.txt").write_bytes(text)


def _keep_scheduled(folders: Folders, spec: TaskSpec, *, succeeded: bool) -> None:
    """Lays all that is kept of a schedule's run below a folder of its own: Batch takes it to
    the same place each time."""
    work = _work()
    kept = work / "kept" / folders.run / folders.task
    kept.mkdir(parents=True, exist_ok=True)
    outputs.collect(work / "outputs", kept / "outputs", spec.outputs, succeeded=succeeded)
    for log in (work / "logs").glob("*.txt"):
        shutil.copyfile(log, kept / log.name)
    sys.stdout.flush()
    shutil.copyfile(work.parent / "stdout.txt", kept / "stdout.txt")


def _keep_log(folders: Folders, number: int) -> None:
    """Keeps what this attempt printed for the next, which begins with an empty file."""
    logs = folders.shared / "logs" / folders.task
    sys.stdout.flush()
    try:
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(os.environ["AZ_BATCH_TASK_DIR"], "stdout.txt"), logs / f"{number}.txt")
    except OSError as error:  # the disk is full; what the task has done counts all the same
        say(f"this attempt's log could not be kept for the next: {error}")


def _bring_earlier_logs(folders: Folders, number: int) -> None:
    """Lays what earlier attempts printed beside this one's, to be kept as well; then says which
    attempt this is, by which a reader knows that nothing more of the earlier ones is coming."""
    folder = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"])
    (folder / "logs").mkdir(exist_ok=True)
    for log in sorted((folders.shared / "logs" / folders.task).glob("*.txt")):
        shutil.copyfile(log, folder / "logs" / f"stdout.{log.name}")
    mark = f"{number} {os.urandom(8).hex()}\n"
    record.write_bytes(folder / "logs" / "attempt.txt", mark.encode("ascii"))


def count_attempt(folder: Path, task: str, first: int) -> int:
    """The number of the attempt that begins now, from 0; `first` is what it is at least.

    The file lies on what all nodes mount, so that a task that goes on elsewhere counts on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(Path(folder, task), os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "r+", encoding="ascii") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        text = file.read().strip()
        attempt = max(int(text) if text.isdecimal() else 0, first)
        file.seek(0)
        file.write(f"{attempt + 1}\n")
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return attempt


def keep_ending(folder: Path, task: str, attempt: int, why: str) -> None:
    """Says why an attempt ended."""
    with suppress(OSError):
        _ending(folder, task).write_text(f"{attempt} {why}", encoding="utf-8")


def ending_before(folder: Path, task: str, attempt: int, first: int) -> str:
    """Why the attempt before this one ended; one that could not say so has lost its node."""
    if attempt == first:
        return RETRIED
    with suppress(OSError, ValueError):
        number, _, why = _ending(folder, task).read_text(encoding="utf-8").partition(" ")
        if int(number) == attempt - 1:
            return why
    return "its node was lost, or taken away without notice"


def _ending(folder: Path, task: str) -> Path:
    return folder / f"{task}.ending"
