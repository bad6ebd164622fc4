"""State of a run that a scheduler keeps, from the files that its tasks have written and from the
scheduler's report on their jobs.

A task writes its own states while it runs. A state that it cannot write, because it has not begun,
its node died or the scheduler ended it, is decided here by one rule for all schedulers, whenever a
client or a program of the run looks. A final state never changes. Looking changes nothing at the
scheduler.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import control, dependencies, job_facts, state_files
from fairway_agent.control import Control, Numbers, Part
from fairway_agent.limits import Watch
from fairway_agent.notify import should_notify
from fairway_agent.records import UnreadableFile
from fairway_agent.state_files import RunState, TaskState, is_active

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_agent.spec import RunPlan

# Seconds after a job's end until the task's own report must be visible: an NFS client may cache a
# folder for that long.
REPORT_WAIT = 60.0


@dataclass(frozen=True)
class JobView:
    """A task as its scheduler sees it: its `state`, one of a task's, and the `reason` for it. A
    final state has an `exit_code` and the time at which it `ended`, 0 if unknown; `unreported` says
    that the task itself may know more. `suspended` says that a running task makes no progress."""

    state: str
    reason: str = ""
    exit_code: int | None = state_files.SERVICE
    ended: float = 0.0
    suspended: bool = False
    unreported: bool = False
    timed_out: bool = False


def resolve(status: TaskState, view: JobView | None, *, cancelled: bool, now: float) -> TaskState:
    """Returns the state of a task that last wrote `status`, given its scheduler's view of it (None
    for nothing new); `cancelled` says that somebody has cancelled the task or its run."""
    if status.is_final:
        # A task that the kernel kills for its memory only knows the exit code.
        lacks_reason = status.state == "failed" and not status.reason
        if lacks_reason and view is not None and view.exit_code == state_files.KILLED:
            return replace(status, reason=view.reason or None)
        return status
    if view is None:
        return status
    if view.state in state_files.FINAL_STATES:
        if view.unreported and (not view.ended or now - view.ended < REPORT_WAIT):
            return status
        if cancelled:
            view = replace(
                view, state="cancelled", exit_code=state_files.CANCELLED, reason="", timed_out=False
            )
        elif view.unreported and status.stopped:  # the task has recorded why
            view = replace(view, reason=status.reason or view.reason)
        return replace(
            status,
            state=view.state,
            # Times may be whole seconds, so that a short task would seem to end before its start.
            ended=status.ended or max(view.ended or now, status.started or 0.0),
            exit_code=view.exit_code,
            timed_out=view.timed_out,
            reason=view.reason or None,
            stopped=None,
        )
    if view.state == "queued":
        return _queued(status, view.reason or "it starts again")
    # A suspended task's own file reveals nothing: the task updates it once it continues.
    if status.state == "queued" and view.reason and not view.suspended:
        return _queued(status, view.reason)
    return status


def _is_doubtful(status: TaskState | None, view: JobView | None) -> bool:
    """Returns True if a task may have moved on since its scheduler was asked: it runs although its
    job is queued, or has no job. Only asking again can tell."""
    if view is None or (status is not None and status.is_final):
        return False
    runs = status is not None and status.state == "running" and not status.stopped
    return view.state == "lost" or (runs and view.state == "queued")


def queue_reason(count: int) -> str:
    """Formats why a job waits for its turn."""
    return "1 other job comes first" if count == 1 else f"{count:,} other jobs come first"


def _queued(status: TaskState, reason: str) -> TaskState:
    """Returns a queued state that keeps the counts of earlier starts, and says why it waits."""
    kept = replace(
        status.again,
        started=status.started,
        submission=status.submission,
        requeues=status.requeues,
        failures_by_cause=status.failures_including_current or None,
    )
    return kept if kept == TaskState() else replace(kept, reason=reason)


class Reconciliation(ABC):
    """One run and its scheduler's view of its jobs. WATCH checks the run's own limits."""

    WATCH: ClassVar = Watch

    def __init__(self, folder: Path, known: Control) -> None:
        self.folder = folder
        self.control = known
        self.now = time.time()
        self.over = self.control.limit
        self.cancelled = self.control.is_cancelled or self.over is not None
        self.final = {index: state for state, some in self.control.final.items() for index in some}
        self.begun: set[str] = set()
        with suppress(FileNotFoundError):  # the run may be removed meanwhile
            self.begun = {each.name for each in (folder / "tasks").iterdir()}
        self.pending_reason = self.suspended_reason = ""
        self.starts: list[float] = []
        self.ends: list[float] = []

    def is_cancelled(self, part: Part, index: int) -> bool:
        """Returns True if the user has cancelled a task, by itself or with its run."""
        return self.cancelled or part.task_name(index) in self.control.cancelled_names

    @abstractmethod
    def look(self, part: Part, index: int, status: TaskState) -> JobView | None:
        """Returns the scheduler's view of a task that last wrote `status`."""

    @abstractmethod
    def list_again(self) -> None:
        """Asks the scheduler anew for the jobs of this run."""

    def refresh(self, others: Sequence[Path]) -> None:  # noqa: B027 - Kubernetes' controllers do so
        """Updates the states of the runs that this one depends on, unless something else does."""

    @cached_property
    def failed_dependencies(self) -> list[str]:
        """Runs that did not end as this one requires, each with its outcome: why its tasks were
        cancelled without anybody's order, or never began."""
        number = self.control.submission
        plan = job_facts.read_shared_plan(self.folder, retry=number > 0)
        if not plan.after:
            return []
        self.refresh([Path(each) for each in plan.after])
        return dependencies.evaluate(self.folder, plan, number) or []

    def run(self) -> tuple[RunPlan, RunState]:
        """Writes the states of tasks that have changed, and the run's; returns it with the plan."""
        counts = Counter(self.final.values())
        before = len(self.final)
        doubtful: list[tuple[Part, int, TaskState | None]] = []
        for part in self.control.parts:
            for index in part.indices:
                if index in self.final:
                    continue
                status = self._read(part, index)
                view = self.look(part, index, status or TaskState())
                if _is_doubtful(status, view):
                    doubtful.append((part, index, status))
                else:
                    counts[self._write_state(part, index, status, view)] += 1
        if doubtful:
            self.list_again()
        for part, index, status in doubtful:
            view = self.look(part, index, status or TaskState())
            counts[self._write_state(part, index, status, view)] += 1
        if len(self.final) > before:
            by_state = {
                state: Numbers(index for index, its in self.final.items() if its == state)
                for state in set(self.final.values())
            }
            control.change(self.folder, self.control.submission, final=by_state)
        return self._record(counts)

    def _read(self, part: Part, index: int) -> TaskState | None:
        """Returns the state that the task itself wrote last; None before it has written one."""
        folder = part.task_folder(self.folder, index)
        return state_files.read_task(folder) if folder.name in self.begun else None

    def _write_state(
        self, part: Part, index: int, before: TaskState | None, view: JobView | None
    ) -> str:
        """Returns the state of a task now, and writes it if it has changed."""
        folder = part.task_folder(self.folder, index)
        has_begun = folder.name in self.begun
        cancelled = self.is_cancelled(part, index)
        now = resolve(before or TaskState(), view, cancelled=cancelled, now=self.now)
        # For many tasks that never started, the run's end says enough.
        is_news = now.is_final and not (self.cancelled and not has_begun)
        if now != (before or TaskState()) and (has_begun or is_news):
            newer = self._read(part, index)
            said = newer or TaskState()
            if newer != before and (said.is_final or not now.is_final):
                now = said  # the task has recorded a newer state
            else:
                folder.mkdir(parents=True, exist_ok=True)
                state_files.write(folder, now)
        if now.is_final:
            self.final[index] = now.state
        elif view is not None:
            # The run waits for whatever its first waiting task needs.
            is_pending = now.state == "queued" and view.state in state_files.ACTIVE_STATES
            if is_pending and not self.pending_reason:
                self.pending_reason = view.reason
            if view.suspended:
                self.suspended_reason = self.suspended_reason or view.reason
        for moment, times in ((now.started, self.starts), (now.ended, self.ends)):
            if moment:
                times.append(moment)
        return now.state

    def _record(self, counts: Counter[str]) -> tuple[RunPlan, RunState]:
        state = state_files.read_run(self.folder) or RunState()
        plan = job_facts.read_shared_plan(self.folder, retry=self.control.submission > 0)
        counts.update(plan.done)
        setup = state_files.read_task(self.folder / "setup") or TaskState()
        active = counts["queued"] + counts["running"]
        if active:
            name = "queued" if active == counts["queued"] == counts.total() else "running"
        else:
            name = state_files.end_state(counts, setup_failed=setup.state == "failed")
        if active and not counts["running"]:
            # Running tasks check that themselves.
            self.WATCH(self.folder, plan, self.control.submission).look_back()
        # Tasks may have detected it, and ended, meanwhile.
        self.over = self.over or control.read(self.folder).of(self.control.submission).limit
        over = None if active else self.over
        name = "failed" if over is not None else name
        first = None if name == "queued" else min(self.starts, default=self.now)
        started, ended = state.started or first, max(self.ends, default=self.now)
        new = RunState(
            state=name,
            reason=self._reason(name, setup) or None,
            started=started,
            ended=None if active else max(ended, started or ended),
            tasks={each: count for each, count in counts.items() if count},
            submission=self.control.submission,
            exit_code=state_files.TIMED_OUT if over else None,
            limit=over.limit if over else None,
        )
        if new != state:
            state_files.write(self.folder, new)
        return plan, new

    def _reason(self, name: str, setup: TaskState) -> str:
        if self.over is not None:
            return self.over.reason
        if setup.state == "failed":
            return f"the setup failed with exit code {setup.exit_code}"
        if name == "queued":
            return self.pending_reason
        if name == "running":
            return self.suspended_reason
        if name == "cancelled" and not self.cancelled and self.failed_dependencies:
            return f"not started: {', '.join(self.failed_dependencies)}"
        return ""


def reconcile(
    folders: Sequence[Path],
    look: Callable[[Path, Control], Reconciliation],
    tell: Callable[[Path, RunPlan, RunState], None] | None = None,
) -> dict[str, UnreadableFile]:
    """Updates these runs, and reports news through `tell`. Runs with a damaged file are left alone,
    and the errors returned by the run's name."""
    damaged: dict[str, UnreadableFile] = {}
    for folder in folders:
        news = None
        try:
            with control.locked(folder):
                known = control.read(folder)
                # A retry writes its state before its parts: these may be the old ones. Nobody may
                # complete a submission that was cancelled.
                is_settled = known.complete or (known.is_cancelled and known.parts)
                if is_settled and is_active(folder, known.submission):
                    news = look(folder, known).run()
                    if tell is None or not should_notify(folder, *news):
                        news = None
        except UnreadableFile as fault:
            damaged[folder.name] = fault
        if news is not None and tell is not None:
            tell(folder, *news)
    return damaged
