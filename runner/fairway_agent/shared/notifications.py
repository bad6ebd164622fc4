"""Sends the notifications of a run that a scheduler keeps, where no process watches it.

That it has ended is seen by the last of its jobs, and where that was killed by the next look at
the run; that it waits, when it is submitted and whenever somebody looks. Each is told once.
Standard library only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_agent import control, state_files
from fairway_agent.delivery import PAID_PAUSES, deliver, tell_of
from fairway_agent.notify import LOG, event_of, is_wanted, notify, orders
from fairway_agent.shared import submissions

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.plan import RunPlan
    from fairway_agent.run_state import RunState


def should_notify(folder: Path, plan: RunPlan, state: RunState) -> bool:
    """Whether it is to be told now; then the caller does so."""
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
    """Whether all tasks of the submission have said that they ended, once this one has; one that
    was killed never does."""
    ended = folder / "ended" / str(submission)
    known, status = submissions.read(folder), state_files.read_task(folder / "tasks" / task)
    if known is None or known.submission != submission or status is None or not status.is_final:
        return False
    ended.mkdir(parents=True, exist_ok=True)
    (ended / task).touch()
    count = sum(1 for _ in os.scandir(ended))
    return count >= sum(len(part.indices) for part in known.parts)
