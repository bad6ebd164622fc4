"""Notification that a run on a pool has ended, sent by the job's release task.

Batch runs that on each node that had the job, once all tasks have ended or the job was terminated.
The node on which the last of them ended sends it; each finds all their exit reports next to it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import limits, state_files
from fairway_agent.batch.folders import Folders
from fairway_agent.notify import PAID_PAUSES, deliver, due_notifications, failure_lines
from fairway_agent.records import Fields, InvalidRecord, JsonRecord
from fairway_agent.state_files import RunState, TaskState, end_state
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_agent.limits import NodeUsage
    from fairway_agent.spec import RunPlan
    from fairway_agent.state_files import ExceededLimit

FILE = "exit-report.json"


@dataclass(frozen=True, slots=True)
class ExitReport(JsonRecord, label="the exit report"):
    """The last state of a `task`, as recorded by its attempt at `node`; `job` is Batch's. `limit`
    names the limit that the run exceeded, and `why` says so to the user."""

    job: str
    task: str
    node: str
    state: TaskState
    limit: str | None = None
    why: str | None = None


BROUGHT = "exit-reports"
"""Folder into which Batch downloads the exit reports of tasks."""
DONE = "FAIRWAY_DONE"
"""Variable of a retry: the numbers of other tasks of the run, by the state in which they ended."""


def send() -> int:
    """Sends the notification if that is this node's duty; always returns 0."""
    folders = Folders()
    plan = replace(folders.plan, run=folders.run)
    reports = exit_reports_in(
        Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], BROUGHT), os.environ["AZ_BATCH_JOB_ID"]
    )
    if not reports or last(reports).node != os.environ["AZ_BATCH_NODE_ID"]:
        return 0
    done = Fields(json.loads(os.environ.get(DONE) or "{}"), "what is done")
    status = state_of(reports, plan.tasks, {name: done.count(name) for name in done.facts})
    os.environ.update(folders.secret_values())  # only into this process's memory
    sys.stderr.write(failure_lines(deliver(due_notifications(plan, status), PAID_PAUSES)))
    return 0


def exit_reports_in(folder: Path, job: str) -> list[ExitReport]:
    """Returns the exit reports that a job's tasks could record."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        with suppress(OSError, ValueError, RecursionError, InvalidRecord):
            report = ExitReport.from_json(json.loads(path.read_bytes()))
            if report.job == job:  # jobs of a schedule follow one another
                found.append(report)
    return found


def last(reports: Sequence[ExitReport]) -> ExitReport:
    """Returns the exit report of the task that ended last."""
    return max(reports, key=lambda each: (each.state.ended or 0.0, each.task))


def state_of(reports: Sequence[ExitReport], tasks: int, done: Mapping[str, int]) -> RunState:
    """Returns the state of a run with these exit reports; a task without one was ended before it
    began, or with its node."""
    counts = Counter(done)
    counts.update(each.state.state for each in reports if each.state.is_final)
    if (silent := tasks - counts.total()) > 0:
        counts["cancelled"] += silent
    over = next((each for each in reports if each.limit is not None), None)
    failed = next((each for each in reports if each.state.state == "failed"), None)
    state = "failed" if over is not None else end_state(counts)
    reason = over.why if over is not None else failed.state.reason if failed is not None else None
    starts = [each.state.started for each in reports if each.state.started]
    return RunState(
        state,
        reason=reason,
        started=min(starts, default=None),
        ended=last(reports).state.ended,
        tasks={name: count for name, count in counts.items() if count},
        limit=over.limit if over is not None else None,
    )


_ALIVE = "alive"
_PAUSE = 10.0  # seconds between two signs of life


def is_tracked(plan: RunPlan) -> bool:
    """Returns True if the run's tasks record their state in the shared folder."""
    return plan.is_limited or plan.idle_gpu is not None or bool(plan.retry_limits)


class PoolWatch(limits.Watch):
    """Watch of a run whose tasks record their states in its `folder`; its record is on each
    node."""

    def begin(self) -> None:
        """Begins the watch; if the start cannot be written, this task sees no limit of the run."""
        with suppress(OSError, AgentError):
            super().begin()

    def is_over(self) -> bool:
        """Returns True if the run is over a limit; False if its state is unknown."""
        with suppress(OSError, AgentError):
            return super().is_over()
        return False

    @property
    def over(self) -> ExceededLimit | None:
        """The limit that has ended the run, if any."""
        with suppress(OSError, AgentError):
            return super().over
        return None

    def usage(self, now: float) -> NodeUsage:
        """Does not count lost nodes: their tasks report nothing more, and may wait long for
        others."""
        return limits.node_seconds(self.folder, self.nodes, now, _seen)


def watch_of(folders: Folders, plan: RunPlan, submission: int) -> PoolWatch:
    """Returns the watch that checks the run against its limits."""
    if is_tracked(plan):
        with suppress(OSError):
            folders.shared.mkdir(parents=True, exist_ok=True)
    return PoolWatch(folders.shared, plan, submission, record=folders.record)


@dataclass
class Track:
    """State file of the task `name`; nothing is written unless `is_on`."""

    folders: Folders
    name: str
    is_on: bool
    due: float = 0.0

    @property
    def folder(self) -> Path:
        """Folder of the file, shared by all nodes."""
        return self.folders.shared / "tasks" / self.name

    def read(self) -> TaskState | None:
        """Returns the state that the previous attempt has left; its `held` is without an attempt
        that was interrupted: see `lived`."""
        return state_files.read_task(self.folder) if self.is_on else None

    def write(self, status: TaskState) -> None:
        """Writes the state."""
        if self.is_on:
            with suppress(OSError):  # a full disk only loses the message
                self.folder.mkdir(parents=True, exist_ok=True)
                state_files.write(self.folder, status)

    def lived(self, status: TaskState) -> float:
        """Returns for how many seconds an interrupted attempt had its nodes."""
        seen, started = _seen(self.folder), status.started
        return max(0.0, seen - started) if seen is not None and started is not None else 0.0

    def keep(self, now: float) -> None:
        """Gives a sign of life when that is due, on the monotonic clock."""
        if self.is_on and now >= self.due:
            self.due = now + _PAUSE
            with suppress(OSError):  # a full disk only loses a sign of life
                files.write_bytes(self.folder / _ALIVE, f"{time.time():.0f}".encode("ascii"))


def write_exit_report(
    folders: Folders, status: TaskState, over: ExceededLimit | None = None
) -> None:
    """Writes how the task has ended, or that its GPUs are idle, for others to read."""
    names = ("AZ_BATCH_JOB_ID", "AZ_BATCH_NODE_ID")
    job, node = (os.environ.get(name, "") for name in names)
    limit, why = (over.limit, over.reason) if over is not None else (None, None)
    logs = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs")
    report = ExitReport(job, folders.task, node, status, limit, why)
    with suppress(OSError):  # see above
        logs.mkdir(exist_ok=True)
        files.write_json(logs / FILE, report.to_json())


def _seen(folder: Path) -> float | None:
    """Returns the time of a task's last sign of life; None if there was none."""
    with suppress(OSError, ValueError):
        return float((folder / _ALIVE).read_text(encoding="ascii"))
    return None
