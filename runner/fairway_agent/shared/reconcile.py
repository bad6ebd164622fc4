"""Writes where a run stands into its folder, where nobody watches it but a scheduler.

A task writes its own states while it runs. What it cannot write, because it has not begun,
because its node died, or because the scheduler ended it, is found here whenever somebody asks.
What is final once stays so. Standard library only.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from fairway_agent import cancelled_tasks, fields, record, state_files
from fairway_agent.fields import Damaged, Fields
from fairway_agent.run_state import RunState
from fairway_agent.shared import plans, submissions
from fairway_agent.task_state import TIMED_OUT, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_agent.plan import RunPlan
    from fairway_agent.shared.resolved_state import ResolvedState
    from fairway_agent.shared.submissions import Part, Submission
    from fairway_agent.shared.watch import Watch

_FILE = "settled.json"  # the tasks whose last state is known


def goes_on(folder: Path) -> bool:
    """Whether a run has an end to come; one with a damaged file has none."""
    try:
        known = state_files.read_run(folder)
    except Damaged:
        return False
    return known is not None and known.goes_on


class Reconciliation(ABC):
    """One run, and what its scheduler says of its jobs."""

    def __init__(self, folder: Path, known: Submission) -> None:
        self.folder = folder
        self.known = known
        self.now = time.time()
        self.over = submissions.limited(folder, known.submission)
        self.cancelled = submissions.cancelled(folder) >= known.submission or self.over is not None
        self.apart = cancelled_tasks.names(folder)
        self.settled = fields.read(folder / _FILE, partial(_settled, known.submission)) or {}
        self.begun = _names(folder / "tasks")
        self.waits = self.rests = ""
        self.no_capacity = False
        self.starts: list[float] = []
        self.ends: list[float] = []

    def is_cancelled(self, part: Part, index: int) -> bool:
        """Whether a person has ended a task, with its run or by itself."""
        name = part.task_folder(self.folder, index).name if self.apart else ""
        return self.cancelled or (
            name in self.apart
            and cancelled_tasks.is_cancelled(self.folder, name, self.known.submission)
        )

    @abstractmethod
    def resolve(self, part: Part, index: int, status: TaskState | None) -> ResolvedState:
        """What became of a task, by what it wrote last and what the scheduler says."""

    @abstractmethod
    def watch(self, plan: RunPlan) -> Watch:
        """The run's own limits."""

    def why_not_started(self, plan: RunPlan) -> str:  # noqa: ARG002
        """Why tasks were cancelled that nobody has cancelled."""
        return ""

    def run(self) -> tuple[RunPlan, RunState]:
        """Writes the states of tasks that have changed, and then that of the run; the plan and that
        state."""
        counts = Counter(self.settled.values())
        before = len(self.settled)
        for part, index in self._open():
            resolved = self._write_state(part, index)
            counts[resolved.state] += 1
            if resolved.waits and not self.waits:
                self.waits, self.no_capacity = resolved.waits, resolved.no_capacity
            self.rests = self.rests or resolved.rests
            self._note_times(resolved.status)
            if resolved.is_final:
                self.settled[str(index)] = resolved.state
        if len(self.settled) > before:
            facts = {"submission": self.known.submission, "tasks": self.settled}
            record.write_json(self.folder / _FILE, facts)
        return self._record(counts)

    def _open(self) -> Iterator[tuple[Part, int]]:
        for part in self.known.parts:
            for index in part.indices:
                if str(index) not in self.settled:
                    yield part, index

    def _write_state(self, part: Part, index: int) -> ResolvedState:
        folder = part.task_folder(self.folder, index)
        has_begun = folder.name in self.begun
        status = state_files.read_task(folder) if has_begun else None
        resolved = self.resolve(part, index, status)
        # Of very many that never began, the run's end says all.
        is_news = resolved.is_final and not (self.cancelled and not has_begun)
        if resolved.status != status and (has_begun or is_news):
            folder.mkdir(parents=True, exist_ok=True)
            state_files.write(folder, resolved.status)
        return resolved

    def _note_times(self, status: TaskState) -> None:
        for moment, times in ((status.started, self.starts), (status.ended, self.ends)):
            if moment:
                times.append(moment)

    def _record(self, counts: Counter[str]) -> tuple[RunPlan, RunState]:
        state = state_files.read_run(self.folder) or RunState()
        plan = plans.read(self.folder, retry=self.known.submission > 0)
        counts.update(plan.done)
        setup = state_files.read_task(self.folder / "setup") or TaskState()
        name = _name(counts, setup_failed=setup.state == "failed")
        if name in record.GOING_STATES and not counts["running"]:
            # Its tasks look themselves while they run.
            self.watch(plan).look_back()
        # Its tasks may have seen it, and ended, since this began.
        self.over = self.over or submissions.limited(self.folder, self.known.submission)
        over = self.over if name in record.FINAL_STATES else None
        name = "failed" if over is not None else name
        reason = self._reason(name, setup, plan)
        first = None if name == "queued" else min(self.starts, default=self.now)
        started = state.started or first
        ended = max(self.ends, default=self.now)
        new = RunState(
            state=name,
            reason=reason or None,
            started=started,
            ended=max(ended, started or ended) if name in record.FINAL_STATES else None,
            tasks={each: count for each, count in counts.items() if count},
            submission=self.known.submission,
            exit_code=TIMED_OUT if over else None,
            limit=over.limit if over else None,
            no_capacity=name == "queued" and self.no_capacity,
        )
        if new != state:
            state_files.write(self.folder, new)
        return plan, new

    def _reason(self, name: str, setup: TaskState, plan: RunPlan) -> str:
        """What a person is told of the run beyond its state."""
        if self.over is not None:
            return self.over.reason
        if setup.state == "failed":
            return f"the setup failed with exit code {setup.exit_code}"
        if name == "queued":
            return self.waits
        if name == "running":
            return self.rests
        if name == "cancelled" and not self.cancelled:
            return self.why_not_started(plan)
        return ""


def _settled(submission: int, facts: object) -> dict[str, str]:
    """The last states of tasks by their numbers, where they are of that submission."""
    found = Fields(facts, "what is settled")
    return found.variables("tasks") if found.count("submission") == submission else {}


def _names(folder: Path) -> set[str]:
    try:
        return {each.name for each in folder.iterdir()}
    except FileNotFoundError:
        return set()


def _name(counts: Counter[str], *, setup_failed: bool) -> str:
    """The run's state, from how many of its tasks are in which."""
    going = counts["queued"] + counts["running"]
    if going:
        return "queued" if going == counts["queued"] == counts.total() else "running"
    return record.end_state(counts, setup_failed=setup_failed)
