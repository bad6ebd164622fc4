"""Controller of a run: one small pod that starts the parts that are due, and ends those that do not
progress, until the run has ended. Nothing else ends objects because of their state; others only
look.

Started as `controller RUN_FOLDER SUBMISSION`. If it is ended, another replaces it, and finds in the
run's folder what is done.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, dependencies, job_facts, notify, processes, state_files
from fairway_agent.kubernetes.api import CONTROLLER, Api
from fairway_agent.kubernetes.objects import REQUESTED, find_condition, index_of, look
from fairway_agent.kubernetes.runs import reconcile_all
from fairway_agent.kubernetes.submit import create
from fairway_agent.kubernetes.task_state import PATIENCE, missing_pods, stuck_pods, unrequested_pods
from fairway_agent.records import UnreadableFile
from fairway_agent.state_files import TERMINATED, is_active
from fairway_agent.task.scheduled import read_secrets
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_agent.control import Control, Part
    from fairway_agent.kubernetes.objects import Objects
    from fairway_agent.spec import RunPlan

# Seconds between two polls: while others wait for the controller, and otherwise.
_PAUSE, _LONG_PAUSE = 1.0, 10.0


def main() -> None:
    # A pod's first process ignores every signal without a handler.
    processes.handle_term(lambda *_: sys.exit(TERMINATED))
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    plan = job_facts.read_shared_plan(folder, retry=number > 0)
    if plan.notify is not None and plan.notify.secrets:
        read_secrets(folder, plan)
    controller = Controller(Api(), folder, number, plan)
    while controller.step():
        parts = control.read(folder).parts
        # Parts wait for their start, or users for a notification.
        is_awaited = plan.notify is not None or not parts or not all(part.job for part in parts)
        time.sleep(_PAUSE if is_awaited else _LONG_PAUSE)


@dataclass
class Controller:
    """One submission of the run in a folder; `since` has the time at which each stuck pod was first
    seen stuck."""

    api: Api
    folder: Path
    number: int
    plan: RunPlan
    since: dict[str, float] = field(default_factory=dict)

    def step(self) -> bool:
        """Updates the states of the run and of those that it depends on, and does what is due;
        returns True if more is to come."""
        try:
            others = [each for each in map(Path, self.plan.after) if is_active(each)]
            objects = look(self.api, [each.name for each in (*others, self.folder)])
            known = self._known
            if not known.is_cancelled and known.limit is None:
                self._end_stuck(objects, known, time.time())
            reconcile_all(self.api, [*others, self.folder], objects)
            for part in known.parts:
                if part.job in objects.jobs and self._is_needless(part, objects):
                    self.api.delete("jobs", part.job)
            state = state_files.read_run(self.folder)
            if state is None or state.submission > self.number:
                return False
            if notify.should_notify(self.folder, self.plan, state):
                notify.send(self.folder, self.plan, state, waits=True)
            if state.is_final:
                return False
            with files.hold_lock(self.folder / control.SUBMIT_LOCK):
                self.start()
            ask_again(self.api, objects, self._known.parts, time.time())
            control.note_blocked(self.folder, self.number, CONTROLLER, "")
        except UnreadableFile:
            raise
        except AgentError as fault:
            # May pass or be repaired: an outage, a missing right, a Job that is still ending.
            control.note_blocked(self.folder, self.number, CONTROLLER, fault.said)
        return True

    def _end_stuck(self, objects: Objects, known: Control, now: float) -> None:
        """Ends pods that have been stuck for long enough, and remembers the other stuck ones."""
        before, self.since = self.since, {}
        for part in known.parts:
            first = part.names[0]
            why_not = ""
            for pod, why in stuck_pods(objects, part.job):
                name = pod["metadata"]["name"]
                self.since[name] = before.get(name, now)
                if now - self.since[name] < PATIENCE and name not in known.ended:
                    continue
                if part.nodes > 1 and index_of(pod) > 0:
                    # The first pod of a multi-node task waits for this one, and reports the end.
                    why_not = why
                    continue
                folders = [part.task_folder(self.folder, index) for index in part.indices]
                # If other tasks of the Job may be running, only this index fails.
                alone = part.nodes == 1 and any(folder.exists() for folder in folders)
                with control.locked(self.folder):  # the reason, for those who look meanwhile
                    ended = control.read(self.folder).of(self.number).ended
                    ended = {name if alone else part.job: why, **ended}
                    control.change(self.folder, self.number, ended=ended)
                self.api.delete(*(("pods", name) if alone else ("jobs", part.job)))
            if part.nodes > 1:
                control.note_blocked(self.folder, self.number, first, why_not)
                control.note_lacking(self.folder, self.number, first, *missing_pods(objects, part))

    @property
    def _known(self) -> Control:
        """The record of this submission, without its parts until it has them all."""
        known = control.read(self.folder).of(self.number)
        return known if known.complete else replace(known, parts=())

    def _is_needless(self, part: Part, objects: Objects) -> bool:
        """Returns True if a part's Job waits for nodes in vain: its run is over a limit, or its
        tasks were cancelled one by one. A pod that began would only find that out."""
        seen, state = control.read(self.folder), state_files.read_run(self.folder)
        if state is not None and seen.limit is not None:
            return not state.is_final and not state.tasks.get("running")
        job, pods = objects.jobs[part.job], objects.pods.get(part.job, ())
        if find_condition(job, "Complete") or find_condition(job, "Failed"):
            return False
        final = {index for indices in seen.final.values() for index in indices}
        runs = any(each["status"].get("phase") == "Running" for each in pods)
        return bool(seen.cancelled_tasks) and not runs and final.issuperset(part.indices)

    def start(self) -> None:
        """Creates the Jobs that are due."""
        known = self._known
        if not known.complete or known.is_cancelled or known.limit is not None:
            return
        for part in list(due(self.folder, known, self.plan)):
            create(self.api, self.folder, known.submission, part)


def ask_again(api: Api, objects: Objects, parts: Iterable[Part], now: float) -> None:
    """Lets the autoscaler start nodes for pods in the usual way, if their own request does not."""
    for part in parts:
        for name in unrequested_pods(objects, part.job, now):
            api.patch("pods", name, {"metadata": {"annotations": {REQUESTED: None}}})


def due(folder: Path, known: Control, plan: RunPlan) -> Iterator[Part]:
    """Yields the parts whose Jobs are to be created now."""
    if plan.after and dependencies.evaluate(folder, plan, known.submission) != []:
        return
    ended = known.cancelled_names
    wanted = [part for part in known.parts if part.job or not ended.issuperset(part.names)]
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


def _width(folder: Path, part: Part, plan: RunPlan) -> int:
    """Returns how many tasks of a part may run at once; 0 once all have ended."""
    states = [state_files.read_task(part.task_folder(folder, index)) for index in part.indices]
    active = sum(known is None or not known.is_final for known in states)
    return active if plan.max_parallel is None else min(active, plan.max_parallel)


if __name__ == "__main__":
    main()
