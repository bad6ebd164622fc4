"""Sends the notification that a run on a pool has ended: the job's release task does it.

The service runs that on each node that had the job, once all tasks have ended or the job was ended.
The node on which the last of them ended tells; each finds all their endings beside it. Standard
library only.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.batch.ending import Ending
from fairway_agent.batch.folders import Folders
from fairway_agent.delivery import PAID_PAUSES, deliver, tell_of
from fairway_agent.fields import Fields, Unfit
from fairway_agent.notify import orders
from fairway_agent.record import end_state
from fairway_agent.run_state import RunState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BROUGHT = "endings"
"""The folder to which Batch brings how each task has ended."""
DONE = "FAIRWAY_DONE"
"""The variable that says, in a retry, how many other tasks of the run ended in which state."""


def send() -> int:
    """Tells it, if that is for this node to do; returns 0: nothing waits for it."""
    folders = Folders()
    plan = replace(folders.plan, run=folders.run)
    endings = endings_in(
        Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], BROUGHT), os.environ["AZ_BATCH_JOB_ID"]
    )
    if not endings or last(endings).node != os.environ["AZ_BATCH_NODE_ID"]:
        return 0
    done = Fields(json.loads(os.environ.get(DONE) or "{}"), "what is done")
    status = state_of(endings, plan.tasks, {name: done.count(name) for name in done.facts})
    os.environ.update(folders.secret_values())  # into this process's memory alone
    sys.stderr.write(tell_of(deliver(orders(plan, status), PAID_PAUSES)))
    return 0


def endings_in(folder: Path, job: str) -> list[Ending]:
    """How the tasks of a job have ended, as far as they could say it."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        with suppress(OSError, ValueError, RecursionError, Unfit):
            ending = Ending.from_json(json.loads(path.read_bytes()))
            if ending.job == job:  # a schedule's jobs follow one another
                found.append(ending)
    return found


def last(endings: Sequence[Ending]) -> Ending:
    """That of the task that ended last."""
    return max(endings, key=lambda each: (each.state.ended or 0.0, each.task))


def state_of(endings: Sequence[Ending], tasks: int, done: Mapping[str, int]) -> RunState:
    """The state of a run whose tasks ended so; one that has said nothing of its end was ended
    before it had begun, or with its node."""
    counts = Counter(done)
    counts.update(each.state.state for each in endings if each.state.is_final)
    if (silent := tasks - counts.total()) > 0:
        counts["cancelled"] += silent
    over = next((each for each in endings if each.limit is not None), None)
    failed = next((each for each in endings if each.state.state == "failed"), None)
    state = "failed" if over is not None else end_state(counts)
    reason = over.why if over is not None else failed.state.reason if failed is not None else None
    starts = [each.state.started for each in endings if each.state.started]
    return RunState(
        state,
        reason=reason,
        started=min(starts, default=None),
        ended=last(endings).state.ended,
        tasks={name: count for name, count in counts.items() if count},
        limit=over.limit if over is not None else None,
    )
