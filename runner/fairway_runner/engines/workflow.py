"""States of the steps of a run: which one begins next, is left out, or has ended."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import state_files
from fairway_agent.state_files import RunState, TaskState
from fairway_core.documents import Document
from fairway_core.findings import UserError
from fairway_core.yaml_text import parse_yaml
from fairway_runner import worker
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.outage import FAILED_PREDECESSOR, RunRefused, TargetUnavailable
from fairway_runner.jobs.job_file import typed_by
from fairway_runner.jobs.project_files import uploaded_before
from fairway_runner.jobs.steps import read_steps, step_run
from fairway_runner.runs.records import (
    STEPS_CANCELLED,
    StepRecord,
    is_step_of,
    known_state,
    known_task,
    read_retry,
    recorded_steps,
)
from fairway_runner.runs.store import Run, RunStore, refresh_errors
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.prepare import prepare
from fairway_runner.submit.rerun import job_file_of
from fairway_runner.submit.run_inputs import OutputMissing
from fairway_runner.submit.steps import require_free
from fairway_runner.submit.submission import (
    read_recorded,
    recorded_facts,
    recorded_snapshot,
    snapshots_of,
    submit,
)
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder


def start_step(workflow: Run, step: StepRecord, store: RunStore, before: Sequence[Run] = ()) -> Run:
    """Submits the run of a step that has none, which waits there until those `before` it have ended
    as it requires. Raises UserError if that fails."""
    if threading.current_thread() is not threading.main_thread():
        return worker.look_at_job(start_step, workflow, step, RunStore(store.base), before)
    require_free(step.run, step.name, store)
    facts = recorded_facts(workflow, "provenance.json")
    target = find_target(step.target)
    snapshot = recorded_snapshot(workflow)
    with code.keep_snapshots(snapshots_of(workflow)), uploaded_before(facts, snapshot):
        parsed = parse_yaml(read_recorded(workflow, "job.yaml"), workflow.record.job_file)
        document = Document(parsed, parsed.data)
        document = document.override(facts.get("set", []), typed_by(document.data))
        named = read_steps(document, workflow.id)
        own = next(each for each in named if each.name == step.name).document
        job_file = replace(
            job_file_of(own, facts, snapshot, target), assignments=tuple(facts.get("set", []))
        )
        known = {run.id for run in before}
        wanted = {step_run(workflow.id, name): how for name, how in step.after.items()}
        prepared = prepare(
            *(job_file, target, store),
            run_id=step.run,
            code_folder=snapshot,
            before=before,
            conditions={
                run: how for run, how in wanted.items() if run in known and how != "succeeded"
            },
        )
        # Records the step's origin, and only its own job, so that it can be run again.
        names = ("git", "folder", *(("by", "user") if "by" in facts else ()))
        prepared.provenance |= {name: facts[name] for name in names if name in facts}
        prepared.provenance |= {"step": {"of": workflow.id, "name": step.name}, "set": []}
        prepared.files["code.diff"] = read_recorded(workflow, "code.diff")
        prepared.files["job.yaml"] = json.dumps(own.data, indent=1)
        worker.remove_limits()
        return submit(prepared, store)


_BY_HAND = "cancelled before it began"


@dataclass
class WorkflowState:
    """A run of steps, and the state of each."""

    run: RunFolder
    store: RunStore
    steps: list[StepRecord]
    states: list[TaskState]
    errors: dict[int, UserError] = field(default_factory=dict)
    """Errors by the step's index that block it now, but maybe not later."""
    away: list[UserError] = field(default_factory=list)
    """Errors of targets whose steps were refreshed."""
    late: set[int] = field(default_factory=set)
    """Steps that waited on their target for a step that has just failed: what becomes of them is
    settled once that failure is known here."""

    @classmethod
    def of(cls, run: RunFolder) -> WorkflowState:
        """Reads the recorded states."""
        found = recorded_steps(run.folder)
        states = [known_task(run.task_folder(i)) or TaskState() for i in range(len(found))]
        return cls(run, RunStore(run.folder.parents[1]), found, states)

    @property
    def is_cancelled(self) -> bool:
        """True if no more steps are to begin."""
        return (self.run.folder / STEPS_CANCELLED).exists()

    def run_of(self, step: StepRecord) -> Run | None:
        """Returns the run of a step; None if it has not begun."""
        own = Run(self.store.folder / step.run)
        return own if is_step_of(own.folder, self.run.id) else None

    def active(self) -> list[int]:
        """Returns the indices of the steps whose end is not recorded."""
        return [index for index, state in enumerate(self.states) if not state.is_final]

    @contextmanager
    def collecting_errors(self, index: int) -> Iterator[None]:
        """Collects the errors of one step in the block, which must not stop others."""
        try:
            yield
        except UserError as error:
            self.errors.setdefault(index, error)

    def look(self, patience: float, *, logs: bool = False) -> None:
        """Refreshes active steps; each target has that many seconds."""
        open_ = {i: own for i in self.active() if (own := self.run_of(self.steps[i]))}
        self.away += refresh_errors(open_.values(), patience=patience)
        self.bring_logs(logs=logs)
        for index, own in open_.items():
            with self.collecting_errors(index):
                self._mirror(index, own)

    def bring_logs(self, *, logs: bool) -> None:
        """Downloads the output of all of them, if wanted."""
        for index, step in enumerate(self.steps) if logs else ():
            own = self.run_of(step)
            if own is not None and not runs_here(own.record.engine):
                with self.collecting_errors(index):
                    own.refresh(logs=True)

    def raise_errors(self) -> None:
        """Raises UserError with the errors of steps, and of targets that do not answer."""
        errors = [*self.errors.values(), *self.away]
        found = list(dict.fromkeys(each for error in errors for each in error.findings))
        if errors:
            silent = any(isinstance(error, TargetUnavailable) for error in errors)
            kind = TargetUnavailable if silent else UserError
            raise kind(found, exit_code=errors[0].exit_code if self.errors else 5)

    def begin_next(self) -> bool:
        """Starts a step that is due, or settles that one never starts; False if none is left."""
        for index, step in enumerate(self.steps):
            is_tried = index in self.errors or index in self.late
            if is_tried or self.states[index].is_final or self.run_of(step) is not None:
                continue
            if self.is_cancelled:
                self._settle(index, TaskState("cancelled", ended=time.time()))
                return True
            active, failed = self._before(step), self._failed_dependencies(step)
            if active is None or (active and failed):
                continue
            if failed:
                self._leave_out(index, failed)
            else:
                self._begin(index, step, active)
            return True
        return False

    def _before(self, step: StepRecord) -> list[Run] | None:
        """Returns the active upstream runs; None if it cannot wait for them on its target."""
        active = []
        for other in map(self._index, step.after):
            if self.states[other].is_final:
                continue
            run = self.run_of(self.steps[other])
            if not step.waits or run is None or other in self.errors:
                return None
            active.append(run)
        return active

    def _failed_dependencies(self, step: StepRecord) -> list[str]:
        """Returns the upstream steps that have not ended as required, and how each ended."""
        others = {name: self.states[self._index(name)] for name in step.after}
        return [
            f"{name} {_ending(state)}"
            for name, state in others.items()
            if state.is_final and not step.is_met(name, state.state, state.exit_code)
        ]

    def _awaited(self, index: int) -> str | None:
        """Formats the steps that a step waits for; None if all have ended."""
        names = [n for n in self.steps[index].after if not self.states[self._index(n)].is_final]
        return f"waiting for {', '.join(names)}" if names else None

    def _leave_out(self, index: int, failed: Sequence[str]) -> None:
        reason = None if self.is_cancelled else f"left out: {', '.join(failed)}"
        self._settle(index, TaskState("cancelled", reason=reason, ended=time.time()))

    def is_left_out(self, index: int, own: Run) -> bool:
        """Returns True if a step's run never began, as upstream steps ended otherwise."""
        return not has_begun(own) and bool(self._failed_dependencies(self.steps[index]))

    def end(self, index: int) -> None:
        """Ends an active step, or settles that it does not begin."""
        own = self.run_of(self.steps[index])
        if own is not None:
            own.cancel()
            if has_begun(own):
                return
        if not self.states[index].is_final:
            self._settle(index, TaskState("cancelled", reason=_BY_HAND, ended=time.time()))

    def write(self) -> None:
        """Writes the run's state, and what its steps wait for; its end is written once."""
        for index in self.active():
            if self.run_of(self.steps[index]) is None:
                due = f"it can start now: fairway wait {self.run.id}"
                self._settle(index, TaskState(reason=self._awaited(index) or due))
        known = known_state(self.run.folder)
        state = self._state(known)
        if not (known.is_final or known == state):
            state_files.write(self.run.folder, state)

    def _state(self, known: RunState) -> RunState:
        counts = Counter(state.state for state in self.states)
        began = [each for each in self.states if not _is_left_out(each)]
        again = (self.run.folder / "retry.json").exists()
        own = read_retry(self.run.folder).only if again else range(len(self.states))
        started = known.start_with(self.states[index] for index in own)
        if any(not each.is_final for each in self.states):
            return RunState(
                "running" if any(each.state != "queued" for each in began) else "queued",
                started=started,
                tasks=counts,
            )
        state = state_files.end_state(Counter(state.state for state in began))
        if self.is_cancelled and counts["succeeded"] < len(self.states):
            state = "cancelled"
        ended = max((each.ended for each in self.states if each.ended), default=None)
        named = zip(self.steps, self.states, strict=True)
        blamed = (f"the step {s.name} {_ending(own)}" for s, own in named if own.state == state)
        reason = next(blamed, None) if state in ("failed", "lost") else None
        return RunState(state, reason, started, ended or time.time(), tasks=counts)

    def _begin(self, index: int, step: StepRecord, active: Sequence[Run]) -> None:
        """Submits it, to wait for upstream runs that are still active. The step fails only for
        errors that no later try would change: secrets and targets can be repaired."""
        with self.collecting_errors(index):
            try:
                before = [*active]
                # Ended upstream steps that did not have to succeed are active too in a retry of the
                # workflow, and may end differently.
                for name, how in step.after.items() if active else ():
                    other = self._index(name)
                    ended = self.states[other].is_final and self.run_of(self.steps[other])
                    before += [ended] if ended and how != "succeeded" else []
                self._mirror(index, start_step(Run(self.run.folder), step, self.store, before))
            except (OutputMissing, RunRefused) as error:
                if active and any(each.id == FAILED_PREDECESSOR for each in error.findings):
                    self.late.add(index)
                    return
                reason = "; ".join(each.message for each in error.findings)
                self._settle(index, TaskState("failed", reason=reason, ended=time.time()))

    def _mirror(self, index: int, own: Run) -> None:
        status = own.status
        if own.never_began:
            shutil.rmtree(own.folder)  # the command that started it was killed before it did
            return
        ended = status.is_final
        begun = not ended or status.state == "succeeded" or has_begun(own)
        if not begun and (step := self.steps[index]).waits:
            if not all(self.states[self._index(name)].is_final for name in step.after):
                return  # the next poll sees how these have ended
            if failed := self._failed_dependencies(step):
                self._leave_out(index, failed)
                return
        _show_log(self.run.task_folder(index), own)
        state = TaskState(
            status.state,
            attempt=0 if begun else None,
            started=status.started,
            ended=status.ended if ended else None,
            exit_code=own.exit_code if ended and (begun or status.state != "cancelled") else None,
            reason=status.reason or (None if begun else own.task_status(0).reason),
        )
        if state.state == "queued" and not own.incomplete_submission_reason:
            state = replace(state, reason=self._awaited(index) or state.reason)
        self._settle(index, state)

    def _settle(self, index: int, state: TaskState) -> None:
        self.states[index] = state
        folder = self.run.task_folder(index)
        if known_task(folder) != state:
            folder.mkdir(parents=True, exist_ok=True)
            state_files.write(folder, state)

    def _index(self, name: str) -> int:
        return next(i for i, step in enumerate(self.steps) if step.name == name)


def _is_left_out(state: TaskState) -> bool:
    """Returns True if a step never began, and will not."""
    return state.state == "cancelled" and not state.attempts


def has_begun(run: Run) -> bool:
    """Returns True if any task of a run has begun."""
    return any(run.task_status(index).attempts for index in range(run.record.tasks))


def _show_log(folder: Path, own: Run) -> None:
    """Links to the log of the step's only task, or writes how to see those of several."""
    log = folder / "log.txt"
    if os.path.lexists(log):
        return
    folder.mkdir(parents=True, exist_ok=True)
    if own.record.tasks == 1:
        log.symlink_to(os.path.relpath(own.log(0), folder))
    else:
        log.write_text(f"{own.record.tasks:,} tasks: fairway logs {own.id}\n", encoding="utf-8")


def _ending(state: TaskState) -> str:
    """Formats the end of a step, with its exit code or the reason."""
    if _is_left_out(state):
        return "did not begin"
    code = f" with exit code {state.exit_code}" if state.exit_code else ""
    why = f": {state.reason}" if state.reason and not state.attempts else ""
    return f"{'was ' if state.state == 'cancelled' else ''}{state.state}{code}{why}"
