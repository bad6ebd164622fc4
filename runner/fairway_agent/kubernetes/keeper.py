"""Starts what of a run is due, until the run has ended: one small pod of a run whose tasks do not
all start at once, or of whose end somebody wants to hear.

Started as `keeper RUN_FOLDER SUBMISSION`. Where it is ended, another begins in its place, and finds
in the run's folder what is done. Standard library only.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, record, state_files
from fairway_agent.fields import Damaged
from fairway_agent.kubernetes import whys
from fairway_agent.kubernetes.api import Api
from fairway_agent.kubernetes.reconcile import reconcile_all
from fairway_agent.kubernetes.submit import create
from fairway_agent.shared import after, plans, submissions, word
from fairway_agent.shared.attempts import read_secrets
from fairway_agent.task_state import TERMINATED
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_agent.control import Part
    from fairway_agent.plan import RunPlan
    from fairway_agent.run_state import RunState
    from fairway_agent.shared.submissions import Submission

_PAUSE = 1.0  # seconds between two looks


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    # The first process of a pod is ended by no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    plan = plans.read(folder, retry=number > 0)
    if plan.notify is not None and plan.notify.secrets:
        read_secrets(folder, plan)
    api = Api()
    while keep(api, folder, number, plan):
        time.sleep(_PAUSE)


def keep(api: Api, folder: Path, number: int, plan: RunPlan) -> bool:
    """Does what is due of a submission; whether more is to come."""
    try:
        reconcile_all(api, [*map(Path, plan.after), folder])
        state = state_files.read_run(folder)
        if state is None or state.submission > number:
            return False
        _tell(folder, plan, state)
        if state.is_final:
            return False
        with record.alone(folder / control.SUBMIT_LOCK):
            known = submissions.read(folder)
            if known is not None and known.complete and known.submission == number:
                _start(api, folder, known, plan)
        whys.write(folder / whys.KEEPER, "")
    except Damaged:
        raise
    except Fault as fault:
        # It passes, or is repaired meanwhile: absence, a missing right, a Job that is ending.
        whys.write(folder / whys.KEEPER, fault.said)
    return True


def _tell(folder: Path, plan: RunPlan, state: RunState) -> None:
    if word.is_news(folder, plan, state):
        word.tell(folder, plan, state, waits=True)


def _start(api: Api, folder: Path, known: Submission, plan: RunPlan) -> None:
    seen = control.read(folder)
    if seen.is_cancelled or seen.limit is not None:
        return
    for part in list(due(folder, known, plan)):
        create(api, folder, known, part)


def due(folder: Path, known: Submission, plan: RunPlan) -> Iterator[Part]:
    """The parts whose Jobs are to be made now."""
    if plan.after and after.decide(folder, plan, known.submission) != []:
        return
    ended = control.read(folder).of(known.submission).cancelled_names
    wanted = [part for part in known.parts if part.job or not _tasks(folder, part) <= ended]
    tasks = [part for part in wanted if part.stage == "tasks"]
    used = sum(_width(folder, part, plan) for part in tasks if part.job)
    for part in tasks:
        width = _width(folder, part, plan)
        if part.job or not width:
            continue
        if plan.max_parallel is None or used + width <= plan.max_parallel:
            used += width
            yield part
    if not any(_width(folder, part, plan) for part in tasks):
        yield from (part for part in wanted if part.stage != "tasks" and not part.job)


def _tasks(folder: Path, part: Part) -> set[str]:
    return {part.task_folder(folder, index).name for index in part.indices}


def _width(folder: Path, part: Part, plan: RunPlan) -> int:
    """How many tasks of a part may run at once; 0 once all have ended."""
    going = sum(not _has_ended(part.task_folder(folder, index)) for index in part.indices)
    return going if plan.max_parallel is None else min(going, plan.max_parallel)


def _has_ended(task: Path) -> bool:
    known = state_files.read_task(task)
    return known is not None and known.is_final


if __name__ == "__main__":
    main()
