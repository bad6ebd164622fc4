"""Watches a run's limits from its tasks: no other program is always running.

Each running task checks the limits, and ends itself; the first that finds one exceeded cancels the
run's other jobs.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, limits, state_files
from fairway_agent.limits import Held
from fairway_agent.notify import (
    LOG,
    PAID_PAUSES,
    deliver,
    event_of,
    is_wanted,
    notify,
    orders,
    tell_of,
)
from fairway_agent.shared import receive

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.control import Control
    from fairway_agent.limits import Over
    from fairway_agent.spec import RunPlan
    from fairway_agent.state_files import RunState


_SOONEST = 10.0  # seconds between two looks at what the other tasks hold
_LATEST = 3600.0


@dataclass
class Watch:
    """The limits of one submission of a run; `due` is when to look next, on the clock, or None."""

    folder: Path
    plan: RunPlan
    submission: int
    started: float | None = None
    due: float | None = None
    nodes: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """A task begins; the run has begun with its first."""
        if not self._is_limited:
            return
        with control.locked(self.folder):
            self.started = self._control.started
            if self.started is None:
                self.started = time.time()
                control.change(self.folder, self.submission, started=self.started)
        self.due = self.started

    def is_over(self) -> bool:
        """Returns True if the run is over a limit; checks that when it is due."""
        return self.due is not None and time.time() >= self.due and self._look()

    def look_back(self) -> bool:
        """Checks the limits when no task runs that could; not of a run that has not started."""
        self.started = self._control.started if self._is_limited else None
        return self.started is not None and self._look()

    @property
    def over(self) -> Over | None:
        """The limit that it is over, as far as somebody has seen that."""
        return self._control.limit

    @property
    def record(self) -> Path:
        """Where the run's record lies: in its folder, unless its tasks have one of their own."""
        return self.folder

    def held(self, now: float) -> Held:
        return limits.held(self.folder, self.nodes, now)

    @property
    def _is_limited(self) -> bool:
        return self.plan.max_duration is not None or self.plan.max_cost is not None

    @property
    def _control(self) -> Control:
        return control.read(self.folder).of(self.submission)

    def _look(self) -> bool:
        if self.over is not None:
            return True
        now, held = time.time(), Held()
        if self.plan.max_cost is not None:
            self.nodes = self.nodes or limits.nodes_of(self.record)
            held = self.held(now)
        over = limits.over(self.plan, now, self.started, held)
        if over is None:
            self.due = self._next(now, held)
            return False
        with suppress(OSError):  # where the disk is full, each task sees it by itself
            control.change(self.folder, self.submission, limit=over)
        self.take_back()
        return True

    def _next(self, now: float, held: Held) -> float | None:
        """Not before the limit could be reached with all nodes of the partition."""
        due = limits.due(self.plan, now, self.started, held)
        budget = self.plan.max_cost
        if budget is None:
            return due
        most = max(1, job_facts.of_target(self.record).most_nodes, held.nodes)
        pause = max(0.0, budget.node_seconds - held.seconds) / most
        look = now + min(max(pause, _SOONEST), _LATEST)
        return look if due is None else min(look, due)

    def take_back(self) -> None:
        """Has the scheduler forget the jobs of the run that wait, where that can be told of it.
        What is about to begin sees by itself that it must not."""


def should_notify(folder: Path, plan: RunPlan, state: RunState) -> bool:
    """True if the caller is to notify the run's state now, which is then recorded."""
    waits = state.state == "queued" and bool(state.reason)
    if not (state.is_final or waits) or not is_wanted(plan, state) or plan.notify is None:
        return False
    if not all(os.environ.get(name) for name in plan.notify.secrets):
        return False  # only jobs have them
    event = event_of(state.state)
    with control.locked(folder):
        events = control.read(folder).of(state.submission).notified
        if event not in events:
            control.change(folder, state.submission, notified=(*events, event))
    return event not in events


def send(folder: Path, plan: RunPlan, state: RunState, *, waits: bool) -> None:
    """Tells it. What a job leaves behind ends with it: there it is waited for (`waits`)."""
    if not waits:
        notify(folder, plan, state)
    elif whys := deliver(orders(plan, state), PAID_PAUSES):
        with suppress(OSError), (folder / LOG).open("a", encoding="utf-8") as log:
            log.write(tell_of(whys))


def is_last(folder: Path, task: str, submission: int) -> bool:
    """Records that the task has ended; returns True if all tasks of the submission have then
    recorded their end, which a killed one never does."""
    ended = folder / "ended" / str(submission)
    known, status = receive.read(folder), state_files.read_task(folder / "tasks" / task)
    if known is None or known.submission != submission or status is None or not status.is_final:
        return False
    ended.mkdir(parents=True, exist_ok=True)
    (ended / task).touch()
    count = sum(1 for _ in os.scandir(ended))
    return count >= sum(len(part.indices) for part in known.parts)
