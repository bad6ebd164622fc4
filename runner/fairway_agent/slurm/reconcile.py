"""Writes where runs stand into their folders: nobody watches a run but Slurm.

A task writes its own states while it runs. What it cannot write, because it has not begun,
because its node died, or because Slurm ended it, is found here whenever somebody asks. What
is final once stays so. Standard library only.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import fields, predecessors, record, state_files
from fairway_agent.fields import Damaged, Fields
from fairway_agent.run_state import RunState
from fairway_agent.shared import plans
from fairway_agent.slurm import submissions, word
from fairway_agent.slurm.jobs import jobs_named, look_up
from fairway_agent.slurm.task_state import Verdict, judge
from fairway_agent.slurm.watch import Watch
from fairway_agent.task import TIMED_OUT
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_agent.plan import RunPlan
    from fairway_agent.slurm.jobs import Element
    from fairway_agent.slurm.submissions import Part, Submission

_FILE = "settled.json"  # the tasks whose last state is known


def settle_all(folders: Sequence[Path]) -> dict[str, str]:
    """Brings the states of all these runs up to date, with one look at Slurm. One with a damaged
    file is left as it is: returns what is said of those, by their names."""
    damaged: dict[str, str] = {}
    going = [folder for folder in folders if _goes_on(folder)]
    if not going:
        return damaged
    listed = jobs_named(folder.name for folder in going)
    jobs = {(element.job, element.index): element for element in listed}
    for folder in going:
        news = None
        try:
            with record.alone(folder / "settle.lock"):
                known = submissions.read(folder)
                if known is not None and known.complete and _goes_on(folder):
                    news = _Settling(folder, known, jobs).run()
        except Damaged as fault:
            damaged[folder.name] = str(fault)
        if news is not None:
            word.tell(folder, *news)
    return damaged


def tell_end(folder: Path) -> None:
    """In the last job of a run: brings its state up to date, and has its end told, also where
    somebody without its secrets has seen it before."""
    settle_all([folder])
    with record.alone(folder / "settle.lock"):
        known, state = submissions.read(folder), state_files.read_run(folder)
        if known is None or state is None or not state.is_final:
            return
        plan = plans.read(folder, retry=known.submission > 0)
        if not word.is_news(folder, plan, state):
            return
    word.tell(folder, plan, state)


def _goes_on(folder: Path) -> bool:
    try:
        known = state_files.read_run(folder)
    except Damaged:
        return False
    return known is not None and known.goes_on


class _Settling:
    """One run, and what Slurm says of its jobs."""

    def __init__(
        self, folder: Path, known: Submission, jobs: Mapping[tuple[str, int], Element]
    ) -> None:
        self.folder = folder
        self.known = known
        self.jobs = jobs
        self.now = time.time()
        self.over = submissions.limited(folder, known.submission)
        self.cancelled = submissions.cancelled(folder) >= known.submission or self.over is not None
        self.settled = fields.read(folder / _FILE, partial(_settled, known.submission)) or {}
        self.begun = _names(folder / "tasks")
        self.waits = self.rests = ""
        self.no_capacity = False
        self.starts: list[float] = []
        self.ends: list[float] = []

    def run(self) -> tuple[RunPlan, RunState] | None:
        """Writes the states of tasks that have changed, and then that of the run; the plan and that
        state where somebody is to be told of it."""
        counts = Counter(self.settled.values())
        before = len(self.settled)
        for part, index in self._open():
            verdict = self._verdict(part, index)
            counts[verdict.state] += 1
            if verdict.waits and not self.waits:
                self.waits, self.no_capacity = verdict.waits, verdict.no_capacity
            self.rests = self.rests or verdict.rests
            self._note_times(verdict.status)
            if verdict.is_final:
                self.settled[str(index)] = verdict.state
        if len(self.settled) > before:
            facts = {"submission": self.known.submission, "tasks": self.settled}
            record.write_json(self.folder / _FILE, facts)
        return self._record(counts)

    def _open(self) -> Iterator[tuple[Part, int]]:
        for part in self.known.parts:
            for index in part.indices:
                if str(index) not in self.settled:
                    yield part, index

    def _verdict(self, part: Part, index: int) -> Verdict:
        folder = part.task_folder(self.folder, index)
        has_begun = folder.name in self.begun
        status = state_files.read_task(folder) if has_begun else None
        job, element = part.element(index)
        found = self.jobs.get((job, element))
        if found is None and not (status and status.is_final) and not self.cancelled:
            found = look_up(job, element)
        verdict = judge(status, found, cancelled=self.cancelled, now=self.now)
        # Of very many that never began, the run's end says all.
        is_news = verdict.is_final and not (self.cancelled and not has_begun)
        if verdict.status != status and (has_begun or is_news):
            folder.mkdir(parents=True, exist_ok=True)
            state_files.write(folder, verdict.status)
        return verdict

    def _note_times(self, status: TaskState) -> None:
        for moment, times in ((status.started, self.starts), (status.ended, self.ends)):
            if moment:
                times.append(moment)

    def _record(self, counts: Counter[str]) -> tuple[RunPlan, RunState] | None:
        state = state_files.read_run(self.folder) or RunState()
        plan = plans.read(self.folder, retry=self.known.submission > 0)
        counts.update(plan.done)
        setup = state_files.read_task(self.folder / "setup") or TaskState()
        name = _name(counts, setup_failed=setup.state == "failed")
        if name in record.GOING_STATES and not counts["running"]:
            # Its tasks look themselves while they run.
            Watch(self.folder, plan, self.known.submission).look_back()
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
        return (plan, new) if word.is_news(self.folder, plan, new) else None

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
        if name == "cancelled" and not self.cancelled and plan.after:
            settle_all([Path(each) for each in plan.after])
            failed = predecessors.unsuccessful(plan.after)
            return f"not started: {', '.join(failed)}" if failed else ""
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
